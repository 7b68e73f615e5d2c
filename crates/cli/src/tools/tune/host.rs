//! Builds, checks and times the candidates of a search.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_build::{
    BaseKind, BuiltPoint, Compiler, CompilerOptions, KernelLibrary, Measured, PointSource, SearchEffort,
    SearchHost, SearchSpace, Trial, TrialFile, TrialOutcome, build_kernel, check_kernel_flags,
    substitute_sources,
};
use rehal_hal::NeededWorkgroups;
use rehal_judge::{PartTiming, Timing, TimingVerdict};
use rehal_replay::{CalledFunction, Code, Replacement, Selector, Substitution};
use serde_json::{Map, Value};

use super::{print, trials};
use crate::flags::{Flags, Group};
use crate::progress::Progress;
use crate::table::quoted;
use crate::tools::compare::{Candidate, CandidateReport, CompareEngine, Outcome, compare_candidate};
use crate::tools::compiler_flags;
use crate::{Invocation, advice, output};

/// How long the checks of a candidate may take, besides a thousand replays of the captured kernel: for what a
/// process begins with.
const BASE: Duration = Duration::from_secs(10);
/// The time for which the result is timed, as a multiple of that of a trial.
const RESULT_TIME: u32 = 4;
/// A ratio beyond which the result is not timed more precisely.
const FAR: f64 = 2.0;

pub(super) const COMPILATION: Group = Group {
    title: "Compilation",
    flags: &[
        &compiler_flags::COMPILER,
        &compiler_flags::NO_CACHE,
        &compiler_flags::COMPILER_TIMEOUT,
        &compiler_flags::COMPILER_MEMORY,
    ],
};

/// The compiler of a space of dispatches.
pub(super) fn compiler(flags: &Flags, space: &SearchSpace) -> Result<Option<Compiler>> {
    match space.kind() {
        BaseKind::Dispatch => compiler_flags::compiler(flags).map(Some),
        BaseKind::Kernel(_) => {
            let is_ignored = |name: &str| COMPILATION.flags.iter().any(|it| it.spec().name == name);
            let Some(flag) = flags.settings(is_ignored).into_iter().next() else { return Ok(None) };
            let base = space.base().display();
            Err(Error::invalid_argument(format!(
                "{flag} is for dispatches, and '{base}' is the source of a kernel"
            ))
            .advise("leave it out; CC and RUSTC in the environment name the compilers of sources"))
        }
    }
}

/// Fails if the compiler refuses a flag of the space with each of its values: no point would compile.
pub(super) fn check_flags(space: &SearchSpace, compiler: Option<&Compiler>) -> Result<()> {
    let check = |flags: &Vec<String>| match (compiler, space.kind()) {
        (Some(compiler), _) => compiler.check_flags(flags),
        (None, BaseKind::Kernel(language)) => {
            let mut options = CompilerOptions::default();
            options.flags = flags.iter().map(OsString::from).collect();
            check_kernel_flags(language, &options)
        }
        (None, BaseKind::Dispatch) => Ok(()),
    };
    for (place, values) in space.flags() {
        let mut refused = None;
        if !values
            .iter()
            .any(|flags| check(flags).map_err(|error| refused.get_or_insert(error).code()).is_ok())
            && let Some(error) = refused
        {
            return Err(error.context(format!("{place}: '{}'", values[0].join(" "))));
        }
    }
    Ok(())
}

/// How long the checks of a variant may take. Runs the captured kernel once.
pub(super) fn limit(engine: &CompareEngine<'_>) -> Result<Duration> {
    engine.limits(BASE)
}

pub(super) struct TuneHost<'i> {
    engine: CompareEngine<'i>,
    compiler: Option<Compiler>,
    space: &'i SearchSpace,
    limit: Duration,
    file: Option<TrialFile>,
    interrupted: Arc<AtomicBool>,
    progress: Progress,
    /// Whether each trial is noted: no other process chooses them.
    notes: bool,
    /// Whether the last comparison says nothing about the candidate. Its trial is not kept: a search that is
    /// resumed tries it again.
    says_nothing: bool,
    /// Number of trials that are finished, and of all.
    finished: u64,
    total: u64,
}

