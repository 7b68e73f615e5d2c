//! Comparisons with a function of a capture, of this tool and of `rehal tune`: each in a worker, which is the
//! tool again, with the same flags.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rehal_base::{Advice, Error, Remedy, Result};
use rehal_devices::CrashReports;
use rehal_jobs::Worker;
use rehal_judge::{CompareOptions, CompareSubject, KernelComparer};
use rehal_kernels::{KernelOptions, Kernels};
use rehal_replay::{Plan, Replacement, Selector, Substitution};

use super::candidates::{self, Candidate};
use super::print;
use super::report::CandidateReport;
use super::workers::{self, Codes, Effort, Limits, Request};
use crate::devices::Expectations;
use crate::tools::compiler_flags::SubstituteCompiler;
use crate::tools::{replay_flags, verify};
use crate::{Invocation, devices};

/// What all comparisons share.
pub(in crate::tools) struct CompareEngine<'i> {
    pub invocation: &'i Invocation,
    pub plan: Arc<Plan>,
    pub function: String,
    pub options: CompareOptions,
}

impl CompareEngine<'_> {
    /// Compares what a worker is asked to.
    pub(in crate::tools) fn perform(
        &mut self,
        request: &Request,
        worker: &Worker,
    ) -> Result<CandidateReport> {
        rehal_base::keep_freed_memory();
        self.options.changes_inputs = request.changes_inputs;
        self.options.verify.measures_rounding &= request.changes_inputs;
        (self.options.max_time, self.options.far) = (request.effort.max_time, request.effort.far);
        self.options.pulse = workers::pulse_of(worker)?;
        let candidate = request.candidate();
        let compared = self
            .comparer(request.codes.baseline.as_ref().map(|it| it.to_replacement()))
            .and_then(|it| self.one(&it, &candidate, &request.codes, worker));
        Ok(compared.unwrap_or_else(|error| CandidateReport::failed(&candidate, &error)))
    }

    fn one(
        &self,
        comparer: &KernelComparer,
        candidate: &Candidate,
        codes: &Codes,
        worker: &Worker,
    ) -> Result<CandidateReport> {
        let replacement = match &codes.replacement {
            Some(code) => code.to_replacement(),
            None => {
                let compiler = SubstituteCompiler::from_flags(&self.invocation.flags);
                candidate.build(&self.plan, &self.function, &compiler)?
            }
        };
        let mut reports = CrashReports::install();
        let checked =
            comparer.check(&replacement, &self.options, &mut [&mut reports]).map_err(in_own_words)?;
        // If it cannot be said, the limit of the checks applies to the timing too.
        let _ = worker.reach_milestone();
        let comparison = checked.time(&mut [&mut reports]).map_err(in_own_words)?;
        verify::note_unused_tolerances(&comparison.verification);
        let base = if codes.baseline.is_some() { "baseline" } else { "captured" };
        let text = print::screen(&self.function, candidate, &comparison, &self.options, base);
        Ok(CandidateReport::compared(candidate, &comparison, text))
    }

    /// How long a comparison may take, of which `base` is for compilers, and for what a process begins with.
    /// Replacements that take hundreds of times as long as the captured kernel are still compared. A captured
    /// kernel, or a baseline, that crashes ends the tool here, so that later crashes are those of
    /// replacements.
    pub(in crate::tools) fn limits(&self, baseline: Option<Replacement>, base: Duration) -> Result<Limits> {
        // Its memory is not needed afterwards.
        let comparer = self.comparer(baseline)?;
        let begun = Instant::now();
        comparer.replay_captured(&mut [&mut CrashReports::install()])?;
        Ok(Limits { check: base.saturating_add(begun.elapsed().saturating_mul(1000)) })
    }

    /// How long `rehal compare` times a replacement.
    pub(in crate::tools) fn effort(&self) -> Effort {
        Effort { max_time: self.options.max_time, far: self.options.far }
    }

    /// Prepares the side of the capture.
    fn comparer(&self, baseline: Option<Replacement>) -> Result<KernelComparer> {
        let (flags, plan, function) = (&self.invocation.flags, &self.plan, &self.function);
        plan.check_not_empty()?;
        let shapes = Kernels::from_plan(plan, &KernelOptions::default())?.compared(plan, function)?;
        let expected = Expectations { judges_results: true, guards_buffers: true };
        let opened = devices::options_expecting(flags, expected)?;
        let substitution = |it| Substitution::new(Selector::Name(function.clone()), it);
        let comparer = KernelComparer::new(CompareSubject {
            plan: plan.clone(),
            devices: opened.open()?,
            other_devices: opened.open()?,
            replay: replay_flags::files(flags)
                .substitutions(baseline.map(substitution).into_iter().collect()),
            function: function.clone(),
            shapes,
        });
        comparer.map_err(in_own_words)
    }
}

/// An error with the advice of this tool, in which no flag names the format of a replacement.
fn in_own_words(error: Error) -> Error {
    match error.advice() {
        Some(Advice::Remedy(Remedy::NameExecutable)) => error.replace_advice(candidates::NAME_REPLACEMENT),
        _ => error,
    }
}
