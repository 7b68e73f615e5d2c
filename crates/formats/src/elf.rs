//! ELF files of any machine, read in place: bounds-checked values, tables, sections and notes.
//!
//! Source: the [System V ABI](https://gabi.xinuos.com/elf/).

use object::LittleEndian as LE;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, FileHeader64, Machine, PT_NOTE, ProgramHeader64, SHT_NOBITS, SectionHeader64,
};
use object::pod::{Pod, slice_from_bytes};
use rehal_base::{Fault, FormatError};

use crate::MAX_NAME_BYTES;

const FORMAT: &str = "ELF";
/// The first bytes of a file.
pub const MAGIC: [u8; 4] = [0x7F, b'E', b'L', b'F'];

/// A 64-bit little-endian file for one machine, whose tables, sections and segments are in bounds.
pub(crate) struct Elf<'a> {
    pub file: Reader<'a>,
    header: &'a FileHeader64<LE>,
    segments: Table<'a, ProgramHeader64<LE>>,
    sections: Table<'a, SectionHeader64<LE>>,
}

/// The header of a 64-bit little-endian file, behind its magic number.
pub fn header(file: Reader<'_>) -> Result<&FileHeader64<LE>, FormatError> {
    let ident = file.take(4, 2, "e_ident")?;
    if ident[0] != ELFCLASS64.0 {
        return Err(file.unsupported(4, "e_ident[EI_CLASS]", "2 (64-bit)", ident[0].to_string()));
    }
    if ident[1] != ELFDATA2LSB.0 {
        return Err(file.unsupported(5, "e_ident[EI_DATA]", "1 (little-endian)", ident[1].to_string()));
    }
    Ok(&file.table(0, size_of::<FileHeader64<LE>>() as u64, "Elf64_Ehdr")?.entries[0])
}

/// The description of a note.
pub(crate) struct Note<'a> {
    /// Its offset in the file.
    pub at: u64,
    pub bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    /// Checks the header and all bounds.
    pub fn read(file: Reader<'a>, machine: Machine) -> Result<Self, FormatError> {
        let magic = file.take(0, 4, "e_ident[EI_MAG]")?;
        if magic != MAGIC {
            return Err(file.corrupt(0, "e_ident[EI_MAG]", "7f 45 4c 46", format!("{magic:02x?}")));
        }
        let header = header(file)?;
        let found = header.e_machine.get(LE);
        if found != machine {
            return Err(file.unsupported(18, "e_machine", machine.0.to_string(), found.0.to_string()));
        }
        let (segments, count) = (header.e_phoff.get(LE), header.e_phnum.get(LE).into());
        let segments = file.rows(segments, count, header.e_phentsize.get(LE), "e_phoff")?;
        let (sections, mut count) = (header.e_shoff.get(LE), u64::from(header.e_shnum.get(LE)));
        if count == 0 && sections != 0 {
            // Files with more than the field can hold state the number in the first section.
            let first =
                file.rows::<SectionHeader64<LE>>(sections, 1, header.e_shentsize.get(LE), "e_shoff")?;
            count = first.entries.first().map_or(0, |it| it.sh_size.get(LE));
        }
        let sections = file.rows(sections, count, header.e_shentsize.get(LE), "e_shoff")?;
        let elf = Self { file, header, segments, sections };
        for (_, segment) in elf.segments.iter() {
            file.take(segment.p_offset.get(LE), segment.p_filesz.get(LE), "p_filesz")?;
        }
        for (_, section) in elf.sections.iter() {
            elf.section_bytes(section)?;
        }
        Ok(elf)
    }

    /// `e_flags`, whose meaning is the machine's.
    pub fn flags(&self) -> u32 {
        self.header.e_flags.get(LE).0
    }

    /// `e_ident[EI_ABIVERSION]`.
    pub fn abi_version(&self) -> u8 {
        self.header.e_ident.abi_version
    }

    pub fn sections(&self) -> &'a [SectionHeader64<LE>] {
        self.sections.entries
    }

    /// The bytes of a section; empty if the file has none of it.
    pub fn section_bytes(&self, section: &SectionHeader64<LE>) -> Result<&'a [u8], FormatError> {
        match section.sh_type.get(LE) {
            SHT_NOBITS => Ok(&[]),
            _ => self.file.take(section.sh_offset.get(LE), section.sh_size.get(LE), "sh_size"),
        }
    }

    /// The NUL-terminated text at `at` of a section of strings.
    pub fn text(&self, strings: &SectionHeader64<LE>, at: u32) -> Result<&'a str, FormatError> {
        let place = strings.sh_offset.get(LE).saturating_add(u64::from(at));
        let rest = self.section_bytes(strings)?.get(at as usize..).unwrap_or_default();
        let rest = &rest[..rest.len().min(MAX_NAME_BYTES + 1)];
        let end = rest.iter().position(|byte| *byte == 0);
        let text = end.and_then(|end| str::from_utf8(&rest[..end]).ok());
        text.ok_or_else(|| {
            self.file.corrupt(
                place,
                "name",
                format!("at most {MAX_NAME_BYTES} bytes of text within its section"),
                "none",
            )
        })
    }

    /// The first note of this name and type in a segment.
    pub fn note(&self, name: &[u8], kind: u32) -> Result<Option<Note<'a>>, FormatError> {
        let mut left = self.file.size();
        for segment in self.segments.entries.iter().filter(|it| it.p_type.get(LE) == PT_NOTE) {
            let (mut at, length) = (segment.p_offset.get(LE), segment.p_filesz.get(LE));
            left = left.checked_sub(length).ok_or_else(|| {
                self.file.corrupt(at, "PT_NOTE", "segments that do not overlap", "more than the file's bytes")
            })?;
            let end = at.saturating_add(length);
            // Shorter than its header: padding.
            while at.saturating_add(12) <= end {
                let number = |index: u64| self.file.u32(at + 4 * index, "note").map(u64::from);
                let (name_bytes, bytes, found) = (number(0)?, number(1)?, number(2)?);
                let start = at + 12 + name_bytes.next_multiple_of(4);
                if start + bytes > end {
                    let found = format!("{name_bytes} and {bytes} bytes");
                    return Err(self.file.corrupt(at, "note", "one within its segment", found));
                }
                if found == u64::from(kind) && self.file.take(at + 12, name_bytes, "n_namesz")? == name {
                    let bytes = self.file.take(start, bytes, "n_descsz")?;
                    return Ok(Some(Note { at: start, bytes }));
                }
                at = start + bytes.next_multiple_of(4);
            }
        }
        Ok(None)
    }
}

