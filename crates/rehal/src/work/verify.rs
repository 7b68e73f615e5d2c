use std::ffi::OsString;
use std::path::Path;

use rehal_base::{Error, Result};
use rehal_devices::{CrashReports, StaticMemoryWatch};
use rehal_jobs::{Caller, Confinement, Work, WorkOptions};
use rehal_judge::{Ledger, Verification, VerifyOptions, VerifySides, verify_against, verify_lockstep};
use rehal_replay::{Observer, Plan, Replay};
use serde::{Deserialize, Serialize};

use super::setup::ReplaySetup;
use super::side::SideReplay;

/// The verification of a replay: with a ledger, or else, with substitutions, in lockstep with the captured
/// executables, or else with what the recorder added to the capture.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifyWork {
    /// The replay.
    pub setup: ReplaySetup,
    /// The path of the ledger of a trusted replay.
    pub ledger: Option<OsString>,
    /// When numbers are right.
    pub options: VerifyOptions,
}

impl VerifyWork {
    /// The verification of a replay with the defaults.
    pub fn new(setup: ReplaySetup) -> Self {
        Self { setup, ledger: None, options: VerifyOptions::default() }
    }

    /// Adds the files of a verification to what confined work uses.
    pub(crate) fn confine(&self, plan: &Plan, confinement: &mut Confinement) {
        self.setup.confine(plan, confinement);
        self.ledger.iter().for_each(|ledger| confinement.read(ledger));
    }

    /// Verifies a replay of the setup.
    pub(crate) fn verify(
        &self,
        replay: &Replay,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Verification> {
        let plan = replay.plan();
        if let Some(ledger) = self.expected(plan)? {
            return verify_against(replay, &ledger, &self.options, observers);
        }
        // Lockstep is of two replays of one plan.
        let expected = self.captured().replay(plan.clone())?;
        let mut statics = StaticMemoryWatch::default();
        let sides = VerifySides {
            expected: &expected,
            actual: replay,
            expected_observers: &mut [&mut CrashReports::records()],
            observers: &mut [&mut CrashReports::records(), &mut statics],
        };
        let mut found = verify_lockstep(sides, &self.options)?;
        found.static_writes = statics.into_writes();
        Ok(found)
    }

    /// The ledger to compare with; `None` for the captured executables.
    fn expected(&self, plan: &Plan) -> Result<Option<Ledger>> {
        match &self.ledger {
            Some(path) => {
                let ledger = Ledger::open(Path::new(path))?;
                ledger.check_capture(plan)?;
                Ok(Some(ledger))
            }
            None if !self.setup.options.substitutions.is_empty() => Ok(None),
            None => Ledger::from_plan(plan)?.map(Some).ok_or_else(|| {
                Error::invalid_argument("nothing to compare with: the capture has no expected results")
                    .advise("give a ledger or another executable, or record with a ledger")
            }),
        }
    }

    /// The replay of the captured executables.
    fn captured(&self) -> ReplaySetup {
        let mut captured = self.setup.clone();
        captured.options.substitutions.clear();
        captured
    }

    /// Verifies a replay of another process, in this one.
    fn beside(&self, options: &WorkOptions) -> Result<Verification> {
        let plan = self.setup.plan()?;
        let ledger = self.expected(&plan)?;
        let actual = SideReplay::of_setup(&plan, &self.setup, options)?;
        let mut found = match ledger {
            Some(ledger) => verify_against(&actual, &ledger, &self.options, &mut [])?,
            None => SideReplay::of_setup(&plan, &self.captured(), options)?.lockstep(
                &actual,
                &self.options,
                None,
            )?,
        };
        found.static_writes = actual.static_writes();
        Ok(found)
    }
}

impl Work for VerifyWork {
    const NAME: &'static str = "verify";
    type Outcome = Verification;

    fn perform(&self, caller: &Caller<'_>) -> Result<Verification> {
        let plan = self.setup.plan()?;
        caller.confine(|confinement| self.confine(&plan, confinement))?;
        let replay = self.setup.replay(plan)?;
        replay.check_capture()?;
        self.verify(&replay, &mut [&mut CrashReports::records()])
    }

    fn perform_beside(&self, options: &WorkOptions) -> Option<Result<Verification>> {
        Some(self.beside(options))
    }
}
