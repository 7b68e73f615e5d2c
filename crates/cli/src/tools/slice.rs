//! `rehal slice`: cuts a dispatch or a scope out of a capture.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use rehal_base::{Advice, Context, Error, Remedy, Result};
use rehal_devices::{CrashReports, ForeignFormat, idle_devices, written_bindings};
use rehal_jobs::TemporaryFile;
use rehal_kernels::FunctionNames;
use rehal_local::watch_buffer;
use rehal_replay::{Cut, Observer, Plan, Replay, Slice, SliceCheck, SliceOptions, SlicedRead};
use serde::Serialize;

use super::report_format::{self, Format};
use super::verify::Steps;
use super::{function_flags, replay_flags};
use crate::flags::{Flag, Flags, Group, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, Recording};
use crate::output_file::{OUTPUT, OutputFile};
use crate::report::Subject;
use crate::sandbox::Reach;
use crate::table::quoted;
use crate::{Invocation, Operands, Tool, captures, devices, interrupts, output};

/// See the [module](self).
pub const SLICE: Tool = Tool {
    name: "rehal slice",
    verb: "slice",
    summary: "cuts a dispatch or a scope out of a capture",
    about: "Writes a capture of one dispatch, or of the work in one scope: the executables, and the buffers with the bytes \
            that the work reads, as they are just before it; and a host read of each range that it writes. The slice is an \
            ordinary capture: it can be replayed, dumped and benchmarked, also by the reference's tools.\n\n\
            The capture is replayed up to the work, which is also issued by itself: unless it writes the same bytes, no file \
            is written (--check). What kernels overwrite without reading it is left out of the slice; whether they read it is \
            tested by dispatching them with other bytes there (--keep_outputs leaves out the test).\n\n\
            If no device of this machine runs the executables, or with --no_run, nothing of the capture runs: a dispatch is cut out \
            whose bindings have what the host, files, fills and copies wrote. Otherwise the error names the record of the dispatch \
            whose result is needed.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay -o SLICE.ireereplay" },
    groups: with_devices![&CUT, &OUTPUTS, &KERNEL_RECORDING],
    examples: &[
        ("Cut out the dispatch of a record", "{tool} --dispatch=57 model.ireereplay -o kernel.ireereplay"),
        (
            "Cut out the third dispatch of a function, and replay it",
            "{tool} --function='matmul*' --occurrence=2 model.ireereplay -o kernel.ireereplay\n\
             iree-run-replay --replay_host_reads=- kernel.ireereplay",
        ),
        (
            "Cut out the first call of a program, and measure it",
            "{tool} --scope=execute model.ireereplay -o call.ireereplay\nrehal benchmark --replay_scope=execute call.ireereplay",
        ),
    ],
    guide: include_str!("../guides/slice.md"),
    answer: devices::answer,
    run,
};

const DISPATCH: Flag<Option<u32>> =
    function_flags::dispatch_flag("Cuts out the dispatch of this record, as dumps and profiles print it.");

const FUNCTION: Flag<Option<String>> = function_flags::pattern_flag(
    "Cuts out a dispatch of a function whose name matches, with * and ?, or of the only one whose name has this part. By \
     default, if nothing else says what to cut out, of the only function that is dispatched.",
);

const SCOPE: Flag<Option<String>> =
    Flag::text("scope", "NAME", "Cuts out the work in the scope of this name.");

const OCCURRENCE: Flag<u64> = Flag::number(
    "occurrence",
    0,
    (0, i64::MAX),
    |number| number as u64,
    "Which performance of the dispatch, which dispatch of a function that matches, or which entry of the scope, \
     counted from 0 in the order of a replay.",
);

const CUT: Group = Group { title: "Work", flags: &[&DISPATCH, &FUNCTION, &SCOPE, &OCCURRENCE] };

const KEEP_OUTPUTS: Flag<bool> = Flag::switch(
    "keep_outputs",
    false,
    "Keeps what is in the bindings that kernels write before they do, without a test whether they read it.",
);

/// Also of `rehal kernels --export`.
pub(super) const KEEP_REFERENCES: Flag<bool> = Flag::switch(
    "keep_references",
    false,
    "Leaves parameters outside: what the capture reads from files that are stored by reference is read from the same ranges \
     of these files, unless it has changed since. Otherwise the slice contains the bytes.",
);

