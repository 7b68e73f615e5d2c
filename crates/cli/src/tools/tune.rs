//! `rehal tune`: the fastest of the variants of a kernel that a space describes.

mod asking_sampler;
mod host;
mod print;
mod trials;

use std::path::PathBuf;
use std::time::Duration;

use rehal_base::{Context, Error, Result};
use rehal_build::{
    BaseKind, GridSampler, ListSampler, RandomSampler, Sampler, Search, SearchOptions, SearchPoint,
    SearchSpace, SearchStop, kernel_compiler_version,
};
use rehal_capture::CaptureBytes;
use rehal_jobs::Worker;
use rehal_judge::capture_digest;
use serde_json::{Map, Value};

use self::asking_sampler::AskingSampler;
use self::host::TuneHost;
use self::print::Tuned;
use self::trials::{OUTPUT, trial_file};
use super::compare::{self, CompareEngine};
use super::report_format::{self, Format};
use super::{compiler_flags, function_flags, ledger_flags, replay_flags, verify};
use crate::flags::{Flag, Flags, Group, List, Refusal, read, time, with_devices, written};
use crate::output_file::OutputFile;
use crate::report::Subject;
use crate::{Invocation, Operands, Tool, devices, interrupts, kernel_recording};

/// See the [module](self).
pub const TUNE: Tool = Tool {
    name: "rehal tune",
    verb: "tune",
    summary: "searches variants of a kernel for the fastest one",
    about: "Tries variants of a kernel of a capture, or of a slice: a file (--space) names a source and what varies of it, which \
            are fields of the lowering configuration of a dispatch, flags of the compiler, and macros of C. Each variant is \
            compiled, checked as rehal compare checks a replacement, and timed only if it is right. One that seems faster than \
            the best so far is compared with that one directly. In the end, the best is compared with the captured kernel and \
            with the second once more. With --output, each trial is a line of a file, at which the same search resumes. Ctrl-C \
            ends a search, and prints what is known.\n\n\
            Exit status 0 if the best is proved to be faster than the captured kernel, 3 if it is slower, 4 if that cannot be \
            told or nothing was tried, 2 if no variant is right and one is wrong or crashes, 1 if all variants fail or time out, or \
            for an error.\n\n\
            A variant is machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::One {
        what: "capture",
        form: "CAPTURE.ireereplay --function=NAME --space=SPACE.toml",
    },
    groups: with_devices![&SEARCH, &CHECKS, &TIMING, &host::COMPILATION, &REPLAYS],
    examples: &[
        (
            "Try all variants, and write the best",
            "{tool} --function=matmul_0 --space=space.toml --output=trials.jsonl --best=best.mlir model.ireereplay",
        ),
        (
            "Try some of a large space",
            "{tool} --function=matmul_0 --space=space.toml --sampler=random --trials=50 --max_time=5m model.ireereplay",
        ),
        (
            "Try one again",
            "{tool} --function=matmul_0 --space=space.toml --point='{\"TILE\": 8}' --best=tile_8.c model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/tune.md"),
    answer: devices::answer,
    run,
};

const SPACE: Flag<Option<PathBuf>> = Flag::path(
    "space",
    "What is tried, as TOML: base = \"FILE\", a dispatch as the compiler dumps it (.mlir) or a source in C or Rust (.c, .rs), and \
     for each axis [[axis]] with values = [...] and config = \"FIELD\", flag = \"--FLAG\" or macro = \"NAME\".",
)
.files(read)
.endings(&["toml"]);

#[derive(Clone, Copy)]
enum Order {
    Grid,
    Random,
}

const SAMPLER: Flag<Order> = Flag::choice(
    "sampler",
    "grid",
    &[("grid", Order::Grid), ("random", Order::Random)],
    "grid: all points, in order: the last axis changes first. random: in random order (--seed), each once.",
);

const POINT: List<Map<String, Value>> = List::parsed(
    "point",
    "JSON",
    "an object with a value of each axis, such as {\"TILE\": 8}",
    |value| value.to_str().and_then(|it| serde_json::from_str(it).ok()).ok_or(Refusal::Unexpected),
    "Tries this point instead of those of a sampler: an object of JSON with a value of each axis. May be repeated.",
);

