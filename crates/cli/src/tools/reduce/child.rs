//! Ready checks in processes of their own, which have the flags of the tool: a crash ends only them.

use std::cell::{Cell, RefCell};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rehal_base::{Context, Error, Result, StatusCode, glob};
use rehal_session::{
    CaptureFile, Code, CompilerOptions, CrashReports, Cut, KernelLanguage, KernelLibrary, KernelOptions,
    KernelTimes, Kernels, Ledger, Observer, Operation, Outcome, Range, Replay, SliceOptions, SlicedDispatch,
    Substitution, Verification, VerifyOptions, WrongResult, build_kernel, has_wrong_result,
    substitute_sources, verify_against, verify_lockstep, wrong_result,
};
use serde_json::{Value, json};

use super::{AGAINST, FUNCTION};
use crate::flags::Flags;
use crate::tools::{ledger_flags, replay_flags, verify};
use crate::{Invocation, output, own_process};

/// The request to a process, as JSON; its flags are those of the tool that started it.
const REQUEST: &str = "REHAL_REDUCE_REQUEST";

/// The libraries of kernels, as JSON.
const KERNELS: &str = "REHAL_REDUCE_KERNELS";

/// Exit status of a process: the capture shows what is looked for. Not 0, which a kernel that ends the process may have.
pub(super) const INTERESTING: u8 = 0xe1;
/// It does not.
pub(super) const NOT_INTERESTING: u8 = 0xe0;

/// Number of replays of which the time is measured, at least and at most.
const SAMPLES: usize = 9;
const MAX_SAMPLES: usize = 99;
/// More than the least number are measured within this time: those of short work depend on chance.
const SAMPLING: Duration = Duration::from_millis(50);

/// What a process does with a capture.
pub(super) enum Request {
    /// Replays it; a crash ends the process.
    Replay,
    /// Replays it, and keeps the current dispatch in a file.
    Locate(PathBuf),
    /// Cuts a dispatch out, without performing it.
    Slice(SlicedDispatch, PathBuf),
    /// Finds the first wrong result.
    FindWrong,
    /// Looks for a wrong result.
    HasWrong(WrongResult),
    /// Measures its time.
    Time,
}

/// The request to this process, with the capture.
pub(super) fn request() -> Option<(Request, PathBuf)> {
    let text = env::var(REQUEST).ok().filter(|_| own_process::is_child())?;
    parse(&serde_json::from_str(&text).ok()?)
}

/// The libraries of kernels that substitutions name by source, in `directory`, as JSON for [`command`]: by source. Each is compiled
/// once, not by each process.
pub(super) fn compile_kernels(flags: &Flags, directory: &Path) -> Result<String> {
    let mut libraries = serde_json::Map::new();
    for Substitution { selector, replacement, .. } in flags.list(&replay_flags::SUBSTITUTION) {
        let Code::File(source) = replacement.code else { continue };
        let Some(name) = source.to_str().filter(|it| !libraries.contains_key(*it)) else { continue };
        if KernelLanguage::of(&source).is_none() {
            continue;
        }
        let built = build_kernel(&source, &CompilerOptions::default());
        let KernelLibrary { bytes, messages, .. } =
            built.context(|| format!("the substitute for {selector}"))?;
        if !messages.trim().is_empty() {
            output::note(messages.trim_end());
        }
        let file = directory.join(format!("kernel-{}.so", libraries.len()));
        fs::write(&file, bytes).map_err(|error| Error::io("writing a compiled kernel", &error))?;
        if let Some(file) = file.to_str() {
            libraries.insert(name.to_owned(), file.into());
        }
    }
    Ok(Value::Object(libraries).to_string())
}

/// Uses the libraries that have been compiled.
fn substitute_compiled(substitutions: &mut [Substitution]) -> Result<()> {
    let libraries: Value = match env::var(KERNELS) {
        Ok(text) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => return Ok(()),
    };
    substitute_sources(substitutions, |source| {
        let file = source.to_str().and_then(|source| libraries[source].as_str());
        let read = file.map(fs::read).transpose();
        read.map_err(|error| Error::io("reading a compiled kernel", &error))
    })
}

/// The process for a request, with the libraries of [`compile_kernels`].
pub(super) fn command(
    called: &OsStr,
    arguments: &[OsString],
    request: &Request,
    capture: &Path,
    kernels: &str,
) -> Result<Command> {
    let command = own_process::command(called, arguments);
    let mut command = command.map_err(|error| Error::io("starting a process for a check", &error))?;
    command.env(REQUEST, text(request, capture)?).env(KERNELS, kernels);
    Ok(command)
}

