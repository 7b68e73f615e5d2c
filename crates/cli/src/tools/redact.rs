//! `rehal redact`: a capture without the data of the program.

mod report;

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_base::platform::reopen_path;
use rehal_base::{Context, Error, MappedFile, Result, plural};
use rehal_devices::CrashReports;
use rehal_edit::{
    ChangedCount, RedactDecision, RedactOptions, RedactRule, RedactedNames, Redaction, WorkgroupCounts,
    check_redacted, redact, workgroup_count_functions,
};
use rehal_jobs::TemporaryFile;
use rehal_judge::ElementTypeRule;
use rehal_replay::{Plan, Replay, ReplayOptions};

use self::report::Counts;
use super::replay_flags;
use super::report_format::{self, Format};
use crate::flags::{Flag, Flags, Group, List, Refusal, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, Recording};
use crate::output::escaped;
use crate::output_file::{OUTPUT, OutputFile};
use crate::report::Subject;
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, advice, captures, devices, output};

/// See the [module](self).
pub const REDACT: Tool = Tool {
    name: "rehal redact",
    verb: "redact",
    summary: "writes a capture without weights and inputs, to hand to others",
    about: "Writes a capture with the same operations, shapes, arguments and code, in which all data of the program is replaced: \
            the elements of weights and inputs become random ones of the same type between the same minimum and maximum; zeros, \
            infinities and NaN stay where they are. The type is the one in the names of all functions that use the data, \
            or that --element_type states. Data of unknown type is listed, and nothing is written until --element_type, --zero or \
            --keep decides about it. The bytes of external files that are read become part of the capture, replaced as well. \
            Digests and identities of files, digests of host reads, arguments of calls that failed, and optional records of unknown \
            types are left out.\n\n\
            The result is replayed before it is written (unless no device of this machine runs it, or --no_run), and so is the original if kernels may compute workgroup \
            counts from its data: if the counts of a dispatch differ, nothing is written. A report says what was replaced, what was kept, \
            and what that may still reveal: code, names of functions, and constants of dispatches are always kept.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay -o REDACTED.ireereplay" },
    groups: with_devices![&REDACTION, &INPUTS, &KERNEL_RECORDING],
    examples: &[
        ("Replace the data of a capture", "{tool} model.ireereplay -o redacted.ireereplay"),
        (
            "Replace names too, with a secret seed",
            "{tool} --names=hash --seed=48151623 model.ireereplay -o redacted.ireereplay",
        ),
        (
            "State the types of data that names of functions do not tell",
            "{tool} --element_type='*lookup*:i64' --zero=all model.ireereplay -o redacted.ireereplay",
        ),
    ],
    guide: include_str!("../guides/redact.md"),
    answer: devices::answer,
    run,
};

const SEED: Flag<u64> = Flag::number(
    "seed",
    0,
    (0, i64::MAX),
    |number| number as u64,
    "The number from which all random numbers are derived: a capture and a seed have one result. It need not be secret for the \
     data, which does not determine them; but names that are hashed can be guessed by those who know it.",
);

const NAMES: Flag<RedactedNames> = Flag::choice(
    "names",
    "keep",
    &[("keep", RedactedNames::Keep), ("hash", RedactedNames::Hash)],
    "What becomes of the names of scopes and executable caches and of the paths of files. hash: 16 digits, the same for the same \
     name and seed, and threads are numbered. Names of functions are part of the code, and kept.",
);

const ELEMENT_TYPE: List<RedactRule> = List::parsed(
    "element_type",
    "[DATA:]TYPE",
    "[DATA:]TYPE, such as f32, '*lookup*:i64' or '#12@0+4096:f16'",
    |value| {
        let rule = ElementTypeRule::parse(value.to_str().ok_or(Refusal::Unexpected)?)?;
        let decision = RedactDecision::Elements(rule.element_type);
        Ok(RedactRule::parse(rule.function.as_deref().unwrap_or("all"), decision)?)
    },
    "The type of the elements of DATA: a range such as '#12@0+4096' (the first 4096 bytes of the data of record \
     12), a pattern with * and ? (the data of the functions whose name matches), or all, the default: all data \
     of unknown type. A range precedes functions, which precede the types in names; flags must not contradict each other.",
);

const ZERO: List<RedactRule> = List::parsed(
    "zero",
    "DATA",
    "a range such as '#12@0+4096', a pattern of names of functions, or all",
    |value| Ok(RedactRule::parse(value.to_str().ok_or(Refusal::Unexpected)?, RedactDecision::Zero)?),
    "Makes DATA (see --element_type) zero.",
);

