//! What the rewriting of an ELF image reads of it: segments, the dynamic section, symbols, relocations.

use std::collections::HashMap;

use rehal_base::{Error, Result};

use super::super::elf::{FAT_MAGIC, MAGIC};

pub(super) const EHDR_BYTES: usize = 64;
pub(super) const PHDR_BYTES: usize = 56;
pub(super) const SYM_BYTES: usize = 24;
pub(super) const RELA_BYTES: usize = 24;
pub(super) const DYN_BYTES: usize = 16;

pub(super) const PT_LOAD: u32 = 1;
pub(super) const PT_DYNAMIC: u32 = 2;
pub(super) const PT_NOTE: u32 = 4;
pub(super) const PT_PHDR: u32 = 6;
pub(super) const PT_TLS: u32 = 7;
pub(super) const PF_X: u32 = 1;
pub(super) const PF_W: u32 = 2;
pub(super) const PF_R: u32 = 4;

pub(super) const DT_NEEDED: u64 = 1;
const DT_PLTRELSZ: u64 = 2;
pub(super) const DT_HASH: u64 = 4;
pub(super) const DT_STRTAB: u64 = 5;
pub(super) const DT_SYMTAB: u64 = 6;
pub(super) const DT_RELA: u64 = 7;
pub(super) const DT_RELASZ: u64 = 8;
pub(super) const DT_RELAENT: u64 = 9;
pub(super) const DT_STRSZ: u64 = 10;
pub(super) const DT_INIT: u64 = 12;
pub(super) const DT_FINI: u64 = 13;
const DT_REL: u64 = 17;
pub(super) const DT_TEXTREL: u64 = 22;
const DT_JMPREL: u64 = 23;
pub(super) const DT_INIT_ARRAY: u64 = 25;
pub(super) const DT_FINI_ARRAY: u64 = 26;
pub(super) const DT_INIT_ARRAYSZ: u64 = 27;
pub(super) const DT_FINI_ARRAYSZ: u64 = 28;
pub(super) const DT_FLAGS: u64 = 30;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const DT_GNU_HASH: u64 = 0x6FFF_FEF5;
pub(super) const DT_VERSYM: u64 = 0x6FFF_FFF0;
pub(super) const DT_VERDEFNUM: u64 = 0x6FFF_FFFD;
pub(super) const DT_VERNEED: u64 = 0x6FFF_FFFE;
pub(super) const DT_VERNEEDNUM: u64 = 0x6FFF_FFFF;

/// In `DT_FLAGS`: code is relocated; thread-local storage is reserved at the start of the process.
pub(super) const DF_TEXTREL: u64 = 4;
pub(super) const DF_STATIC_TLS: u64 = 16;

/// The longest name that is read, in bytes: many words may point to one text.
pub(super) const MAX_NAME: usize = 4096;

/// Above that of any image, and far from an overflow.
pub(super) const MAX_ADDRESS: u64 = 1 << 46;

const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xFFF1;
const STB_WEAK: u8 = 2;
const STT_TLS: u8 = 6;
const STT_GNU_IFUNC: u8 = 10;

/// An architecture, by how it numbers relocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) name: &'static str,
    id: u16,
    pub(super) abs64: u32,
    pub(super) global: u32,
    pub(super) jump: u32,
    pub(super) relative: u32,
    pub(super) indirect: u32,
    /// A distance of 32 bits, which only x86-64 has.
    pub(super) distance: Option<u32>,
    /// Of thread-local data: module, offset in it, offset from the thread pointer, descriptor.
    pub(super) tls: [u32; 4],
    /// Whether entries of the tables of addresses have addends.
    pub(super) adds_to_globals: bool,
}

pub(super) const X86_64: Machine = Machine {
    name: "x86_64",
    id: 62,
    abs64: 1,
    global: 6,
    jump: 7,
    relative: 8,
    indirect: 37,
    distance: Some(2),
    tls: [16, 17, 18, 36],
    adds_to_globals: false,
};

pub(super) const ARM_64: Machine = Machine {
    name: "arm_64",
    id: 183,
    abs64: 257,
    global: 1025,
    jump: 1026,
    relative: 1027,
    indirect: 1032,
    distance: None,
    tls: [1028, 1029, 1030, 1031],
    adds_to_globals: true,
};

/// An entry of the program header table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) vaddr: u64,
    pub(super) file_size: u64,
    pub(super) memory_size: u64,
    pub(super) align: u64,
}

