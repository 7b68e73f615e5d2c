//! The dynamic section: the locations of symbols, strings, relocations and initializers
//! (<https://gabi.xinuos.com/elf/08-dynamic.html>).

use rehal_base::FormatError;

use super::constants::*;
use super::header::ProgramHeader;
use super::image::{Image, Segment, file_offset};
use super::reader::{Reader, u16_at, u32_at, u64_at};

/// Tables of the dynamic section, checked to be in bounds of the file.
///
/// They are read from the file, not from memory, which relocations may overwrite.
pub(super) struct Dynamic<'a> {
    symbols: &'a [u8],
    strings: &'a [u8],
    /// Offset of the symbols, for errors.
    symbols_offset: u64,
    /// Relocations with addends; the second are those of the procedure linkage table.
    pub(super) relocations: [Table<'a>; 2],
    /// Packed relative relocations.
    pub(super) packed: Table<'a>,
    /// Address of the initializer that runs first.
    pub(super) init: Option<u64>,
    /// The list of initializers: address and size in bytes.
    pub(super) init_array: Option<(u64, u64)>,
    /// Whether it names other libraries.
    needed: Option<u64>,
}

/// A table of the file.
#[derive(Clone, Copy, Default)]
pub(super) struct Table<'a> {
    /// Its offset, for errors.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

/// An entry of the symbol table.
#[derive(Clone, Copy)]
pub(super) struct Symbol {
    name: u32,
    info: u8,
    section: u16,
    pub(super) value: u64,
}

/// The relevant tags: value, and offset of the entry for errors.
struct Tags {
    found: [Option<(u64, u64)>; 40],
    gnu_hash: Option<(u64, u64)>,
}

impl Tags {
    fn read(file: Reader<'_>, table: Table<'_>) -> Result<Self, FormatError> {
        let mut this = Self { found: [None; 40], gnu_hash: None };
        for (index, entry) in table.bytes.chunks_exact(DYN_BYTES as usize).enumerate() {
            let (tag, value) = (u64_at(entry, 0), u64_at(entry, 8));
            let at = table.offset + index as u64 * DYN_BYTES;
            match tag {
                DT_NULL => break,
                DT_REL | DT_RELSZ => {
                    let expected = "DT_RELA, the only kind of x86-64";
                    return Err(file.unsupported(at, "d_tag", expected, "DT_REL"));
                }
                DT_GNU_HASH => this.gnu_hash = Some((value, at)),
                tag if (tag as usize) < this.found.len() => this.found[tag as usize] = Some((value, at)),
                _ => {}
            }
        }
        for (tag, field, expected) in [
            (DT_SYMENT, "DT_SYMENT", SYM_BYTES),
            (DT_RELAENT, "DT_RELAENT", RELA_BYTES),
            (DT_RELRENT, "DT_RELRENT", 8),
            (DT_PLTREL, "DT_PLTREL", DT_RELA),
        ] {
            if let Some((value, at)) = this.get(tag)
                && value != expected
            {
                return Err(file.unsupported(at + 8, field, expected.to_string(), value.to_string()));
            }
        }
        Ok(this)
    }

    fn get(&self, tag: u64) -> Option<(u64, u64)> {
        self.found[tag as usize]
    }
}

