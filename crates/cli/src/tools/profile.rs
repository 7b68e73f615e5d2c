//! `iree-profile`: prints reports of device profiles.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result, nearest};
use rehal_devices::ProfileFile;
use rehal_profile::{
    Tear as ProfileTear,
    report::{Format as ReportFormat, Report, ReportOptions},
};

use crate::flags::{Access, Effect, Flag, Group, text};
use crate::output_file::OutputFile;
use crate::table::Layout;
use crate::{Invocation, Operands, Tool, output};

/// See the [module](self).
pub const PROFILE: Tool = Tool {
    name: "iree-profile",
    verb: "profile",
    summary: "prints reports of device profiles",
    about: "Prints reports of a device profile (.ireeprof). Without a command, it prints the records (cat). \
            All reports are byte for byte those of IREE 3.13.0's tool, unless --merge_executables is given.\n\n\
            summary     counts of everything, and the clocks and dispatch times of devices\n\
            statistics  totals per operation and function\n\
            explain     bottlenecks: the longest functions and dispatches, gaps, memory, hints\n\
            executable  executables, their functions, and the times of these\n\
            dispatch    functions with the times of their dispatches\n\
            command     command buffers, their commands and executions\n\
            counter     hardware counters and their samples\n\
            memory      allocations and high-water marks\n\
            queue       submissions to queues\n\
            export      all rows for other programs: --format=ireeperf-jsonl\n\
            cat         every record, without its rows\n\n\
            A profile of a killed program is read up to its last complete record.\n\n\
            Subcommands of rehal, which have flags of their own: rehal profile report writes a page, \
            rehal profile timeline a trace for Perfetto, and rehal profile compare compares two profiles.",
    operands: Operands::WordAndFile {
        what: "profile",
        form: "[COMMAND] FILE.ireeprof",
        default: "cat",
        words,
    },
    groups: &[&REPORT],
    examples: &[
        ("Find bottlenecks", "{tool} explain run.ireeprof"),
        (
            "List the functions by total time",
            "{tool} dispatch --format=jsonl run.ireeprof \\\n  | jq -rs 'map(select(.key)) | sort_by(-.total_ns)[] | [.total_ns, .key] | @tsv'",
        ),
        (
            "Print the dispatches of one function",
            "{tool} dispatch --filter='*matmul*' --format=jsonl --dispatch_events run.ireeprof",
        ),
        (
            "Convert all rows for another program",
            "{tool} export --format=ireeperf-jsonl --output=run.jsonl run.ireeprof",
        ),
    ],
    guide: include_str!("../guides/profile.md"),
    answer: |_, _, _| None,
    run,
};

const FORMAT: Flag<ReportFormat> = Flag::choice(
    "format",
    "text",
    &[
        ("text", ReportFormat::Text),
        ("jsonl", ReportFormat::Jsonl),
        ("ireeperf-jsonl", ReportFormat::IreeperfJsonl),
    ],
    "text: lines for people. jsonl: an object per line. ireeperf-jsonl: an object per line, of a versioned schema; for \
     the command export, which supports no other.",
);

const FILTER: Flag<String> = Flag::parsed(
    "filter",
    "PATTERN",
    "*",
    "UTF-8 text",
    text,
    "Prints only what has a name of this pattern, with * and ?: functions (explain, executable, dispatch, command, \
     queue), commands and functions (command), types of events (memory, queue), or functions, sets, blocks and counters \
     (counter).",
);

const OUTPUT: Flag<PathBuf> = Flag::parsed(
    "output",
    "PATH",
    "-",
    "a path",
    |value: &OsStr| Ok(value.into()),
    "File that the command export writes to; - is standard output.",
)
.files(|path, _| match path.as_os_str() == "-" {
    true => Vec::new(),
    false => vec![Access::Write.to(path)],
});

const ID: Flag<i64> = Flag::integer(
    "id",
    -1,
    "Prints only what has this id, if it is not negative: of a dispatch (explain, dispatch), an executable (executable), a command \
     buffer (command), a submission (queue), an event or allocation (memory), or of a sample, its dispatch, submission or \
     command buffer (counter).",
);

const DISPATCH_EVENTS: Flag<bool> = Flag::switch(
    "dispatch_events",
    false,
    "Prints each dispatch instead of totals (executable, dispatch, command, queue). Requires --format=jsonl.",
);

const COUNTER_SAMPLES: Flag<bool> = Flag::switch(
    "counter_samples",
    false,
    "Prints each sample of each counter besides totals (counter). Requires --format=jsonl.",
);

fn words() -> Vec<&'static str> {
    Report::ALL.iter().map(|report| report.name()).collect()
}

const MERGE_EXECUTABLES: Flag<bool> = Flag::switch(
    "merge_executables",
    false,
    "Totals the functions of executables with the same code as one: a benchmark loads them again in each iteration \
     (explain, dispatch). They have the id of the first.",
);

const ROCM: Flag<Option<PathBuf>> =
    Flag::path("rocm_library_path", "ROCm libraries that decode the hardware traces of AMD devices.").effect(
        Effect::Missing {
            what: "decoding hardware traces of AMD devices",
            instead: "no command of this build uses ROCm",
        },
    );

