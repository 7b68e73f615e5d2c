//! Relocations: the addresses in an image that depend on its load address. The types are those of the
//! processors' supplements of the System V ABI: of x86-64 (<https://gitlab.com/x86-psABIs/x86-64-ABI>), and
//! of 64-bit ARM ("ELF for the Arm 64-bit Architecture").

use object::LittleEndian as LE;
use object::elf::{Rela64, RelocationType};
use object::read::elf::Sym;
use rehal_base::FormatError;

use super::dynamic::Dynamic;
use super::header::Segment;
use super::machine::Machine;
use rehal_formats::elf::{Reader, Table, u64_at};

/// A change to the image's memory, in image addresses.
pub(super) struct Change {
    /// Offset of the relocation in the file, or of all packed ones, for errors.
    at: u64,
    /// Target address.
    pub(super) vaddr: u64,
    pub(super) value: Value,
}

pub(super) enum Value {
    /// 64 bits: the process address of this image address.
    Address(u64),
    /// 64 bits: this number.
    Number(u64),
    /// 64 bits: the image address stored there, as a process address.
    InPlace,
    /// 32 bits: the distance from there to this image address.
    Distance(u64),
}

impl Value {
    fn bytes(&self) -> u64 {
        if matches!(self, Self::Distance(_)) { 4 } else { 8 }
    }
}

/// Checks that every relocation has a supported type and is within the image.
pub(super) fn check(
    file: Reader<'_>,
    dynamic: &Dynamic<'_>,
    segments: &[Segment],
) -> Result<(), FormatError> {
    for_each(file, dynamic, |change| {
        let is_inside = segments.iter().any(|it| it.holds(change.vaddr, change.value.bytes()));
        if is_inside { Ok(()) } else { Err(outside(file, &change)) }
    })
}

/// Relocates `memory`, the pages of an image whose first page is at `first_page`, and in the process at
/// `base`.
pub(super) fn apply(
    file: Reader<'_>,
    dynamic: &Dynamic<'_>,
    first_page: u64,
    memory: &mut [u8],
    base: u64,
) -> Result<(), FormatError> {
    let bias = base.wrapping_sub(first_page);
    for_each(file, dynamic, |change| {
        let start = change.vaddr.wrapping_sub(first_page) as usize;
        let end = start.saturating_add(change.value.bytes() as usize);
        let Some(target) = memory.get_mut(start..end) else { return Err(outside(file, &change)) };
        match change.value {
            Value::Address(vaddr) => target.copy_from_slice(&vaddr.wrapping_add(bias).to_le_bytes()),
            Value::Number(value) => target.copy_from_slice(&value.to_le_bytes()),
            Value::InPlace => {
                let value = u64_at(target, 0).wrapping_add(bias);
                target.copy_from_slice(&value.to_le_bytes());
            }
            Value::Distance(vaddr) => {
                let distance = vaddr.wrapping_sub(change.vaddr) as i64;
                let Ok(distance) = i32::try_from(distance) else {
                    let found = format!("{distance}");
                    return Err(file.corrupt(change.at, "R_X86_64_PC32", "a 32-bit distance", found));
                };
                target.copy_from_slice(&distance.to_le_bytes());
            }
        }
        Ok(())
    })
}

fn outside(file: Reader<'_>, change: &Change) -> FormatError {
    let expected = "an address of a loaded segment";
    file.corrupt(change.at, "r_offset", expected, format!("{:#x}", change.vaddr))
}

/// Visits every relocation in the order of the specification: packed, then plain, then those of the procedure
/// linkage table.
fn for_each(
    file: Reader<'_>,
    dynamic: &Dynamic<'_>,
    mut visit: impl FnMut(Change) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    for vaddr in dynamic.packed_places() {
        visit(Change { at: dynamic.packed.offset, vaddr, value: Value::InPlace })?;
    }
    for (at, entry) in dynamic.relocations.iter().flat_map(Table::iter) {
        if let Some(value) = value(file, dynamic, at, entry)? {
            visit(Change { at, vaddr: entry.r_offset.get(LE), value })?;
        }
    }
    Ok(())
}

/// The value that an entry with an addend writes, or `None` for a no-op.
fn value(
    file: Reader<'_>,
    dynamic: &Dynamic<'_>,
    at: u64,
    entry: &Rela64<LE>,
) -> Result<Option<Value>, FormatError> {
    let (kind, symbol) = (entry.r_type(LE, false), entry.r_sym(LE, false));
    let addend = entry.r_addend.get(LE) as u64;
    let machine = Machine::HERE;
    let value = match kind {
        RelocationType(0) => return Ok(None),
        _ if kind == machine.relative => Value::Address(addend),
        _ if kind == machine.abs64 => symbol_value(file, dynamic, at, symbol, addend)?,
        _ if kind == machine.global || kind == machine.jump => {
            let addend = if machine.adds_to_globals { addend } else { 0 };
            symbol_value(file, dynamic, at, symbol, addend)?
        }
        _ if Some(kind) == machine.distance => match symbol_value(file, dynamic, at, symbol, addend)? {
            Value::Address(vaddr) => Value::Distance(vaddr),
            _ => {
                return Err(file.unsupported(at + 12, "r_info", "a symbol of the image", "an absolute one"));
            }
        },
        _ => {
            let Machine { name, relative, abs64, global, jump, .. } = machine;
            let expected = format!(
                "a relocation of a self-contained {name} image (0, {abs64}, {global}, {jump}, {relative}{})",
                machine.distance.map(|it| format!(", {it}")).unwrap_or_default()
            );
            return Err(file.unsupported(at + 8, "r_info", expected, kind.to_string()));
        }
    };
    Ok(Some(value))
}

/// A symbol's value plus `addend`; symbol 0 has the absolute value 0.
fn symbol_value(
    file: Reader<'_>,
    dynamic: &Dynamic<'_>,
    at: u64,
    index: u32,
    addend: u64,
) -> Result<Value, FormatError> {
    let symbols = dynamic.symbols.entries;
    let Some(symbol) = symbols.get(index as usize) else {
        let expected = format!("a symbol below {}", symbols.len());
        return Err(file.corrupt(at + 12, "r_info", expected, index.to_string()));
    };
    let value = symbol.st_value.get(LE).wrapping_add(addend);
    Ok(match symbol {
        _ if index == 0 => Value::Number(addend),
        symbol if symbol.is_absolute(LE) => Value::Number(value),
        _ => Value::Address(value),
    })
}