const TRIALS: Flag<Option<u64>> = Flag::number(
    "trials",
    0,
    (0, i64::MAX),
    |count| u64::try_from(count).ok().filter(|it| *it != 0),
    "Stops after so many points, those that are known included; 0 for all points.",
);

const MAX_TIME: Flag<Option<Duration>> = Flag::parsed(
    "max_time",
    "TIME",
    "",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m",
    |value| if value.is_empty() { Ok(None) } else { time(value).map(Some) },
    "No trial begins after this time. Default: no limit.",
);

const BEST: Flag<Option<PathBuf>> = Flag::path(
    "best",
    "Writes the best variant to this file, unless it is slower than the captured kernel: a dispatch with its configuration, or a \
     source that defines its macros. Flags of the compiler are not in it; the report has them.",
)
.files(written);

const FORMAT: Flag<Format> =
    report_format::flag("text: a table of the trials, and the result. json: an object on a line.");

const SEARCH: Group = Group {
    title: "Search",
    flags: &[
        &compare::FUNCTION,
        &function_flags::DISPATCH,
        &SPACE,
        &SAMPLER,
        &SEED,
        &POINT,
        &TRIALS,
        &MAX_TIME,
        &OUTPUT,
        &BEST,
        &FORMAT,
    ],
};

const SEED: Flag<u64> = Flag::number(
    "seed",
    0,
    (0, i64::MAX),
    |seed| seed as u64,
    "Seed of the random sampler, and of the order of the pairs that are timed.",
);

const CHECKS: Group = Group {
    title: "Checks",
    flags: &[
        &verify::TOLERANCE,
        &ledger_flags::ELEMENT_TYPE,
        &verify::ELEMENTS,
        &compare::ATOMICS,
        &compiler_flags::WORKGROUPS,
    ],
};

const CACHE: Flag<compare::Caches> = compare::cache_flag("warm");

const TRIAL_TIME: Flag<Duration> = Flag::parsed(
    "trial_time",
    "TIME",
    "500ms",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m",
    time,
    "Timing of a variant stops after this time, or earlier once it is proved to be slower than the best. The result is timed \
     four times as long.",
)
.unquoted();

const TIMING: Group = Group { title: "Timing", flags: &[&CACHE, &compare::PRECISION, &TRIAL_TIME] };

const REPLAYS: Group = Group {
    title: "Replays",
    flags: &[&replay_flags::FILE_REMAP, &replay_flags::FILE_WRITES, &replay_flags::RECOVER],
};

/// Whether a flag changes what becomes of a trial.
fn changes_trials(flag: &str) -> bool {
    const OTHERS: [&str; 15] = [
        "best",
        "compiler",
        "dispatch",
        "flagfile",
        "format",
        "function",
        "max_time",
        "no_cache",
        "output",
        "point",
        "sampler",
        "seed",
        "space",
        "trials",
        "trial_time",
    ];
    !OTHERS.contains(&flag)
}

fn run(invocation: &Invocation) -> Result<()> {
    search(invocation, None)
}

/// Tries points for which it asks the process that has started this one.
pub(super) fn serve(invocation: &Invocation, worker: &Worker) -> Result<()> {
    search(invocation, Some(worker))
}