const KEEP: List<RedactRule> = List::parsed(
    "keep",
    "DATA",
    "a range such as '#12@0+4096', a pattern of names of functions, or all",
    |value| Ok(RedactRule::parse(value.to_str().ok_or(Refusal::Unexpected)?, RedactDecision::Keep)?),
    "Keeps DATA (see --element_type), which reveals it: for what can be handed out, and for kernels that compute workgroup counts \
     from inputs.",
);

const NO_RUN: Flag<bool> = Flag::switch(
    "no_run",
    false,
    "Does not replay the result, which is otherwise written only if that succeeds. Workgroup counts that kernels compute are then not \
     compared with those of the original, and may differ.",
);

const FORMAT: Flag<Format> =
    report_format::flag("How the report is printed. text: for people. json: an object.");

const REDACTION: Group = Group {
    title: "Redaction",
    flags: &[&OUTPUT, &SEED, &NAMES, &ELEMENT_TYPE, &ZERO, &KEEP, &NO_RUN, &FORMAT],
};

const INPUTS: Group = Group {
    title: "Capture",
    flags: &[&replay_flags::FILE_REMAP, &replay_flags::FILE_WRITES, &replay_flags::RECOVER],
};

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.operand();
    let output = OutputFile::from_flags(flags, "REDACTED.ireereplay")?;
    let capture = captures::open(&path, &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    let mut options = RedactOptions::default();
    options.seed = flags.get(&SEED);
    options.names = flags.get(&NAMES);
    options.rules = [&ELEMENT_TYPE, &ZERO, &KEEP].into_iter().flat_map(|list| flags.list(list)).collect();
    options.file_remaps = flags.list(&replay_flags::FILE_REMAP);
    let foreign = devices::foreign(flags, &plan);
    let runs = !flags.get(&NO_RUN) && foreign.is_none();
    let kernels = Recording::for_run(flags, runs)?;
    // A capture is written with seeks, which a pipe does not have.
    let file = TemporaryFile::create()?;
    let redaction = file.explain(redact(&plan, file.try_clone()?, &options))?;
    let subject = Subject { capture: Some(capture.bytes()), devices: None };
    let undecided = redaction.undecided().count();
    if undecided != 0 {
        let list = report::Undecided::new(&redaction);
        show(&output, &invocation.render(&list, flags.get(&FORMAT), subject)?)?;
        let message =
            format!("the type of {} is unknown: nothing is written", plural(undecided as u64, "range"));
        let error = Error::failed_precondition(message).advise(
            "state types by --element_type=RANGE:TYPE, or decide by --zero=RANGE or --keep=RANGE; the name of a \
             function, a pattern of names, or all in place of RANGE decides about several at once",
        );
        // The list is the report: standard output gets no second document.
        output::note(&advice::report(&error));
        invocation.set_status(1);
        return Ok(());
    }
    let mut file = file.file();
    // For reading only, so that memory can have pages of it: through a clone, it may be written.
    let copy = reopen_path(file).and_then(File::open).or_else(|_| file.try_clone());
    let copy = copy.map_err(|error| Error::io("reading a temporary file", &error))?;
    // It has no path of its own, so that nothing is left behind if a kernel ends the process. Its name in
    // errors is that of the file that it becomes.
    let redacted = MappedFile::from_file(copy, output.path())?;
    let originals = Original { flags, plan: &plan, options: &options, runs };
    let devices = devices::options(flags)?;
    let mut reach = Reach::of_replay(&plan, &devices);
    reach.directories.extend(kernels.as_ref().map(Recording::directory));
    let finish = || {
        let replayed = check(&originals, &redaction, redacted, capture.is_recovered())?;
        file.seek(SeekFrom::Start(0)).map_err(|error| Error::io("reading a temporary file", &error))?;
        output.write(|sink| {
            std::io::copy(&mut file, sink).map_err(|error| Error::io("writing the capture", &error))?;
            Ok(())
        })?;
        let counts = match (redaction.counts_may_change, &replayed) {
            (false, _) => Counts::Data,
            (true, Some(_)) => Counts::Compared,
            (true, None) => Counts::Unchecked,
        };
        let report = report::Redacted::new(&redaction, counts);
        show(&output, &invocation.render(&report, flags.get(&FORMAT), subject)?)?;
        match replayed {
            // Those of the result, without the data of the original.
            Some(replay) => Recording::of_capture(kernels.as_ref(), None, || Ok(replay)),
            None => Ok(()),
        }
    };
    if let Some(foreign) = &foreign {
        output::note(&format!(
            "note: replays of the result {}: it is not replayed",
            devices::needed_for(foreign)
        ));
    }
    match runs {
        true => invocation.confined(&reach, finish),
        false => finish(),
    }
}

