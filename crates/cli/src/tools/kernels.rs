//! `rehal kernels`: lists the distinct dispatches of a capture.

mod commands;
mod export;
mod print;
mod roof;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use commands::Commands;
use commands::Place;
use export::{Export, Unnamed};
use print::List;
use rehal::capture::CaptureFile;
use rehal_base::{Error, Remedy, Result, plural};
use rehal_devices::{CrashReports, DeviceOptions, ForeignFormat};
use rehal_judge::Pulse;
use rehal_kernels::{KernelOptions, Kernels, MachineRoof, Roofs};
use rehal_local::watch_buffer;
use rehal_replay::{Plan, Replay, SliceCheck, SliceOptions};
use roof::Sort;

use super::history::{self, History};
use super::processes::{self, PROCESSES};
use super::report_format::{self, TableFormat};
use super::{compare, function_flags, replay_flags, slice};
use crate::flags::{EXECUTABLE_PLUGIN, Flag, Flags, Group, Refusal, time, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, Recording};
use crate::report::{self, Subject};
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, captures, devices, interrupts, output, progress};

pub(super) use print::described;

/// See the [module](self).
pub const KERNELS: Tool = Tool {
    name: "rehal kernels",
    verb: "kernels",
    summary: "lists the kernels of a capture, and what they cost",
    about: "Prints each distinct dispatch of a capture: the function, its executable, workgroups, constants, the lengths of its \
            bindings and which of them overlap, how often it runs, its share of the time, the bytes that it reads and writes, \
            and bytes per second. Dispatches with other workgroups, constants or lengths are listed apart, as observed. The \
            longest come first.\n\n\
            The capture is replayed one operation at a time: repeatedly to measure times, until the order of the first ten \
            kernels is stable, and once to see which bindings change. Times are lower quartiles, with 95 % intervals. \
            --no_run prints only what the capture says. The slices of --export are cut in the last of these replays.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: with_devices![&REPORT, &history::REPORTS, &KERNEL_RECORDING],
    examples: &[
        ("List the kernels", "{tool} model.ireereplay"),
        ("List those of some functions", "{tool} --function='*matmul*' model.ireereplay"),
        (
            "Cut out the kernel that takes the most time",
            "record=$({tool} --format=json model.ireereplay | jq .kernels[0].record)\n\
             rehal slice --dispatch=$record model.ireereplay -o kernel.ireereplay",
        ),
        ("See which kernels use two threads", "{tool} --device=local-task --threads=1,2 model.ireereplay"),
        ("Cut out all kernels", "{tool} --export=kernels model.ireereplay"),
    ],
    guide: include_str!("../guides/kernels.md"),
    answer: devices::answer,
    run,
};

const FORMAT: Flag<TableFormat> = report_format::table_flag(
    "text: a table for people. json: an object. csv: a line per kernel. Times of json and csv are in nanoseconds.",
);

const FUNCTION: Flag<Option<String>> = function_flags::pattern_flag(
    "Lists only functions whose name matches, with * and ?, or the only one whose name has this part.",
);

const NO_RUN: Flag<bool> = Flag::switch(
    "no_run",
    false,
    "Does not replay the capture: times, the directions of bindings and indirect workgroup counts are left out.",
);

const MAX_TIME: Flag<Duration> = Flag::parsed(
    "max_time",
    "TIME",
    "5s",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m",
    time,
    "No timed replay begins after this time, also if the order of the kernels is not stable. With --repetitions, there is no \
     limit by default.",
)
.unquoted();

const REPETITIONS: Flag<Option<u64>> = Flag::parsed(
    "repetitions",
    "N",
    "",
    "a number of replays of at least 1",
    |value| match value.to_str() {
        Some("") => Ok(None),
        Some(text) => text.parse().ok().filter(|it| *it > 0).map(Some).ok_or(Refusal::Unexpected),
        None => Err(Refusal::Unexpected),
    },
    "Times so many replays, instead of until the order of the first ten kernels is stable.",
);

