//! `rehal compare`: whether replacements of a kernel compute the same, and whether they are faster.

mod candidates;
mod engine;
mod print;
mod report;
mod roof;
mod workers;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode, plural};
use rehal_capture::CaptureBytes;
use rehal_jobs::JobProgress;
use rehal_judge::{CacheState, CompareOptions};
use rehal_replay::{Plan, Replacement, Replay};

use super::compiler_flags::{COMPILING, SubstituteCompiler, WORKGROUPS};
use super::report_format::{self, Format};
use super::{function_flags, ledger_flags, replay_flags, verify};
use crate::devices::Expectations;
use crate::flags::{Flag, Flags, Group, List, Refusal, read, read_path, time, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, Recording};
use crate::output::ReaderLeft;
use crate::progress::{self, Progress};
use crate::report::Subject;
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, advice, captures, devices, interrupts, output};

/// Also of `rehal tune`.
pub(super) use candidates::Candidate;
pub(super) use engine::CompareEngine;
pub(super) use report::{CandidateReport, Outcome};
pub(super) use workers::compare_candidate;

/// Also of `rehal benchmark --with`.
pub(super) use print::{SAME_CODE, machine, measured, ratio};

/// See the [module](self).
pub const COMPARE: Tool = Tool {
    name: "rehal compare",
    verb: "compare",
    summary: "checks and times replacements of a kernel",
    about: "Compares a kernel of a capture, or of a slice, with a replacement (--with): first the signature, then what it \
            computes, then its time. The capture is replayed with and without the replacement in lockstep; a wrong kernel is \
            not timed. Then each distinct dispatch of the function is repeated with its real inputs: both kernels in pairs, \
            in random order, with warm and with cold caches. What is printed is the time with the replacement as a fraction \
            of the captured, with a 95 % interval. Several replacements, or a directory of them, become a table, the best \
            first. Exit status 0 if one is right and proved to be not slower than --fail_if_slower allows, 3 if those that are right \
            are slower, 4 if that cannot be told, 2 if all are wrong, 1 for an error.\n\n\
            A replacement is machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay --function=NAME --with=KERNEL" },
    groups: with_devices![&COMPARISON, &TIMING, &REPLAYS, &COMPILING, &KERNEL_RECORDING],
    examples: &[
        (
            "Compare a kernel with an edited one",
            "rehal kernel stub --function=matmul_0 model.ireereplay -o kernel.c\n\
             {tool} --function=matmul_0 --with=kernel.c --element_type=f32 model.ireereplay",
        ),
        (
            "Compare it again whenever the file is saved",
            "{tool} --function=matmul_0 --with=kernel.c --watch model.ireereplay",
        ),
        ("Rank all kernels of a directory", "{tool} --function=matmul_0 --with=candidates model.ireereplay"),
    ],
    guide: include_str!("../guides/compare.md"),
    answer: devices::answer,
    run,
};

/// Also of `rehal tune`.
pub(super) const FUNCTION: Flag<Option<String>> = function_flags::one_flag(
    "The function; rehal kernels lists them: its name, a part that no other name has, or a pattern with * and ? that \
     no other name matches. By default the only one that is dispatched.",
);

/// Extensions of the files that replacements are in.
const KERNELS: &[&str] = &["c", "o", "rs", "cu", "mlir", "so", "elf", "vmfb", "spv", "vk1", "ptx"];

const WITH: List<PathBuf> = List::paths(
    "with",
    "PATH",
    "A replacement: a source in C, Rust or CUDA C (.c, .rs, .cu), an object (.o), or a dispatch as the compiler dumps it (.mlir), which are compiled first, a shared library, a compiled executable, \
     for Vulkan a SPIR-V module (.spv), or for CUDA PTX (.ptx). A directory stands for the files in it with the extensions .c, .o, .rs, \
     .cu, .mlir, .so, .elf, .vmfb, .spv, .vk1 and .ptx. May be repeated.",
)
.files(read_path)
.endings(KERNELS);

const BASELINE: Flag<Option<PathBuf>> = Flag::path(
    "baseline",
    "A kernel that the replacements are compared with instead of the captured one: a file as for --with. A source is compiled once.",
)
.files(read);

#[derive(Clone, Copy)]
pub(super) enum Caches {
    Warm,
    Cold,
    Both,
}

const CACHE: Flag<Caches> = cache_flag("both");

