//! Findings of the checks of emulated GPUs, as text on standard error, or as an object among reports.

use rehal_base::Result;
use rehal_devices::{DispatchFinding, Finding, Findings, Target, take_findings};
use serde::Serialize;

use crate::report::Subject;
use crate::{Invocation, output};

/// The exit status if a check found an error, and nothing else ended the tool: that of a difference.
pub(crate) const FOUND: u8 = 2;

/// A finding.
#[derive(Serialize)]
struct Row<'f> {
    kind: String,
    is_note: bool,
    record: Option<u64>,
    function: &'f str,
    line: usize,
    instruction: &'f str,
    target: String,
    offset: i64,
    bytes: u32,
    workgroup: [u32; 3],
    thread: [u32; 3],
    count: u64,
}

/// All of them.
#[derive(Serialize)]
struct Rows<'f> {
    findings: Vec<Row<'f>>,
    dropped: u64,
}

/// Reports what was found in this process until now. Returns whether something is an error.
pub(crate) fn report(invocation: &Invocation, prints: bool) -> Result<bool> {
    let found = take_findings();
    if found == Findings::default() {
        return Ok(false);
    }
    match prints && invocation.flags.wants_json() {
        true => {
            let findings = found.all.iter().map(row).collect();
            let rows = Rows { findings, dropped: found.dropped };
            let subject = Subject { capture: None, devices: None };
            output::print(&invocation.line("rehal.findings/1", &rows, subject)?)?;
        }
        false => output::note(&text(&found)),
    }
    Ok(found.are_errors())
}

/// Prints what was found in this process, which performs a part of the work of another.
pub(crate) fn print() {
    let found = take_findings();
    if found != Findings::default() {
        output::note(&text(&found));
    }
}

fn row(found: &DispatchFinding) -> Row<'_> {
    let it = &found.finding;
    Row {
        kind: it.kind.to_string(),
        is_note: it.kind.is_note(),
        record: found.record.map(|[ordinal, _]| ordinal),
        function: &it.function,
        line: it.line,
        instruction: &it.instruction,
        target: target(it),
        offset: it.offset,
        bytes: it.bytes,
        workgroup: it.block,
        thread: it.thread,
        count: it.count,
    }
}

/// The memory that an access meant, such as `binding 1`.
fn target(finding: &Finding) -> String {
    match finding.target {
        Target::Region(index) => format!("binding {index}"),
        Target::Variables => "variables".into(),
        Target::Shared => "workgroup memory".into(),
        Target::Local => "private memory".into(),
        Target::Barrier => format!("barrier {}", finding.offset),
        Target::Arguments => "arguments".into(),
        Target::Nothing => "no memory".into(),
    }
}

fn text(found: &Findings) -> String {
    let mut lines: Vec<String> = Vec::new();
    for it in &found.all {
        lines.push(match it.finding.kind.is_note() {
            true => format!("note: {}", it.finding),
            false => it.error().report(),
        });
    }
    if found.dropped != 0 {
        lines.push(format!("{} more at other places", found.dropped));
    }
    lines.join("\n")
}
