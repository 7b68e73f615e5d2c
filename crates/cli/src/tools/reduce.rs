//! `rehal reduce`: the smallest capture that still passes a check.

mod checks;
mod command;
mod report;

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rehal::capture::CaptureFile;
use rehal::work::{ReplaySetup, VerifyWork};
use rehal_base::{Error, Result};
use rehal_capture::CaptureBytes;
use rehal_edit::{ReduceOptions, reduce};
use rehal_jobs::TemporaryDirectory;

use self::checks::{Check, Checks};
use self::command::CheckCommand;
use super::compiler_flags::{COMPILING, SubstituteCompiler, WORKGROUPS};
use super::report_format::{self, Format};
use super::{function_flags, ledger_flags, replay_flags, verify};
use crate::devices::Expectations;
use crate::flags::{Flag, Flags, Group, Refusal, read, short_time, time, with_devices};
use crate::output_file::{OUTPUT, OutputFile};
use crate::report::Subject;
use crate::{Invocation, Operands, Tool, advice, captures, devices, interrupts, kernel_recording, output};

/// See the [module](self).
pub const REDUCE: Tool = Tool {
    name: "rehal reduce",
    verb: "reduce",
    summary: "finds the smallest capture that still passes a check",
    about: "Leaves out of a capture whatever a check does not need, by delta debugging: scopes, submissions, commands, calls of \
            the host, objects, and bytes. The check is a command, which passes if it exits with status 0, or one of the ready \
            checks: crash, wrong and slow. The result is minimal: no single part of it can be left out. It is an ordinary \
            capture, also for the reference's tools.\n\n\
            Each candidate is a complete capture: what is named is kept, waits for signals that are left out become waits for what \
            those followed, and a candidate that cannot be planned is not checked. Ctrl-C ends the search; the smallest capture so \
            far is written. Exit status 0 if the result is minimal, 2 if it is not, 1 for an error.",
    operands: Operands::One {
        what: "capture",
        form: "CAPTURE.ireereplay --check=CHECK -o REDUCED.ireereplay",
    },
    groups: with_devices![&REDUCTION, &READY, &OUTPUTS, &COMPILING],
    examples: &[
        (
            "Find the smallest capture that crashes in the same function",
            "{tool} --check=crash model.ireereplay -o crash.ireereplay",
        ),
        (
            "Find the smallest capture with the wrong result that a ledger of a trusted replay shows",
            "{tool} --check=wrong --against=model.ledger model.ireereplay -o wrong.ireereplay",
        ),
        (
            "Find what is needed for an output with the bytes of an f32 NaN (7fc00000 or ffc00000)",
            "{tool} --check='rehal run --replay_host_reads=- {} | grep -q 0000c0[7f]f' model.ireereplay -o nan.ireereplay",
        ),
        (
            "Use a script, which gets the path of a capture, with two checks at a time",
            "{tool} --check=./is_interesting.sh --jobs=2 model.ireereplay -o small.ireereplay",
        ),
    ],
    guide: include_str!("../guides/reduce.md"),
    answer: devices::answer,
    run,
};

const CHECK: Flag<Option<String>> = Flag::text(
    "check",
    "COMMAND",
    "What a capture has to pass: crash, wrong, slow, or a command, in which {} is the path of the capture. It passes if the \
     command exits with status 0. It is split into words as a shell does, and run without a shell unless it has syntax of one \
     outside of single quotes, such as |, &&, >, $ or a leading !. Without {}, the path is the last argument.",
);

const CHECK_TIMEOUT: Flag<Option<Duration>> = Flag::parsed(
    "check_timeout",
    "TIME",
    "",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m",
    |value| optional(value, time),
    "A check that takes longer is ended, with all processes that it started, and does not pass. By default 10 times what the \
     first check takes, and at least 10s; the first may take 5m.",
);

const MAX_CHECKS: Flag<u64> = Flag::number(
    "max_checks",
    0,
    (0, i64::MAX),
    |count| count as u64,
    "Stops after this many checks; 0 for no limit.",
);

const MAX_TIME: Flag<Option<Duration>> = Flag::parsed(
    "max_time",
    "TIME",
    "",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m",
    |value| optional(value, time),
    "Stops after this time.",
);

const JOBS: Flag<usize> = Flag::number(
    "jobs",
    1,
    (1, 256),
    |count| count as usize,
    "Number of checks that run at the same time. The result does not depend on it.",
);

const MAX_BYTE_RANGES: Flag<usize> = Flag::number(
    "max_byte_ranges",
    256,
    (1, 1 << 20),
    |count| count as usize,
    "Data is left out in ranges that become shorter, down to single bytes, as long as no more ranges than these are needed.",
);

