//! Comparison of executables and their functions.

use std::collections::HashMap;

use object::elf::FileHeader64;
use object::read::elf::{ElfFile, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use rehal_capture::payload::{ExecutableMetadata, Function};
use rehal_hal::PrepareExecutable;
use rehal_judge::digest;
use rehal_replay::Ids;

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
    let (changes, functions) = (Vec::new(), Vec::new());
    ExecutableChange { kind, before, after, is_same_code: None, changes, functions, undetermined: None }
}

/// An executable of both captures, of which `changes` differ besides code and functions; `None` if nothing
/// does.
pub(super) fn compare<'c>(
    kind: ChangeKind,
    before: Prepared<'_, 'c>,
    after: Prepared<'_, 'c>,
    changes: Vec<FieldChange>,
) -> Option<ExecutableChange> {
    let (functions, undetermined) = functions(&before, &after);
    let is_same_code = before.op.data == after.op.data;
    let is_same = changes.is_empty() && functions.is_empty() && is_same_code;
    if is_same && kind == ChangeKind::Changed {
        return None;
    }
    let (before, after) = (Some(describe(before)), Some(describe(after)));
    let is_same_code = Some(is_same_code);
    Some(ExecutableChange { kind, before, after, is_same_code, changes, functions, undetermined })
}

fn describe(it: Prepared<'_, '_>) -> DiffedExecutable {
    DiffedExecutable {
        id: it.op.created,
        record: it.record,
        format: it.op.format.to_vec(),
        code_bytes: it.op.data.len() as u64,
        digest: digest(it.op.data),
        functions: list(it.op.metadata).iter().map(|function| function.name.to_vec()).collect(),
    }
}

fn list(metadata: &[u8]) -> Vec<Function<'_>> {
    ExecutableMetadata::read(metadata).into_iter().flat_map(|it| it.functions()).collect()
}

/// The functions that differ: by name, or by ordinal if names are unknown or not unique; and why some are
/// unknown.
fn functions<'c>(
    before: &Prepared<'_, 'c>,
    after: &Prepared<'_, 'c>,
) -> (Vec<FunctionChange>, Option<&'static str>) {
    let code = Code::from_pair(before, after);
    let (before, after) = (list(before.op.metadata), list(after.op.metadata));
    let mut undetermined = code.as_ref().err().copied();
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
        let Some(other) = other.and_then(|index| after.get(index)) else {
            changes.push(change(ChangeKind::Removed, function, Vec::new(), None));
            continue;
        };
        let differing = signature(function, other);
        let is_code_changed = code.as_ref().ok().and_then(|it| it.differ(function.name, other.name));
        if code.is_ok() && is_code_changed.is_none() {
            undetermined = Some("the code has no symbols of them");
        }
        if is_code_changed == Some(true) || !differing.is_empty() {
            changes.push(change(ChangeKind::Changed, function, differing, is_code_changed));
        }
    }
    for (ordinal, function) in after.iter().enumerate() {
        let is_known = if has_names { first.contains_key(function.name) } else { ordinal < before.len() };
        if !is_known {
            changes.push(change(ChangeKind::Inserted, function, Vec::new(), None));
        }
    }
    let is_elsewhere = matches!(code, Ok(Code::Different(..))) && changes.is_empty();
    if is_elsewhere && undetermined.is_none() {
        undetermined = Some("what differs is outside of their code");
    }
    let has_others = before.len() > changes.iter().filter(|it| it.kind != ChangeKind::Inserted).count();
    let undetermined = undetermined.filter(|_| has_others);
    (changes, undetermined)
}

/// The code of two executables, by the symbols of their functions.
enum Code<'c> {
    /// The executables are the same.
    Same,
    /// ELF images, with the bytes of each function that has a symbol.
    Different(HashMap<&'c [u8], &'c [u8]>, HashMap<&'c [u8], &'c [u8]>),
}

impl<'c> Code<'c> {
    /// Fails with the reason if the code of single functions is unknown.
    fn from_pair(before: &Prepared<'_, 'c>, after: &Prepared<'_, 'c>) -> Result<Self, &'static str> {
        if before.op.data == after.op.data {
            return Ok(Self::Same);
        }
        if before.op.format != after.op.format {
            return Err("the formats differ");
        }
        match (symbols(before.op.data), symbols(after.op.data)) {
            (Some(before), Some(after)) => Ok(Self::Different(before, after)),
            _ => Err("the code is not a 64-bit ELF image"),
        }
    }

    /// Whether the bytes of two functions differ, the addresses in them included; `None` if one has no
    /// symbol.
    fn differ(&self, before: &[u8], after: &[u8]) -> Option<bool> {
        let Self::Different(first, second) = self else { return Some(false) };
        Some(first.get(before)? != second.get(after)?)
    }
}

/// The bytes of the functions that an ELF image has symbols of, by name; `None` for other code.
fn symbols(data: &[u8]) -> Option<HashMap<&[u8], &[u8]>> {
    let image = ElfFile::<FileHeader64<Endianness>>::parse(data).ok()?;
    let symbols = image.symbols().chain(image.dynamic_symbols());
    let functions = symbols.filter(|it| it.kind() == SymbolKind::Text && it.size() != 0);
    let bytes = |address: u64, size: u64| {
        let segments = image.elf_program_headers().iter();
        segments.filter_map(|it| it.data_range(image.endian(), data, address, size).ok()?).next()
    };
    let found = functions.filter_map(|it| Some((it.name_bytes().ok()?, bytes(it.address(), it.size())?)));
    Some(found.collect())
}

fn change(
    kind: ChangeKind,
    function: &Function<'_>,
    changes: Vec<FieldChange>,
    is_code_changed: Option<bool>,
) -> FunctionChange {
    let is_same_code = is_code_changed.map(|is_changed| !is_changed);
    FunctionChange { kind, name: function.name.to_vec(), ordinal: function.ordinal, is_same_code, changes }
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