/// Bounds-checked reads of little-endian values at untrusted offsets of an image.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The image.
    pub bytes: &'a [u8],
    /// Offset of the image in the caller's bytes (after a FatELF container's header).
    pub origin: u64,
}

/// Entries of the file, read in place.
#[derive(Debug)]
pub struct Table<'a, T> {
    /// File offset of the first one.
    pub offset: u64,
    /// The entries.
    pub entries: &'a [T],
}

impl<T> Table<'_, T> {
    /// No entries.
    pub const EMPTY: Self = Self { offset: 0, entries: &[] };
}

impl<'a, T: Pod> Table<'a, T> {
    /// The entries, with their file offsets.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &'a T)> + use<'a, T> {
        (self.offset..).step_by(size_of::<T>()).zip(self.entries)
    }
}

impl<'a> Reader<'a> {
    /// The size of the image in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// `length` bytes at `offset`.
    pub fn take(&self, offset: u64, length: u64, field: &'static str) -> Result<&'a [u8], FormatError> {
        let range = offset.checked_add(length).and_then(|end| {
            let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(end).ok()?);
            self.bytes.get(start..end)
        });
        range.ok_or_else(|| {
            self.error(
                Fault::Truncated,
                offset,
                field,
                format!("{length} bytes"),
                format!("{} left in {} bytes", self.size().saturating_sub(offset), self.size()),
            )
        })
    }

    /// The entries in `length` bytes at `offset`.
    pub fn table<T: Pod>(
        &self,
        offset: u64,
        length: u64,
        field: &'static str,
    ) -> Result<Table<'a, T>, FormatError> {
        let bytes = self.take(offset, length, field)?;
        // Fails only for types with an alignment, which those of ELF lack.
        let entries = slice_from_bytes(bytes, bytes.len() / size_of::<T>());
        Ok(Table { offset, entries: entries.map_or(&[], |(entries, _)| entries) })
    }

    /// Entries of this many bytes each, as the header states; none of any size if `count` is 0.
    fn rows<T: Pod>(
        &self,
        offset: u64,
        count: u64,
        bytes: u16,
        field: &'static str,
    ) -> Result<Table<'a, T>, FormatError> {
        let expected = size_of::<T>();
        if count != 0 && usize::from(bytes) != expected {
            let expected = format!("entries of {expected} bytes");
            return Err(self.corrupt(offset, field, expected, bytes.to_string()));
        }
        match count {
            0 => Ok(Table::EMPTY),
            _ => self.table(offset, count.saturating_mul(expected as u64), field),
        }
    }

    /// A 16-bit value.
    pub fn u16(&self, offset: u64, field: &'static str) -> Result<u16, FormatError> {
        Ok(u16_at(self.take(offset, 2, field)?, 0))
    }

    /// A 32-bit value.
    pub fn u32(&self, offset: u64, field: &'static str) -> Result<u32, FormatError> {
        Ok(u32_at(self.take(offset, 4, field)?, 0))
    }

    /// An error at an offset of the image.
    pub fn error(
        &self,
        fault: Fault,
        offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        FormatError::new(FORMAT, fault, self.origin.saturating_add(offset), field, expected, found)
    }

    /// The same for [`Fault::Corrupt`].
    pub fn corrupt(
        &self,
        offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        self.error(Fault::Corrupt, offset, field, expected, found)
    }

    /// The same for [`Fault::Unsupported`].
    pub fn unsupported(
        &self,
        offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        self.error(Fault::Unsupported, offset, field, expected, found)
    }
}

/// The value at `at` of bytes whose length the caller has checked.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut value = [0; 2];
    value.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(value)
}

/// The value at `at` of bytes whose length the caller has checked.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

/// The value at `at` of bytes whose length the caller has checked.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}
