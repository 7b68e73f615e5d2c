//! `rehal kernel replay`: runs a recorded kernel by itself.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use rehal::program::RecordingOptions;
use rehal_base::{Context, ElementType, Error, Result, StatusCode};
use rehal_devices::{CrashReports, DeviceOptions};
use rehal_hal::Device;
use rehal_judge::stats::{self, Interval};
use rehal_judge::{ElementTypeRule, Monitor, type_in_name};
use rehal_kernels::{KernelFiles, KernelReplay, KernelReplayOptions, SnapshotDifference};
use serde::Serialize;

use super::report_format::{self, Format};
use crate::flags::{Flag, Group, Refusal, optional_number, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, ProgramRecording};
use crate::output::{self, escaped};
use crate::output_file::OutputFile;
use crate::report::Subject;
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, devices};

/// See the [module](self).
pub const KERNEL_REPLAY: Tool = Tool {
    name: "rehal kernel replay",
    verb: "kernel replay",
    summary: "runs a recorded kernel by itself, and compares what it writes",
    about: "Loads the executable of a kernel that rehal kernel record has recorded, fills its memory with the recorded input, \
            launches it, and prints the time of launch and synchronization. Repetitions use the same memory, which is filled \
            again before each of them, outside of the time.\n\n\
            An executable is machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::Several { what: "descriptor", form: "DESCRIPTOR.json..." },
    groups: with_devices![&REPLAY, &KERNEL_RECORDING],
    examples: &[
        ("Run kernels, and compare what they write", "{tool} --verify kernels/*.json"),
        ("Measure it", "{tool} --device=local-sync --repetitions=100 kernel.json"),
        ("Say which numbers differ", "{tool} --verify --element_type=f32 kernel.json"),
    ],
    guide: include_str!("../guides/kernel_replay.md"),
    answer: devices::answer,
    run,
};

const REPETITIONS: Flag<u64> =
    Flag::number("repetitions", 1, (1, i64::MAX), |count| count as u64, "How often the kernel runs.");

const VERIFY: Flag<bool> = Flag::switch(
    "verify",
    false,
    "Compares the memory after each repetition with the recorded output. If it differs, the first difference is printed, \
     nothing more runs, and the exit status is 2.",
);

const ELEMENT_TYPE: Flag<Option<ElementType>> = Flag::parsed(
    "element_type",
    "TYPE",
    "",
    "an element type of 8, 16, 32, 64 or 128 bits, such as f32",
    |value| match value.to_str() {
        Some("") => Ok(None),
        // One type, and not by function: there is one.
        Some(text) if !text.contains(':') => Ok(Some(ElementTypeRule::parse(text)?.element_type)),
        _ => Err(Refusal::Unexpected),
    },
    "The type of the elements in which differences are printed; otherwise the only one in the name of the \
     function, such as f32 in add_4_f32, or bytes.",
);

const SAVE_OUTPUT: Flag<bool> = Flag::switch(
    "save_output",
    false,
    "Writes the memory after the last repetition to a file beside the descriptor, with the extension .replay_output.",
);

const NUM_TEAMS: Flag<Option<Vec<u32>>> = Flag::parsed(
    "num_teams",
    "N",
    "",
    "a number of workgroups of at least 1, or three as in 4,2,1",
    numbers,
    "Number of workgroups in place of the recorded, which is the largest; three numbers if they are in several dimensions. The \
     kernel then computes a part of its results.",
);

const NUM_THREADS: Flag<Option<Vec<u32>>> = Flag::parsed(
    "num_threads",
    "N",
    "",
    "a workgroup size of at least 1, or three numbers as in 64,1,1",
    numbers,
    "Workgroup size in place of the recorded. Executables for CPUs have the size that they were compiled with.",
);

const DEVICE_ID: Flag<Option<usize>> = Flag::parsed(
    "device_id",
    "N",
    "",
    "the index of a device",
    optional_number,
    "Runs on the device of this index, in the order of --device; otherwise on the one of the recorded index, if there are as \
     many.",
);

