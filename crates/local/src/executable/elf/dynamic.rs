//! The dynamic section: the locations of symbols, strings, relocations and initializers
//! (<https://gabi.xinuos.com/elf/08-dynamic.html>).

use object::LittleEndian as LE;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_JMPREL, DT_NULL, DT_PLTREL, DT_PLTRELSZ, DT_REL, DT_RELA, DT_RELAENT, DT_RELASZ,
    DT_RELR, DT_RELRENT, DT_RELRSZ, DT_RELSZ, DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB, Dyn64, DynamicTag,
    FileHeader64, Rela64, Relr64, STB_GLOBAL, STB_WEAK, Sym64,
};
use object::read::elf::{RelrIterator, Sym};
use rehal_base::FormatError;

use super::header::{Segment, file_offset};
use rehal_formats::elf::{Reader, Table, u32_at};

/// An entry of the symbol table.
pub(in crate::executable) type Symbol = Sym64<LE>;

pub(in crate::executable) const SYMBOL_BYTES: u64 = size_of::<Symbol>() as u64;
pub(in crate::executable) const RELOCATION_BYTES: u64 = size_of::<Rela64<LE>>() as u64;

/// Tables of the dynamic section, checked to be in bounds of the file.
///
/// They are read from the file, not from memory, which relocations may overwrite.
pub(in crate::executable) struct Dynamic<'a> {
    /// Without the end.
    section: Table<'a, Dyn64<LE>>,
    pub(in crate::executable) symbols: Table<'a, Symbol>,
    pub(in crate::executable) strings: &'a [u8],
    /// Relocations with addends; the second are those of the procedure linkage table.
    pub(in crate::executable) relocations: [Table<'a, Rela64<LE>>; 2],
    /// Packed relative relocations.
    pub(super) packed: Table<'a, Relr64<LE>>,
}