/// Also of `rehal kernels --export`.
pub(super) const KEEP: Flag<bool> = Flag::choice(
    "keep",
    "touched",
    &[("touched", true), ("bound", false)],
    "Which bytes of the bindings that kernels read are in a slice. touched: the pages (4 KiB) that the work accesses when it is issued \
     by itself, on CPU devices; the others are zeros in a replay. bound: all, for replacements that read more than the captured \
     kernel does.",
);

const CHECK: Flag<SliceCheck> = Flag::choice(
    "check",
    "always",
    &[("always", SliceCheck::Always), ("auto", SliceCheck::WhenCheap), ("never", SliceCheck::Never)],
    "Whether the work is also issued by itself, which must write the same bytes. always; auto: unless it is a dispatch that took \
     more than 50 ms, and more than a quarter of the replay up to its end; never. Without it, all that is bound to kernels stays in the \
     slice, except zeros that they overwrite.",
);

const NO_RUN: Flag<bool> = Flag::switch(
    "no_run",
    false,
    "Runs no kernel: cuts out a dispatch whose inputs no kernel computes. All that is bound to it stays in the slice.",
);

const OUTPUTS: Group = Group {
    title: "Slice",
    flags: &[
        &OUTPUT,
        &NO_RUN,
        &KEEP,
        &KEEP_OUTPUTS,
        &KEEP_REFERENCES,
        &CHECK,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
        &replay_flags::RECOVER,
        &FORMAT,
    ],
};

const FORMAT: Flag<Format> = report_format::flag("text: nothing but notes. json: an object about the slice.");

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.operand();
    check(flags)?;
    report_format::beside_files(flags, &FORMAT)?;
    let output = OutputFile::from_flags(flags, "SLICE.ireereplay")?;
    let capture = captures::open(&path, &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    let cut = cut(flags, &plan)?;
    let foreign = devices::foreign(flags, &plan);
    let idle = flags.get(&NO_RUN) || foreign.is_some();
    let of_run = [CHECK.name(), KEEP.name(), KEEP_OUTPUTS.name()];
    if let Some(flag) = flags.changed(|name| idle && of_run.contains(&name)) {
        let message = format!("--{flag} is about work that is performed, and no kernel runs");
        return Err(Error::invalid_argument(message).advise("leave it out"));
    }
    let kernels = Recording::for_run(flags, !idle)?;
    let devices = devices::options(flags)?;
    // A capture is written with seeks, which a pipe does not have.
    let file = TemporaryFile::create()?;
    if idle {
        let replay = Replay::new(
            plan.clone(),
            &idle_devices(&devices::registry(flags), &plan)?,
            &replay_flags::files(flags),
        )?;
        let mut slice = SliceOptions::default();
        slice.idle = Some(Arc::new(written_bindings));
        slice.keep_references = flags.get(&KEEP_REFERENCES);
        slice.check = SliceCheck::Never;
        let written = write(&replay, &cut, &slice, (&file, &output), &mut []);
        let written = written.advise(|| match foreign {
            Some(ForeignFormat { name: format, .. }) => Advice::Remedy(Remedy::UseDeviceForFormat { format }),
            None => Advice::Text("leave out --no_run".into()),
        })?;
        return report(invocation, capture.bytes(), &replay, (&written, &output));
    }
    let mut reach = Reach::of_replay(&plan, &devices);
    reach.directories.extend(kernels.as_ref().map(Recording::directory));
    invocation.confined(&reach, || {
        let mut reports = CrashReports::install();
        let replay = Replay::new(plan.clone(), &devices.open()?, &replay_flags::files(flags))?;
        let mut slice = SliceOptions::default();
        slice.watch = flags.get(&KEEP).then(|| Arc::new(watch_buffer) as _);
        slice.keep_outputs = flags.get(&KEEP_OUTPUTS);
        slice.keep_references = flags.get(&KEEP_REFERENCES);
        slice.check = flags.get(&CHECK);
        let mut steps = Steps::showing("slicing", replay.plan()).until(interrupts::flag()?);
        let written = write(&replay, &cut, &slice, (&file, &output), &mut [&mut reports, &mut steps])?;
        drop(steps);
        report(invocation, capture.bytes(), &replay, (&written, &output))?;
        Recording::of_capture(kernels.as_ref(), None, || Ok(replay))
    })
}

/// Prints an object about a slice, if that is asked for.
fn report(
    invocation: &Invocation,
    capture: &rehal_capture::CaptureBytes,
    replay: &Replay,
    (slice, output): (&Slice, &OutputFile),
) -> Result<()> {
    if let Format::Text = invocation.flags.get(&FORMAT) {
        return Ok(());
    }
    let subject = Subject { capture: Some(capture), devices: Some(replay.devices()) };
    output::print(&invocation.line("rehal.slice/1", &SliceReport::new(slice, output), subject)?)
}