impl<'i> TuneHost<'i> {
    pub(super) fn new(
        (engine, limit): (CompareEngine<'i>, Duration),
        compiler: Option<Compiler>,
        space: &'i SearchSpace,
        file: Option<TrialFile>,
        interrupted: Arc<AtomicBool>,
        total: u64,
        notes: bool,
    ) -> Self {
        let progress = if notes { Progress::new("tuning") } else { Progress::silent() };
        Self {
            engine,
            compiler,
            space,
            limit,
            file,
            interrupted,
            progress,
            notes,
            says_nothing: false,
            finished: 0,
            total,
        }
    }

    fn code(&self, source: &PointSource) -> Result<(Replacement, String)> {
        let name = self.space.base().display().to_string();
        let (replacement, messages) = match (&self.compiler, &source.text) {
            (Some(compiler), text) => {
                let text = match text {
                    Some(text) => text.clone(),
                    None => String::from_utf8(self.space.file(source)?)
                        .map_err(|_| Error::invalid_argument(format!("'{name}' is not text")))?,
                };
                let compiled = compiler.compile_dispatch(&text, &source.flags)?;
                let messages = compiled.messages.clone();
                (compiled.into_replacement(name), messages)
            }
            (None, _) => {
                let mut options = CompilerOptions::default();
                let defined = source.macros.iter().map(|(name, value)| format!("-D{name}={value}"));
                options.flags = defined.chain(source.flags.iter().cloned()).map(Into::into).collect();
                let mut called = CalledFunction::in_plan(&self.engine.plan);
                called.retain(|it| it.info.name == self.engine.work.function);
                options.functions = called;
                let KernelLibrary { bytes, messages, called_once, .. } =
                    build_kernel(self.space.base(), &options)?;
                let selector = Selector::Name(self.engine.work.function.clone());
                let mut library = Some(bytes);
                let mut built = [Substitution::new(selector, Replacement::file(self.space.base()))];
                substitute_sources(&mut built, |_| Ok(library.take()))?;
                let [Substitution { mut replacement, .. }] = built;
                let once = NeededWorkgroups::Count([1; 3]);
                replacement.workgroups = called_once.into_iter().map(|it| (Some(it), once.clone())).collect();
                (replacement, messages)
            }
        };
        let mut stated = [Substitution::new(Selector::Name(self.engine.work.function.clone()), replacement)];
        let workgroups = self.engine.invocation.flags.list(&compiler_flags::WORKGROUPS);
        compiler_flags::state_workgroups(&workgroups, &mut stated)?;
        let [Substitution { replacement, .. }] = stated;
        Ok((replacement, messages))
    }

    /// Fails if the base itself is why the first variant does not compile: a dispatch that cannot be read, or
    /// a source with the same error. A dispatch with a wrong configuration may have variants that are right.
    fn check_base(&self, first: &str) -> Result<()> {
        let checked = match &self.compiler {
            Some(compiler) => compiler.check_source(self.space.base()),
            None => match self.code(&self.space.unchanged()) {
                Err(error) if print::reason(&advice::report(&error)) == print::reason(first) => Err(error),
                _ => Ok(()),
            },
        };
        checked.context(|| self.base_context())
    }

    fn base_context(&self) -> String {
        format!("the base '{}' itself; no variant is tried", self.space.base().display())
    }

    /// Whether an error is that of a candidate, and not of the machine.
    fn is_of_candidate(&self, error: &Error) -> bool {
        match error.code() {
            StatusCode::NotFound | StatusCode::Unavailable | StatusCode::PermissionDenied => false,
            // A limit of the compiler's memory is one.
            StatusCode::ResourceExhausted => self.compiler.is_some(),
            _ => true,
        }
    }
}

impl SearchHost for TuneHost<'_> {
    type Code = Replacement;