/// A flag for the states of caches that are timed.
pub(super) const fn cache_flag(default: &'static str) -> Flag<Caches> {
    Flag::choice(
        "cache",
        default,
        &[("warm", Caches::Warm), ("cold", Caches::Cold), ("both", Caches::Both)],
        "warm: an untimed dispatch of the same kernel precedes each that is timed. cold: the bytes that the kernel may access are \
         evicted from the CPU's caches before each. both: each by itself.",
    )
}

/// Also of `rehal benchmark --with`.
pub(super) const PRECISION: Flag<f64> = Flag::parsed(
    "precision",
    "PERCENT",
    "1%",
    "a percentage above 0, such as 1% or 0.5%",
    parse_precision,
    "Sampling stops once half of the interval is at most this part of the ratio, if the verdict is 'not slower', \
     otherwise a fourth of this part, or half of the difference that it proves.",
)
.unquoted();

const FAIL_IF_SLOWER: Flag<f64> = margin_flag(
    "A replacement is not slower if its interval ends below the captured time plus this percentage of it.",
);

/// A flag for what counts as slower, whose help says of what.
pub(super) const fn margin_flag(help: &'static str) -> Flag<f64> {
    percent_flag("fail_if_slower", "5%", help)
}

/// A flag for a part of a time.
pub(super) const fn percent_flag(name: &'static str, default: &'static str, help: &'static str) -> Flag<f64> {
    let expected = "a percentage from 0, such as 5% or 0%";
    Flag::parsed(name, "PERCENT", default, expected, parse_percentage, help).unquoted()
}

/// Also of `rehal benchmark --with`.
pub(super) const MAX_TIME: Flag<Duration> = Flag::parsed(
    "max_time",
    "TIME",
    "60s",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m",
    time,
    "Sampling of a replacement stops after this time; what is printed says so. Checks are not included.",
)
.unquoted();

/// Also of `rehal benchmark --with`.
pub(super) const SEED: Flag<u64> =
    Flag::number("seed", 0, (0, i64::MAX), |seed| seed as u64, "Seed of the order of the pairs.");

pub(super) const ATOMICS: Flag<bool> = Flag::switch(
    "atomics",
    false,
    "Workgroups of the replacements may use atomic operations on the same numbers: whether they depend on each other, which is a race \
     otherwise, is not checked.",
);

const TIME_WRONG: Flag<bool> =
    Flag::switch("time_wrong", false, "Also times a replacement that computes something else.");

const WATCH: Flag<bool> = Flag::switch(
    "watch",
    false,
    "Compares again whenever a file that --with names is saved, until interrupted.",
);

const FORMAT: Flag<Format> =
    report_format::flag("text: a screen, or a table of several replacements. json: an object on a line.");

const COMPARISON: Group = Group {
    title: "Comparison",
    flags: &[
        &FUNCTION,
        &function_flags::DISPATCH,
        &WITH,
        &BASELINE,
        &WORKGROUPS,
        &verify::TOLERANCE,
        &ledger_flags::ELEMENT_TYPE,
        &verify::ELEMENTS,
        &ATOMICS,
        &WATCH,
        &FORMAT,
    ],
};

const TIMING: Group =
    Group { title: "Timing", flags: &[&CACHE, &PRECISION, &FAIL_IF_SLOWER, &MAX_TIME, &SEED, &TIME_WRONG] };

const REPLAYS: Group = Group {
    title: "Replays",
    flags: &[&replay_flags::FILE_REMAP, &replay_flags::FILE_WRITES, &replay_flags::RECOVER],
};

fn parse_precision(value: &std::ffi::OsStr) -> Result<f64, Refusal> {
    parse_percentage(value)
        .and_then(|it| if it > 0.0 && it <= 1.0 { Ok(it) } else { Err(Refusal::Unexpected) })
}