const SORT: Flag<Sort> = Flag::choice(
    "sort",
    "above_roof",
    &[("above_roof", Sort::AboveRoof), ("time", Sort::Time)],
    "above_roof: by the time above the roof, if rehal machine has measured the device, else by time. time: by time.",
);

const THREADS: Flag<Vec<u32>> = Flag::parsed(
    "threads",
    "N,N",
    "",
    "numbers of workers from 1 to 256, as in 1,2,4",
    |value| {
        let number = |it: &str| it.trim().parse().ok().filter(|it| (1..=256).contains(it));
        let numbers: Option<Vec<u32>> = match value.to_str() {
            Some("") => Some(Vec::new()),
            text => text.and_then(|text| text.split(',').map(number).collect()),
        };
        numbers.ok_or(Refusal::Unexpected)
    },
    "Also measures the kernels on local-task with each of these numbers of workers: how much faster they are, the CPU time of all \
     threads, and how evenly it is shared.",
);

const FAIL_IF_SLOWER: Flag<f64> = compare::margin_flag(
    "With --against, a kernel is slower if the interval of the ratio is above 1 plus this percentage.",
);

const EXPORT: Flag<Option<PathBuf>> = Flag::path(
    "export",
    "Also writes a slice of each kernel that is listed to this directory, which must not exist, and index.json with \
     their names, shapes, times, the digests of what they write, and the command line that measures each.",
);

const EXPORT_COMMANDS: Flag<bool> = Flag::switch(
    "export_commands",
    true,
    "With --export, also writes the command line of iree-benchmark-executable that measures each kernel by itself, and the \
     executables and bytes that it reads, which the slices contain as well.",
);

const REPORT: Group = Group {
    title: "Report",
    flags: &[
        &FORMAT,
        &FUNCTION,
        &function_flags::DISPATCH,
        &NO_RUN,
        &MAX_TIME,
        &REPETITIONS,
        &SORT,
        &THREADS,
        &PROCESSES,
        &FAIL_IF_SLOWER,
        &EXPORT,
        &EXPORT_COMMANDS,
        &slice::KEEP,
        &slice::KEEP_REFERENCES,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
        &replay_flags::RECOVER,
    ],
};

