//! `iree-dump-replay`: prints what a capture holds.

use std::io::{self, IsTerminal};

use rehal_base::{Context, Error, Result};
use rehal_replay::dump::{self, Input};

use crate::flags::{Flag, Group};
use crate::progress::Progress;
use crate::{Invocation, Tool, input, output};

/// See the [module](self).
pub const DUMP_REPLAY: Tool = Tool {
    name: "iree-dump-replay",
    verb: "dump",
    summary: "prints what a capture holds, record by record",
    about: "Checks the whole capture, then prints a summary and each record in file order. Data is shown \
            as byte ranges of the capture file, never in full. Nothing of the capture is run.\n\n\
            Memory does not grow with the file, and a reader that closes the pipe ends the dump quietly.",
    operands: "CAPTURE.ireereplay",
    groups: &[&DUMP],
    examples: &[
        ("See what is in a capture", "{tool} model.ireereplay | less"),
        (
            "Count the dispatches of each function",
            "{tool} --format=jsonl model.ireereplay \\\n  | jq -r 'select(.payload_type==\"dispatch\") \
             | [.payload.executable_id, .payload.function_ordinal] | @tsv' \\\n  | sort | uniq -c",
        ),
        ("Read what a killed program left", "{tool} --recover torn.ireereplay"),
    ],
    guide: include_str!("../guides/dump_replay.md"),
    answer: |_, _| None,
    run,
};

const DUMP: Group = Group {
    title: "Dump",
    flags: &[
        Flag::text(
            "format",
            "FORMAT",
            "text",
            "text: a line per record, for reading. jsonl: a JSON object per line, for jq and programs.",
        ),
        super::replay_flags::RECOVER,
    ],
};

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.capture_path()?;
    let format =
        flags.text("format").parse().context(|| "--format".into()).advise(|| "text or jsonl".into())?;
    let options = dump::Options { format, recover: flags.switch("recover") };
    let file = input::map(path)?;
    // A bar among the lines of the dump would spoil both.
    let mut progress = if io::stdout().is_terminal() { Progress::silent() } else { Progress::new("dumping") };
    let mut stdout = output::stdout()?;
    let mut tell = |it: dump::Progress| progress.set(it.done_bytes, it.total_bytes);
    match dump::dump(Input::from(&*file), options, &mut stdout, &mut tell) {
        Ok(tear) => {
            drop(progress);
            tear.iter().for_each(|tear| input::note_tear(&file, tear));
            Ok(())
        }
        Err(dump::Error::Write(error)) => output::written(Err(error)),
        Err(dump::Error::Format(error)) => Err(input::explain(&file, Error::from(*error))),
    }
}