const REPLAY: Group = Group {
    title: "Replay",
    flags: &[
        &REPETITIONS,
        &VERIFY,
        &ELEMENT_TYPE,
        &SAVE_OUTPUT,
        &NUM_TEAMS,
        &NUM_THREADS,
        &DEVICE_ID,
        &FORMAT,
    ],
};

const FORMAT: Flag<Format> =
    report_format::flag("text: a line for each repetition. json: an object with all kernels, on a line.");

/// How printed lines begin.
const PREFIX: &str = "[rehal kernel replay]";

/// The exit status if the output differs.
const DIFFERENT: u8 = 2;

fn run(invocation: &Invocation) -> Result<()> {
    rehal_base::keep_freed_memory();
    let paths = invocation.files();
    let records = KERNEL_RECORDING.flags.iter().any(|it| invocation.flags.has(it.spec().name));
    if paths.len() > 1 && records {
        return Err(Error::invalid_argument(
            "the dispatches of several descriptors are recorded as one program",
        )
        .advise("record the replay of one descriptor"));
    }
    let flags = &invocation.flags;
    let mut devices = Vec::new();
    let all = paths.iter().map(|path| open(path).map_err(|error| of_several(error, paths, path)));
    for files in &all.collect::<Result<Vec<_>>>()? {
        devices.extend(devices::options_for(flags, &files.descriptor().executable_format).ok());
        if flags.get(&SAVE_OUTPUT) {
            OutputFile::prepare(SAVE_OUTPUT.name(), files.replay_output(), false);
        }
    }
    let mut reach = Reach { devices: devices.iter().collect(), ..Reach::default() };
    reach.directories.extend(ProgramRecording::from_flags(flags, &mut None).map(|it| it.directory()));
    invocation.confined(&reach, || run_all(invocation))
}

fn run_all(invocation: &Invocation) -> Result<()> {
    let paths = invocation.files();
    let is_text = matches!(invocation.flags.get(&FORMAT), Format::Text);
    let mut kernels = Vec::new();
    for path in paths {
        if paths.len() > 1 && is_text {
            output::print(&format!("{PREFIX} {}\n", path.display()))?;
        }
        let outcome = run_one(invocation, path);
        kernels.push(outcome.map_err(|error| of_several(error, paths, path))?);
    }
    match is_text {
        true => Ok(()),
        false => {
            let report = serde_json::json!({ "kernels": kernels });
            output::print(&invocation.line("rehal.kernel.replay/1", &report, Subject::default())?)
        }
    }
}

/// The result of a recorded kernel.
#[derive(Serialize)]
struct Replayed {
    descriptor: String,
    function: String,
    workgroup_count: [u32; 3],
    times_ns: Vec<f64>,
    median_ns: f64,
    /// Null of few repetitions.
    median_interval_ns: Option<Interval>,
    /// Whether it wrote what is recorded; null without --verify.
    is_verified: Option<bool>,
    /// In the last repetition.
    differences: Vec<SnapshotDifference>,
    /// Where the memory after it was written.
    output: Option<String>,
}

/// The error with the descriptor that it is of.
fn of_several(error: Error, paths: &[PathBuf], path: &Path) -> Error {
    match paths.len() {
        1 => error,
        _ => error.context(format!("'{}'", path.display())),
    }
}

fn open(path: &Path) -> Result<KernelFiles> {
    KernelFiles::open(path)
        .advise(|| "name a descriptor that `rehal kernel record` has written, with its other files beside it")
}

/// Runs the kernel of a descriptor.
fn run_one(invocation: &Invocation, path: &Path) -> Result<Replayed> {
    let flags = &invocation.flags;
    let files = open(path)?;
    if flags.get(&VERIFY) {
        files.output().advise(|| "record it with its output, or leave out --verify")?;
    }
    let mut devices = devices::options_for(flags, &files.descriptor().executable_format)?;
    devices.guard_buffers();
    let mut recording = None;
    let kernels = ProgramRecording::from_flags(flags, &mut recording);
    let mut replayed = None;
    ProgramRecording::run(kernels.as_ref(), &devices, || {
        replay(invocation, path, files, &devices, recording).map(|it| replayed = Some(it))
    })?;
    replayed.ok_or_else(|| Error::new(StatusCode::Internal, "a kernel that ran has times"))
}

