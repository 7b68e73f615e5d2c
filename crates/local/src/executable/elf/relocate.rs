//! Relocations: the addresses in an image that depend on its load address. The types are those of the x86-64
//! supplement of the System V ABI (<https://gitlab.com/x86-psABIs/x86-64-ABI>).

use rehal_base::FormatError;

use super::constants::*;
use super::dynamic::Table;
use super::image::Image;
use super::reader::{u32_at, u64_at};

/// A change to the image's memory, in image addresses.
pub(super) struct Change {
    /// Offset of the relocation in the file, for errors.
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
pub(super) fn check(image: &Image<'_>) -> Result<(), FormatError> {
    for_each(image, |change| match image.segment_of(change.vaddr, change.value.bytes()) {
        Some(_) => Ok(()),
        None => Err(outside(image, &change)),
    })
}

/// Relocates `memory`, the pages of an image whose first page is at `base`.
pub(super) fn apply(image: &Image<'_>, memory: &mut [u8], base: u64) -> Result<(), FormatError> {
    let bias = base.wrapping_sub(image.first_page);
    for_each(image, |change| {
        let start = change.vaddr.wrapping_sub(image.first_page) as usize;
        let end = start.saturating_add(change.value.bytes() as usize);
        let Some(target) = memory.get_mut(start..end) else { return Err(outside(image, &change)) };
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
                    return Err(image.file.corrupt(change.at, "R_X86_64_PC32", "a 32-bit distance", found));
                };
                target.copy_from_slice(&distance.to_le_bytes());
            }
        }
        Ok(())
    })
}

fn outside(image: &Image<'_>, change: &Change) -> FormatError {
    let expected = "an address of a loaded segment";
    image.file.corrupt(change.at, "r_offset", expected, format!("{:#x}", change.vaddr))
}

/// Visits every relocation in the order of the specification: packed, then plain, then those of the procedure
/// linkage table.
pub(super) fn for_each(
    image: &Image<'_>,
    mut visit: impl FnMut(Change) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    for_each_packed(image.dynamic.packed, &mut visit)?;
    for table in image.dynamic.relocations {
        for (index, entry) in table.bytes.chunks_exact(RELA_BYTES as usize).enumerate() {
            let at = table.offset + index as u64 * RELA_BYTES;
            let vaddr = u64_at(entry, 0);
            if let Some(value) = value(image, at, entry)? {
                visit(Change { at, vaddr, value })?;
            }
        }
    }
    Ok(())
}

/// The value that an entry with an addend writes, or `None` for a no-op.
fn value(image: &Image<'_>, at: u64, entry: &[u8]) -> Result<Option<Value>, FormatError> {
    let (kind, symbol, addend) = (u32_at(entry, 8), u32_at(entry, 12), u64_at(entry, 16));
    let value = match kind {
        R_X86_64_NONE => return Ok(None),
        R_X86_64_RELATIVE => Value::Address(addend),
        R_X86_64_64 => symbol_value(image, at, symbol, addend)?,
        R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT => symbol_value(image, at, symbol, 0)?,
        R_X86_64_PC32 => match symbol_value(image, at, symbol, addend)? {
            Value::Address(vaddr) => Value::Distance(vaddr),
            _ => {
                return Err(image.file.unsupported(
                    at + 12,
                    "r_info",
                    "a symbol of the image",
                    "an absolute one",
                ));
            }
        },
        _ => {
            let expected = "a relocation of a self-contained x86-64 image (0, 1, 2, 6, 7, 8)";
            return Err(image.file.unsupported(at + 8, "r_info", expected, kind.to_string()));
        }
    };
    Ok(Some(value))
}

/// A symbol's value plus `addend`; symbol 0 has the absolute value 0.
fn symbol_value(image: &Image<'_>, at: u64, index: u32, addend: u64) -> Result<Value, FormatError> {
    let Some(symbol) = image.dynamic.symbol(u64::from(index)) else {
        let expected = format!("a symbol below {}", image.dynamic.symbol_count());
        return Err(image.file.corrupt(at + 12, "r_info", expected, index.to_string()));
    };
    let value = symbol.value.wrapping_add(addend);
    Ok(match symbol {
        _ if index == 0 => Value::Number(addend),
        symbol if symbol.is_absolute() => Value::Number(value),
        _ => Value::Address(value),
    })
}

/// Packed entries: an even one is an address; an odd one is a bitmap of which of the next 63 words follow.
fn for_each_packed(
    table: Table<'_>,
    visit: &mut impl FnMut(Change) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let mut next = 0u64;
    for (index, entry) in table.bytes.chunks_exact(8).enumerate() {
        let at = table.offset + index as u64 * 8;
        let entry = u64_at(entry, 0);
        if entry & 1 == 0 {
            visit(Change { at, vaddr: entry, value: Value::InPlace })?;
            next = entry.wrapping_add(8);
            continue;
        }
        let mut bits = entry >> 1;
        while bits != 0 {
            let word = u64::from(bits.trailing_zeros());
            visit(Change { at, vaddr: next.wrapping_add(word * 8), value: Value::InPlace })?;
            bits &= bits - 1;
        }
        next = next.wrapping_add(63 * 8);
    }
    Ok(())
}
