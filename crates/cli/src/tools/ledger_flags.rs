//! The flags of ledgers: what a replay writes and reads, for verification.

use std::path::{Path, PathBuf};

use rehal_base::{Context, Result};
use rehal_judge::{ElementTypeRule, Ledger, LedgerContents, LedgerOptions};
use rehal_replay::Plan;

use crate::flags::{Flag, Flags, Group, List, Refusal, written};
use crate::output_file::OutputFile;

const LEDGER: Flag<Option<PathBuf>> = Flag::path(
    "replay_ledger",
    "Writes a ledger once the replay is complete: digests of what each dispatch wrote and each host read saw. rehal verify \
     compares other replays of the capture with it.",
)
.files(written);

const CONTENTS: Flag<LedgerContents> = Flag::choice(
    "replay_ledger_contents",
    "dispatches",
    &[("dispatches", LedgerContents::Dispatches), ("reads", LedgerContents::Reads)],
    "dispatches: what each dispatch wrote and each host read saw; the replay performs operations one by one. reads: what each \
     host read saw.",
);

const KEPT_BYTES: Flag<u64> = Flag::number(
    "replay_ledger_kept_bytes",
    0,
    (0, i64::MAX),
    |bytes| bytes as u64,
    "Maximum number of bytes that the ledger keeps of each range that is written or read, so that elements can be compared and \
     tolerances applied. Digests always cover all bytes.",
);

/// The element types of what functions write.
pub(crate) const ELEMENT_TYPE: List<ElementTypeRule> = List::parsed(
    "element_type",
    "[GLOB:]TYPE",
    "[GLOB:]TYPE, such as f32 or 'matmul*:f16'",
    |value| Ok(ElementTypeRule::parse(value.to_str().ok_or(Refusal::Unexpected)?)?),
    "The type of the elements that functions whose name matches GLOB write; without GLOB, of all functions and of host reads. \
     The last one that matches counts. Others are bytes in a ledger; comparisons take their type from the name of the function or a \
     tolerance, if either says.",
);

/// Flags of tools that write ledgers.
pub(crate) const LEDGER_GROUP: Group =
    Group { title: "Ledger", flags: &[&LEDGER, &CONTENTS, &KEPT_BYTES, &ELEMENT_TYPE] };

/// Advice about a ledger that does not serve.
pub(crate) const MAKE_LEDGER: &str = "make a ledger of this capture: rehal run --replay_ledger=PATH CAPTURE";

/// Opens a ledger, which must be of the capture of `plan`.
pub(crate) fn open(path: &Path, plan: &Plan) -> Result<Ledger> {
    let ledger = Ledger::open(path).map_err(|error| error.replace_advice(MAKE_LEDGER))?;
    ledger.check_capture(plan).advise(|| MAKE_LEDGER)?;
    Ok(ledger)
}

/// The ledger to write.
pub(crate) struct Options {
    pub output: OutputFile,
    pub ledger: LedgerOptions,
}

impl Options {
    /// `None` unless flags name a ledger.
    pub(crate) fn from_flags(flags: &Flags) -> Result<Option<Self>> {
        let Some(path) = flags.get(&LEDGER) else { return Ok(None) };
        let mut ledger = LedgerOptions::default();
        ledger.contents = flags.get(&CONTENTS);
        ledger.kept_bytes = flags.get(&KEPT_BYTES);
        ledger.element_types = flags.list(&ELEMENT_TYPE);
        Ok(Some(Self { output: OutputFile::new(LEDGER.name(), path)?, ledger }))
    }
}