fn search(invocation: &Invocation, worker: Option<&Worker>) -> Result<()> {
    let flags = &invocation.flags;
    let Some(path) = flags.get(&SPACE) else {
        return Err(Error::invalid_argument("--space is missing")
            .advise("name a file that says what is tried; rehal tune --agents_md describes it"));
    };
    kernel_recording::warn_that_nothing_is_recorded(
        "variants run in processes of their own, which do not record; record the capture with `rehal kernel record`",
    );
    let space = SearchSpace::read(&path)?;
    let points = flags.list(&POINT).iter().map(|it| space.parse_point(it)).collect::<Result<Vec<_>>>();
    let points = points.context(|| "--point".into())?;
    let best = flags.get(&BEST).map(|path| OutputFile::new(BEST.name(), path)).transpose()?;
    let engine = engine(invocation)?;
    let capture = CaptureBytes::map(&invocation.operand())?;
    let limit = host::limit(&engine)?;
    // Of what is compared, only processes of their own run code.
    let opened = devices::options(flags)?.open()?;
    let subject = Subject { capture: Some(&capture), devices: Some(&opened) };
    let header = invocation.header("rehal.tune.trial/1", subject)?;
    let file = flags.get(&OUTPUT).map(|path| trial_file(path, header)).transpose()?;
    let compiler = host::compiler(flags, &space)?;
    host::check_flags(&space, compiler.as_ref())?;
    let mut options = SearchOptions::default();
    options.max_trials = flags.get(&TRIALS);
    options.max_time = flags.get(&MAX_TIME);
    options.inputs = vec![hex::encode(capture_digest(&capture)), engine.work.function.clone()];
    options.inputs.push(match (&compiler, space.kind()) {
        (Some(compiler), _) => compiler.version().text.clone(),
        (None, BaseKind::Kernel(language)) => kernel_compiler_version(language)?,
        (None, BaseKind::Dispatch) => String::new(),
    });
    options.inputs.extend(flags.settings(changes_trials));
    options.known = file.as_ref().map(|it| it.known.clone()).unwrap_or_default();
    let function = engine.work.function.clone();
    let interrupted = interrupts::flag()?;
    let total = options.max_trials.unwrap_or(u64::MAX).min(match points.len() {
        0 => space.size(),
        count => count as u64,
    });
    let host = TuneHost::new((engine, limit), compiler, &space, file, interrupted, total, worker.is_none());
    let has_all_points = points.is_empty() && worker.is_none();
    let mut sampler = sampler(flags, worker, points)?;
    let mut search = Search::new(&space, host, options);
    let stop = search.run(&mut *sampler).and_then(|stop| search.finish().map(|()| stop));
    let (result, _host) = search.into_result();
    let mut tuned = Tuned::new(&function, &path, &result, *stop.as_ref().unwrap_or(&SearchStop::Error));
    tuned.has_all_points = has_all_points;
    if let Err(error) = stop {
        if worker.is_none() && !result.trials.is_empty() {
            invocation.print(&tuned, flags.get(&FORMAT), subject)?;
        }
        return Err(error);
    }
    let status = tuned.status();
    if let (Some(output), Some(file)) = (&best, result.best_file(&space)?.filter(|_| status != print::SLOWER))
    {
        let write = |sink: &mut dyn std::io::Write| {
            sink.write_all(&file).map_err(|error| Error::io("writing the best", &error))
        };
        output.write(write)?;
        tuned.best_path = Some(output.path().display().to_string());
    }
    invocation.set_status(status);
    match worker {
        Some(worker) => {
            let report = invocation.render(&tuned, Format::Json, subject)?;
            let report: Value = serde_json::from_str(&report)
                .map_err(|error| Error::new(rehal_base::StatusCode::Internal, error.to_string()))?;
            worker.answer(&report).map_err(|error| Error::io("passing a report", &error))
        }
        None => invocation.print(&tuned, flags.get(&FORMAT), subject),
    }
}

/// The strategy that chooses the points.
fn sampler(flags: &Flags, worker: Option<&Worker>, points: Vec<SearchPoint>) -> Result<Box<dyn Sampler>> {
    if let Some(worker) = worker {
        return Ok(Box::new(AskingSampler::new(worker)?));
    }
    Ok(match (points.is_empty(), flags.get(&SAMPLER)) {
        (false, _) => Box::new(ListSampler::for_points(points)),
        (true, Order::Grid) => Box::new(GridSampler::default()),
        (true, Order::Random) => Box::new(RandomSampler::with_seed(flags.get(&SEED))),
    })
}

fn engine(invocation: &Invocation) -> Result<CompareEngine<'_>> {
    let flags = &invocation.flags;
    let plan = compare::plan(invocation)?;
    let function = function_flags::one(flags, &compare::FUNCTION, &plan)?;
    let mut options = compare::checks(flags);
    options.caches = compare::caches(flags.get(&CACHE));
    options.precision = flags.get(&compare::PRECISION);
    options.max_time = flags.get(&TRIAL_TIME);
    CompareEngine::new(invocation, plan, function, options)
}
