//! `rehal kernel record`: records the kernels of a capture as files that stand by themselves.

use std::path::PathBuf;

use rehal_base::{Error, Result};
use rehal_devices::CrashReports;
use rehal_kernels::{KernelOptions, KernelRecords, Kernels};
use rehal_replay::Replay;
use serde::Serialize;

use super::compiler_flags::{COMPILING, SubstituteCompiler, WORKGROUPS};
use super::report_format::{self, Format};
use super::{function_flags, replay_flags};
use crate::flags::{Access, Flag, Group, with_devices};
use crate::kernel_recording::{MAX_MEMORY, Recording, Report, file_name};
use crate::report::Subject;
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, captures, devices, output};

/// See the [module](self).
pub const KERNEL_RECORD: Tool = Tool {
    name: "rehal kernel record",
    verb: "kernel record",
    summary: "records the kernels of a capture, each with its code and memory",
    about: "Writes for each distinct dispatch of a capture a descriptor in JSON, the executable, and what is bound before and \
            after the dispatch, which rehal kernel replay runs by themselves. Descriptors, files and report have the form of \
            LLVM's offload kernel records.\n\n\
            The capture is replayed twice, one operation at a time: to record, and to measure. A kernel that crashes is recorded \
            too, without what it wrote.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay -o DIR" },
    groups: with_devices![&RECORD, &COMPILING],
    examples: &[
        ("Record all kernels", "{tool} --directory=kernels --report model.ireereplay"),
        (
            "Record some, and run one of them a hundred times",
            "{tool} --directory=kernels --function='*matmul*' model.ireereplay\n\
             rehal kernel replay --repetitions=100 --verify \"$(ls kernels/*.json | head -n 1)\"",
        ),
    ],
    guide: include_str!("../guides/kernel_record.md"),
    answer: devices::answer,
    run,
};

const DIRECTORY: Flag<Option<PathBuf>> =
    Flag::path("directory", "The directory to record into. It is created if it does not exist.").short('o');

const REPORT: Flag<bool> = Flag::switch(
    "report",
    false,
    "Prints the recorded kernels: descriptor, name, mean time of a dispatch in nanoseconds, and number of dispatches.",
);

const REPORT_FILENAME: Flag<Option<String>> = Flag::parsed(
    "report_filename",
    "NAME",
    "",
    "the name of a file, without a directory",
    file_name,
    "Writes the report to a file of this name in the directory.",
)
.files(|name, flags| {
    let directory = flags.get(&DIRECTORY);
    directory
        .zip(name.as_ref())
        .map(|(directory, name)| Access::Write.to(directory.join(name)))
        .into_iter()
        .collect()
});

const FUNCTION: Flag<Option<String>> = function_flags::pattern_flag(
    "Records only functions whose name matches, with * and ?, or the only one whose name has this part.",
);

const RECORD_OUTPUT: Flag<bool> = Flag::switch(
    "record_output",
    true,
    "Records the memory after each dispatch, which rehal kernel replay --verify compares with.",
);

const MEMORY_SIZE: Flag<u64> = Flag::number(
    "memory_size",
    8 << 30,
    MAX_MEMORY,
    |bytes| bytes as u64,
    "Maximum number of bytes that are bound to a kernel; more is an error.",
);

const FORCE: Flag<bool> = Flag::switch(
    "force",
    false,
    "Records into a directory that has records. Those of the same kernels are replaced.",
);

const RECORD: Group = Group {
    title: "Records",
    flags: &[
        &DIRECTORY,
        &REPORT,
        &REPORT_FILENAME,
        &FUNCTION,
        &function_flags::DISPATCH,
        &RECORD_OUTPUT,
        &MEMORY_SIZE,
        &FORCE,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
        &replay_flags::SUBSTITUTION,
        &WORKGROUPS,
        &replay_flags::RECOVER,
        &FORMAT,
    ],
};

const FORMAT: Flag<Format> = report_format::flag(
    "text: the report, if --report asks for it. json: an object with the kernels, and no other report on standard output.",
);

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let Some(directory) = flags.get(&DIRECTORY) else {
        return Err(Error::invalid_argument("--directory is missing")
            .advise("name the directory to record into: -o kernels"));
    };
    let format = flags.get(&FORMAT);
    let report = match format {
        Format::Text => Report::new(flags.get(&REPORT), flags.get(&REPORT_FILENAME)),
        Format::Json => Report::new(false, flags.get(&REPORT_FILENAME).filter(|it| it != "-")),
    };
    let recording = Recording {
        directory,
        report,
        has_output: flags.get(&RECORD_OUTPUT),
        memory_limit_bytes: flags.get(&MEMORY_SIZE),
        force: flags.get(&FORCE),
        place: DIRECTORY.name(),
        force_by: "--force",
        memory_by: "--memory_size",
    };
    let capture =
        captures::open(&invocation.operand(), &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    plan.check_not_empty()?;
    recording.check()?;
    let _reports = CrashReports::install();
    let substitutions = flags.list(&replay_flags::SUBSTITUTION);
    let devices = replay_flags::devices_for(flags, &substitutions)?;
    let compiler = SubstituteCompiler::from_flags(flags);
    let own_names = invocation.own_names(&plan, &devices);
    let substitutions = compiler.resolve(&substitutions, &plan, &own_names)?;
    let replaying = replay_flags::files(flags).substitutions(substitutions);
    let mut kernels = KernelOptions::default();
    kernels.function = function_flags::pattern(flags, &FUNCTION, &plan)?;
    let mut reach = Reach::of_replay(&plan, &devices);
    reach.directories.push(recording.directory());
    invocation.confined(&reach, || {
        let replay = Replay::new(plan.clone(), &devices.open()?, &replaying)?;
        let records = recording.record(&replay, &kernels)?;
        if records.kernels.is_empty() {
            // Fails if none matches, and names those that there are.
            Kernels::from_plan(replay.plan(), &kernels)?;
            let advice = "name a capture with dispatches; `rehal info` counts them";
            return Err(Error::not_found("no kernel to record").advise(advice));
        }
        let Format::Json = format else { return Ok(()) };
        let subject = Subject { capture: Some(capture.bytes()), devices: Some(replay.devices()) };
        output::print(&invocation.line("rehal.kernel.record/1", &RecordReport::new(&records), subject)?)
    })
}

/// The recorded kernels.
#[derive(Serialize)]
struct RecordReport<'r> {
    directory: String,
    kernels: Vec<RecordRow<'r>>,
}

#[derive(Serialize)]
struct RecordRow<'r> {
    descriptor: &'r str,
    function: &'r str,
    /// The mean of a dispatch.
    time_ns: u64,
    dispatch_count: u64,
}

impl<'r> RecordReport<'r> {
    fn new(records: &'r KernelRecords) -> Self {
        let rows = records.kernels.iter().map(|it| RecordRow {
            descriptor: &it.file,
            function: &it.name,
            time_ns: it.time_ns,
            dispatch_count: it.occurrences,
        });
        Self { directory: records.directory.display().to_string(), kernels: rows.collect() }
    }
}