const FORMAT: Flag<Format> =
    report_format::flag("text: a table of what was left out. json: an object on a line.");

const REDUCTION: Group = Group {
    title: "Reduction",
    flags: &[&CHECK, &CHECK_TIMEOUT, &JOBS, &MAX_CHECKS, &MAX_TIME, &MAX_BYTE_RANGES],
};

const AGAINST: Flag<Option<PathBuf>> = Flag::path(
    "against",
    "For --check=wrong: the ledger of the capture that the first wrong result differs from. Without it, a replay with the captured \
     executables if there are substitutions, else what the recorder added to the capture.",
)
.files(read);

const SLOWER_THAN: Flag<Option<Duration>> = Flag::parsed(
    "slower_than",
    "TIME",
    "",
    "a time from 1us to 24h, such as 100us, 500ms or 2m",
    |value| optional(value, short_time),
    "For --check=slow: the time that a replay takes at least, or a dispatch with --function. By default half of what it takes in the \
     capture. The time of a replay contains that of the host; times of microseconds are those of dispatches.",
);

const FUNCTION: Flag<Option<String>> = function_flags::pattern_flag(
    "For --check=slow: measures the slowest dispatches of the functions whose name matches, or of the only one whose name has this \
     part, instead of a replay.",
);

const READY: Group = Group {
    title: "Ready checks",
    flags: &[
        &AGAINST,
        &verify::TOLERANCE,
        &ledger_flags::ELEMENT_TYPE,
        &SLOWER_THAN,
        &FUNCTION,
        &function_flags::DISPATCH,
        &replay_flags::ORDER,
        &replay_flags::SUBSTITUTION,
        &WORKGROUPS,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
    ],
};

const OUTPUTS: Group = Group { title: "Files", flags: &[&OUTPUT, &FORMAT, &replay_flags::RECOVER] };

/// Exit status: the result is not minimal.
const NOT_MINIMAL: u8 = 2;

/// Reads a value that may be empty.
fn optional<T>(
    value: &std::ffi::OsStr,
    read: impl Fn(&std::ffi::OsStr) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    if value.is_empty() { Ok(None) } else { read(value).map(Some) }
}

fn run(invocation: &Invocation) -> Result<()> {
    kernel_recording::warn_that_nothing_is_recorded(
        "candidates run in processes of their own, which do not record; record the result with `rehal kernel record`",
    );
    let flags = &invocation.flags;
    let path = invocation.operand();
    let mut check = check(flags)?;
    let output = OutputFile::from_flags(flags, "REDUCED.ireereplay")?;
    // Before anything is created.
    let opened = captures::open(&path, &captures::options(flags.get(&replay_flags::RECOVER)))?;
    if let Check::Slow(_, function) = &mut check
        && (flags.get(&FUNCTION).is_some() || flags.get(&function_flags::DISPATCH).is_some())
    {
        *function = function_flags::pattern(flags, &FUNCTION, &*opened.plan()?)?;
    }
    drop(opened);
    let capture = CaptureBytes::map(&path)?;
    let begun = Instant::now();
    let interrupted = interrupts::flag()?;
    let directory = TemporaryDirectory::in_temp("rehal-reduce-")?;
    let timeout = flags.get(&CHECK_TIMEOUT);
    let verify = match check {
        Check::Command(_) => Ok(VerifyWork::new(ReplaySetup::new(&path))),
        Check::Crash | Check::Wrong | Check::Slow(..) => verify_work(invocation),
    };
    let checks = verify.and_then(|it| {
        Checks::find(invocation.confinement(), it, check, timeout, interrupted, directory.path())
    });
    let (checks, suspect) = directory.explain(checks)?;
    let mut options = ReduceOptions::default();
    options.recover = flags.get(&replay_flags::RECOVER);
    options.jobs = flags.get(&JOBS);
    options.max_checks = Some(flags.get(&MAX_CHECKS)).filter(|limit| *limit != 0);
    options.max_time = flags.get(&MAX_TIME).map(|limit| limit.saturating_sub(begun.elapsed()));
    options.max_byte_ranges = flags.get(&MAX_BYTE_RANGES);
    options.suspect = suspect;
    let result = directory.path().join("result.ireereplay");
    let reduction = reduce(&capture, &options, &checks, directory.path(), &result)
        .map_err(|error| explained(error, &checks));
    let reduction = directory.explain(reduction)?;
    let copy = || File::open(&result).map_err(|error| Error::io("reading the result", &error));
    output.write(|sink| {
        std::io::copy(&mut copy()?, sink).map_err(|error| Error::io("writing the result", &error))?;
        Ok(())
    })?;
    let run = report::Run {
        description: checks.description(),
        elapsed: begun.elapsed(),
        timeout_count: checks.timeout_count.load(Ordering::Relaxed),
    };
    let subject = Subject { capture: Some(&capture), devices: None };
    let report = report::Reduced::new(&reduction, &run);
    let text = invocation.render(&report, flags.get(&FORMAT), subject)?;
    if reduction.stop.is_some() {
        invocation.set_status(NOT_MINIMAL);
    }
    match flags.get(&OUTPUT) {
        // The capture is there.
        Some(path) if path.as_os_str() == "-" => output::note(text.trim_end()),
        _ => output::print(&text)?,
    }
    Ok(())
}

