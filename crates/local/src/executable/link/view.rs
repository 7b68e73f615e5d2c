//! The parts of an ELF image that its rewriting reads: segments, the dynamic section, symbols, relocations.

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf::{
    DynamicTag, ET_DYN, ET_REL, FileHeader64, FileType, Machine as MachineId, PF_W, PT_DYNAMIC, PT_LOAD,
    ProgramHeader64, RelocationType, STT_GNU_IFUNC,
};
use object::read::elf::Sym;
use rehal_base::{Error, Result};

use crate::executable::elf::{
    ARM_64, Dynamic, FAT_MAGIC, MAGIC, Machine, Reader, Segment, Symbol, X86_64, check_segment, file_offset,
    segments, u16_at, u32_at, u64_at,
};

pub(super) const EHDR_BYTES: usize = size_of::<FileHeader64<LE>>();
pub(super) const PHDR_BYTES: usize = size_of::<ProgramHeader64<LE>>();

/// The longest name that is read, in bytes: many words may point to one text.
pub(super) const MAX_NAME: usize = 4096;

/// The smallest page.
pub(super) const PAGE: u64 = 4096;

/// Above that of any image, and far from an overflow.
pub(super) const MAX_ADDRESS: u64 = 1 << 46;

/// A relocation, with its addend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: RelocationType,
    pub(super) symbol: u32,
    pub(super) addend: u64,
    pub(super) origin: Origin,
}

/// Where a relocation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// At this file offset of the table that the dynamic section names first.
    Table(u64),
    /// In the table of functions that are called through the linkage table.
    Calls,
    /// Packed: its addend is the word that it relocates.
    Packed,
}

/// An ELF image for rewriting.
pub(super) struct View<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) machine: Machine,
    /// All entries of the program header table.
    pub(super) headers: Vec<Segment>,
    pub(super) dynamic: Dynamic<'a>,
    pub(super) relocations: Vec<Relocation>,
    /// Targets of words, as far as they are addresses of the image.
    pointers: HashMap<u64, u64>,
}

pub(super) fn damaged(what: &str) -> Error {
    Error::data_loss(format!("the ELF image is damaged: {what}"))
}

