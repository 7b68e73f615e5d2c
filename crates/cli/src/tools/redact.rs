//! `rehal redact`: a capture without the data of the program.

mod report;

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rehal_base::{Context, Error, Result};
use rehal_session::{
    CaptureBytes, CaptureFile, CaptureOptions, CrashReports, ElementTypeRule, Plan, RedactOptions,
    RedactedNames, Replay, ReplayOptions, check_redacted, redact,
};

use super::replay_flags;
use super::report_format::{self, Format};
use crate::flags::{DEVICES, Flag, Flags, Group, LOCAL, List, OTHER_DRIVERS, Refusal, TASK, VULKAN};
use crate::kernel_recording::{KERNEL_RECORDING, Recording};
use crate::output_file::{OUTPUT, OutputFile};
use crate::{Invocation, Operands, Tool, captures, devices, output};

/// See the [module](self).
pub const REDACT: Tool = Tool {
    name: "rehal redact",
    verb: "redact",
    summary: "writes a capture without weights and inputs, to hand to others",
    about: "Writes a capture with the same operations, shapes, arguments and code, in which all data of the program is replaced: \
            weights and inputs become random numbers of the same type and within the same range, with exactly as many zeros, \
            subnormals, infinities and NaN of each sign. The bytes of external files that are read become part of the capture, replaced as well. Digests and identities of files, \
            digests of host reads, arguments of calls that failed, and optional records of unknown types are left out.\n\n\
            The result is replayed before it is written (--no_run leaves that out). A report says what was replaced, what was kept, \
            and what that may still reveal: code, names of functions, and constants of dispatches are always kept.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay -o REDACTED.ireereplay" },
    groups: &[&REDACTION, &INPUTS, &KERNEL_RECORDING, &DEVICES, &LOCAL, &TASK, &VULKAN, &OTHER_DRIVERS],
    examples: &[
        ("Replace the data of a capture", "{tool} model.ireereplay -o redacted.ireereplay"),
        (
            "Replace names too, with a secret seed",
            "{tool} --names=hash --seed=48151623 model.ireereplay -o redacted.ireereplay",
        ),
        (
            "State the type of what a function accesses, and keep the report",
            "{tool} --element_type='*lookup*:i64' --format=json model.ireereplay -o redacted.ireereplay > report.json",
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

const ELEMENT_TYPE: List<ElementTypeRule> = List::parsed(
    "element_type",
    "[GLOB:]TYPE",
    "[GLOB:]TYPE, such as f32 or '*lookup*:i64'",
    |value| Ok(ElementTypeRule::parse(value.to_str().ok_or(Refusal::Unexpected)?)?),
    "The type of the numbers that functions whose name matches GLOB access; without GLOB, of all data. The last one that matches \
     counts. The type of other data is inferred from the types that names of functions mention, and from its bytes.",
);

const NO_RUN: Flag<bool> = Flag::switch(
    "no_run",
    false,
    "Does not replay the result, which is otherwise written only if that succeeds.",
);

const FORMAT: Flag<Format> =
    report_format::flag("How the report is printed. text: for people. json: an object.");

const REDACTION: Group =
    Group { title: "Redaction", flags: &[&OUTPUT, &SEED, &NAMES, &ELEMENT_TYPE, &NO_RUN, &FORMAT] };

const INPUTS: Group = Group { title: "Capture", flags: &[&replay_flags::FILE_REMAP, &replay_flags::RECOVER] };

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.operand();
    let output = OutputFile::from_flags(flags, "REDACTED.ireereplay")?;
    let capture = CaptureFile::open(&path, &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    let mut options = RedactOptions::default();
    options.seed = flags.get(&SEED);
    options.names = flags.get(&NAMES);
    options.element_types = flags.list(&ELEMENT_TYPE);
    options.file_remaps = flags.list(&replay_flags::FILE_REMAP);
    let kernels = Recording::of_run(flags, !flags.get(&NO_RUN))?;
    let io = |error: std::io::Error| Error::io("writing a temporary file", &error);
    // A capture is written with seeks, which a pipe does not have.
    let mut file: File = tempfile::tempfile().map_err(io)?;
    let redaction = redact(&plan, file.try_clone().map_err(io)?, &options)?;
    // It has no path of its own, so that nothing is left behind if a kernel ends the process.
    let place = format!("/proc/self/fd/{}", file.as_raw_fd());
    let replayed = check(flags, &plan, place.as_ref(), capture.is_recovered())?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    output.write(|sink| {
        std::io::copy(&mut file, sink).map_err(|error| Error::io("writing the capture", &error))?;
        Ok(())
    })?;
    let report = match flags.get(&FORMAT) {
        Format::Text => report::text(&redaction),
        Format::Json => report::json(&redaction),
    };
    match output.is_stdout() {
        true => output::note(report.trim_end()),
        false => output::print(&report)?,
    }
    match replayed {
        // Those of the result, without the data of the original.
        Some(replay) => Recording::of_capture(kernels.as_ref(), None, || Ok(replay)),
        None => Ok(()),
    }
}

/// Plans the result, compares its dispatches, and replays it, unless the flags say that nothing runs.
fn check(flags: &Flags, original: &Plan, path: &std::path::Path, recovered: bool) -> Result<Option<Replay>> {
    // Its path means nothing to the user.
    let place = || "the redacted capture, which is not written".to_owned();
    let mut options = CaptureOptions::default();
    options.recover = recovered;
    let bytes = CaptureBytes::map(path)?;
    let plan: Arc<Plan> =
        CaptureFile::from_bytes(bytes, &options).and_then(|capture| capture.plan()).context(place)?;
    check_redacted(original, &plan).context(place)?;
    if flags.get(&NO_RUN) {
        return Ok(None);
    }
    let devices = devices::options(flags)?.open()?;
    let mut reports = CrashReports::install();
    let replay = Replay::new(plan, &devices, &ReplayOptions::default());
    let outcome = replay.and_then(|replay| replay.run(&mut [&mut reports]).map(|_| Some(replay)));
    outcome.context(place).advise(|| {
        "does the original replay (rehal run)? If it does, data was taken for another type: see --element_type; --no_run writes the \
         capture unchecked"
    })
}
