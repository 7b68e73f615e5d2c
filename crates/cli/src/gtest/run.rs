//! Runs tests.

use std::io::{self, Write};
use std::time::Instant;

use rehal_base::{Error, Result, TextWriter};

use super::console::Console;
use super::options::Options;
use super::suite::{Outcome, Outcomes, Suite, Test};

/// Runs the tests selected by `options`; returns the number of failures.
///
/// `body` returns the failures of a test; an empty list means that it passed. Errors are those of writing
/// output.
pub(crate) fn run<T>(
    suite: &Suite<T>,
    options: &Options,
    out: &mut TextWriter<'_>,
    body: impl FnMut(&T) -> Vec<String>,
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
    let mut console = Console::new(out, options, suite.tests.len(), off.len());
    written(console.starts(on.len()))?;
    let ran = run_selected(suite, options, &on, &mut console, body)?;
    written(console.ends(suite, &ran))?;
    let none = (options.fail_if_none_selected && on.is_empty())
        || (options.fail_if_none_linked && suite.tests.is_empty());
    if none {
        let error = Error::failed_precondition("no test was selected, which the flags treat as a failure");
        return Err(error.advise("--gtest_list_tests lists the tests, --gtest_filter chooses among them"));
    }
    Ok(ran.failed().count())
}

fn run_selected<T>(
    suite: &Suite<T>,
    options: &Options,
    order: &[usize],
    console: &mut Console<'_, '_>,
    mut body: impl FnMut(&T) -> Vec<String>,
) -> Result<Outcomes> {
    let start = Instant::now();
    let mut tests = Vec::with_capacity(order.len());
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
        tests.push((index, outcome));
        if failed && options.fail_fast {
            break;
        }
    }
    let duration = start.elapsed();
    if !order.is_empty() {
        written(console.suite_ends(&suite.name, order.len(), duration))?;
    }
    Ok(Outcomes { tests, duration })
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

fn written(result: io::Result<()>) -> Result<()> {
    crate::output::written(result)
}

#[cfg(test)]
mod tests;
