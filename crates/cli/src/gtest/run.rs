//! Runs the tests.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rehal_base::{Error, Result};

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
    /// What GoogleTest calls its parameter: the number of the export.
    pub parameter: String,
    /// What runs it needs to know.
    pub body: T,
}

/// What came of a test.
pub(crate) struct Outcome {
    /// What failed, each as the lines that follow `Failure`, with where it was before it.
    pub failures: Vec<String>,
    pub duration: Duration,
}

/// What a run of the chosen tests gave: index of the test and its outcome, in the order in which they ran.
pub(crate) struct Iteration {
    pub outcomes: Vec<(usize, Outcome)>,
    pub duration: Duration,
}

impl Iteration {
    /// How many tests failed.
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| !outcome.failures.is_empty()).count()
    }
}

/// Runs the tests that `options` choose, and gives how many did not pass.
///
/// `body` returns what failed in a test; an empty list says that it passed. An error is one of writing.
pub(crate) fn run<T>(
    suite: &Suite<T>,
    options: &Options,
    out: &mut dyn Write,
    mut body: impl FnMut(&T) -> Vec<String>,
) -> Result<usize> {
    let disabled = |test: &Test<T>| test.name.starts_with("DISABLED_") && !options.also_run_disabled;
    let matching: Vec<usize> =
        (0..suite.tests.len()).filter(|&index| options.filter.matches(&suite.full_name(index))).collect();
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
        if let Some((format, path)) = &options.output {
            file::write(*format, path, suite, &off, &ran)?;
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
        let error = Error::failed_precondition("no tests to run, which the flags treat as a failure");
        return Err(error.advise("--gtest_list_tests lists the tests, --gtest_filter chooses among them"));
    }
    Ok(failed)
}

fn once<T>(
    suite: &Suite<T>,
    options: &Options,
    order: &[usize],
    console: &mut Console<'_>,
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
    /// The name that filters and reports use.
    pub fn full_name(&self, index: usize) -> String {
        format!("{}.{}", self.name, self.tests[index].name)
    }
}

fn written(result: io::Result<()>) -> Result<()> {
    crate::output::written(result)
}

#[cfg(test)]
mod tests;