impl<'a> View<'a> {
    /// Reads an image: a shared object for one of the architectures.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        if bytes.starts_with(&FAT_MAGIC) {
            return Err(Error::unimplemented("a FatELF container has code for several machines")
                .advise("take the image for one machine out of it"));
        }
        if !bytes.starts_with(&MAGIC) || bytes.len() < EHDR_BYTES {
            return Err(Error::invalid_argument("not an ELF image").advise("name a shared library"));
        }
        if (bytes[4], bytes[5]) != (2, 1) {
            return Err(Error::unimplemented("the ELF image is not of 64 bits and little-endian"));
        }
        let (kind, id) = (FileType(u16_at(bytes, 16)), MachineId(u16_at(bytes, 18)));
        let machine = [X86_64, ARM_64].into_iter().find(|it| it.id == id).ok_or_else(|| {
            Error::unimplemented(format!("the ELF image is for machine {id}, not x86_64 or arm_64"))
        })?;
        if kind != ET_DYN {
            let what = if kind == ET_REL { "an object file" } else { "not a shared object" };
            return Err(Error::invalid_argument(format!("the ELF image is {what}"))
                .advise("link it to a shared library"));
        }
        let file = Reader { bytes, origin: 0 };
        let entries = segments(file)?;
        let headers: Vec<_> = entries.entries.iter().map(Segment::from).collect();
        let mut end = 0;
        for (it, (at, _)) in headers.iter().zip(entries.iter()).filter(|(it, _)| it.kind == PT_LOAD) {
            check_segment(file, at, it)?;
            if it.vaddr < end {
                return Err(damaged(&format!("its segments overlap at {:#x}", it.vaddr)));
            }
            end = it.end();
            if end > MAX_ADDRESS {
                return Err(damaged("a segment has an invalid address"));
            }
        }
        let dynamic = headers.iter().zip(entries.iter()).find(|(it, _)| it.kind == PT_DYNAMIC);
        let (entry, (at, _)) = dynamic.ok_or_else(|| damaged("it has no dynamic section"))?;
        let dynamic = Dynamic::read(file, &headers, entry, at)?;
        let mut this =
            Self { bytes, machine, headers, dynamic, relocations: Vec::new(), pointers: HashMap::new() };
        this.relocations = this.read_relocations();
        for it in &this.relocations {
            if let Some(target) = this.target(it).filter(|it| *it < MAX_ADDRESS)
                && it.offset < MAX_ADDRESS
            {
                this.pointers.insert(it.offset, target);
            }
        }
        Ok(this)
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.headers.iter().filter(|it| it.kind == PT_LOAD)
    }

    /// The value of a tag.
    pub(super) fn tag(&self, tag: DynamicTag) -> Option<u64> {
        self.dynamic.tag(tag)
    }

    /// The bytes of the file at an address; `None` unless it has them all.
    pub(super) fn memory(&self, vaddr: u64, length: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(self.file_offset(vaddr, length)?).ok()?;
        self.bytes.get(start..)?.get(..usize::try_from(length).ok()?)
    }

    /// Where the file has the bytes at an address.
    pub(super) fn file_offset(&self, vaddr: u64, length: u64) -> Option<u64> {
        file_offset(&self.headers, vaddr, length)
    }

    pub(super) fn is_code(&self, vaddr: u64) -> bool {
        self.loads().any(|it| it.is_executable() && it.vaddr <= vaddr && vaddr < it.end())
    }

    /// Whether nothing changes bytes once the image is loaded, nor while it is.
    pub(super) fn is_constant(&self, vaddr: u64, length: u64) -> bool {
        let end = vaddr.saturating_add(length);
        let holds = |it: &&Segment| it.vaddr <= vaddr && end <= it.end();
        self.loads().find(holds).is_some_and(|it| !it.flags.contains(PF_W))
            && !self.relocations.iter().any(|it| it.offset < end && vaddr < it.offset + 8)
    }

    /// Text of the dynamic section's strings; `None` if it is longer than [`MAX_NAME`].
    pub(super) fn string(&self, offset: u64) -> Option<&'a [u8]> {
        until_nul(self.dynamic.strings.get(usize::try_from(offset).ok()?..)?)
            .filter(|it| it.len() <= MAX_NAME)
    }

    /// The name of a symbol; empty if it has none that can be read.
    pub(super) fn symbol_name(&self, symbol: &Symbol) -> &'a [u8] {
        self.string(symbol.st_name.get(LE).into()).unwrap_or_default()
    }

    /// The symbol of a relocation; `None` if it has none.
    pub(super) fn symbol(&self, it: &Relocation) -> Option<&'a Symbol> {
        self.dynamic.symbols.entries.get(it.symbol as usize).filter(|_| it.symbol != 0)
    }

    fn read_relocations(&self) -> Vec<Relocation> {
        let mut all = Vec::new();
        for (index, table) in self.dynamic.relocations.iter().enumerate() {
            all.extend(table.iter().map(|(at, entry)| Relocation {
                offset: entry.r_offset.get(LE),
                kind: entry.r_type(LE, false),
                symbol: entry.r_sym(LE, false),
                addend: entry.r_addend.get(LE) as u64,
                origin: if index == 0 { Origin::Table(at) } else { Origin::Calls },
            }));
        }
        all.extend(self.dynamic.packed_places().map(|offset| Relocation {
            offset,
            kind: self.machine.relative,
            symbol: 0,
            addend: self.memory(offset, 8).map_or(0, |it| u64_at(it, 0)),
            origin: Origin::Packed,
        }));
        all
    }

    /// The address that a relocation writes, if it is one of the image.
    fn target(&self, it: &Relocation) -> Option<u64> {
        let machine = self.machine;
        if it.kind == machine.relative {
            return Some(it.addend);
        }
        let symbol = self.symbol(it)?;
        if symbol.is_undefined(LE) || symbol.is_absolute(LE) || symbol.st_type() == STT_GNU_IFUNC {
            return None;
        }
        let value = symbol.st_value.get(LE);
        match it.kind {
            kind if kind == machine.abs64 => Some(value.wrapping_add(it.addend)),
            kind if kind == machine.global || kind == machine.jump => Some(value),
            _ => None,
        }
    }

    /// The target of the word at an address.
    pub(super) fn pointer(&self, vaddr: u64) -> Option<u64> {
        self.pointers.get(&vaddr).copied()
    }

    /// Addresses of words that point into the image, in ascending order.
    pub(super) fn pointer_places(&self) -> Vec<u64> {
        let mut places: Vec<_> = self.pointers.keys().copied().collect();
        places.sort_unstable();
        places
    }

    /// The integer of 32 bits at an address. Zeros that the file lacks count.
    pub(super) fn integer(&self, vaddr: u64) -> Option<u32> {
        match self.memory(vaddr, 4) {
            Some(bytes) => Some(u32_at(bytes, 0)),
            None => {
                let is_zero = |it: &Segment| it.vaddr <= vaddr && vaddr.saturating_add(4) <= it.end();
                self.loads().any(is_zero).then_some(0)
            }
        }
    }

    /// The text at an address; of a longer one than [`MAX_NAME`], more bytes than that.
    pub(super) fn text(&self, vaddr: u64) -> Option<&'a [u8]> {
        let holds = |it: &&Segment| it.vaddr <= vaddr && vaddr < it.vaddr + it.file_size;
        let segment = self.loads().find(holds)?;
        let rest = self.memory(vaddr, segment.vaddr + segment.file_size - vaddr)?;
        until_nul(rest)
    }
}

/// The bytes before the first zero, or [`MAX_NAME`] and one more, if there are as many.
fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    let first = &bytes[..bytes.len().min(MAX_NAME + 1)];
    let end = first.iter().position(|byte| *byte == 0);
    end.or_else(|| (first.len() > MAX_NAME).then_some(first.len())).map(|end| &bytes[..end])
}
