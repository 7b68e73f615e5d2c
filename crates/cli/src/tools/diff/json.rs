//! The report as a JSON object, written piece by piece: it may have millions of operations.

use std::io::{self, BufWriter, Write};

use rehal_session::{
    ChangeKind, DataDifference, DiffedCapture, DiffedExecutable, ExecutableChange, FieldChange, FieldValue,
    FunctionChange, Occurrence, OperationChange,
};
use serde_json::{Value, json};

use super::Report;
use crate::report::hex;

/// Writes the report for programs.
pub(super) fn write(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let diff = report.diff;
    let counts = json!({
        "same": diff.same_count,
        "changed": diff.count(ChangeKind::Changed),
        "removed": diff.count(ChangeKind::Removed),
        "inserted": diff.count(ChangeKind::Inserted),
        "moved": diff.count(ChangeKind::Moved),
    });
    write!(out, "{{")?;
    if let Some((header, _)) = &report.header {
        writeln!(out, "\"header\":{},", json!(header))?;
    }
    let digest = |index: usize| report.header.as_ref().map(|(_, digests)| digests[index].as_str());
    writeln!(out, "\"same\":{},", diff.is_same())?;
    writeln!(out, "\"before\":{},", capture(&report.paths[0], digest(0), &diff.before))?;
    writeln!(out, "\"after\":{},", capture(&report.paths[1], digest(1), &diff.after))?;
    writeln!(out, "\"counts\":{counts},")?;
    list(&mut out, "scopes", &diff.scopes, |out, it| {
        let path = names(it.path.names());
        write!(out, "{}", json!({ "path": path, "before": it.before, "after": it.after }))
    })?;
    list(&mut out, "executables", &diff.executables, |out, it| write!(out, "{}", executable(it)))?;
    list(&mut out, "operations", &diff.operations, operation)?;
    writeln!(out, "\"undetermined\":{},", json!(diff.undetermined))?;
    writeln!(out, "\"omitted_count\":{}}}", diff.omitted_count)?;
    out.flush()
}

/// A field with a list, an element per line.
fn list<W: Write, T>(
    out: &mut W,
    name: &str,
    list: &[T],
    mut write: impl FnMut(&mut W, &T) -> io::Result<()>,
) -> io::Result<()> {
    write!(out, "\"{name}\":[")?;
    for (index, it) in list.iter().enumerate() {
        write!(out, "{}", if index == 0 { "\n" } else { ",\n" })?;
        write(out, it)?;
    }
    writeln!(out, "],")
}

fn capture(path: &str, digest: Option<&str>, it: &DiffedCapture) -> Value {
    let objects = it.objects.iter().map(|(kind, count)| (kind.name().replace(' ', "_"), json!(count)));
    json!({
        "path": path,
        "capture_digest": digest,
        "version": format!("{}.{}", it.version.major, it.version.minor),
        "records": it.record_count,
        "operations": it.operation_count,
        "not_replayable": it.opaque_count,
        "closed": it.is_closed,
        "tear": it.tear.map(|tear| json!({
            "offset": tear.offset,
            "record_count": tear.record_count,
            "lost_bytes": tear.lost_bytes,
        })),
        "objects": objects.collect::<serde_json::Map<_, _>>(),
        "buffer_bytes": it.buffer_bytes,
    })
}

fn executable(it: &ExecutableChange) -> Value {
    let is_same_code = match (&it.before, &it.after) {
        (Some(before), Some(after)) => {
            Some(before.digest == after.digest && before.code_bytes == after.code_bytes)
        }
        _ => None,
    };
    json!({
        "kind": it.kind.name(),
        "before": it.before.as_ref().map(described),
        "after": it.after.as_ref().map(described),
        "same_code": is_same_code,
        "changes": it.changes.iter().map(change).collect::<Vec<_>>(),
        "functions": it.functions.iter().map(function).collect::<Vec<_>>(),
        "undetermined": it.undetermined,
    })
}

fn described(it: &DiffedExecutable) -> Value {
    json!({
        "id": it.id,
        "record": it.record,
        "format": text(&it.format),
        "size_bytes": it.code_bytes,
        "blake3": hex(&it.digest),
        "functions": names(it.functions.iter().map(Vec::as_slice)),
    })
}

fn function(it: &FunctionChange) -> Value {
    json!({
        "kind": it.kind.name(),
        "name": text(&it.name),
        "ordinal": it.ordinal,
        "same_code": it.is_code_changed.map(|differs| !differs),
        "changes": it.changes.iter().map(change).collect::<Vec<_>>(),
    })
}

fn operation(out: &mut impl Write, it: &OperationChange) -> io::Result<()> {
    let fields: Vec<_> = it.fields.iter().map(ToString::to_string).collect();
    write!(
        out,
        "{{\"kind\":{},\"operation\":{},\"subject\":{},\"scope\":{},\"fields\":{},\"count\":{},\"occurrences\":[",
        json!(it.kind.name()),
        json!(it.operation),
        json!(text(&it.subject)),
        names(it.scope.names()),
        json!(fields),
        it.count
    )?;
    for (index, it) in it.occurrences.iter().enumerate() {
        write!(out, "{}{}", if index == 0 { "" } else { "," }, occurrence(it))?;
    }
    write!(out, "]}}")
}

fn occurrence(it: &Occurrence) -> Value {
    json!({
        "before": it.before,
        "after": it.after,
        "operations": it.operation_count,
        "changes": it.changes.iter().map(change).collect::<Vec<_>>(),
    })
}

fn change(it: &FieldChange) -> Value {
    let mut object = json!({
        "field": it.name.to_string(),
        "before": it.before.as_ref().map(value),
        "after": it.after.as_ref().map(value),
    });
    if let Some(difference) = &it.data {
        object["data"] = data(difference);
    }
    object
}

fn value(it: &FieldValue) -> Value {
    match it {
        FieldValue::Number(number) => json!(number),
        FieldValue::Triple(triple) => json!(triple),
        FieldValue::Text(text) => json!(text),
        FieldValue::Object { kind, id, record } => {
            json!({ "object": kind.name(), "id": id, "record": record })
        }
        FieldValue::Data { length, digest } => json!({ "size_bytes": length, "blake3": hex(digest) }),
        _ => json!(it.to_string()),
    }
}

fn data(it: &DataDifference) -> Value {
    let elements = it.elements.as_ref().map(|elements| {
        let first = elements.first.iter().map(|it| {
            json!({
                "index": it.index,
                "before": it.expected,
                "after": it.actual,
                "ulps": it.ulps,
                "absolute": it.absolute,
                "relative": it.relative,
            })
        });
        json!({
            "compared": elements.compared_count,
            "different": elements.different_count,
            "first": first.collect::<Value>(),
        })
    });
    json!({
        "different_bytes": it.different_bytes,
        "range_count": it.range_count,
        "ranges": it.ranges.iter().map(|range| json!([range.offset, range.length])).collect::<Value>(),
        "elements": elements,
    })
}

fn names<'n>(list: impl IntoIterator<Item = &'n [u8]>) -> Value {
    list.into_iter().map(text).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