/// Runs the kernel, recorded as a program is if its dispatches are to be recorded.
fn replay(
    invocation: &Invocation,
    descriptor: &Path,
    files: KernelFiles,
    devices: &DeviceOptions,
    recording: Option<RecordingOptions>,
) -> Result<Replayed> {
    let _reports = CrashReports::install();
    let base = devices.open()?;
    let recorder = recording.as_ref().map(RecordingOptions::create).transpose()?;
    let devices = match &recorder {
        Some(recorder) => recorder.wrap(&base)?,
        None => base,
    };
    let flags = &invocation.flags;
    let recorded = files.descriptor().device_id as usize;
    let index = device(flags.get(&DEVICE_ID), recorded, devices.devices().len())?;
    let outcome = repeat(invocation, descriptor, files, &devices.devices()[index]);
    let closed =
        recorder.map_or(Ok(()), |recorder| recorder.close().context(|| "closing the capture".into()));
    outcome.and_then(|replayed| closed.map(|()| replayed))
}

fn repeat(
    invocation: &Invocation,
    descriptor: &Path,
    files: KernelFiles,
    device: &Device,
) -> Result<Replayed> {
    let flags = &invocation.flags;
    let print = |text: &str| match flags.get(&FORMAT) {
        Format::Text => output::print(text),
        Format::Json => Ok(()),
    };
    let verifies = flags.get(&VERIFY);
    let path = files.replay_output();
    let output = match flags.get(&SAVE_OUTPUT) {
        true => {
            let read = files.paths().into_iter().chain([descriptor.to_owned()]);
            crate::files::check_output(SAVE_OUTPUT.name(), &path, read)?;
            Some(OutputFile::new(SAVE_OUTPUT.name(), path)?)
        }
        false => None,
    };
    let element_type = flags.get(&ELEMENT_TYPE).or_else(|| type_in_name(&files.descriptor().name));
    let mut options = KernelReplayOptions::default();
    options.teams = flags.get(&NUM_TEAMS);
    options.threads = flags.get(&NUM_THREADS);
    let replay = KernelReplay::prepare(files, device, &options);
    let mut replay = replay.advise(|| "record the kernel again, or name another device with --device")?;
    let mut differences = Vec::new();
    let repetitions = flags.get(&REPETITIONS);
    let samples = if repetitions == 1 { " (one sample)" } else { "" };
    let (monitor, mut times) = (Monitor::begin(), Vec::new());
    for repetition in 1..=repetitions {
        replay.restore()?;
        let time = replay.run()?;
        times.push(time.as_nanos() as f64);
        print(&format!("{PREFIX} Replay time ({repetition}): {} ns{samples}\n", time.as_nanos()))?;
        if verifies {
            differences = replay.compare(element_type)?;
            if !differences.is_empty() {
                print(&report(&replay, &differences, repetition))?;
                break;
            }
        }
    }
    if let Some(output) = &output {
        output.write(|sink| replay.write_memory(sink))?;
    }
    let replayed = Replayed {
        descriptor: descriptor.display().to_string(),
        function: replay.files().descriptor().name.clone(),
        workgroup_count: replay.workgroup_count(),
        median_ns: stats::median(&times),
        median_interval_ns: stats::median_interval(&times, 0.05),
        is_verified: verifies.then_some(differences.is_empty()),
        differences,
        output: output.map(|it| it.path().display().to_string()),
        times_ns: times,
    };
    if !replayed.differences.is_empty() {
        invocation.set_status(DIFFERENT);
        return Ok(replayed);
    }
    if repetitions > 1 {
        print(&summary(&replayed.times_ns))?;
        if devices::are_emulated(&invocation.flags) {
            output::note(devices::EMULATED_TIMES);
        }
        monitor.end().warnings.iter().for_each(|it| output::note(&format!("***WARNING*** {it}")));
    }
    print(&match verifies {
        true => format!("{PREFIX} Replay done, device memory verified\n"),
        false => format!("{PREFIX} Replay done, verification skipped\n"),
    })?;
    Ok(replayed)
}

