use std::ffi::OsString;
use std::path::Path;

use rehal_base::{Error, Result};
use rehal_devices::{CrashReports, StaticMemoryWatch};
use rehal_jobs::{Caller, Confinement, Work};
use rehal_judge::{Ledger, Verification, VerifyOptions, VerifySides, verify_against, verify_lockstep};
use rehal_replay::{Observer, Plan, Replay};
use serde::{Deserialize, Serialize};

use super::setup::ReplaySetup;

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
        let ledger = match &self.ledger {
            Some(path) => {
                let ledger = Ledger::open(Path::new(path))?;
                ledger.check_capture(plan)?;
                ledger
            }
            None if !self.setup.options.substitutions.is_empty() => {
                let mut captured = self.setup.clone();
                captured.options.substitutions.clear();
                // Lockstep is of two replays of one plan.
                let expected = captured.replay(plan.clone())?;
                let mut statics = StaticMemoryWatch::default();
                let sides = VerifySides {
                    expected: &expected,
                    actual: replay,
                    expected_observers: &mut [&mut CrashReports::records()],
                    observers: &mut [&mut CrashReports::records(), &mut statics],
                };
                let mut found = verify_lockstep(sides, &self.options)?;
                found.static_writes = statics.into_writes();
                return Ok(found);
            }
            None => Ledger::from_plan(plan)?.ok_or_else(|| {
                Error::invalid_argument("nothing to compare with: the capture has no expected results")
                    .advise("give a ledger or another executable, or record with a ledger")
            })?,
        };
        verify_against(replay, &ledger, &self.options, observers)
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
}