fn parse_percentage(value: &std::ffi::OsStr) -> Result<f64, Refusal> {
    let text = value.to_str().ok_or(Refusal::Unexpected)?;
    let number: f64 = text
        .strip_suffix('%')
        .ok_or(Refusal::Unexpected)?
        .trim_end()
        .parse()
        .map_err(|_| Refusal::Unexpected)?;
    if number >= 0.0 && number.is_finite() { Ok(number / 100.0) } else { Err(Refusal::Unexpected) }
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let with = flags.list(&WITH);
    if with.is_empty() {
        return Err(Error::invalid_argument("--with is missing")
            .advise("name a replacement: a source (.c, .rs, .cu), a dispatch (.mlir), PTX, a shared library, or a directory of them"));
    }
    let (options, format) = (options(flags), flags.get(&FORMAT));
    // A wrong path is found before the capture is read, and a wrong function before anything is compared.
    let candidates = candidates::find(&with)?;
    let plan = plan(invocation)?;
    let function = function_flags::one(flags, &FUNCTION, &plan)?;
    let mut engine = CompareEngine::new(invocation, plan, function, options)?;
    let recording = Recording::checked(flags)?;
    let watches = flags.get(&WATCH);
    let limit = prepare(&mut engine)?;
    // Before signals are only noted. What fails is reported where it is compared; one that is watched may be
    // saved before it is.
    let compiler = SubstituteCompiler::from_flags(flags);
    let first = candidates.first().filter(|it| !watches && it.is_source());
    let first = first.and_then(|it| it.build(&engine.plan, &engine.work.function, &compiler).ok());
    let interrupted = interrupts::flag()?;
    let session = Session { engine, with, limit, format, interrupted };
    let engine = &session.engine;
    let record = || {
        let Some(recording) = &recording else { return Ok(()) };
        let devices = devices::options(flags)?;
        let mut reach = Reach::of_replay(&engine.plan, &devices);
        reach.directories.push(recording.directory());
        let function = Some(engine.work.function.clone());
        let replay = || captured(invocation, engine.plan.clone());
        invocation.confined(&reach, || Recording::of_capture(Some(recording), function, replay))
    };
    if watches {
        record()?;
        return session.watch();
    }
    let reports = session.each(&candidates, first)?;
    output::print(&session.text(&reports)?)?;
    invocation.set_status(report::status(&reports));
    record()
}

/// The plan of the capture, of tools that have `--recover`.
pub(super) fn plan(invocation: &Invocation) -> Result<Arc<Plan>> {
    let recover = captures::options(invocation.flags.get(&replay_flags::RECOVER));
    replay_flags::compile(&captures::open(&invocation.operand(), &recover)?)
}

/// A replay of the capture as it is.
fn captured(invocation: &Invocation, plan: Arc<Plan>) -> Result<Replay> {
    let flags = &invocation.flags;
    let expected = Expectations { judges_results: true, guards_buffers: false };
    let devices = devices::options_expecting(flags, expected)?.open()?;
    Replay::new(plan, &devices, &replay_flags::files(flags))
}

/// Reads the code that replacements are compared with, if it is not that of the captured kernel. Returns how
/// long their checks may take.
fn prepare(engine: &mut CompareEngine<'_>) -> Result<Duration> {
    /// For what a process begins with.
    const BASE: Duration = Duration::from_secs(30);
    let baseline = engine.invocation.flags.get(&BASELINE).map(|path| Candidate { path });
    let compiler = SubstituteCompiler::from_flags(&engine.invocation.flags);
    let baseline = baseline.map(|it| it.build(&engine.plan, &engine.work.function, &compiler)).transpose()?;
    engine.work.baseline = baseline;
    engine.limits(BASE)
}

fn options(flags: &Flags) -> CompareOptions {
    let mut options = checks(flags);
    options.caches = caches(flags.get(&CACHE));
    options.precision = flags.get(&PRECISION);
    options.margin = flags.get(&FAIL_IF_SLOWER);
    options.max_time = flags.get(&MAX_TIME);
    options.times_wrong = flags.get(&TIME_WRONG);
    options
}

/// The options of the flags that say what is right, and of the seed.
pub(super) fn checks(flags: &Flags) -> CompareOptions {
    let mut options = CompareOptions::default();
    options.verify.tolerances = flags.list(&verify::TOLERANCE);
    options.verify.element_types = flags.list(&ledger_flags::ELEMENT_TYPE);
    options.verify.max_elements = flags.get(&verify::ELEMENTS);
    options.seed = flags.get(&SEED);
    options.allows_atomics = flags.get(&ATOMICS);
    options
}

/// The states of caches that are timed.
pub(super) fn caches(caches: Caches) -> Vec<CacheState> {
    match caches {
        Caches::Warm => vec![CacheState::Warm],
        Caches::Cold => vec![CacheState::Cold],
        Caches::Both => vec![CacheState::Warm, CacheState::Cold],
    }
}

struct Session<'i> {
    engine: CompareEngine<'i>,
    with: Vec<PathBuf>,
    /// Of the checks of a replacement.
    limit: Duration,
    format: Format,
    interrupted: Arc<AtomicBool>,
}

