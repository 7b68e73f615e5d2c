//! `iree-dump-replay`: prints the records of a capture.

use std::io::{self, IsTerminal};
use std::path::Path;

use rehal::capture::{CaptureOptions, DumpError};
use rehal_base::Result;
use rehal_replay::dump::Format;

use super::replay_flags::RECOVER;
use crate::flags::{Flag, Group};
use crate::progress::Progress;
use crate::{Invocation, Operands, Tool, captures, output};

/// See the [module](self).
pub const DUMP_REPLAY: Tool = Tool {
    name: "iree-dump-replay",
    verb: "dump",
    summary: "prints the records of a capture",
    about: "Dumps information from an IREE HAL replay file.\n\n\
            Verifies every record, then prints a summary and each record in file order. Data is shown as byte \
            ranges of the capture file, never in full, and is neither read nor verified: rehal info and replays \
            do that. Nothing in the capture is executed.\n\n\
            Memory use does not depend on the size of the file.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: &[&DUMP],
    examples: &[
        ("Read a capture", "{tool} model.ireereplay | less"),
        (
            "Count the dispatches of each function",
            "{tool} --format=jsonl model.ireereplay \\\n  | jq -r 'select(.payload_type==\"dispatch\") \
             | [.payload.executable_id, .payload.function_ordinal] | @tsv' \\\n  | sort | uniq -c",
        ),
        ("Read the capture of a program that was killed", "{tool} --recover torn.ireereplay"),
    ],
    guide: include_str!("../guides/dump_replay.md"),
    answer: |_, _, _| None,
    run,
};

const FORMAT: Flag<Format> = Flag::choice(
    "format",
    "text",
    &[("text", Format::Text), ("jsonl", Format::Jsonl)],
    "text: a line per record, for people. jsonl: a JSON object per line, for jq and programs.",
);

const DUMP: Group = Group { title: "Dump", flags: &[&FORMAT, &RECOVER] };

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    dump(&invocation.operand(), flags.get(&FORMAT), &captures::options(flags.get(&RECOVER)))
}

fn dump(path: &Path, format: Format, options: &CaptureOptions) -> Result<()> {
    let capture = captures::open(path, options)?;
    // A progress bar would garble a dump on the same terminal.
    let progress = if io::stdout().is_terminal() { Progress::silent() } else { Progress::new("dumping") };
    let mut stdout = output::stdout()?;
    let mut tell = progress.teller();
    let outcome = capture.dump(format, &mut stdout, &mut tell);
    drop(tell);
    match outcome {
        Ok(()) => captures::note_recovered(&capture),
        Err(DumpError::Write(error)) => output::written(Err(error)),
        Err(DumpError::Capture(error)) => Err(error),
    }
}