/// Does what is requested; the exit status tells the outcome of a check.
pub(super) fn run(invocation: &Invocation, request: Request, capture: &Path) -> Result<()> {
    // The capture itself may be truncated; candidates are not.
    let recover = capture == invocation.operand() && invocation.flags.get(&replay_flags::RECOVER);
    let capture = crate::captures::open(capture, &crate::captures::options(recover))?;
    let (replay, mut reports) = prepare(invocation, &capture)?;
    let observers: &mut [&mut dyn Observer] = &mut [&mut reports];
    let set = |is_interesting: bool| {
        invocation.set_status(if is_interesting { INTERESTING } else { NOT_INTERESTING });
    };
    match request {
        Request::Replay => {
            replay.run(observers)?;
            set(false);
        }
        Request::Locate(path) => {
            let cannot = |error: std::io::Error| Error::io("creating a file", &error);
            let file = File::create(path).map_err(cannot)?;
            replay.run(&mut [&mut reports, &mut Locator { file }])?;
        }
        Request::Slice(dispatch, path) => {
            let file = File::create(path).map_err(|error| Error::io("creating a file", &error))?;
            let mut options = SliceOptions::default();
            options.unperformed = true;
            let SlicedDispatch { record, occurrence } = dispatch;
            replay.slice(&Cut::Dispatch { record, occurrence }, &options, file, observers)?;
            set(false);
        }
        Request::FindWrong => {
            let found = verification(invocation, &replay, observers)?;
            let wrong = wrong_result(&replay, &found, observers)?;
            let (shown, is_same) = (verify::report(&found), found.outcome() == Outcome::Same);
            let found = json!({ "wrong": wrong.as_ref().map(wrong_json), "report": shown, "same": is_same });
            output::print(&format!("\n{found}\n"))?;
        }
        Request::HasWrong(wrong) => set(has_wrong_result(&replay, &wrong, observers)?),
        Request::Time => {
            rehal_base::keep_freed_memory();
            let (times, of_host) = times(&replay, invocation.flags.get(&FUNCTION), &mut reports)?;
            output::print(&format!("\n{}\n", json!({ "times": times, "of_host": of_host })))?;
        }
    }
    Ok(())
}

fn prepare(invocation: &Invocation, capture: &CaptureFile) -> Result<(Replay, CrashReports)> {
    let mut options = replay_flags::Options::of(invocation)?;
    options.path = invocation.operand();
    substitute_compiled(&mut options.replay.substitutions)?;
    replay_flags::prepare(&options, capture.plan()?)
}

/// Compares a replay as `rehal verify` does: with a ledger, with substitutions in lockstep with the captured executables, or with
/// what the recorder added.
fn verification(
    invocation: &Invocation,
    replay: &Replay,
    observers: &mut [&mut dyn Observer],
) -> Result<Verification> {
    let flags = &invocation.flags;
    let mut options = VerifyOptions::default();
    options.tolerances = flags.list(&verify::TOLERANCE);
    options.element_types = flags.list(&ledger_flags::ELEMENT_TYPE);
    let ledger = match flags.get(&AGAINST) {
        Some(path) => ledger_flags::open(&path, replay.plan())?,
        None if is_compared_with_captured(flags) => {
            let mut captured = replay_flags::Options::of(invocation)?;
            captured.replay.substitutions.clear();
            // Lockstep is of two replays of one plan.
            let (captured, _reports) = replay_flags::prepare(&captured, replay.plan().clone())?;
            return verify::side_by_side(&captured, replay, |sides| verify_lockstep(sides, &options));
        }
        None => Ledger::of_capture(replay.plan())?.ok_or_else(|| {
            Error::invalid_argument("nothing to compare with: the capture has no expected results").advise(
                "name a ledger of the capture with --against=PATH (rehal run --replay_ledger=PATH writes one), or another executable \
                 with --replay_executable_substitution",
            )
        })?,
    };
    verify_against(replay, &ledger, &options, observers).map_err(|error| match error.code() {
        // Its entries are read meanwhile.
        StatusCode::DataLoss => error.advise(ledger_flags::MAKE_LEDGER),
        _ => error,
    })
}

/// Whether results are compared with those of the captured executables.
pub(super) fn is_compared_with_captured(flags: &Flags) -> bool {
    flags.get(&AGAINST).is_none() && !flags.list(&replay_flags::SUBSTITUTION).is_empty()
}

/// Keeps the current dispatch in a file, of which a crash leaves the last.
struct Locator {
    file: File,
}