/// The flags of [`REPORT`] that are about times.
const OF_TIMES: [&str; 6] = ["max_time", "repetitions", "processes", "sort", "threads", "fail_if_slower"];

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    rehal_base::keep_freed_memory();
    let export = flags.get(&EXPORT);
    check(flags, flags.get(&NO_RUN).then_some("--no_run leaves out"))?;
    let threads = flags.get(&THREADS);
    let keep_references = flags.get(&slice::KEEP_REFERENCES);
    let keeps_touched = flags.get(&slice::KEEP);
    // The first process writes it.
    let export = export.filter(|_| invocation.worker.is_none());
    let mut slicing = SliceOptions::default();
    slicing.watch = keeps_touched.then(|| Arc::new(watch_buffer) as _);
    slicing.keep_references = keep_references;
    slicing.check = SliceCheck::Always;
    let history = History::open(invocation)?;
    let capture =
        captures::open(&invocation.operand(), &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    let foreign = without_device(flags, &plan)?;
    let no_run = flags.get(&NO_RUN) || foreign.is_some();
    let mut options = KernelOptions::default();
    options.function = function_flags::pattern(flags, &FUNCTION, &plan)?;
    options.repetitions = flags.get(&REPETITIONS);
    let has_limit = options.repetitions.is_none() || flags.has(MAX_TIME.name());
    options.max_time = if has_limit { flags.get(&MAX_TIME) } else { Duration::MAX };
    let recording = Recording::for_run(flags, !no_run)?;
    let devices = devices::options(flags)?;
    let scaled = with_workers(&devices, &threads)?;
    let others = processes::measure(invocation)?;
    let mut reach = Reach::of_replay(&plan, &devices);
    reach.directories.extend(recording.as_ref().map(Recording::directory));
    let unnamed = export.as_deref().map(Unnamed::create).transpose()?;
    reach.records.extend(unnamed.as_ref().map(|directory| directory.path().to_owned()));
    reach.reads.extend(MachineRoof::directory());
    let report = || {
        let mut replayed: Option<Replay> = None;
        let (mut kernels, commands) = if no_run {
            (Kernels::from_plan(&plan, &options)?, Commands::new())
        } else {
            let _reports = CrashReports::install();
            let files = replay_flags::files(flags);
            let replay = Replay::new(plan.clone(), &devices.open()?, &files)?;
            // An export is complete or absent: a signal ends it.
            let interrupted = if unnamed.is_none() { interrupts::flag()? } else { Arc::default() };
            options.pulse = progress::pulse("timing", interrupted);
            let found = match &unnamed {
                Some(directory) => {
                    let place = flags.get(&EXPORT_COMMANDS).then(|| Place {
                        devices: devices.devices.iter().map(|device| device.uri().to_string()).collect(),
                        plugins: flags.list(&EXECUTABLE_PLUGIN),
                    });
                    let (options, slicing) = (&options, &slicing);
                    let subject = Subject { capture: Some(capture.bytes()), devices: Some(replay.devices()) };
                    let header = invocation.origin.header("rehal.kernels.index/1", subject);
                    let exported = Export { replay: &replay, options, slicing, place, header };
                    export::export(&exported, directory)?
                }
                None => {
                    let mut kernels = Kernels::from_replay(&replay, &options)?;
                    let replay =
                        |devices: &DeviceOptions| Replay::new(plan.clone(), &devices.open()?, &files);
                    add_scaling(&mut kernels, &scaled, replay, &options)?;
                    (kernels, Commands::new())
                }
            };
            replayed = Some(replay);
            // The report is printed in its place.
            options.pulse = Pulse::default();
            found
        };
        let mut measured = kernels.measured();
        if !kernels.is_interrupted {
            processes::add(invocation, &others, &mut measured)?;
            kernels.set_times(&measured);
        }
        let roofs = replayed.as_ref().map(|it| Roofs::kept(it.devices())).unwrap_or_default();
        let list = List::new(&kernels, &roofs, flags.get(&SORT), &commands, export.as_deref());
        let subject =
            Subject { capture: Some(capture.bytes()), devices: replayed.as_ref().map(Replay::devices) };
        match flags.get(&FORMAT) {
            TableFormat::Report(format) => invocation.print(&list, format, subject)?,
            TableFormat::Csv => output::print(&print::csv(&list))?,
        }
        note_doubts(flags, &kernels, &options, has_limit);
        if !kernels.is_interrupted {
            history.keep(invocation, &list, measured, flags.get(&FAIL_IF_SLOWER), subject)?;
        }
        match replayed {
            Some(replay) => Recording::of_capture(recording.as_ref(), options.function, || Ok(replay)),
            None => Ok(()),
        }
    };
    match no_run {
        true => report()?,
        false => invocation.confined(&reach, report)?,
    }
    unnamed.map_or(Ok(()), Unnamed::complete)
}

/// Whether no device of this machine runs the kernels: then there are no times. Fails if flags need them.
fn without_device(flags: &Flags, plan: &Plan) -> Result<Option<ForeignFormat>> {
    let Some(foreign) = devices::foreign(flags, plan) else { return Ok(None) };
    let remedy = || Remedy::UseDeviceForFormat { format: foreign.name.clone() };
    check(flags, Some("no device of this machine can tell"))
        .map_err(|error| error.replace_advice(remedy()))?;
    output::note(&format!("note: times and the bytes that kernels read {}", devices::needed_for(&foreign)));
    Ok(Some(foreign))
}