impl<'a> Dynamic<'a> {
    /// Reads the section that `entry` describes.
    pub(super) fn read(
        file: Reader<'a>,
        segments: &[Segment],
        entry: &ProgramHeader,
    ) -> Result<Self, FormatError> {
        let find = |vaddr: u64, length: u64, at: u64, field: &'static str| {
            let Some(offset) = file_offset(segments, vaddr, length) else {
                let expected = format!("{length} bytes of a loaded segment");
                return Err(file.corrupt(at, field, expected, format!("{vaddr:#x}")));
            };
            Ok(Table { offset, bytes: file.take(offset, length, field)? })
        };
        let section = find(entry.vaddr, entry.file_size, entry.at + 16, "PT_DYNAMIC")?;
        let tags = Tags::read(file, section)?;
        let table = |start: u64, size: u64, field: &'static str| match (tags.get(start), tags.get(size)) {
            (Some((vaddr, at)), Some((length, _))) if length > 0 => find(vaddr, length, at + 8, field),
            _ => Ok(Table::default()),
        };
        let missing = |field| file.corrupt(section.offset, field, "an entry", "none");
        let strings = table(DT_STRTAB, DT_STRSZ, "DT_STRTAB")?;
        if strings.bytes.is_empty() {
            return Err(missing("DT_STRTAB"));
        }
        let Some((symbols_vaddr, at)) = tags.get(DT_SYMTAB) else { return Err(missing("DT_SYMTAB")) };
        let count = symbol_count(file, segments, &tags, &find)?;
        let length = count.saturating_mul(SYM_BYTES);
        let symbols = find(symbols_vaddr, length, at + 8, "DT_SYMTAB")?;
        Ok(Self {
            symbols: symbols.bytes,
            symbols_offset: symbols.offset,
            strings: strings.bytes,
            relocations: [table(DT_RELA, DT_RELASZ, "DT_RELA")?, table(DT_JMPREL, DT_PLTRELSZ, "DT_JMPREL")?],
            packed: table(DT_RELR, DT_RELRSZ, "DT_RELR")?,
            init: tags.get(DT_INIT).map(|(vaddr, _)| vaddr).filter(|vaddr| *vaddr != 0),
            init_array: match (tags.get(DT_INIT_ARRAY), tags.get(DT_INIT_ARRAYSZ)) {
                (Some((vaddr, _)), Some((length, _))) if length > 0 => Some((vaddr, length)),
                _ => None,
            },
            needed: tags.get(DT_NEEDED).map(|(_, at)| at),
        })
    }

    pub(super) fn symbol_count(&self) -> u64 {
        self.symbols.len() as u64 / SYM_BYTES
    }

    pub(super) fn symbol(&self, index: u64) -> Option<Symbol> {
        let start = usize::try_from(index.checked_mul(SYM_BYTES)?).ok()?;
        let entry = self.symbols.get(start..)?.get(..SYM_BYTES as usize)?;
        Some(Symbol {
            name: u32_at(entry, 0),
            info: entry[4],
            section: u16_at(entry, 6),
            value: u64_at(entry, 8),
        })
    }

    /// The name, without its NUL; `None` if it is out of bounds of the string table.
    fn name(&self, symbol: Symbol) -> Option<&'a [u8]> {
        let rest = self.strings.get(symbol.name as usize..)?;
        Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
    }
}

impl Symbol {
    fn is_exported(self) -> bool {
        matches!(self.info >> 4, STB_GLOBAL | STB_WEAK) && self.section != SHN_UNDEF
    }

    /// Whether its value is a number instead of an address.
    pub(super) fn is_absolute(self) -> bool {
        self.section == SHN_ABS
    }

    pub(super) fn is_undefined(self) -> bool {
        self.section == SHN_UNDEF
    }

    fn kind(self) -> u8 {
        self.info & 0xF
    }
}