impl<'a> Dynamic<'a> {
    /// Reads the section that `entry`, which is at the file offset `at`, describes.
    pub(in crate::executable) fn read(
        file: Reader<'a>,
        segments: &[Segment],
        entry: &Segment,
        at: u64,
    ) -> Result<Self, FormatError> {
        let find = |vaddr: u64, length: u64, at: u64, field: &'static str| {
            file_offset(segments, vaddr, length).ok_or_else(|| {
                let expected = format!("{length} bytes of a loaded segment");
                file.corrupt(at, field, expected, format!("{vaddr:#x}"))
            })
        };
        let offset = find(entry.vaddr, entry.file_size, at + 16, "PT_DYNAMIC")?;
        let mut section = file.table::<Dyn64<LE>>(offset, entry.file_size, "PT_DYNAMIC")?;
        let end = section.entries.iter().position(|it| it.d_tag.get(LE) == DT_NULL);
        section.entries = &section.entries[..end.unwrap_or(section.entries.len())];
        let mut this = Self {
            section,
            symbols: Table::EMPTY,
            strings: &[],
            relocations: [Table::EMPTY; 2],
            packed: Table::EMPTY,
        };
        this.check_tags(file)?;
        let place = |start: DynamicTag, size: DynamicTag, field: &'static str| match (
            this.entry(start),
            this.tag(size),
        ) {
            (Some((at, vaddr)), Some(length)) if length > 0 => {
                Ok((find(vaddr, length, at + 8, field)?, length))
            }
            _ => Ok((0, 0)),
        };
        let missing = |field| file.corrupt(offset, field, "an entry", "none");
        let (strings, length) = place(DT_STRTAB, DT_STRSZ, "DT_STRTAB")?;
        if length == 0 {
            return Err(missing("DT_STRTAB"));
        }
        let Some((at, symbols)) = this.entry(DT_SYMTAB) else { return Err(missing("DT_SYMTAB")) };
        let symbol_bytes = this.symbol_count(file, segments, &find)?.saturating_mul(SYMBOL_BYTES);
        let symbols = find(symbols, symbol_bytes, at + 8, "DT_SYMTAB")?;
        let [plain, calls, packed] = [
            place(DT_RELA, DT_RELASZ, "DT_RELA")?,
            place(DT_JMPREL, DT_PLTRELSZ, "DT_JMPREL")?,
            place(DT_RELR, DT_RELRSZ, "DT_RELR")?,
        ];
        this.strings = file.take(strings, length, "DT_STRTAB")?;
        this.symbols = file.table(symbols, symbol_bytes, "DT_SYMTAB")?;
        this.relocations =
            [file.table(plain.0, plain.1, "DT_RELA")?, file.table(calls.0, calls.1, "DT_JMPREL")?];
        this.packed = file.table(packed.0, packed.1, "DT_RELR")?;
        Ok(this)
    }

    /// Rejects kinds and sizes of entries other than those of 64-bit images.
    fn check_tags(&self, file: Reader<'_>) -> Result<(), FormatError> {
        for tag in [DT_REL, DT_RELSZ] {
            if let Some((at, _)) = self.entry(tag) {
                return Err(file.unsupported(at, "d_tag", "DT_RELA, relocations with addends", "DT_REL"));
            }
        }
        for (tag, field, expected) in [
            (DT_SYMENT, "DT_SYMENT", SYMBOL_BYTES),
            (DT_RELAENT, "DT_RELAENT", RELOCATION_BYTES),
            (DT_RELRENT, "DT_RELRENT", 8),
            (DT_PLTREL, "DT_PLTREL", DT_RELA.0 as u64),
        ] {
            if let Some((at, value)) = self.entry(tag)
                && value != expected
            {
                return Err(file.unsupported(at + 8, field, expected.to_string(), value.to_string()));
            }
        }
        Ok(())
    }

    /// The entries: file offset, tag, and value.
    pub(in crate::executable) fn entries(&self) -> impl Iterator<Item = (u64, DynamicTag, u64)> + use<'a> {
        self.section.iter().map(|(at, it)| (at, it.d_tag.get(LE), it.d_val.get(LE)))
    }

    /// The first entry of a tag: file offset and value.
    pub(super) fn entry(&self, tag: DynamicTag) -> Option<(u64, u64)> {
        self.entries().find(|it| it.1 == tag).map(|(at, _, value)| (at, value))
    }

    /// The value of a tag.
    pub(in crate::executable) fn tag(&self, tag: DynamicTag) -> Option<u64> {
        self.entry(tag).map(|(_, value)| value)
    }

    /// Addresses that packed relocations relocate.
    pub(in crate::executable) fn packed_places(&self) -> impl Iterator<Item = u64> + use<'a> {
        RelrIterator::<FileHeader64<LE>>::new(LE, self.packed.entries)
    }

    /// The text at an offset of the strings, without its NUL; `None` if it is out of bounds.
    pub(in crate::executable) fn string(&self, offset: u64) -> Option<&'a [u8]> {
        let rest = self.strings.get(usize::try_from(offset).ok()?..)?;
        Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
    }

    pub(super) fn name(&self, symbol: &Symbol) -> Option<&'a [u8]> {
        self.string(symbol.st_name.get(LE).into())
    }

    /// The symbols that the image exports, with their file offsets. Symbol 0 is none.
    pub(super) fn exported(&self) -> impl DoubleEndedIterator<Item = (u64, &'a Symbol)> + use<'a> {
        let symbols = self.symbols.entries.iter().enumerate().skip(1);
        let offset = self.symbols.offset;
        let is_exported = |it: &Symbol| matches!(it.st_bind(), STB_GLOBAL | STB_WEAK) && !it.is_undefined(LE);
        symbols
            .filter(move |(_, it)| is_exported(it))
            .map(move |(index, it)| (offset + index as u64 * SYMBOL_BYTES, it))
    }

    /// The symbol that the image exports under a name, with its file offset.
    pub(in crate::executable) fn find(&self, name: &str) -> Option<(u64, &'a Symbol)> {
        // Exported symbols come after local ones.
        self.exported().rev().find(|(_, it)| self.name(it) == Some(name.as_bytes()))
    }

    /// The number of symbols, which the format only implies, in either of its hash tables.
    fn symbol_count(
        &self,
        file: Reader<'a>,
        segments: &[Segment],
        find: &impl Fn(u64, u64, u64, &'static str) -> Result<u64, FormatError>,
    ) -> Result<u64, FormatError> {
        if let Some((at, vaddr)) = self.entry(DT_HASH) {
            let offset = find(vaddr, 8, at + 8, "DT_HASH")?;
            return Ok(u64::from(u32_at(file.take(offset, 8, "DT_HASH")?, 4)));
        }
        if let Some((at, vaddr)) = self.entry(DT_GNU_HASH) {
            return gnu_symbol_count(file, segments, vaddr, at);
        }
        // Linkers place the strings directly after the symbols.
        match (self.tag(DT_SYMTAB), self.tag(DT_STRTAB)) {
            (Some(symbols), Some(strings)) if symbols < strings => Ok((strings - symbols) / SYMBOL_BYTES),
            _ => Err(file.corrupt(0, "DT_HASH", "a hash table", "none")),
        }
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
