use rehal_base::{Error, Result, StatusCode, glob};

use crate::harness::Harness;
use crate::{Capability, Expected, Subject};

type Run = Box<dyn Fn(&Harness<'_>) -> Result<()> + Send + Sync>;

/// One test of the suite.
pub struct Test {
    name: String,
    needs: Vec<Capability>,
    run: Run,
}

impl Test {
    /// Its name: the subject and the requirement, separated by `/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The features it needs.
    pub fn needs(&self) -> &[Capability] {
        &self.needs
    }

    /// Runs it on a new device, ignoring declarations.
    pub fn run(&self, subject: &dyn Subject) -> Result<()> {
        (self.run)(&Harness::new(subject)?)
    }

    /// Runs it and compares the outcome with the subject's declarations: `Err` says what is wrong.
    pub fn judge(&self, subject: &dyn Subject) -> Result<(), String> {
        let declared = subject.expected().iter().find(|expected| self.is_covered_by(expected));
        match (self.run(subject), declared) {
            (Ok(()), None) | (Err(_), Some(_)) => Ok(()),
            (Err(error), None) => Err(error.report()),
            (Ok(()), Some(Expected::Lacks(_, reason) | Expected::Fails(_, reason))) => {
                Err(format!("passed, but is declared to fail: {reason}"))
            }
        }
    }

    fn is_covered_by(&self, expected: &Expected) -> bool {
        match expected {
            Expected::Lacks(capability, _) => self.needs.contains(capability),
            Expected::Fails(pattern, _) => glob::matches(pattern, &self.name),
        }
    }
}

/// Collects tests.
#[derive(Default)]
pub(crate) struct List(Vec<Test>);

impl List {
    /// Adds a test.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        needs: &[Capability],
        run: impl Fn(&Harness<'_>) -> Result<()> + Send + Sync + 'static,
    ) {
        self.0.push(Test { name: name.into(), needs: needs.to_vec(), run: Box::new(run) });
    }

    /// All tests, and one more that finds declarations which cover no test.
    pub(crate) fn finish(mut self) -> Vec<Test> {
        let known: Vec<Test> = self.0.iter().map(Test::without_run).collect();
        self.add("suite/declarations_cover_tests", &[], move |harness| {
            let stale = |expected: &&Expected| !known.iter().any(|test| test.is_covered_by(expected));
            match harness.subject().expected().iter().find(stale) {
                None => Ok(()),
                Some(expected) => Err(Error::new(
                    StatusCode::FailedPrecondition,
                    format!("{expected:?} covers no test of the suite"),
                )),
            }
        });
        self.0
    }
}

impl Test {
    fn without_run(&self) -> Self {
        Self { name: self.name.clone(), needs: self.needs.clone(), run: Box::new(|_| Ok(())) }
    }
}
