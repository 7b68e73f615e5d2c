//! The report as text.

use std::fmt::Write;

use rehal_base::plural;
use rehal_edit::{
    ChangeKind, DataDifference, DiffedCapture, DiffedExecutable, ExecutableChange, FieldChange, FieldName,
    FieldValue, FunctionChange, OperationChange, ScopePath,
};

use super::Printed;
use crate::output::escaped;

/// Maximum number of different values to print of one field.
const MAX_VALUES: usize = 3;
/// Maximum number of fields to print of one operation.
const MAX_FIELDS: usize = 12;

/// The report for people.
pub(super) fn show(report: &Printed<'_>) -> String {
    let diff = report.report.diff;
    let mut text = head(report);
    for (path, capture) in report.report.paths.iter().zip([&diff.before, &diff.after]) {
        ends(&mut text, path, capture);
    }
    for sentence in &diff.undetermined {
        let _ = writeln!(text, "not known: {}", escaped(sentence));
    }
    if diff.is_same() {
        return text;
    }
    objects(&mut text, &diff.before, &diff.after);
    scopes(&mut text, report);
    executables(&mut text, report);
    operations(&mut text, report);
    if diff.omitted_count != 0 {
        let _ = writeln!(text, "\n{} more differences were only counted", diff.omitted_count);
    }
    text
}

fn head(report: &Printed<'_>) -> String {
    let diff = report.report.diff;
    if diff.is_same() {
        return format!("the same: {}\n", plural(diff.same_count, "operation"));
    }
    let kinds = [ChangeKind::Changed, ChangeKind::Removed, ChangeKind::Inserted, ChangeKind::Moved];
    let counts = kinds.map(|kind| (diff.count(kind), kind.name()));
    let parts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count != 0)
        .map(|(count, name)| format!("{} {name}", plural(*count, "operation")))
        .collect();
    format!("different: {}; {} the same\n", parts.join(", "), diff.same_count)
}

fn ends(text: &mut String, path: &str, capture: &DiffedCapture) {
    let path = escaped(path);
    if let Some(tear) = capture.tear {
        let records = plural(tear.record_count, "record");
        let _ = writeln!(text, "{path} is truncated: compared up to offset {}, after {records}", tear.offset);
    } else if !capture.is_closed {
        let _ = writeln!(text, "{path} was never closed: compared up to its last record");
    }
    if capture.opaque_count != 0 {
        let count = plural(capture.opaque_count, "operation");
        let _ = writeln!(text, "{path} has {count} that cannot be replayed: compared by name only");
    }
}

/// The numbers of objects, if they differ.
fn objects(text: &mut String, before: &DiffedCapture, after: &DiffedCapture) {
    let mut lines = String::new();
    let kinds = rehal_edit::ObjectKind::ALL;
    let count = |capture: &DiffedCapture, kind| {
        capture.objects.iter().find(|(it, _)| *it == kind).map_or(0, |(_, count)| *count)
    };
    for kind in kinds {
        let (first, second) = (count(before, kind), count(after, kind));
        if first != second {
            let _ = writeln!(lines, "  {}s: {first} -> {second}", kind.name());
        }
    }
    if before.buffer_bytes != after.buffer_bytes {
        let _ = writeln!(lines, "  bytes of buffers: {} -> {}", before.buffer_bytes, after.buffer_bytes);
    }
    if !lines.is_empty() {
        let _ = write!(text, "\nObjects\n{lines}");
    }
}

fn scopes(text: &mut String, report: &Printed<'_>) {
    let scopes = &report.report.diff.scopes;
    if scopes.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nScopes");
    for scope in scopes.iter().take(report.max_differences) {
        let (path, before, after) = (path(&scope.path), scope.before, scope.after);
        let _ = writeln!(text, "  {path}: entered {} -> {}", plural(before, "time"), plural(after, "time"));
    }
    more(text, scopes.len(), report);
}

fn path(path: &ScopePath) -> String {
    let names: Vec<_> = path.names().iter().map(|name| name.escape_ascii().to_string()).collect();
    names.join("/")
}

fn executables(text: &mut String, report: &Printed<'_>) {
    let executables = &report.report.diff.executables;
    if executables.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nExecutables");
    for it in executables.iter().take(report.max_differences) {
        executable(text, it, report.max_differences);
    }
    more(text, executables.len(), report);
}

fn executable(text: &mut String, it: &ExecutableChange, max: usize) {
    let described = |it: &DiffedExecutable| {
        format!(
            "#{} executable {} ({}, {}, {})",
            it.record,
            it.id,
            it.format.escape_ascii(),
            plural(it.code_bytes, "byte"),
            functions_of(it)
        )
    };
    let _ = match (&it.before, &it.after) {
        (Some(before), Some(after)) => {
            let code = match it.is_same_code {
                Some(true) => "same code".to_owned(),
                _ => format!("other code, {} -> {}", before.code_bytes, plural(after.code_bytes, "byte")),
            };
            let (first, second) = (described(before), after.record);
            writeln!(text, "  {}: {first} -> #{second}: {code}", it.kind.name())
        }
        (Some(one), None) | (None, Some(one)) => {
            writeln!(text, "  {}: {}", it.kind.name(), described(one))
        }
        (None, None) => Ok(()),
    };
    changes(text, &it.changes, "    ");
    for function in it.functions.iter().take(max) {
        let FunctionChange { kind, name, ordinal, changes: fields, .. } = function;
        let name = if name.is_empty() { format!("{ordinal}") } else { name.escape_ascii().to_string() };
        let _ = writeln!(text, "    {} function {name}", kind.name());
        if function.is_same_code == Some(false) {
            let _ = writeln!(text, "      other code");
        }
        changes(text, fields, "      ");
    }
    if it.functions.len() > max {
        let _ = writeln!(text, "    ... and {} more functions", it.functions.len() - max);
    }
    if let Some(reason) = it.undetermined {
        let others = if it.functions.is_empty() { "" } else { " other" };
        let _ = writeln!(text, "    cannot tell which{others} functions differ: {reason}");
    }
}

