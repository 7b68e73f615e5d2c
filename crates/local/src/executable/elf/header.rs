//! The ELF header (<https://gabi.xinuos.com/elf/02-eheader.html>) and the program header table
//! (<https://gabi.xinuos.com/elf/07-pheader.html>).

use rehal_base::FormatError;

use super::constants::*;
use super::reader::{Reader, u16_at, u32_at, u64_at};

/// First bytes of an ELF image.
pub(crate) const MAGIC: [u8; 4] = [0x7F, b'E', b'L', b'F'];

/// Location of the program header table.
pub(super) struct Header {
    pub(super) segments_offset: u64,
    pub(super) segment_count: u16,
}

/// An entry of the program header table.
pub(super) struct ProgramHeader {
    /// Offset of the entry itself.
    pub(super) at: u64,
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) vaddr: u64,
    pub(super) file_size: u64,
    pub(super) memory_size: u64,
    pub(super) align: u64,
}

/// Checks the header of a 64-bit little-endian shared object for x86-64.
pub(super) fn read(file: Reader<'_>) -> Result<Header, FormatError> {
    let magic = file.take(0, 4, "e_ident[EI_MAG]")?;
    if magic != MAGIC {
        return Err(file.corrupt(0, "e_ident[EI_MAG]", "7f 45 4c 46", hex(magic)));
    }
    let ident = file.take(4, 2, "e_ident")?;
    let (class, order) = (ident[0], ident[1]);
    // Check the machine first: an unexpected class usually belongs to another machine.
    let machine = file.u16(18, "e_machine")?;
    if machine != EM_X86_64 && order == ELFDATA2LSB {
        let theirs = machine_name(machine, class);
        let advice = format!("the executable is for {theirs}, this machine is x86_64: compile it for x86_64");
        return Err(file.unsupported(18, "e_machine", "x86_64", theirs).advise(advice));
    }
    if class != ELFCLASS64 {
        return Err(file.unsupported(4, "e_ident[EI_CLASS]", "2 (64-bit)", class.to_string()));
    }
    if order != ELFDATA2LSB {
        return Err(file.unsupported(5, "e_ident[EI_DATA]", "1 (little-endian)", order.to_string()));
    }
    let header = file.take(0, EHDR_BYTES, "Elf64_Ehdr")?;
    let version = u32_at(header, 20);
    if version != EV_CURRENT {
        return Err(file.unsupported(20, "e_version", "1", version.to_string()));
    }
    let kind = u16_at(header, 16);
    if kind != ET_DYN {
        return Err(file.unsupported(16, "e_type", "3 (a shared object)", kind.to_string()));
    }
    for (at, field, expected) in
        [(52, "e_ehsize", EHDR_BYTES), (54, "e_phentsize", PHDR_BYTES), (58, "e_shentsize", SHDR_BYTES)]
    {
        let found = u64::from(u16_at(header, at));
        // A file without sections may have an entry size of zero.
        if found != expected && !(field == "e_shentsize" && found == 0 && u16_at(header, 60) == 0) {
            return Err(file.corrupt(at as u64, field, expected.to_string(), found.to_string()));
        }
    }
    let this = Header { segments_offset: u64_at(header, 32), segment_count: u16_at(header, 56) };
    if this.segments_offset == 0 || this.segment_count == 0 {
        return Err(file.corrupt(32, "e_phoff", "a table of segments", "none"));
    }
    file.take(this.segments_offset, u64::from(this.segment_count) * PHDR_BYTES, "e_phoff")?;
    // Sections are not used, but a table out of bounds reveals a truncated file.
    file.take(u64_at(header, 40), u64::from(u16_at(header, 60)) * SHDR_BYTES, "e_shoff")?;
    Ok(this)
}

impl Header {
    /// The entries, whose bounds [`read`] has checked.
    pub(super) fn segments<'a>(&self, file: Reader<'a>) -> impl Iterator<Item = ProgramHeader> + use<'a> {
        let start = self.segments_offset;
        let length = u64::from(self.segment_count) * PHDR_BYTES;
        let table = file.take(start, length, "e_phoff").unwrap_or_default();
        table.chunks_exact(PHDR_BYTES as usize).enumerate().map(move |(index, entry)| ProgramHeader {
            at: start + index as u64 * PHDR_BYTES,
            kind: u32_at(entry, 0),
            flags: u32_at(entry, 4),
            offset: u64_at(entry, 8),
            vaddr: u64_at(entry, 16),
            file_size: u64_at(entry, 32),
            memory_size: u64_at(entry, 40),
            align: u64_at(entry, 48),
        })
    }
}

/// The architecture of an image, as in executable formats.
pub(crate) fn architecture(bytes: &[u8]) -> String {
    let file = Reader { bytes, origin: 0 };
    let class = bytes.get(4).copied().unwrap_or_default();
    file.u16(18, "e_machine").map_or("unknown".to_string(), |machine| machine_name(machine, class))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