/// An entry of the dynamic symbol table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) name: u32,
    info: u8,
    section: u16,
    pub(super) value: u64,
}

/// A relocation, with its addend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: u32,
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
    /// Tags and values, without the end.
    pub(super) dynamic: Vec<(u64, u64)>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) relocations: Vec<Relocation>,
    /// What words point to, as far as it is an address of the image.
    pointers: HashMap<u64, u64>,
}

impl Segment {
    pub(super) fn end(&self) -> u64 {
        self.vaddr.saturating_add(self.memory_size)
    }

    pub(super) fn is_executable(&self) -> bool {
        self.flags & PF_X != 0
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.kind.to_le_bytes());
        out.extend(self.flags.to_le_bytes());
        for word in [self.offset, self.vaddr, self.vaddr, self.file_size, self.memory_size, self.align] {
            out.extend(word.to_le_bytes());
        }
    }
}

impl Symbol {
    pub(super) fn is_undefined(self) -> bool {
        self.section == SHN_UNDEF
    }

    pub(super) fn is_absolute(self) -> bool {
        self.section == SHN_ABS
    }

    pub(super) fn is_weak(self) -> bool {
        self.info >> 4 == STB_WEAK
    }

    pub(super) fn is_thread_local(self) -> bool {
        self.info & 0xF == STT_TLS
    }