/// The replay of the flags, and when its results are right. Sources of kernels are compiled once, not by each
/// worker.
fn verify_work(invocation: &Invocation) -> Result<VerifyWork> {
    let flags = &invocation.flags;
    let substitutions = flags.list(&replay_flags::SUBSTITUTION);
    let expected = Expectations { guards_buffers: !substitutions.is_empty(), ..Expectations::default() };
    let mut setup = replay_flags::setup(invocation, expected)?;
    setup.options.order = flags.get(&replay_flags::ORDER);
    let plan = || {
        CaptureFile::open(setup.capture(), &captures::options(setup.recover))
            .and_then(|capture| capture.plan())
    };
    // What is wrong with the capture is said when it is replayed.
    if !substitutions.is_empty()
        && let Ok(plan) = plan()
    {
        let devices = setup.devices.to_options()?;
        let compiler = SubstituteCompiler::from_flags(flags);
        let own_names = invocation.own_names(&plan, &devices);
        setup.options.substitutions = compiler.compiled(&substitutions, &plan, &own_names)?;
    }
    let mut work = VerifyWork::new(setup);
    work.ledger = flags.get(&AGAINST).map(Into::into);
    work.options.tolerances = flags.list(&verify::TOLERANCE);
    work.options.element_types = flags.list(&ledger_flags::ELEMENT_TYPE);
    Ok(work)
}

/// Adds what the command printed or what was measured, if the check fails for the capture itself.
fn explained(error: Error, checks: &Checks) -> Error {
    let known = advice::of(&error);
    if known.is_some() {
        return error;
    }
    let is_check = error.message() == "the check fails for the capture itself";
    if let (true, Some((why, advice))) = (is_check, checks.too_fast()) {
        return Error::failed_precondition(format!("{}: {why}", error.message())).advise(advice);
    }
    let is_check = error.message().starts_with("the check fails");
    match (is_check, checks.printed()) {
        (true, Some(printed)) => Error::failed_precondition(format!("{}: {printed}", error.message()))
            .advise("run the command on the capture: it has to exit with status 0"),
        (true, None) => error.advise(
            "it has to be reproducible: replay the capture several times, or use a command: --check='COMMAND {}'",
        ),
        (false, _) => error,
    }
}

fn check(flags: &Flags) -> Result<Check> {
    let Some(text) = flags.get(&CHECK) else {
        return Err(Error::invalid_argument("--check is missing")
            .advise("give crash, wrong, slow, or a command with {} in place of the capture"));
    };
    let check = match &*text {
        "crash" => Check::Crash,
        "wrong" => Check::Wrong,
        "slow" => Check::Slow(flags.get(&SLOWER_THAN), None),
        command => Check::Command(CheckCommand::parse(command)?),
    };
    let only = |is_set: bool, flag: &str, name: &str| match is_set {
        true => Err(Error::invalid_argument(format!("--{flag} is only for --check={name}"))
            .advise(format!("leave out --{flag}, or use --check={name}"))),
        false => Ok(()),
    };
    if !matches!(check, Check::Wrong) {
        only(flags.get(&AGAINST).is_some(), "against", "wrong")?;
        only(!flags.list(&verify::TOLERANCE).is_empty(), "tolerance", "wrong")?;
    }
    if !matches!(check, Check::Slow(..)) {
        only(flags.get(&SLOWER_THAN).is_some(), "slower_than", "slow")?;
        only(flags.get(&FUNCTION).is_some(), "function", "slow")?;
        only(flags.get(&function_flags::DISPATCH).is_some(), "dispatch", "slow")?;
    } else if flags.get(&JOBS) > 1 {
        return Err(Error::invalid_argument("--jobs with --check=slow: checks would slow down each other")
            .advise("leave out --jobs"));
    }
    Ok(check)
}
