//! The data that a redaction replaced, kept and left out, as text and as JSON.

use std::collections::BTreeMap;

use rehal_edit::{KeptData, RedactedRange, Redaction};
use rehal_replay::{DataKind, NameKind};
use serde::Serialize;

use crate::report::Report;
use crate::table::{Column, Layout, Table};

/// The known origin of workgroup counts in buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// They are data of the capture, which was kept, or there are none.
    Data,
    /// Some may be computed, and those of replays are the same.
    Compared,
    /// Some may be computed, and nothing ran.
    Unchecked,
}

/// The name of data in sentences.
fn data(kind: DataKind) -> &'static str {
    match kind {
        DataKind::HostWrite => "host writes",
        DataKind::Update => "updates",
        DataKind::Import => "imported memory",
        DataKind::File => "files",
        DataKind::Read => "reads of files",
        DataKind::Pattern => "fill patterns",
    }
}

/// The name of names in sentences.
fn name(kind: NameKind) -> &'static str {
    match kind {
        NameKind::Scope => "scopes",
        NameKind::Path => "paths",
        NameKind::Cache => "executable caches",
    }
}

/// The report for people.
fn text(it: &Redaction, counts: Counts) -> String {
    let mut lines = Vec::new();
    let total: u64 = it.data.values().map(|data| data.bytes).sum();
    lines.push(format!("replaced: {} of {total} bytes of data", it.replaced_bytes));
    for (kind, counted) in &it.data {
        lines.push(format!("  {}: {} bytes in {} records", data(*kind), counted.bytes, counted.record_count));
    }
    let types: Vec<_> = it.types().iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
    if !types.is_empty() {
        lines.push(format!("  bytes by the type of their elements: {}", types.join(", ")));
    }
    for (kind, count) in &it.hashed_names {
        lines.push(format!("  names of {}: {count}", name(*kind)));
    }
    let rewritten = &it.rewritten;
    if rewritten.embedded_count != 0 {
        lines
            .push(format!("  external files that are part of the capture now: {}", rewritten.embedded_count));
    }
    lines.push("left out:".into());
    lines.push(format!("  digests of host reads: {}", rewritten.digest_count));
    lines.push(format!("  arguments of failed calls: {}", rewritten.failed_count));
    lines.push(format!(
        "  optional records of unknown types: {} ({} bytes)",
        rewritten.unknown_count, rewritten.unknown_bytes
    ));
    let kept = &it.kept;
    lines.push("kept, and may reveal something:".into());
    lines.push(format!(
        "  code of {} executables, with the constants and names in it: {} bytes",
        kept.executable_count, kept.code_bytes
    ));
    lines.push(format!(
        "  constants of {} dispatches: {} bytes; of executables: {} bytes",
        kept.dispatch_count, kept.constant_bytes, kept.specialization_bytes
    ));
    lines.push(format!(
        "  data that dispatches read workgroup counts from: {} bytes ({} such dispatches{})",
        kept.workgroup_count_bytes,
        it.indirect_dispatch_count,
        match counts {
            Counts::Data => String::new(),
            Counts::Compared => "; some may be computed: a replay of the original has the same".into(),
            Counts::Unchecked => format!(
                "; some may be computed from what was replaced, which only a run tells: see record #{}",
                it.first_indirect.unwrap_or_default()
            ),
        }
    ));
    if kept.stated_bytes != 0 {
        lines.push(format!("  data that --keep names: {} bytes", kept.stated_bytes));
    }
    lines.push(format!("  patterns of fills: {} bytes", kept.pattern_bytes));
    lines.push(format!(
        "  unchanged: infinities, NaN, and ranges with a single number: {} bytes",
        it.unchanged_bytes
    ));
    lines.push(format!("  names of scopes, files and caches: {}", kept.name_count));
    lines.push("  order, shapes and sizes of all operations; which data is equal".into());
    lines.push("  of data: types, limits, and where zeros, infinities and NaN are".into());
    lines.join("\n") + "\n"
}

/// The report of a redaction.
#[derive(Serialize)]
pub(super) struct Redacted<'a> {
    records: u64,
    #[serde(flatten)]
    of: &'a Redaction,
    types: BTreeMap<String, u64>,
    embedded_files: u64,
    left_out: LeftOut,
    kept: KeptReport<'a>,
    workgroup_counts: WorkgroupCounts,
    #[serde(skip)]
    counts: Counts,
}

#[derive(Serialize)]
struct LeftOut {
    read_digests: u64,
    failed_calls: u64,
    unknown_records: u64,
    unknown_bytes: u64,
}

#[derive(Serialize)]
struct KeptReport<'a> {
    #[serde(flatten)]
    data: &'a KeptData,
    unchanged_bytes: u64,
}

#[derive(Serialize)]
struct WorkgroupCounts {
    indirect_dispatches: u64,
    /// `None` if that is unknown.
    same: Option<bool>,
    compared_by_replay: bool,
}

impl<'a> Redacted<'a> {
    pub(super) fn new(it: &'a Redaction, counts: Counts) -> Self {
        let rewritten = &it.rewritten;
        Self {
            records: rewritten.record_count,
            of: it,
            types: it.types(),
            embedded_files: rewritten.embedded_count,
            left_out: LeftOut {
                read_digests: rewritten.digest_count,
                failed_calls: rewritten.failed_count,
                unknown_records: rewritten.unknown_count,
                unknown_bytes: rewritten.unknown_bytes,
            },
            kept: KeptReport { data: &it.kept, unchanged_bytes: it.unchanged_bytes },
            workgroup_counts: WorkgroupCounts {
                indirect_dispatches: it.indirect_dispatch_count,
                same: (counts != Counts::Unchecked).then_some(true),
                compared_by_replay: counts == Counts::Compared,
            },
            counts,
        }
    }
}

impl Report for Redacted<'_> {
    const SCHEMA: &'static str = "rehal.redact/1";
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        layout.wrap(&text(self.of, self.counts))
    }
}

/// The ranges whose type is unknown: the report if nothing is written.
#[derive(Serialize)]
pub(super) struct Undecided<'a> {
    undecided: Vec<&'a RedactedRange>,
}

impl<'a> Undecided<'a> {
    pub(super) fn new(it: &'a Redaction) -> Self {
        Self { undecided: it.undecided().map(|(it, _)| it).collect() }
    }
}

impl Report for Undecided<'_> {
    const SCHEMA: &'static str = Redacted::SCHEMA;
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        let columns = [Column::left("range").untitled(), Column::left("use").untitled().shortened()];
        let mut table = Table::new("  ", columns);
        for it in &self.undecided {
            let reason = it.reason().unwrap_or_default();
            table.row([it.place.to_string(), format!("{}, {reason}", data(it.kind))]);
        }
        format!("ranges of unknown type:\n{}", table.text(layout))
    }
}