    /// Whether its address is what a function returns.
    pub(super) fn is_indirect(self) -> bool {
        self.info & 0xF == STT_GNU_IFUNC
    }
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
        let half = |at: usize| half(bytes, at);
        if (bytes[4], bytes[5]) != (2, 1) {
            return Err(Error::unimplemented("the ELF image is not of 64 bits and little-endian"));
        }
        let machine = [X86_64, ARM_64].into_iter().find(|it| it.id == half(18)).ok_or_else(|| {
            Error::unimplemented(format!("the ELF image is for machine {}, not x86_64 or arm_64", half(18)))
        })?;
        if half(16) != 3 {
            let what = if half(16) == 1 { "an object file" } else { "not a shared object" };
            return Err(Error::invalid_argument(format!("the ELF image is {what}"))
                .advise("link it to a shared library"));
        }
        let mut this = Self {
            bytes,
            machine,
            headers: Vec::new(),
            dynamic: Vec::new(),
            symbols: Vec::new(),
            relocations: Vec::new(),
            pointers: HashMap::new(),
        };
        this.headers = this.read_headers(usize::from(half(54)), usize::from(half(56)))?;
        this.dynamic = this.read_dynamic()?;
        this.symbols = this.read_symbols()?;
        this.relocations = this.read_relocations()?;
        for it in &this.relocations {
            if let Some(target) = this.target(it).filter(|it| *it < MAX_ADDRESS)
                && it.offset < MAX_ADDRESS
            {
                this.pointers.insert(it.offset, target);
            }
        }
        Ok(this)
    }

    fn read_headers(&self, entry_bytes: usize, count: usize) -> Result<Vec<Segment>> {
        let start = u64::from_le_bytes(self.bytes[32..40].try_into().unwrap_or_default());
        if entry_bytes != PHDR_BYTES || count == 0 {
            return Err(damaged("it has no table of segments"));
        }
        let table = slice(self.bytes, start, (count * PHDR_BYTES) as u64)
            .ok_or_else(|| damaged("its table of segments is out of bounds"))?;
        let segment = |entry: &[u8]| Segment {
            kind: word32(entry, 0),
            flags: word32(entry, 4),
            offset: word(entry, 8),
            vaddr: word(entry, 16),
            file_size: word(entry, 32),
            memory_size: word(entry, 40),
            align: word(entry, 48),
        };
        let headers: Vec<_> = table.chunks_exact(PHDR_BYTES).map(segment).collect();
        let mut end = 0;
        for it in headers.iter().filter(|it| it.kind == PT_LOAD) {
            if it.vaddr < end {
                return Err(damaged(&format!("its segments overlap at {:#x}", it.vaddr)));
            }
            if slice(self.bytes, it.offset, it.file_size).is_none() || it.file_size > it.memory_size {
                return Err(damaged("a segment is out of bounds"));
            }
            end = it.end();
            if end > MAX_ADDRESS || !(it.align <= 1 || it.align.is_power_of_two()) {
                return Err(damaged("a segment has an invalid address or alignment"));
            }
        }
        Ok(headers)
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.headers.iter().filter(|it| it.kind == PT_LOAD)
    }

    fn read_dynamic(&self) -> Result<Vec<(u64, u64)>> {
        let header = self.headers.iter().find(|it| it.kind == PT_DYNAMIC);
        let header = header.ok_or_else(|| damaged("it has no dynamic section"))?;
        let bytes = slice(self.bytes, header.offset, header.file_size);
        let bytes = bytes.ok_or_else(|| damaged("its dynamic section is out of bounds"))?;
        let entries = bytes.chunks_exact(DYN_BYTES).map(|it| (word(it, 0), word(it, 8)));
        let entries: Vec<_> = entries.take_while(|it| it.0 != 0).collect();
        match entries.iter().any(|it| it.0 == DT_REL) {
            true => Err(Error::unimplemented("the ELF image has relocations without addends (DT_REL)")),
            false => Ok(entries),
        }
    }

    /// The value of a tag.
    pub(super) fn tag(&self, tag: u64) -> Option<u64> {
        self.dynamic.iter().find(|it| it.0 == tag).map(|it| it.1)
    }

    /// The bytes of the file at an address; `None` unless it has them all.
    pub(super) fn memory(&self, vaddr: u64, length: u64) -> Option<&'a [u8]> {
        slice(self.bytes, self.file_offset(vaddr, length)?, length)
    }

    /// Where the file has the bytes at an address.
    pub(super) fn file_offset(&self, vaddr: u64, length: u64) -> Option<u64> {
        let end = vaddr.checked_add(length)?;
        let holds = |it: &&Segment| it.vaddr <= vaddr && end <= it.vaddr + it.file_size;
        self.loads().find(holds).map(|it| it.offset + (vaddr - it.vaddr))
    }

    pub(super) fn is_code(&self, vaddr: u64) -> bool {
        self.loads().any(|it| it.is_executable() && it.vaddr <= vaddr && vaddr < it.end())
    }

    /// Whether nothing changes bytes once the image is loaded, nor while it is.
    pub(super) fn is_constant(&self, vaddr: u64, length: u64) -> bool {
        let end = vaddr.saturating_add(length);
        let holds = |it: &&Segment| it.vaddr <= vaddr && end <= it.end();
        self.loads().find(holds).is_some_and(|it| it.flags & PF_W == 0)
            && !self.relocations.iter().any(|it| it.offset < end && vaddr < it.offset + 8)
    }

    /// A table of the dynamic section.
    pub(super) fn table(&self, start: u64, bytes: u64) -> Result<(u64, &'a [u8])> {
        let (Some(start), Some(length)) = (self.tag(start), self.tag(bytes)) else { return Ok((0, &[])) };
        if length == 0 {
            return Ok((0, &[]));
        }
        let found = self.file_offset(start, length).zip(self.memory(start, length));
        found.ok_or_else(|| damaged("a table of its dynamic section is out of bounds"))
    }

    fn read_symbols(&self) -> Result<Vec<Symbol>> {
        let Some(start) = self.tag(DT_SYMTAB) else { return Ok(Vec::new()) };
        let bytes = self.symbol_count(start).and_then(|count| self.memory(start, count * SYM_BYTES as u64));
        let bytes = bytes.ok_or_else(|| damaged("its table of symbols is out of bounds"))?;
        let symbol = |it: &[u8]| Symbol {
            name: word32(it, 0),
            info: it[4],
            section: u16::from_le_bytes([it[6], it[7]]),
            value: word(it, 8),
        };
        Ok(bytes.chunks_exact(SYM_BYTES).map(symbol).collect())
    }

    /// The number of symbols, which only tables of hashes tell.
    fn symbol_count(&self, symbols: u64) -> Option<u64> {
        let at = |vaddr: u64| self.memory(vaddr, 4).map(|it| u64::from(word32(it, 0)));
        if let Some(table) = self.tag(DT_HASH) {
            return at(table.checked_add(4)?);
        }
        let Some(table) = self.tag(DT_GNU_HASH) else {
            // Linkers place the strings after the symbols.
            return Some(self.tag(DT_STRTAB)?.checked_sub(symbols)? / SYM_BYTES as u64);
        };
        let (buckets, first, bloom) = (at(table)?, at(table + 4)?, at(table + 8)?);
        let start = table + 16 + bloom * 8;
        let used = self.raw_relocations().ok()?.iter().map(|it| u64::from(it.symbol) + 1).max();
        let mut last = 0;
        for bucket in self.memory(start, buckets * 4)?.as_chunks::<4>().0 {
            last = last.max(u64::from(u32::from_le_bytes(*bucket)));
        }
        if last < first {
            // None is defined, and the relocations tell how many are not.
            return Some(first.max(used.unwrap_or(0)));
        }
        let chains = start + buckets * 4;
        while at(chains + (last - first) * 4)? & 1 == 0 {
            last += 1;
        }
        Some((last + 1).max(used.unwrap_or(0)))
    }

    /// Text of the dynamic section's strings; `None` if it is longer than [`MAX_NAME`].
    pub(super) fn string(&self, offset: u64) -> Option<&'a [u8]> {
        let (_, strings) = self.table(DT_STRTAB, DT_STRSZ).ok()?;
        until_nul(strings.get(usize::try_from(offset).ok()?..)?).filter(|it| it.len() <= MAX_NAME)
    }

    /// The name of a symbol; empty if it has none that can be read.
    pub(super) fn symbol_name(&self, symbol: Symbol) -> &'a [u8] {
        self.string(u64::from(symbol.name)).unwrap_or_default()
    }

    /// The address of the function that the image exports under a name.
    pub(super) fn exported(&self, name: &str) -> Option<u64> {
        let defined = self.symbols.iter().filter(|it| !it.is_undefined());
        defined.rev().find(|it| self.symbol_name(**it) == name.as_bytes()).map(|it| it.value)
    }

    /// Relocations with addends, as they are written.
    fn raw_relocations(&self) -> Result<Vec<Relocation>> {
        let mut all = Vec::new();
        let plain = [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)];
        for (index, (start, length)) in plain.into_iter().enumerate() {
            let (offset, bytes) = self.table(start, length)?;
            for (entry, at) in bytes.chunks_exact(RELA_BYTES).zip((offset..).step_by(RELA_BYTES)) {
                all.push(Relocation {
                    offset: word(entry, 0),
                    kind: word32(entry, 8),
                    symbol: word32(entry, 12),
                    addend: word(entry, 16),
                    origin: if index == 0 { Origin::Table(at) } else { Origin::Calls },
                });
            }
        }
        Ok(all)
    }

    fn read_relocations(&self) -> Result<Vec<Relocation>> {
        let mut all = self.raw_relocations()?;
        let (_, packed) = self.table(DT_RELR, DT_RELRSZ)?;
        let mut push = |offset: u64| {
            let addend = self.memory(offset, 8).map_or(0, |it| word(it, 0));
            let kind = self.machine.relative;
            all.push(Relocation { offset, kind, symbol: 0, addend, origin: Origin::Packed });
        };
        let mut next = 0u64;
        for entry in packed.chunks_exact(8).map(|it| word(it, 0)) {
            if entry & 1 == 0 {
                push(entry);
                next = entry.wrapping_add(8);
                continue;
            }
            let set = (0..63u64).filter(|it| (entry >> (it + 1)) & 1 != 0);
            set.for_each(|it| push(next.wrapping_add(it * 8)));
            next = next.wrapping_add(63 * 8);
        }
        Ok(all)
    }

    /// The address that a relocation writes, if it is one of the image.
    fn target(&self, it: &Relocation) -> Option<u64> {
        let machine = self.machine;
        if it.kind == machine.relative {
            return Some(it.addend);
        }
        let symbol = *self.symbols.get(it.symbol as usize).filter(|_| it.symbol != 0)?;
        if symbol.is_undefined() || symbol.is_absolute() || symbol.is_indirect() {
            return None;
        }
        match it.kind {
            kind if kind == machine.abs64 => Some(symbol.value.wrapping_add(it.addend)),
            kind if kind == machine.global || kind == machine.jump => Some(symbol.value),
            _ => None,
        }
    }

    /// What the word at an address points to.
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
            Some(bytes) => Some(word32(bytes, 0)),
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

fn slice(bytes: &[u8], start: u64, length: u64) -> Option<&[u8]> {
    let end = usize::try_from(start.checked_add(length)?).ok()?;
    bytes.get(usize::try_from(start).ok()?..end)
}

/// The word at an offset of bytes that have it.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The same of 16 bits.
pub(super) fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|it| it.try_into().ok()).map_or(0, u16::from_le_bytes)
}

/// The same of 32 bits.
pub(super) fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes)
}