    fn bytes(code: &Replacement) -> &[u8] {
        match &code.code {
            Code::Bytes(bytes) => bytes,
            Code::File(_) => &[],
        }
    }

    fn workgroups(code: &Replacement) -> Option<String> {
        // As trials have it in their files.
        let shown = |(name, needed): &(Option<String>, NeededWorkgroups)| match needed {
            NeededWorkgroups::Computed(formula) => format!("({name:?}, Computed({:?}))", formula.to_string()),
            needed => format!("({name:?}, {needed:?})"),
        };
        let all: Vec<_> = code.workgroups.iter().map(shown).collect();
        (!all.is_empty()).then(|| format!("[{}]", all.join(", ")))
    }

    fn build(&mut self, source: &PointSource) -> Result<BuiltPoint<Replacement>> {
        self.progress.set(self.finished, self.total);
        self.says_nothing = false;
        self.space.check_base()?;
        match self.code(source) {
            Ok((code, messages)) => {
                if !messages.trim().is_empty() {
                    self.progress.clear();
                    output::note(messages.trim_end());
                }
                Ok(BuiltPoint::Code(code))
            }
            Err(error) if self.is_of_candidate(&error) => {
                // Something else ended the compiler.
                self.says_nothing = error.code() == StatusCode::Aborted;
                let report = advice::report(&error);
                if self.finished == 0 && !self.says_nothing {
                    self.check_base(&report)?;
                }
                Ok(BuiltPoint::Failed(report))
            }
            Err(error) => Err(error),
        }
    }

