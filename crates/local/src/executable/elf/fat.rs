//! FatELF: several images in one file, one per machine (source: the FatELF specification, version 1).

use object::elf::Machine as MachineId;
use rehal_base::FormatError;

use super::header::machine_name;
use super::machine::Machine;
use rehal_formats::elf::{Reader, u16_at, u64_at};

/// First bytes of a container.
pub(crate) const MAGIC: [u8; 4] = [0xFA, 0x70, 0x0E, 0x1F];
const VERSION: u16 = 1;
const HEADER_BYTES: u64 = 8;
const RECORD_BYTES: u64 = 24;
const WORD_SIZE_64: u8 = 2;
const BYTE_ORDER_LSB: u8 = 1;
/// System V, Linux, standalone: those that the reference accepts.
const OS_ABIS: [u8; 3] = [0, 3, 255];

/// The image for this machine if `bytes` are a container, otherwise all of `bytes`.
pub(super) fn select(bytes: &[u8]) -> Result<Reader<'_>, FormatError> {
    let file = Reader { bytes, origin: 0 };
    if !bytes.starts_with(&MAGIC) {
        return Ok(file);
    }
    let version = file.u16(4, "FatELF version")?;
    if version != VERSION {
        return Err(file.unsupported(4, "FatELF version", VERSION.to_string(), version.to_string()));
    }
    let count = u64::from(file.take(6, 2, "FatELF num_records")?[0]);
    let table = file.take(HEADER_BYTES, count * RECORD_BYTES, "FatELF records")?;
    let mut others = Vec::new();
    for (index, record) in table.chunks_exact(RECORD_BYTES as usize).enumerate() {
        let (machine, os_abi, word_size, byte_order) =
            (MachineId(u16_at(record, 0)), record[2], record[4], record[5]);
        let fits = machine == Machine::HERE.id
            && OS_ABIS.contains(&os_abi)
            && word_size == WORD_SIZE_64
            && byte_order == BYTE_ORDER_LSB;
        if !fits {
            others.push(machine_name(machine, word_size));
            continue;
        }
        let (offset, size) = (u64_at(record, 8), u64_at(record, 16));
        let at = HEADER_BYTES + index as u64 * RECORD_BYTES + 8;
        if offset < HEADER_BYTES + count * RECORD_BYTES {
            return Err(file.corrupt(at, "FatELF offset", "an offset after the records", offset.to_string()));
        }
        return Ok(Reader { bytes: file.take(offset, size, "FatELF image")?, origin: offset });
    }
    let found = if others.is_empty() { "none".to_string() } else { others.join(", ") };
    let expected = format!("an image for {} on Linux", Machine::HERE.name);
    Err(file.unsupported(HEADER_BYTES, "FatELF machine", expected, found))
}