/// Prints a report; to stderr if the capture is written to stdout.
fn show(output: &OutputFile, report: &str) -> Result<()> {
    match output.is_stdout() {
        true => output::note(report.trim_end()),
        false => output::print(report)?,
    }
    Ok(())
}

/// The capture that is redacted.
struct Original<'a> {
    flags: &'a Flags,
    plan: &'a Arc<Plan>,
    options: &'a RedactOptions,
    /// Whether the captures are replayed.
    runs: bool,
}

impl Original<'_> {
    /// Calls `run` with a replay, which exists no longer than that: a capture may fill the memory of a
    /// device.
    fn replay<T>(&self, run: impl FnOnce(&Replay, &mut CrashReports) -> Result<T>) -> Result<T> {
        let devices = devices::options(self.flags)?.open()?;
        let mut reports = CrashReports::install();
        let options = replay_flags::files(self.flags);
        let outcome =
            Replay::new(self.plan.clone(), &devices, &options).and_then(|replay| run(&replay, &mut reports));
        outcome.context(|| {
            "the original, replayed to compare workgroup counts that kernels may compute (--no_run does not)".into()
        })
    }

    /// Why a result with another workgroup count is not written.
    fn refused(&self, changed: &ChangedCount) -> Error {
        let [original, redacted] =
            [changed.original, changed.redacted].map(|[x, y, z]| format!("{x}x{y}x{z}"));
        let error = Error::failed_precondition(format!(
            "'{}' is dispatched with {redacted} workgroups instead of {original} (execution {})",
            escaped(&changed.function),
            changed.occurrence + 1
        ));
        let error = error.context(changed.location.to_string());
        let functions = workgroup_count_functions(self.plan, &self.options.rules).unwrap_or_default();
        let keep: Vec<_> = functions.iter().map(|it| format!("--keep='{}'", escaped(it))).collect();
        match keep.is_empty() {
            true => error.advise("--no_run writes the capture with other workgroup counts"),
            false => error.advise(format!(
                "these functions may compute the count, and each flag keeps the data that one uses: {}; --no_run writes the \
                 capture with other workgroup counts",
                keep.join(" ")
            )),
        }
    }
}

/// Plans the result, compares its dispatches, and replays it, unless the flags say that nothing runs.
fn check(
    original: &Original<'_>,
    redaction: &Redaction,
    redacted: MappedFile,
    recovered: bool,
) -> Result<Option<Replay>> {
    let place = || "the redacted capture, which is not written".to_owned();
    let mut options = CaptureOptions::default();
    options.recover = recovered;
    let plan: Arc<Plan> =
        CaptureFile::from_bytes(redacted, &options).and_then(|capture| capture.plan()).context(place)?;
    check_redacted(original.plan, &plan).context(place)?;
    if !original.runs {
        return Ok(None);
    }
    // First: kernels with other workgroup counts may access what they did not.
    let counts = match redaction.counts_may_change {
        true => Some(original.replay(|replay, reports| WorkgroupCounts::from_replay(replay, reports))?),
        false => None,
    };
    let devices = devices::options(original.flags)?.open()?;
    let mut reports = CrashReports::install();
    let run = |replay: Replay| match &counts {
        Some(counts) => counts.compare(&replay, &mut reports).map(|changed| (replay, changed)),
        None => replay.run(&mut [&mut reports]).map(|_| (replay, None)),
    };
    let outcome = Replay::new(plan, &devices, &ReplayOptions::default()).and_then(run);
    let (replay, changed) = outcome.context(place).advise(|| {
        "does the original replay (rehal run)? If it does, data was taken for another type, or must stay: see --element_type and \
         --keep; --no_run writes the capture unchecked"
    })?;
    match changed {
        Some(changed) => {
            // Its memory is needed to replay the original.
            drop(replay);
            Err(original.refused(&changed))
                .context(|| "the original; the redacted capture is not written".into())
        }
        None => Ok(Some(replay)),
    }
}