/// Refuses flags that exclude each other, or would have no effect. `untimed` says why there are no times.
fn check(flags: &Flags, untimed: Option<&str>) -> Result<()> {
    let exports = flags.get(&EXPORT).is_some();
    if let Some(why) = untimed {
        let needs_a_replay = exports.then_some("--export needs a replay".to_owned());
        let needs_times =
            || history::is_asked(flags).then_some("--history and --against need times".to_owned());
        let name = || flags.changed(|name| OF_TIMES.contains(&name));
        let needs = needs_a_replay.or_else(needs_times);
        if let Some(needs) = needs.or_else(|| Some(format!("--{} needs times", name()?))) {
            return Err(Error::invalid_argument(format!("{needs}, which {why}")).advise("give one of them"));
        }
    }
    if flags.changed(|name| name == FAIL_IF_SLOWER.name()).is_some() && flags.get(&history::AGAINST).is_none()
    {
        return Err(Error::invalid_argument("--fail_if_slower needs --against")
            .advise("name the file to compare with, or leave it out"));
    }
    if exports && !flags.get(&THREADS).is_empty() {
        return Err(
            Error::invalid_argument("--threads and --export exclude each other").advise("give one of them")
        );
    }
    let (references, touched) = (flags.get(&slice::KEEP_REFERENCES), flags.get(&slice::KEEP));
    for (is_set, name) in [(references, "keep_references"), (!touched, "keep=bound")] {
        if !exports && is_set {
            return Err(Error::invalid_argument(format!("--{name} needs --export"))
                .advise("name the directory of the slices with --export, or leave it out"));
        }
    }
    processes::check(flags)
}

/// Devices with each of these numbers of workers.
fn with_workers(devices: &DeviceOptions, threads: &[u32]) -> Result<Vec<(u32, DeviceOptions)>> {
    threads.iter().map(|count| Ok((*count, devices.with_workers(*count as usize)?))).collect()
}

/// Measures kernels on devices with other numbers of workers, unless the measurement is interrupted.
fn add_scaling(
    kernels: &mut Kernels,
    scaled: &[(u32, DeviceOptions)],
    replay: impl Fn(&DeviceOptions) -> Result<Replay>,
    options: &KernelOptions,
) -> Result<()> {
    for (count, devices) in scaled {
        if !kernels.is_interrupted {
            kernels.add_scaling(&replay(devices)?, *count, options)?;
        }
    }
    Ok(())
}

/// Says how far the times can be trusted. `has_limit` says whether [`KernelOptions::max_time`] is one.
fn note_doubts(flags: &Flags, kernels: &Kernels, options: &KernelOptions, has_limit: bool) {
    if kernels.sample_count > 0 && devices::are_emulated(flags) {
        output::note(devices::EMULATED_TIMES);
    }
    let (count, wanted) = (kernels.sample_count, options.repetitions);
    let replays = plural(count, "replay");
    let limit = match wanted {
        _ if kernels.is_interrupted => "an interrupt",
        Some(wanted) if count >= wanted => "--repetitions",
        _ => "--max_time",
    };
    if kernels.is_interrupted {
        output::note(&format!("note: interrupted after {replays}: what kernels access is unknown"));
    }
    if let Some(wanted) = wanted.filter(|_| has_limit && count > 0) {
        output::note(&format!("note: {count} of {} were timed", plural(wanted, "replay")));
    }
    match kernels.is_order_stable {
        Some(false) => output::note(&format!(
            "note: the order of the first kernels is not stable after {replays}: their intervals say how far the times can be \
             trusted; {limit} was the limit"
        )),
        None if count > 0 && kernels.kernels.len() > 1 => output::note(&format!(
            "note: {replays}: too few replays to tell whether the order of the first kernels is stable; {limit} was the limit"
        )),
        _ => {}
    }
    for warning in &kernels.warnings {
        output::note(&format!("***WARNING*** {warning}"));
    }
}

/// The kernels of a capture that is not replayed in each format, for the fuzzer.
pub(super) fn reports(capture: &CaptureFile) -> Result<[String; 3]> {
    let kernels = Kernels::from_plan(&*capture.plan()?, &KernelOptions::default())?;
    let commands = Commands::new();
    let roofs = Roofs::default();
    let list = List::new(&kernels, &roofs, Sort::Time, &commands, None);
    let [text, json] = report::formats(&list)?;
    Ok([text, json, print::csv(&list)])
}