/// The median of several times, in nanoseconds.
fn summary(times: &[f64]) -> String {
    let interval = match stats::median_interval(times, 0.05) {
        Some(Interval { low, high }) => format!(" (95 % interval {low:.0} to {high:.0} ns)"),
        None => String::new(),
    };
    format!("{PREFIX} Median of {} times: {:.0} ns{interval}\n", times.len(), stats::median(times))
}

/// The index of the device.
fn device(given: Option<usize>, recorded: usize, count: usize) -> Result<usize> {
    match given {
        Some(index) if index < count => Ok(index),
        Some(index) => {
            let message = format!("--device_id={index}: the number of devices is {count}");
            Err(Error::new(StatusCode::OutOfRange, message)
                .advise("give --device once for each device; indices start at 0, in their order"))
        }
        None if recorded < count => Ok(recorded),
        None => {
            output::note(&format!(
                "note: the kernel was recorded on device {recorded}, and runs on device 0 (--device_id names another)"
            ));
            Ok(0)
        }
    }
}

/// The report of differences, the first first.
fn report(replay: &KernelReplay, differences: &[SnapshotDifference], repetition: u64) -> String {
    let descriptor = replay.files().descriptor();
    let mut text =
        format!("{PREFIX} Replay done, device memory differs from the record in repetition {repetition}\n");
    let [x, y, z] = replay.workgroup_count();
    let _ = writeln!(text, "kernel: {}, {x}x{y}x{z} workgroups", escaped(&descriptor.name));
    for it in differences {
        let (first, last) = (it.different.offset, it.different.end() - 1);
        let Some(binding) = it.binding else {
            let _ = writeln!(
                text,
                "outside of the bindings: first at byte {} of the allocation, {} bytes differ",
                it.allocation_offset, it.different_bytes
            );
            continue;
        };
        let aliases: Vec<_> = it.aliases.iter().map(u32::to_string).collect();
        let aliases = match aliases[..] {
            [] => String::new(),
            _ => format!(" (also binding {})", aliases.join(", ")),
        };
        let _ = writeln!(
            text,
            "binding {binding}{aliases}: first at byte {first} (byte {} of the allocation), {} of {} bytes differ, the last is {last}",
            it.allocation_offset, it.different_bytes, descriptor.bindings[binding as usize].length,
        );
        let elements = &it.elements;
        let element_type = it.element_type.map_or_else(|| "byte".into(), |it| it.to_string());
        let _ = writeln!(
            text,
            "  {} of {} elements of type {element_type} differ:",
            elements.different_count, elements.compared_count
        );
        for element in &elements.first {
            let error = match (element.ulps, element.absolute) {
                (Some(1), _) => ", 1 ULP".to_string(),
                (Some(ulps), _) => format!(", {ulps} ULPs"),
                (None, Some(absolute)) => format!(", error {absolute}"),
                (None, None) => String::new(),
            };
            let _ = writeln!(
                text,
                "  element {}: expected {}, found {}{error}",
                element.index, element.expected, element.actual
            );
        }
    }
    text
}

/// One number or three, separated by commas.
fn numbers(value: &OsStr) -> Result<Option<Vec<u32>>, Refusal> {
    let Some(text) = value.to_str() else { return Err(Refusal::Unexpected) };
    if text.is_empty() {
        return Ok(None);
    }
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers {
        Ok(numbers) if matches!(numbers.len(), 1 | 3) && !numbers.contains(&0) => Ok(Some(numbers)),
        _ => Err(Refusal::Unexpected),
    }
}
