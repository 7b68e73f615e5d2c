//! The ELF header (<https://gabi.xinuos.com/elf/02-eheader.html>) and the program header table
//! (<https://gabi.xinuos.com/elf/07-pheader.html>).

use object::LittleEndian as LE;
use object::elf::{
    ELFDATA2LSB, EM_386, EM_AARCH64, EM_AMDGPU, EM_ARM, EM_CUDA, EM_RISCV, EM_X86_64, ET_DYN, FileHeader64,
    Machine as MachineId, PF_X, PT_LOAD, ProgramFlags, ProgramHeader64, ProgramType, SectionHeader64,
};
use rehal_base::FormatError;

use super::machine::Machine;
pub(crate) use rehal_formats::elf::MAGIC;
use rehal_formats::elf::{Reader, Table};

const HEADER_BYTES: u64 = size_of::<FileHeader64<LE>>() as u64;
const SEGMENT_BYTES: u64 = size_of::<ProgramHeader64<LE>>() as u64;
const SECTION_BYTES: u64 = size_of::<SectionHeader64<LE>>() as u64;

/// An entry of the program header table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its type, such as `PT_LOAD`.
    pub kind: ProgramType,
    /// Permissions to read, write, execute: bits 2, 1, 0.
    pub flags: ProgramFlags,
    /// File offset of its bytes.
    pub offset: u64,
    /// Image-relative address.
    pub vaddr: u64,
    /// File size.
    pub file_size: u64,
    /// Memory size; zero-filled beyond the file size.
    pub memory_size: u64,
    /// Alignment in bytes.
    pub align: u64,
}

impl Segment {
    /// Whether it is executable.
    pub fn is_executable(&self) -> bool {
        self.flags.contains(PF_X)
    }

    /// Whether its memory contains all of `vaddr..vaddr + length`.
    pub(super) fn holds(&self, vaddr: u64, length: u64) -> bool {
        let Some(end) = vaddr.checked_add(length) else { return false };
        self.vaddr <= vaddr && end <= self.vaddr + self.memory_size
    }

    /// The address after its memory.
    pub(in crate::executable) fn end(&self) -> u64 {
        self.vaddr.saturating_add(self.memory_size)
    }
}

/// Rejects an image that is for another machine.
pub(super) fn check_machine(file: Reader<'_>) -> Result<(), FormatError> {
    let magic = file.take(0, 4, "e_ident[EI_MAG]")?;
    if magic != MAGIC {
        return Err(file.corrupt(0, "e_ident[EI_MAG]", "7f 45 4c 46", hex(magic)));
    }
    let ident = file.take(4, 2, "e_ident")?;
    // An unexpected class usually belongs to another machine.
    let machine = MachineId(file.u16(18, "e_machine")?);
    if machine != Machine::HERE.id && ident[1] == ELFDATA2LSB.0 {
        let (theirs, here) = (machine_name(machine, ident[0]), Machine::HERE.name);
        let advice = format!("the executable is for {theirs}, this machine is {here}: compile it for {here}");
        return Err(file.unsupported(18, "e_machine", here, theirs).advise(advice));
    }
    Ok(())
}

/// The entries of the program header table, after a check of the header of a 64-bit little-endian shared
/// object.
pub(in crate::executable) fn segments(
    file: Reader<'_>,
) -> Result<Table<'_, ProgramHeader64<LE>>, FormatError> {
    let header = rehal_formats::elf::header(file)?;
    let version = header.e_version.get(LE);
    if version != 1 {
        return Err(file.unsupported(20, "e_version", "1", version.to_string()));
    }
    let kind = header.e_type.get(LE);
    if kind != ET_DYN {
        return Err(file.unsupported(16, "e_type", "3 (a shared object)", kind.to_string()));
    }
    let section_count = u64::from(header.e_shnum.get(LE));
    for (at, field, expected, found) in [
        (52, "e_ehsize", HEADER_BYTES, header.e_ehsize.get(LE)),
        (54, "e_phentsize", SEGMENT_BYTES, header.e_phentsize.get(LE)),
        (58, "e_shentsize", SECTION_BYTES, header.e_shentsize.get(LE)),
    ] {
        // A file without sections may have an entry size of zero.
        if u64::from(found) != expected && !(at == 58 && found == 0 && section_count == 0) {
            return Err(file.corrupt(at, field, expected.to_string(), found.to_string()));
        }
    }
    let (start, count) = (header.e_phoff.get(LE), u64::from(header.e_phnum.get(LE)));
    if start == 0 || count == 0 {
        return Err(file.corrupt(32, "e_phoff", "a table of segments", "none"));
    }
    let table = file.table(start, count * SEGMENT_BYTES, "e_phoff")?;
    // Sections are not used, but a table out of bounds reveals a truncated file.
    file.take(header.e_shoff.get(LE), section_count * SECTION_BYTES, "e_shoff")?;
    Ok(table)
}

impl From<&ProgramHeader64<LE>> for Segment {
    fn from(entry: &ProgramHeader64<LE>) -> Self {
        Self {
            kind: entry.p_type.get(LE),
            flags: entry.p_flags.get(LE),
            offset: entry.p_offset.get(LE),
            vaddr: entry.p_vaddr.get(LE),
            file_size: entry.p_filesz.get(LE),
            memory_size: entry.p_memsz.get(LE),
            align: entry.p_align.get(LE),
        }
    }
}

/// Checks the bounds and the alignment of a segment whose entry is at `at`.
pub(in crate::executable) fn check_segment(
    file: Reader<'_>,
    at: u64,
    segment: &Segment,
) -> Result<(), FormatError> {
    file.take(segment.offset, segment.file_size, "p_offset")?;
    if segment.file_size > segment.memory_size {
        let expected = format!("at most p_memsz ({})", segment.memory_size);
        return Err(file.corrupt(at + 32, "p_filesz", expected, segment.file_size.to_string()));
    }
    if !(segment.align <= 1 || segment.align.is_power_of_two()) {
        return Err(file.corrupt(at + 48, "p_align", "a power of two", segment.align.to_string()));
    }
    Ok(())
}

/// The file offset of `length` bytes at address `vaddr`, if the file has all of them.
pub(in crate::executable) fn file_offset(segments: &[Segment], vaddr: u64, length: u64) -> Option<u64> {
    let end = vaddr.checked_add(length)?;
    let holds = |it: &&Segment| {
        it.kind == PT_LOAD && it.vaddr <= vaddr && end <= it.vaddr.saturating_add(it.file_size)
    };
    let segment = segments.iter().find(holds)?;
    Some(vaddr - segment.vaddr + segment.offset)
}

/// The architecture of an image, as in executable formats.
pub(crate) fn architecture(bytes: &[u8]) -> String {
    let file = Reader { bytes, origin: 0 };
    let class = bytes.get(4).copied().unwrap_or_default();
    file.u16(18, "e_machine").map_or("unknown".to_string(), |machine| machine_name(MachineId(machine), class))
}

/// The name of a machine, as in executable formats.
pub(super) fn machine_name(machine: MachineId, class: u8) -> String {
    let name = match (machine, class) {
        (EM_386, _) => "x86_32",
        (EM_ARM, _) => "arm_32",
        (EM_X86_64, _) => "x86_64",
        (EM_AARCH64, _) => "arm_64",
        (EM_RISCV, 1) => "riscv_32",
        (EM_RISCV, _) => "riscv_64",
        (EM_AMDGPU, _) => "amdgpu",
        (EM_CUDA, _) => "cuda",
        _ => return format!("machine {machine}"),
    };
    name.to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
