//! What a redaction replaced, kept and left out, as text and as JSON.

use std::collections::BTreeMap;

use rehal_edit::{RedactedContent, RedactedRange, Redaction, UnknownType};
use rehal_replay::{DataKind, NameKind};
use serde::Serialize;

use crate::output::escaped;
use crate::report::{Report, Rows};
use crate::table::{Column, Layout, Table};

/// What is known of workgroup counts in buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// They are data of the capture, which was kept, or there are none.
    Data,
    /// Some may be computed, and those of replays are the same.
    Compared,
    /// Some may be computed, and nothing ran.
    Unchecked,
}

/// The name of data in JSON, and in sentences.
fn data(kind: DataKind) -> (&'static str, &'static str) {
    match kind {
        DataKind::HostWrite => ("host_writes", "host writes"),
        DataKind::Update => ("updates", "updates"),
        DataKind::Import => ("imports", "imported memory"),
        DataKind::File => ("files", "files"),
        DataKind::Read => ("reads", "reads of files"),
        DataKind::Pattern => ("fill_patterns", "fill patterns"),
    }
}

/// The name of names in JSON, and in sentences.
fn name(kind: NameKind) -> (&'static str, &'static str) {
    match kind {
        NameKind::Scope => ("scopes", "scopes"),
        NameKind::Path => ("paths", "paths"),
        NameKind::Cache => ("executable_caches", "executable caches"),
    }
}

/// The report for people.
fn text(it: &Redaction, counts: Counts) -> String {
    let mut lines = Vec::new();
    let total: u64 = it.data.values().map(|data| data.bytes).sum();
    lines.push(format!("replaced: {} of {total} bytes of data", it.replaced_bytes));
    for (kind, counted) in &it.data {
        lines.push(format!(
            "  {}: {} bytes in {} records",
            data(*kind).1,
            counted.bytes,
            counted.record_count
        ));
    }
    let types: Vec<_> = it.types().iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
    if !types.is_empty() {
        lines.push(format!("  bytes by the type of their elements: {}", types.join(", ")));
    }
    for (kind, count) in &it.hashed_names {
        lines.push(format!("  names of {}: {count}", name(*kind).1));
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
            Counts::Data => "",
            Counts::Compared => "; some may be computed: a replay of the original has the same",
            Counts::Unchecked => "; some may be computed from what was replaced: not checked",
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
    replaced: BTreeMap<&'static str, Replaced>,
    replaced_bytes: u64,
    types: BTreeMap<String, u64>,
    ranges: Rows<'a, RedactedRange, Range<'a>>,
    hashed_names: BTreeMap<&'static str, u64>,
    embedded_files: u64,
    left_out: LeftOut,
    kept: Kept,
    workgroup_counts: WorkgroupCounts,
    #[serde(skip)]
    of: (&'a Redaction, Counts),
}

/// Data of a kind.
#[derive(Serialize)]
struct Replaced {
    records: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct LeftOut {
    read_digests: u64,
    failed_calls: u64,
    unknown_records: u64,
    unknown_bytes: u64,
}

#[derive(Serialize)]
struct Kept {
    executables: u64,
    code_bytes: u64,
    specialization_bytes: u64,
    dispatches: u64,
    constant_bytes: u64,
    workgroup_count_bytes: u64,
    pattern_bytes: u64,
    stated_bytes: u64,
    unchanged_bytes: u64,
    names: u64,
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
        let (kept, rewritten) = (&it.kept, &it.rewritten);
        let replaced = it
            .data
            .iter()
            .map(|(kind, it)| (data(*kind).0, Replaced { records: it.record_count, bytes: it.bytes }));
        Self {
            records: rewritten.record_count,
            replaced: replaced.collect(),
            replaced_bytes: it.replaced_bytes,
            types: it.types(),
            ranges: Rows { of: &it.ranges, row: range },
            hashed_names: it.hashed_names.iter().map(|(kind, count)| (name(*kind).0, *count)).collect(),
            embedded_files: rewritten.embedded_count,
            left_out: LeftOut {
                read_digests: rewritten.digest_count,
                failed_calls: rewritten.failed_count,
                unknown_records: rewritten.unknown_count,
                unknown_bytes: rewritten.unknown_bytes,
            },
            kept: Kept {
                executables: kept.executable_count,
                code_bytes: kept.code_bytes,
                specialization_bytes: kept.specialization_bytes,
                dispatches: kept.dispatch_count,
                constant_bytes: kept.constant_bytes,
                workgroup_count_bytes: kept.workgroup_count_bytes,
                pattern_bytes: kept.pattern_bytes,
                stated_bytes: kept.stated_bytes,
                unchanged_bytes: it.unchanged_bytes,
                names: kept.name_count,
            },
            workgroup_counts: WorkgroupCounts {
                indirect_dispatches: it.indirect_dispatch_count,
                same: (counts != Counts::Unchecked).then_some(true),
                compared_by_replay: counts == Counts::Compared,
            },
            of: (it, counts),
        }
    }
}

impl Report for Redacted<'_> {
    const SCHEMA: &'static str = "rehal.redact/1";
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        let (it, counts) = self.of;
        layout.wrap(&text(it, counts))
    }
}