impl Image<'_> {
    /// Names of the symbols that the image exports.
    pub fn symbol_names(&self) -> impl Iterator<Item = String> {
        let exported = (1..self.dynamic.symbol_count())
            .filter_map(|index| self.dynamic.symbol(index))
            .filter(|symbol| symbol.is_exported());
        exported
            .filter_map(|symbol| self.dynamic.name(symbol))
            .map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The image-relative address of the function `name`, or an error if the image does not export it or it
    /// is not in executable memory.
    pub fn function(&self, name: &'static str) -> Result<u64, FormatError> {
        let dynamic = &self.dynamic;
        let mut index = dynamic.symbol_count();
        // Exported symbols come after local ones.
        while index > 1 {
            index -= 1;
            let Some(symbol) = dynamic.symbol(index) else { break };
            if !symbol.is_exported() || dynamic.name(symbol) != Some(name.as_bytes()) {
                continue;
            }
            let segment = self.segment_of(symbol.value, 1).filter(|segment| segment.is_executable());
            if segment.is_none() || matches!(symbol.kind(), STT_TLS | STT_GNU_IFUNC) {
                let at = dynamic.symbols_offset + index * SYM_BYTES + 8;
                let found = format!("{:#x}", symbol.value);
                return Err(self.file.corrupt(at, "st_value", "an address in executable memory", found));
            }
            return Ok(symbol.value);
        }
        let found = format!("{} other symbols", dynamic.symbol_count().saturating_sub(1));
        Err(self.file.corrupt(dynamic.symbols_offset, "DT_SYMTAB", format!("the function '{name}'"), found))
    }

    /// Rejects an image with imports.
    pub(super) fn check_imports(&self) -> Result<(), FormatError> {
        let dynamic = &self.dynamic;
        for index in 1..dynamic.symbol_count() {
            let Some(symbol) = dynamic.symbol(index) else { break };
            if symbol.is_undefined() {
                let name = dynamic.name(symbol).unwrap_or_default();
                let at = dynamic.symbols_offset + index * SYM_BYTES + 6;
                let found = format!("an import of '{}'", String::from_utf8_lossy(name));
                return Err(self.file.unsupported(at, "st_shndx", "no symbols from other libraries", found));
            }
        }
        if let Some(at) = dynamic.needed {
            return Err(self.file.unsupported(at, "d_tag", "no other libraries", "DT_NEEDED"));
        }
        Ok(())
    }
}

/// The number of symbols, which the format only implies, in either of its hash tables.
fn symbol_count<'a>(
    file: Reader<'a>,
    segments: &[Segment],
    tags: &Tags,
    find: &impl Fn(u64, u64, u64, &'static str) -> Result<Table<'a>, FormatError>,
) -> Result<u64, FormatError> {
    if let Some((vaddr, at)) = tags.get(DT_HASH) {
        let table = find(vaddr, 8, at + 8, "DT_HASH")?;
        return Ok(u64::from(u32_at(table.bytes, 4)));
    }
    if let Some((vaddr, at)) = tags.gnu_hash {
        return gnu_symbol_count(file, segments, vaddr, at);
    }
    // Linkers place the strings directly after the symbols.
    match (tags.get(DT_SYMTAB), tags.get(DT_STRTAB)) {
        (Some((symbols, _)), Some((strings, _))) if symbols < strings => Ok((strings - symbols) / SYM_BYTES),
        _ => Err(file.corrupt(0, "DT_HASH", "a hash table", "none")),
    }
}

/// One past the last symbol of a GNU hash table: the end of its last chain.
fn gnu_symbol_count(file: Reader<'_>, segments: &[Segment], vaddr: u64, at: u64) -> Result<u64, FormatError> {
    const FIELD: &str = "DT_GNU_HASH";
    let word = |vaddr: u64| {
        let offset = file_offset(segments, vaddr, 4).ok_or_else(|| {
            file.corrupt(at + 8, FIELD, "a table in a loaded segment", format!("{vaddr:#x}"))
        })?;
        file.u32(offset, FIELD).map(u64::from)
    };
    // The address is in a segment below 2^63 and counts have 32 bits: no overflow.
    let (bucket_count, first, bloom_count) = (word(vaddr)?, word(vaddr + 4)?, word(vaddr + 8)?);
    let buckets = vaddr + 16 + bloom_count * 8;
    let mut last = 0;
    for index in 0..bucket_count {
        last = last.max(word(buckets + index * 4)?);
    }
    if last < first {
        return Ok(first);
    }
    let chains = buckets + bucket_count * 4;
    while word(chains + (last - first) * 4)? & 1 == 0 {
        last += 1;
    }
    Ok(last + 1)
}
