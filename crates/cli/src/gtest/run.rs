//! Runs tests.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, TextWriter};

use super::console::Console;
use super::file;
use super::options::Options;
use super::order::{Random, next_seed};

/// The tests of one module.
pub(crate) struct Suite<T> {
    /// The part of a test's full name before the dot.
    pub name: String,
    pub tests: Vec<Test<T>>,
}

/// A test.
pub(crate) struct Test<T> {
    pub name: String,
    /// GoogleTest's test parameter: the export ordinal.
    pub parameter: String,
    /// The caller's data for running it.
    pub body: T,
}

/// The outcome of a test.
pub(crate) struct Outcome {
    /// The failures: the location, `Failure`, and lines of details.
    pub failures: Vec<String>,
    pub duration: Duration,
}

/// The outcomes of one iteration: test indices and outcomes, in execution order.
pub(crate) struct Iteration {
    pub outcomes: Vec<(usize, Outcome)>,
    pub duration: Duration,
}

impl Iteration {
    /// The number of failed tests.
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| !outcome.failures.is_empty()).count()
    }
}

/// Runs the tests selected by `options`; returns the number of failures.
///
/// `body` returns the failures of a test; an empty list means that it passed. Errors are those of writing
/// output.
pub(crate) fn run<T>(
    suite: &Suite<T>,
    options: &Options,
    out: &mut TextWriter<'_>,
    mut body: impl FnMut(&T) -> Vec<String>,
) -> Result<usize> {
    let disabled = |test: &Test<T>| test.name.starts_with("DISABLED_") && !options.also_run_disabled;
    let matching: Vec<usize> = suite.matching(options).collect();
    let (off, mut on): (Vec<_>, Vec<_>) = matching.iter().partition(|&&index| disabled(&suite.tests[index]));
    if options.list_tests {
        let matching = matching.iter().map(|&index| &suite.tests[index]);
        return written(list(suite, matching, out)).map(|()| 0);
    }
    if let Some((total, index)) = options.shard {
        let mut number = 0;
        on.retain(|_| {
            let here = number % total == index;
            number += 1;
            here
        });
    }
    let report = match &options.output {
        Some((format, path)) => Some((*format, file::create(path)?)),
        None => None,
    };
    let mut console = Console::new(out, options, suite.tests.len(), off.len());
    let mut failed = 0;
    let mut seed = options.seed;
    let mut iteration = 0;
    while options.repeat.is_none_or(|repeat| iteration < repeat) {
        let mut order = on.clone();
        if options.shuffle {
            Random::new(seed).shuffle(&mut order);
        }
        let first = iteration == 0 || options.recreate_environments;
        let last = options.repeat == Some(iteration + 1) || options.recreate_environments;
        written(console.iteration_starts(iteration, seed, order.len(), first))?;
        let ran = once(suite, options, &order, &mut console, &mut body)?;
        written(console.iteration_ends(suite, &ran, last))?;
        failed += ran.failed();
        if let Some((format, output)) = &report {
            file::write(*format, output, suite, &off, &ran)?;
        }
        seed = next_seed(seed);
        iteration += 1;
        if options.fail_fast && failed > 0 {
            break;
        }
    }
    let none = (options.fail_if_none_selected && on.is_empty())
        || (options.fail_if_none_linked && suite.tests.is_empty());
    if none {
        let error = Error::failed_precondition("no test was selected, which the flags treat as a failure");
        return Err(error.advise("--gtest_list_tests lists the tests, --gtest_filter chooses among them"));
    }
    Ok(failed)
}

fn once<T>(
    suite: &Suite<T>,
    options: &Options,
    order: &[usize],
    console: &mut Console<'_, '_>,
    body: &mut impl FnMut(&T) -> Vec<String>,
) -> Result<Iteration> {
    let start = Instant::now();
    let mut outcomes: Vec<(usize, Outcome)> = Vec::with_capacity(order.len());
    if !order.is_empty() {
        written(console.suite_starts(&suite.name, order.len()))?;
    }
    for &index in order {
        let test = &suite.tests[index];
        written(console.test_starts(suite, index))?;
        let since = Instant::now();
        let failures = body(&test.body);
        let outcome = Outcome { failures, duration: since.elapsed() };
        written(console.test_ends(suite, index, &outcome))?;
        let failed = !outcome.failures.is_empty();
        outcomes.push((index, outcome));
        if failed && options.fail_fast {
            break;
        }
    }
    let duration = start.elapsed();
    if !order.is_empty() {
        written(console.suite_ends(&suite.name, order.len(), duration))?;
    }
    Ok(Iteration { outcomes, duration })
}

fn list<'t, T: 't>(
    suite: &Suite<T>,
    tests: impl Iterator<Item = &'t Test<T>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut tests = tests.peekable();
    if tests.peek().is_some() {
        writeln!(out, "{}.", suite.name)?;
    }
    for test in tests {
        writeln!(out, "  {}  # GetParam() = {}", test.name, test.parameter)?;
    }
    out.flush()
}

impl<T> Suite<T> {
    /// The indices of the tests that the filter selects.
    pub fn matching(&self, options: &Options) -> impl Iterator<Item = usize> {
        (0..self.tests.len()).filter(|&index| options.filter.matches(&self.full_name(index)))
    }

    /// The name in filters and reports.
    pub fn full_name(&self, index: usize) -> String {
        format!("{}.{}", self.name, self.tests[index].name)
    }
}

fn written(result: io::Result<()>) -> Result<()> {
    crate::output::written(result)
}

#[cfg(test)]
mod tests;