/// The ranges whose type is unknown: the report if nothing is written.
#[derive(Serialize)]
pub(super) struct Undecided<'a> {
    undecided: Vec<Range<'a>>,
}

impl<'a> Undecided<'a> {
    pub(super) fn new(it: &'a Redaction) -> Self {
        Self { undecided: it.undecided().map(|(it, _)| range(it)).collect() }
    }
}

impl Report for Undecided<'_> {
    const SCHEMA: &'static str = Redacted::SCHEMA;
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        let columns = [Column::left("range").untitled(), Column::left("use").untitled().shortened()];
        let mut table = Table::new("  ", columns);
        for it in &self.undecided {
            let reason = it.reason.as_deref().unwrap_or_default();
            table.row([it.range.clone(), format!("{}, {reason}", data(it.kind).1)]);
        }
        format!("ranges of unknown type:\n{}", table.text(layout))
    }
}

/// A row of the report.
#[derive(Serialize)]
struct Range<'a> {
    range: String,
    data: &'static str,
    content: &'static str,
    element_type: Option<String>,
    reason: Option<String>,
    function: Option<&'a str>,
    functions: usize,
    #[serde(skip)]
    kind: DataKind,
}

fn range(it: &RedactedRange) -> Range<'_> {
    let (content, element_type, reason) = match &it.content {
        RedactedContent::Elements(element_type) => ("elements", Some(element_type.to_string()), None),
        RedactedContent::Zeros => ("zeros", None, None),
        RedactedContent::Zeroed => ("zeroed", None, None),
        RedactedContent::Kept => ("kept", None, None),
        RedactedContent::WorkgroupCounts => ("workgroup_counts", None, None),
        RedactedContent::Pattern => ("pattern", None, None),
        RedactedContent::Undecided(unknown) => ("undecided", None, Some(reason(it, unknown))),
    };
    Range {
        range: it.place.to_string(),
        data: data(it.kind).0,
        content,
        element_type,
        reason,
        function: it.function.as_deref(),
        functions: it.function_count,
        kind: it.kind,
    }
}

/// Why the type of a range is unknown.
fn reason(it: &RedactedRange, unknown: &UnknownType) -> String {
    let function = escaped(it.function.as_deref().unwrap_or_default());
    let users = match it.function_count {
        0 | 1 => format!("used by '{function}'"),
        count => format!("used by '{function}' and {} more", count - 1),
    };
    match unknown {
        UnknownType::Unused => "used by no function".into(),
        UnknownType::Unnamed => format!("{users}: a name has no type, or several"),
        UnknownType::Different(types) => {
            let types: Vec<_> = types.iter().map(ToString::to_string).collect();
            format!("{users}: names have {}", types.join(", "))
        }
        UnknownType::NotMultiple(element_type) => {
            format!("{users}: the size is not a multiple of that of {element_type}")
        }
    }
}