const REPORT: Group = Group {
    title: "Report",
    flags: &[&FORMAT, &FILTER, &OUTPUT, &ID, &DISPATCH_EVENTS, &COUNTER_SAMPLES, &MERGE_EXECUTABLES, &ROCM],
};

/// The profile, the report, and where it goes.
struct Options {
    path: PathBuf,
    format: ReportFormat,
    report: ReportOptions,
    /// Where an export is written; reports are printed.
    output: Option<OutputFile>,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let report = report(invocation.word())?;
    let output = flags.get(&OUTPUT);
    let is_named = !output.as_os_str().is_empty();
    if !is_named && report == Report::Export {
        return Err(Error::invalid_argument("--output= names no file")
            .advise("name a file, or leave out --output to print to standard output"));
    }
    if is_named && output.as_os_str() != "-" && report != Report::Export {
        return Err(Error::invalid_argument(format!("'{}' does not support --output", report.name()))
            .advise("redirect standard output"));
    }
    let output = match report {
        Report::Export => Some(OutputFile::new(OUTPUT.name(), output)?),
        _ => None,
    };
    let path = invocation.operand();
    let is_command = |text: &str| text == "att" || Report::from_name(text).is_some();
    if path.to_str().is_some_and(is_command) && !path.exists() {
        let command = path.display();
        return Err(Error::not_found(format!("'{command}' is a command, and no file has this name"))
            .advise(format!("name a device profile: {command} FILE.ireeprof")));
    }
    print(&Options {
        path,
        format: flags.get(&FORMAT),
        report: ReportOptions::default()
            .report(report)
            .format(flags.get(&FORMAT))
            .filter(flags.get(&FILTER))
            .id(flags.get(&ID))
            .dispatch_events(flags.get(&DISPATCH_EVENTS))
            .counter_samples(flags.get(&COUNTER_SAMPLES))
            .merge_executables(flags.get(&MERGE_EXECUTABLES)),
        output,
    })
}

fn report(command: &str) -> Result<Report> {
    if command == "att" {
        return Err(Error::unimplemented(
            "'att' decodes the hardware traces of AMD devices, which needs an AMD device and ROCm",
        )
        .advise("use the command on a machine with both; the other commands read any profile"));
    }
    Report::from_name(command).ok_or_else(|| {
        let names: Vec<_> = Report::ALL.iter().map(|report| report.name()).collect();
        let known = format!("the commands are {}", names.join(", "));
        let error = Error::invalid_argument(format!("unknown command '{command}'"));
        let subcommands = || super::ALL.iter().filter_map(|tool| tool.verb.strip_prefix("profile "));
        match nearest(command, names.iter().copied().chain(subcommands())) {
            Some(meant) if subcommands().any(|it| it == meant) => {
                error.advise(format!("did you mean 'rehal profile {meant}'? it precedes all flags; {known}"))
            }
            Some(meant) => error.advise(format!("did you mean '{meant}'? {known}")),
            None => error.advise(known),
        }
    })
}

fn print(options: &Options) -> Result<()> {
    options.report.check()?;
    let profile = ProfileFile::open(&options.path)?;
    warn_of_end(&profile, &options.path);
    match &options.output {
        Some(output) => output.write(|sink| profile.print(&options.report, sink)),
        None => {
            let layout = Layout::for_stdout();
            let is_text = matches!(options.format, ReportFormat::Text);
            if is_text && layout.is_terminal() {
                // Lines of a terminal end at its width, and those of a pipe are for programs.
                let mut text = Vec::new();
                profile.print(&options.report, &mut text)?;
                return output::print(&layout.wrap(&String::from_utf8_lossy(&text)));
            }
            let reader_left = output::ReaderLeft::default();
            let printed = profile.print(&options.report, &mut output::stdout_for(&reader_left)?);
            // A closed pipe is not an error.
            if reader_left.get() { Ok(()) } else { printed }
        }
    }
}

/// Warns of a profile that does not end where its producer closed it.
pub(super) fn warn_of_end(profile: &ProfileFile, path: &Path) {
    if let Some(what) = end_of(profile) {
        output::note(&format!("warning: '{}' {what}", path.display()));
    }
}

/// Says of a profile that it does not end where its producer closed it.
pub(super) fn end_of(profile: &ProfileFile) -> Option<String> {
    match profile.tear() {
        Some(ProfileTear { offset, record_count, lost_bytes: 0 }) => Some(format!(
            "is truncated at offset {offset}: {record_count} complete records are read, and later ones are missing"
        )),
        Some(ProfileTear { offset, record_count, lost_bytes }) => Some(format!(
            "is truncated: {record_count} complete records are read, and {lost_bytes} bytes from offset {offset} are ignored"
        )),
        None if !profile.is_closed() => Some(
            "was not closed: its last session has not ended; its program was killed or still runs".to_owned(),
        ),
        None if profile.trailing_bytes() != 0 => Some(format!(
            "has {} bytes behind its recorded length, which are ignored: a later session in it has not ended",
            profile.trailing_bytes()
        )),
        None => None,
    }
}
