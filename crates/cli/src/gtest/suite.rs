//! Tests, and their outcomes.

use std::time::Duration;

use super::options::Options;

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

/// The outcomes of a run: test indices and outcomes, in the order of the module.
pub(crate) struct Outcomes {
    pub tests: Vec<(usize, Outcome)>,
    pub duration: Duration,
}

impl Outcomes {
    /// The failed tests.
    pub fn failed(&self) -> impl Iterator<Item = usize> {
        self.tests.iter().filter(|(_, outcome)| !outcome.failures.is_empty()).map(|(index, _)| *index)
    }
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