/// Writes a slice, once it is complete.
fn write(
    replay: &Replay,
    cut: &Cut,
    options: &SliceOptions,
    (file, output): (&TemporaryFile, &OutputFile),
    observers: &mut [&mut dyn Observer],
) -> Result<Slice> {
    let slice = file.explain(replay.slice(cut, options, file.try_clone()?, observers))?;
    if options.check == SliceCheck::WhenCheap && !slice.is_checked {
        output::note(&unchecked(&slice, options.watch.is_some()));
    }
    if options.idle.is_some() {
        output::note(&format!(
            "note: no kernel ran: the slice has the {} bytes that are bound to the dispatch, whether it reads them or not",
            slice.content_bytes
        ));
    }
    let mut file = file.file();
    file.seek(SeekFrom::Start(0)).map_err(|error| Error::io("reading a temporary file", &error))?;
    output.write(|sink| {
        std::io::copy(&mut file, sink).map_err(|error| Error::io("writing the slice", &error))?;
        Ok(())
    })?;
    output::note(&format!(
        "note: rehal benchmark --replay_scope={} times the work of the slice",
        quoted(&slice.name)
    ));
    Ok(slice)
}

/// The report of a slice that was written.
#[derive(Serialize)]
struct SliceReport<'s> {
    path: String,
    /// The function, or the scope.
    name: &'s str,
    record: u32,
    occurrence: u64,
    content_bytes: u64,
    is_checked: bool,
    host_reads: Vec<SliceRead>,
}

/// The bytes that the work wrote.
#[derive(Serialize)]
struct SliceRead {
    buffer_id: u64,
    offset: u64,
    length: usize,
    /// Unknown if nothing ran.
    blake3: Option<String>,
}

impl<'s> SliceReport<'s> {
    fn new(slice: &'s Slice, output: &OutputFile) -> Self {
        let read = |it: &SlicedRead| SliceRead {
            buffer_id: it.buffer_id,
            offset: it.offset,
            length: it.bytes.len(),
            blake3: slice.is_performed.then(|| it.blake3()),
        };
        Self {
            path: output.path().display().to_string(),
            name: &slice.name,
            record: slice.location.ordinal,
            occurrence: slice.occurrence,
            content_bytes: slice.content_bytes,
            is_checked: slice.is_checked,
            host_reads: slice.reads.iter().map(read).collect(),
        }
    }
}

/// Says that a slice is not checked, which bytes are in it that the dispatch may not read, and what leaves
/// them out.
fn unchecked(slice: &Slice, keeps_touched: bool) -> String {
    let bytes = slice.content_bytes;
    let written: usize = slice.reads.iter().map(|read| read.bytes.len()).sum();
    let pages = if keeps_touched { ", and pages that it does not access" } else { "" };
    format!(
        "note: the slice is not checked, and has {bytes} bytes, all that is bound to the dispatch, whether it reads them or not. Those include \
         what was in the {written} bytes that it writes, except zeros{pages}. The dispatch took more than 50 ms and more than a quarter \
         of the replay, and is not repeated. --check=always performs it by itself, checks it, and leaves these bytes out"
    )
}

/// Refuses more than one cut.
fn check(flags: &Flags) -> Result<()> {
    let given = [flags.get(&DISPATCH).is_some(), flags.get(&FUNCTION).is_some(), flags.get(&SCOPE).is_some()];
    match given.iter().filter(|it| **it).count() {
        0 | 1 => Ok(()),
        _ => Err(Error::invalid_argument("more than one of --dispatch, --function and --scope is given")
            .advise("give one of them")),
    }
}

fn cut(flags: &Flags, plan: &Plan) -> Result<Cut> {
    let occurrence = flags.get(&OCCURRENCE);
    if let Some(record) = flags.get(&DISPATCH) {
        return Ok(Cut::Dispatch { record, occurrence });
    }
    if let Some(name) = flags.get(&SCOPE) {
        return Ok(Cut::Scope { name: name.into_bytes(), occurrence });
    }
    let names = FunctionNames::from_plan(plan)?;
    let pattern = match flags.get(&FUNCTION) {
        Some(wanted) => names.pattern(&wanted)?,
        None => names.one(None).advise(
            || "name the work with --dispatch, --function or --scope; `rehal kernels` lists the dispatches",
        )?,
    };
    Ok(Cut::Function { pattern, occurrence })
}
