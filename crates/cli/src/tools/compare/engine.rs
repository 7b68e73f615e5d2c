//! Comparisons with a function of a capture, of this tool and of `rehal tune`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rehal::work::CompareWork;
use rehal_base::{Advice, Context, Error, Remedy, Result};
use rehal_devices::CrashReports;
use rehal_judge::CompareOptions;
use rehal_replay::Plan;

use super::candidates;
use crate::Invocation;
use crate::devices::Expectations;
use crate::sandbox::Reach;
use crate::tools::replay_flags;

/// State that all comparisons share.
pub(in crate::tools) struct CompareEngine<'i> {
    pub invocation: &'i Invocation,
    pub plan: Arc<Plan>,
    /// The comparison without a replacement.
    pub work: CompareWork,
}

impl<'i> CompareEngine<'i> {
    pub(in crate::tools) fn new(
        invocation: &'i Invocation,
        plan: Arc<Plan>,
        function: String,
        options: CompareOptions,
    ) -> Result<Self> {
        let expected = Expectations { judges_results: true, guards_buffers: true };
        let setup = replay_flags::setup(invocation, expected)?;
        Ok(Self { invocation, plan, work: CompareWork::new(setup, function, options) })
    }

    /// How long the checks of a replacement may take, of which `base` is for what a process begins with.
    /// Replacements that take hundreds of times as long as the captured kernel are still compared. A captured
    /// kernel, or a baseline, that crashes ends the tool here, so that later crashes are those of
    /// replacements.
    pub(in crate::tools) fn limits(&self, base: Duration) -> Result<Duration> {
        let devices = self.work.setup.devices.to_options()?;
        let reach = Reach::of_replay(&self.plan, &devices);
        let elapsed = self.invocation.confined_value(&reach, || {
            let comparer = self.work.comparer(self.plan.clone()).map_err(in_own_words)?;
            let begun = Instant::now();
            let ended = comparer.replay_captured(&mut [&mut CrashReports::install()]);
            ended.context(|| "the code that replacements are compared with".to_owned())?;
            Ok(begun.elapsed())
        })?;
        Ok(base.saturating_add(elapsed.saturating_mul(1000)))
    }
}

/// An error with the advice of this tool, in which no flag names the format of a replacement.
pub(super) fn in_own_words(error: Error) -> Error {
    match error.advice() {
        Some(Advice::Remedy(Remedy::NameExecutable)) => error.replace_advice(candidates::NAME_REPLACEMENT),
        _ => error,
    }
}