impl Observer for Locator {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            let mut place = [0; 12];
            place[..4].copy_from_slice(&operation.location.ordinal.to_le_bytes());
            place[4..].copy_from_slice(&operation.occurrence.to_le_bytes());
            let written = self.file.write_all_at(&place, 0);
            written.map_err(|error| Error::io("writing a file", &error))?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The dispatch that a file of [`Request::Locate`] has.
pub(super) fn located(path: &Path) -> Option<SlicedDispatch> {
    let place: [u8; 12] = fs::read(path).ok()?.try_into().ok()?;
    let (record, occurrence) = place.split_at(4);
    Some(SlicedDispatch {
        record: u32::from_le_bytes(record.try_into().ok()?),
        occurrence: u64::from_le_bytes(occurrence.try_into().ok()?),
    })
}

/// Times in nanoseconds: of replays, or of the slowest dispatch of the functions that match, and whether these are the host's since
/// the device reports none.
fn times(replay: &Replay, function: Option<String>, reports: &mut CrashReports) -> Result<(Vec<f64>, bool)> {
    let reports = RefCell::new(reports);
    let is_of_host = Cell::new(false);
    let once = || -> Result<f64> {
        if let Some(function) = &function {
            let kernels = Kernels::timed(replay, &KernelOptions::default())?;
            is_of_host.set(is_of_host.get() || kernels.times == Some(KernelTimes::Host));
            let mean = |it: &rehal_session::Kernel| it.time_ns.unwrap_or(0) as f64 / it.count.max(1) as f64;
            // A candidate may lack them.
            let matching = kernels.kernels.iter().filter(|it| glob::matches(function, &it.name));
            return Ok(matching.map(mean).fold(0.0, f64::max));
        }
        let begun = Instant::now();
        replay.run(&mut [&mut **reports.borrow_mut()])?;
        Ok(begun.elapsed().as_nanos() as f64)
    };
    // Caches are filled, and pages are mapped.
    once()?;
    let begun = Instant::now();
    let mut times = Vec::with_capacity(MAX_SAMPLES);
    while times.len() < SAMPLES || (times.len() < MAX_SAMPLES && begun.elapsed() < SAMPLING) {
        times.push(once()?);
    }
    Ok((times, is_of_host.get()))
}

/// What a process printed in its last line.
pub(super) fn answer(stdout: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(stdout).ok()?;
    serde_json::from_str(text.lines().last()?).ok()
}

fn text(request: &Request, capture: &Path) -> Result<String> {
    let path = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::invalid_argument(format!("the path '{}' is not UTF-8", path.display()))
                .advise("set TMPDIR to a directory whose path is, and rename the capture")
        })
    };
    let request = match request {
        Request::Replay => json!({ "do": "replay" }),
        Request::Locate(to) => json!({ "do": "locate", "to": path(to)? }),
        Request::Slice(SlicedDispatch { record, occurrence }, to) => {
            json!({ "do": "slice", "record": record, "occurrence": occurrence, "to": path(to)? })
        }
        Request::FindWrong => json!({ "do": "find_wrong" }),
        Request::HasWrong(wrong) => json!({ "do": "has_wrong", "wrong": wrong_json(wrong) }),
        Request::Time => json!({ "do": "time" }),
    };
    Ok(json!({ "request": request, "capture": path(capture)? }).to_string())
}

fn parse(text: &Value) -> Option<(Request, PathBuf)> {
    let request = &text["request"];
    let to = || request["to"].as_str().map(PathBuf::from);
    let parsed = match request["do"].as_str()? {
        "replay" => Request::Replay,
        "locate" => Request::Locate(to()?),
        "slice" => {
            let record = u32::try_from(request["record"].as_u64()?).ok()?;
            Request::Slice(SlicedDispatch { record, occurrence: request["occurrence"].as_u64()? }, to()?)
        }
        "find_wrong" => Request::FindWrong,
        "has_wrong" => Request::HasWrong(wrong_of(&request["wrong"])?),
        "time" => Request::Time,
        _ => return None,
    };
    Some((parsed, PathBuf::from(text["capture"].as_str()?)))
}

fn wrong_json(wrong: &WrongResult) -> Value {
    let digest: String = wrong.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let ranges: Vec<_> = wrong.ranges.iter().map(|range| [range.offset, range.length]).collect();
    let dispatch = wrong.dispatch.as_ref().map(|it| {
        json!({
            "function": it.function,
            "binding": it.binding,
            "record": it.place.record,
            "occurrence": it.place.occurrence,
        })
    });
    json!({ "dispatch": dispatch, "ranges": ranges, "read_length": wrong.read_length, "digest": digest })
}

pub(super) fn wrong_of(value: &Value) -> Option<WrongResult> {
    let text = value["digest"].as_str()?;
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let dispatch = &value["dispatch"];
    if dispatch.is_null() {
        return Some(WrongResult::of_read(value["read_length"].as_u64()?, digest));
    }
    let range = |it: &Value| Some(Range { offset: it[0].as_u64()?, length: it[1].as_u64()? });
    let ranges = value["ranges"].as_array()?.iter().map(range).collect::<Option<Vec<_>>>()?;
    let record = u32::try_from(dispatch["record"].as_u64()?).ok()?;
    let place = SlicedDispatch { record, occurrence: dispatch["occurrence"].as_u64()? };
    let binding = u32::try_from(dispatch["binding"].as_u64()?).ok()?;
    Some(WrongResult::of_dispatch(dispatch["function"].as_str()?.into(), binding, place, ranges, digest))
}

/// The times that a process measured, in nanoseconds.
pub(super) fn times_of(stdout: &[u8]) -> Option<Vec<f64>> {
    answer(stdout)?["times"].as_array()?.iter().map(Value::as_f64).collect()
}

/// Whether the times of dispatches are those of the host.
pub(super) fn is_of_host(stdout: &[u8]) -> bool {
    answer(stdout).is_some_and(|answer| answer["of_host"] == true)
}

/// A time in nanoseconds.
pub(super) fn duration(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}