impl Session<'_> {
    /// Compares replacements, each in a process of its own, for some time at most, until it is interrupted.
    /// The first one may be compiled.
    fn each(&self, candidates: &[Candidate], mut first: Option<Replacement>) -> Result<Vec<CandidateReport>> {
        let engine = &self.engine;
        let mut reports = Vec::with_capacity(candidates.len());
        for (number, candidate) in (1..).zip(candidates) {
            if self.is_interrupted() {
                output::note(&format!(
                    "interrupted: {} left out",
                    plural((candidates.len() + 1 - number) as u64, "replacement")
                ));
                break;
            }
            if candidates.len() > 1 {
                output::note(&format!(
                    "comparing {number} of {}: {}",
                    candidates.len(),
                    print::name(candidate)
                ));
            }
            let limit = self.limit;
            let confinement = engine.invocation.confinement();
            let mut checking = Some(Progress::new("checking"));
            let watch = &mut |it: JobProgress| {
                if it.is_past_milestone {
                    // Its timing has a pulse.
                    checking = None;
                    return ControlFlow::Continue(());
                }
                if let Some(checking) = &mut checking {
                    checking.wait(limit);
                }
                if self.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let report = match first.take().map_or_else(|| self.build(candidate), Ok) {
                Err(error) => CandidateReport::failed(candidate, &error),
                Ok(code) => {
                    let mut work = engine.work.clone().with(code);
                    work.options.pulse = progress::pulse("comparing", self.interrupted.clone());
                    match compare_candidate(&work, candidate, limit, &confinement, watch) {
                        Err(error) if error.code() == StatusCode::Cancelled => {
                            CandidateReport::interrupted(candidate)
                        }
                        compared => self.with_roof(compared?),
                    }
                }
            };
            drop(checking);
            if let Outcome::Crashed | Outcome::CannotTell | Outcome::Failed = report.outcome {
                output::note(report.text.trim_end());
            }
            reports.push(report);
        }
        reports.sort_by(CandidateReport::rank);
        Ok(reports)
    }

    fn build(&self, candidate: &Candidate) -> Result<Replacement> {
        let compiler = SubstituteCompiler::from_flags(&self.engine.invocation.flags);
        candidate.build(&self.engine.plan, &self.engine.work.function, &compiler)
    }

    fn with_roof(&self, mut report: CandidateReport) -> CandidateReport {
        // A comparison without a roof is complete.
        let _ = roof::add(&mut report, self.engine.invocation, &self.engine.plan);
        report
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn text(&self, reports: &[CandidateReport]) -> Result<String> {
        let invocation = self.engine.invocation;
        let capture = CaptureBytes::map(&invocation.operand())?;
        let subject = Subject { capture: Some(&capture), devices: None };
        let report = report::Compared { function: &self.engine.work.function, reports };
        invocation.render(&report, self.format, subject)
    }

    /// Compares again and again, until standard output is closed.
    fn watch(&self) -> Result<()> {
        /// How often files are looked at.
        const INTERVAL: Duration = Duration::from_millis(100);
        let reader_left = ReaderLeft::default();
        while !reader_left.get() && !self.is_interrupted() {
            // Before they are read: what is saved meanwhile is compared next.
            let seen = candidates::states(&self.with);
            match candidates::find(&self.with).and_then(|candidates| self.each(&candidates, None)) {
                Ok(reports) => {
                    let text = self.text(&reports)?;
                    output::written(output::stdout_for(&reader_left)?.write_all(text.as_bytes()))?;
                }
                Err(error) => output::note(&advice::report(&error)),
            }
            output::note("waiting for a change");
            while !reader_left.get() && !self.is_interrupted() && candidates::states(&self.with) == seen {
                thread::sleep(INTERVAL);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_and_times_have_units() {
        let precision = |text: &str| parse_precision(text.as_ref()).ok();
        assert_eq!(
            [precision("1%"), precision("0.5 %"), precision("100%")],
            [Some(0.01), Some(0.005), Some(1.0)]
        );
        for text in ["", "1", "%", "0%", "-1%", "nan%", "inf%", "101%"] {
            assert_eq!(precision(text), None, "{text}");
        }
        let time = |text: &str| time(text.as_ref()).ok().map(|it| it.as_millis());
        assert_eq!(
            [time("500ms"), time("60s"), time("1.5m"), time("24h")],
            [500, 60_000, 90_000, 86_400_000].map(Some)
        );
        for text in ["", "60", "s", "0s", "-1s", "nans", "25h", "infs"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
