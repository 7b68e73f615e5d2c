//! Comparison of executables and their functions.

use std::collections::HashMap;

use rehal_capture::payload::{ExecutableMetadata, Function};
use rehal_hal::PrepareExecutable;
use rehal_replay::Ids;

use super::data;
use super::fields::Name;
use super::report::{
    ChangeKind, DiffedExecutable, ExecutableChange, FieldChange, FieldName, FieldValue, FunctionChange,
};

/// The code of a capture, with its record.
#[derive(Clone, Copy)]
pub(super) struct Prepared<'a, 'c> {
    pub op: &'a PrepareExecutable<Ids<'c>>,
    pub record: u64,
}

/// An executable that only one capture has.
pub(super) fn only(kind: ChangeKind, it: Prepared<'_, '_>) -> ExecutableChange {
    let described = Some(describe(it));
    let (before, after) = if kind == ChangeKind::Removed { (described, None) } else { (None, described) };
    ExecutableChange { kind, before, after, changes: Vec::new(), functions: Vec::new() }
}

/// An executable of both captures, of which `changes` differ besides code and functions; `None` if nothing does.
pub(super) fn compare(
    kind: ChangeKind,
    before: Prepared<'_, '_>,
    after: Prepared<'_, '_>,
    changes: Vec<FieldChange>,
) -> Option<ExecutableChange> {
    let functions = functions(before.op.metadata, after.op.metadata);
    let is_same = changes.is_empty() && functions.is_empty() && before.op.data == after.op.data;
    if is_same && kind == ChangeKind::Changed {
        return None;
    }
    let (before, after) = (Some(describe(before)), Some(describe(after)));
    Some(ExecutableChange { kind, before, after, changes, functions })
}

fn describe(it: Prepared<'_, '_>) -> DiffedExecutable {
    DiffedExecutable {
        id: it.op.created,
        record: it.record,
        format: it.op.format.to_vec(),
        code_bytes: it.op.data.len() as u64,
        digest: data::digest(it.op.data),
        functions: list(it.op.metadata).iter().map(|function| function.name.to_vec()).collect(),
    }
}

fn list(metadata: &[u8]) -> Vec<Function<'_>> {
    ExecutableMetadata::read(metadata).into_iter().flat_map(|it| it.functions()).collect()
}

/// The functions that differ: by name, or by ordinal if names are unknown or not unique.
fn functions(before: &[u8], after: &[u8]) -> Vec<FunctionChange> {
    let (before, after) = (list(before), list(after));
    let index = |functions: &[Function<'_>]| -> HashMap<Vec<u8>, usize> {
        functions.iter().enumerate().map(|(index, function)| (function.name.to_vec(), index)).collect()
    };
    let (first, second) = (index(&before), index(&after));
    let has_names = first.len() == before.len()
        && second.len() == after.len()
        && !first.contains_key(&b""[..])
        && !second.contains_key(&b""[..]);
    let mut changes = Vec::new();
    for (ordinal, function) in before.iter().enumerate() {
        let other = if has_names { second.get(function.name).copied() } else { Some(ordinal) };
        let (kind, differing) = match other.and_then(|index| after.get(index)) {
            Some(other) => (ChangeKind::Changed, signature(function, other)),
            None => (ChangeKind::Removed, Vec::new()),
        };
        if kind == ChangeKind::Removed || !differing.is_empty() {
            changes.push(change(kind, function, differing));
        }
    }
    for (ordinal, function) in after.iter().enumerate() {
        let is_known = if has_names { first.contains_key(function.name) } else { ordinal < before.len() };
        if !is_known {
            changes.push(change(ChangeKind::Inserted, function, Vec::new()));
        }
    }
    changes
}

fn change(kind: ChangeKind, function: &Function<'_>, changes: Vec<FieldChange>) -> FunctionChange {
    FunctionChange { kind, name: function.name.to_vec(), ordinal: function.ordinal, changes }
}

/// How the signatures of two functions differ. A name that only one capture has is not a difference.
fn signature(before: &Function<'_>, after: &Function<'_>) -> Vec<FieldChange> {
    let (first, second) = (before.metadata, after.metadata);
    let size = |function: &Function<'_>| function.metadata.workgroup_size.map(|size| size.get());
    let number = |value: u64| FieldValue::Number(value);
    let mut changes = Vec::new();
    let mut compare = |name: Name, before: FieldValue, after: FieldValue| {
        if before != after {
            let (before, after) = (Some(before), Some(after));
            changes.push(FieldChange { name: FieldName(name), before, after, data: None });
        }
    };
    let whole = |base| Name { base, index: None, part: "" };
    if !before.name.is_empty() && !after.name.is_empty() {
        let text = |name: &[u8]| FieldValue::Text(String::from_utf8_lossy(name).into());
        compare(whole("name"), text(before.name), text(after.name));
    }
    compare(whole("ordinal"), number(before.ordinal.into()), number(after.ordinal.into()));
    compare(whole("flags"), number(first.flags.get()), number(second.flags.get()));
    compare(whole("workgroup size"), FieldValue::Triple(size(before)), FieldValue::Triple(size(after)));
    let constants = (first.constant_count.get(), second.constant_count.get());
    compare(whole("constants"), number(constants.0.into()), number(constants.1.into()));
    let bindings = (first.binding_count.get(), second.binding_count.get());
    compare(whole("bindings"), number(bindings.0.into()), number(bindings.1.into()));
    let parameters = (before.parameters.len() as u64, after.parameters.len() as u64);
    compare(whole("parameters"), number(parameters.0), number(parameters.1));
    for ((index, first), second) in (0u32..).zip(before.parameters).zip(after.parameters) {
        let part = |part| Name { base: "parameter", index: Some(index), part };
        let (x, y) = (first.parameter_type, second.parameter_type);
        compare(part("type"), number(x.into()), number(y.into()));
        compare(part("size"), number(first.size.into()), number(second.size.into()));
        compare(part("offset"), number(first.offset.get().into()), number(second.offset.get().into()));
        compare(part("flags"), number(first.flags.get().into()), number(second.flags.get().into()));
    }
    changes
}