/// The functions of an executable, in a few words.
fn functions_of(it: &DiffedExecutable) -> String {
    let first = it.functions.first().filter(|name| !name.is_empty()).map(|name| name.escape_ascii());
    match (first, it.functions.len()) {
        (Some(first), 1) => first.to_string(),
        (Some(first), count) => format!("{first} and {} more", count - 1),
        (None, count) => plural(count as u64, "function"),
    }
}

fn changes(text: &mut String, fields: &[FieldChange], indent: &str) {
    for it in fields.iter().take(MAX_FIELDS) {
        let _ = writeln!(text, "{indent}{}: {}", it.name, transition(it));
    }
    if fields.len() > MAX_FIELDS {
        let _ = writeln!(text, "{indent}... and {} more", fields.len() - MAX_FIELDS);
    }
}

fn operations(text: &mut String, report: &Printed<'_>) {
    let operations = &report.report.diff.operations;
    if operations.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nOperations");
    for it in operations.iter().take(report.max_differences) {
        operation(text, it);
    }
    more(text, operations.len(), report);
}

fn operation(text: &mut String, it: &OperationChange) {
    let subject = match (&it.subject[..], it.operation) {
        (b"", _) => String::new(),
        (name, "scope") => format!(" '{}'", name.escape_ascii()),
        (name, _) => format!(" {}", name.escape_ascii()),
    };
    let scope = if it.scope.is_empty() { String::new() } else { format!(" in scope {}", path(&it.scope)) };
    let first = it.occurrences.first();
    let ordinals = first.map(|it| match (it.before, it.after) {
        (Some(before), Some(after)) => format!("#{before} -> #{after}"),
        (Some(one), None) | (None, Some(one)) => format!("#{one}"),
        (None, None) => String::new(),
    });
    let ordinals = ordinals.unwrap_or_default();
    let count = match it.count {
        1 => ordinals,
        count => format!("{count} times, first {ordinals}"),
    };
    let inside = match first.map_or(1, |it| it.operation_count) {
        1 => String::new(),
        count => format!(" of {count} operations"),
    };
    let _ = writeln!(text, "  {}: {}{subject}{inside}{scope}: {count}", it.kind.name(), it.operation);
    for (index, name) in it.fields.iter().enumerate().take(MAX_FIELDS) {
        field(text, it, *name, index);
    }
    if it.fields.len() > MAX_FIELDS {
        let _ = writeln!(text, "    ... and {} more fields", it.fields.len() - MAX_FIELDS);
    }
}

/// A field of all operations of a change: its different values, the first ones.
fn field(text: &mut String, it: &OperationChange, name: FieldName, index: usize) {
    let mut values: Vec<(String, u64)> = Vec::new();
    let mut others = 0;
    for change in it.occurrences.iter().filter_map(|it| it.changes.get(index)) {
        // Long lists of values are not searched for each operation.
        let is_full = values.len() == MAX_VALUES;
        let value = transition(change);
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None if is_full => others += 1,
            None => values.push((value, 1)),
        }
    }
    let is_one = values.len() == 1 && others == 0;
    let parts = values.into_iter().map(|(value, count)| match count {
        _ if is_one => value,
        1 => value,
        count => format!("{value} ({count} times)"),
    });
    let others = (others != 0).then(|| format!("{others} others"));
    let parts: Vec<_> = parts.chain(others).collect();
    let _ = writeln!(text, "    {name}: {}", parts.join("; "));
}

/// The values of a field before and after.
fn transition(it: &FieldChange) -> String {
    let value = |value: &Option<FieldValue>| match value {
        Some(value) => escaped(&value.to_string()),
        None => "none".into(),
    };
    match &it.data {
        Some(difference) => {
            let (before, after) = (value(&it.before), value(&it.after));
            let size = if before == after { before } else { format!("{before} -> {after}") };
            format!("{size}{}", data(difference))
        }
        None => format!("{} -> {}", value(&it.before), value(&it.after)),
    }
}

fn data(it: &DataDifference) -> String {
    let Some(first) = it.ranges.first() else { return String::new() };
    let ranges = match it.range_count {
        1 => format!("bytes {}..{}", first.offset, first.end()),
        count => format!("{count} ranges, first bytes {}..{}", first.offset, first.end()),
    };
    let mut text = format!(", {} differ: {ranges}", it.different_bytes);
    if let Some(elements) = &it.elements {
        let parts = elements.first.iter().map(|it| {
            let ulps = it.ulps.map_or_else(String::new, |ulps| format!(" ({ulps} ULPs)"));
            format!("[{}] {} -> {}{ulps}", it.index, it.expected, it.actual)
        });
        let parts: Vec<_> = parts.collect();
        let count = plural(elements.different_count, "element");
        let _ = write!(text, "; {count}: {}", parts.join(", "));
    }
    text
}

fn more(text: &mut String, count: usize, report: &Printed<'_>) {
    if let Some(count @ 1..) = count.checked_sub(report.max_differences) {
        let _ = writeln!(text, "  ... and {count} more (--max_differences, or --format=json for all)");
    }
}