    fn compare(
        &mut self,
        candidate: &Replacement,
        other: Option<&Replacement>,
        effort: SearchEffort,
    ) -> Result<Option<Measured>> {
        let mut work = self.engine.work.clone();
        let max_time = work.options.max_time;
        (work.options.max_time, work.options.far) = match effort {
            SearchEffort::Trial { give_up_above } => (max_time, give_up_above),
            SearchEffort::Result => (max_time.saturating_mul(RESULT_TIME), FAR),
        };
        (work.baseline, work.replacement) = (other.cloned(), Some(candidate.clone()));
        let name = Candidate { path: PathBuf::from(self.space.base()) };
        let (progress, interrupted) = (&mut self.progress, &self.interrupted);
        let (finished, total) = (self.finished, self.total);
        let watch = &mut |_| {
            progress.set(finished, total);
            match interrupted.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        match compare_candidate(&work, &name, self.limit, &self.engine.invocation.confinement(), watch) {
            // No other variant has the function, or the file, that the first lacks.
            Ok(report) if report.is_not_found && finished == 0 => {
                let text = report.text.trim_end();
                let text = text.strip_prefix("NOT_FOUND; ").unwrap_or(text);
                Err(Error::not_found(text).context(self.base_context()))
            }
            Ok(report) => {
                self.says_nothing = report.says_nothing;
                Ok(Some(measured(report)))
            }
            Err(error) if error.code() == StatusCode::Cancelled => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn command(&self, values: &Map<String, Value>) -> String {
        command(self.engine.invocation, values)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn finished(&mut self, trial: &Trial, is_new: bool) -> Result<()> {
        self.finished += 1;
        self.progress.clear();
        if self.notes && is_new {
            let ratio = trial.ratio.map(|it| format!(" ({it:.3} of the captured time)")).unwrap_or_default();
            let best = if trial.is_best { ", the best so far" } else { "" };
            let (number, point, outcome) = (trial.trial, print::point(&trial.point), trial.outcome.told());
            output::note(&match print::same_code(trial) {
                Some(same) => format!("trial {number}: {point}: {same}"),
                None => format!("trial {number}: {point}: {outcome}{ratio}{best}"),
            });
        }
        match &self.file {
            Some(file) if is_new && !self.says_nothing => trials::append(file, trial),
            _ => Ok(()),
        }
    }
}

/// The command that tries a point again, in the directory to which its paths are relative.
fn command(invocation: &Invocation, values: &Map<String, Value>) -> String {
    let kept = |flag: &str| {
        !["point", "sampler", "seed", "trials", "max_time", "output", "best", "format"].contains(&flag)
    };
    let point = serde_json::to_string(values).unwrap_or_default();
    let mut words: Vec<String> = invocation.name.split(' ').map(str::to_owned).collect();
    words.extend(invocation.flags.settings(kept).iter().map(|it| quoted(it)));
    words.push(quoted(&format!("--point={point}")));
    words.push(quoted(&invocation.operand().display().to_string()));
    let command = words.join(" ");
    match std::env::current_dir() {
        Ok(current) => format!("cd {} && {command}", quoted(&current.display().to_string())),
        Err(_) => command,
    }
}

/// The measurement of a candidate that a report has.
fn measured(report: CandidateReport) -> Measured {
    let timings = report.comparison.as_ref().map_or(&[][..], |it| &it.timings);
    let outcome = match report.outcome {
        Outcome::Right => verdict(&timings.iter().map(Timing::verdict).collect::<Vec<_>>()),
        Outcome::Wrong => TrialOutcome::Wrong,
        Outcome::Crashed => TrialOutcome::Crashed,
        Outcome::TimedOut => TrialOutcome::TimedOut,
        Outcome::CannotTell | Outcome::Failed => TrialOutcome::Failed,
    };
    if !outcome.is_right() {
        let summary = match report.outcome {
            Outcome::Wrong => report.summary,
            Outcome::CannotTell => report.summary,
            _ => report.text.trim_end().to_owned(),
        };
        return Measured::without_time(outcome, summary);
    }
    let total = |ns: fn(&PartTiming) -> f64| {
        let shapes = &timings.first()?.shapes;
        Some(shapes.iter().map(|it| ns(&it.timing) * it.shape.count as f64).sum())
            .filter(|it: &f64| !it.is_nan())
    };
    let mut measured = Measured::timed(outcome, report.ratio);
    // JSON has no infinities: a trial with one could not be read again.
    let interval = timings.first().and_then(|it| it.judgment.interval).map(<[f64; 2]>::from);
    measured.ratio_interval = interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
    (measured.other_ns, measured.candidate_ns) = (total(|it| it.captured.ns), total(|it| it.replaced.ns));
    measured.timings = Some(report.object.get("timings").cloned().unwrap_or_default());
    let rounding = report.object["verification"]["rounding"].clone();
    measured.rounding = Some(rounding).filter(|it| it.as_array().is_some_and(|it| !it.is_empty()));
    measured
}

/// The verdict of all states of the caches.
fn verdict(verdicts: &[TimingVerdict]) -> TrialOutcome {
    let has = |verdict| verdicts.contains(&verdict);
    match verdicts.is_empty() {
        _ if has(TimingVerdict::Slower) => TrialOutcome::Slower,
        true => TrialOutcome::CannotTell,
        _ if has(TimingVerdict::CannotTell) => TrialOutcome::CannotTell,
        _ if has(TimingVerdict::NotSlower) => TrialOutcome::NotSlower,
        false => TrialOutcome::Faster,
    }
}

#[cfg(test)]
mod tests {
    use rehal_judge::TimingVerdict::{CannotTell, Faster, NotSlower, Slower};

    use super::*;

    #[test]
    fn a_candidate_is_faster_if_it_is_in_all_states_of_the_caches() {
        assert_eq!(verdict(&[Faster, Faster]), TrialOutcome::Faster);
        assert_eq!(verdict(&[Faster, Slower]), TrialOutcome::Slower);
        assert_eq!(verdict(&[Faster, CannotTell]), TrialOutcome::CannotTell);
        assert_eq!(verdict(&[NotSlower, Faster]), TrialOutcome::NotSlower);
        assert_eq!(verdict(&[]), TrialOutcome::CannotTell);
    }
}
