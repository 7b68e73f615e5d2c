use std::ops::Range;

use rehal_base::FormatError;
use smallvec::SmallVec;

use super::constants::*;
use super::dynamic::Dynamic;
use super::header::ProgramHeader;
use super::reader::Reader;
use super::{fat, header, property, relocate};
use crate::platform::{PAGE_BYTES, Protection};

/// Maximum memory of an image beyond its own bytes: gaps between segments and zeroed data.
const EXTRA_MEMORY_BYTES: u64 = 64 << 20;
const PAGE: u64 = PAGE_BYTES as u64;

/// An ELF image whose structure is fully checked: segments, tables, relocations, symbols.
///
/// It borrows the bytes; parsing allocates only for unusual images.
pub struct Image<'a> {
    pub(super) file: Reader<'a>,
    pub(super) segments: SmallVec<[Segment; 4]>,
    /// Read-only after relocation (RELRO); whole pages, relative to `first_page`.
    pub(super) relro: Option<Range<u64>>,
    /// Virtual address of the first page.
    pub(super) first_page: u64,
    /// Size in bytes up to the end of the last page.
    pub(super) span: u64,
    pub(super) dynamic: Dynamic<'a>,
}

/// A loaded segment of an image.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// File offset of its bytes.
    pub file_offset: u64,
    /// File size.
    pub file_size: u64,
    /// Image-relative address.
    pub vaddr: u64,
    /// Memory size; zero-filled beyond the file size.
    pub memory_size: u64,
    /// Permissions to read, write, execute: bits 2, 1, 0.
    pub flags: u32,
}

impl<'a> Image<'a> {
    /// Checks `bytes`, an ELF image or a FatELF container with one for this machine.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let file = fat::select(bytes)?;
        let header = header::read(file)?;
        let mut segments = SmallVec::new();
        let mut dynamic = None;
        let mut relro = None;
        for entry in header.segments(file) {
            match entry.kind {
                PT_LOAD if entry.memory_size > 0 || entry.file_size > 0 => {
                    segments.push(segment(file, &entry, segments.last())?)
                }
                PT_DYNAMIC => dynamic = Some(entry),
                PT_GNU_RELRO => relro = Some(entry),
                PT_GNU_PROPERTY => property::check(file, &entry)?,
                PT_TLS => {
                    let expected = "no thread-local storage";
                    return Err(file.unsupported(entry.at, "p_type", expected, "PT_TLS"));
                }
                _ => {}
            }
        }
        let (first_page, span) = layout(file, &segments)?;
        let relro = relro.map(|entry| protected_range(file, &entry, &segments, first_page)).transpose()?;
        let Some(entry) = dynamic else {
            return Err(file.corrupt(header.segments_offset, "p_type", "a PT_DYNAMIC segment", "none"));
        };
        let dynamic = Dynamic::read(file, &segments, &entry)?;
        let this = Self { file, segments, relro, first_page, span, dynamic };
        this.check_imports()?;
        relocate::check(&this)?;
        Ok(this)
    }

    /// The loaded segments, in ascending order of their addresses.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The bytes of the file for `length` bytes of memory at an image-relative address, if it has all of
    /// them.
    pub(in super::super) fn file_bytes(&self, vaddr: u64, length: u64) -> Option<&'a [u8]> {
        let offset = file_offset(&self.segments, vaddr, length)?;
        self.file.take(offset, length, "p_offset").ok()
    }

    /// The bytes of the file, without those of a container.
    pub(in super::super) fn bytes(&self) -> &'a [u8] {
        self.file.bytes
    }

    /// Memory in bytes when mapped, in whole pages.
    pub fn memory_bytes(&self) -> u64 {
        self.span
    }

    /// The segment whose memory contains all of `vaddr..vaddr + length`.
    pub(super) fn segment_of(&self, vaddr: u64, length: u64) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.holds(vaddr, length))
    }

    /// The pages' protections as relative byte ranges, in ascending order, with equal neighbours merged and
    /// no access in gaps.
    pub(super) fn protections(&self) -> SmallVec<[(Range<usize>, Protection); 4]> {
        let mut runs: SmallVec<[(Range<usize>, Protection); 4]> = SmallVec::new();
        let mut push = |range: Range<u64>, protection| {
            let range = range.start as usize..range.end as usize;
            if let Some((last, _)) = runs.last()
                && last.end < range.start
            {
                runs.push((last.end..range.start, Protection::None));
            }
            match runs.last_mut() {
                _ if range.is_empty() => {}
                Some((last, same)) if last.end == range.start && *same == protection => last.end = range.end,
                _ => runs.push((range, protection)),
            }
        };
        for segment in &self.segments {
            let pages = segment.pages();
            let pages = pages.start - self.first_page..pages.end - self.first_page;
            let protection = segment.protection();
            match &self.relro {
                Some(relro) if protection == Protection::ReadWrite => {
                    let start = relro.start.clamp(pages.start, pages.end);
                    let end = relro.end.clamp(start, pages.end);
                    push(pages.start..start, protection);
                    push(start..end, Protection::Read);
                    push(end..pages.end, protection);
                }
                _ => push(pages, protection),
            }
        }
        runs
    }
}

impl Segment {
    pub(super) fn holds(&self, vaddr: u64, length: u64) -> bool {
        let Some(end) = vaddr.checked_add(length) else { return false };
        self.vaddr <= vaddr && end <= self.vaddr + self.memory_size
    }

    /// Whether it is executable.
    pub fn is_executable(&self) -> bool {
        self.flags & PF_X != 0
    }

    fn pages(&self) -> Range<u64> {
        self.vaddr / PAGE * PAGE..(self.vaddr + self.memory_size).next_multiple_of(PAGE)
    }

    fn protection(&self) -> Protection {
        match self.flags & (PF_R | PF_W | PF_X) {
            0 => Protection::None,
            flags if flags & PF_X != 0 => Protection::ReadExecute,
            flags if flags & PF_W != 0 => Protection::ReadWrite,
            _ => Protection::Read,
        }
    }
}

/// The file offset of `length` bytes at address `vaddr`, if the file has all of them.
pub(super) fn file_offset(segments: &[Segment], vaddr: u64, length: u64) -> Option<u64> {
    let end = vaddr.checked_add(length)?;
    let segment =
        segments.iter().find(|segment| segment.vaddr <= vaddr && end <= segment.vaddr + segment.file_size)?;
    Some(vaddr - segment.vaddr + segment.file_offset)
}

/// Checks one loaded segment against the file and the previous segment.
fn segment(
    file: Reader<'_>,
    entry: &ProgramHeader,
    previous: Option<&Segment>,
) -> Result<Segment, FormatError> {
    let at = entry.at;
    file.take(entry.offset, entry.file_size, "p_offset")?;
    if entry.file_size > entry.memory_size {
        let expected = format!("at most p_memsz ({})", entry.memory_size);
        return Err(file.corrupt(at + 32, "p_filesz", expected, entry.file_size.to_string()));
    }
    if !(entry.align <= 1 || entry.align.is_power_of_two()) {
        return Err(file.corrupt(at + 48, "p_align", "a power of two", entry.align.to_string()));
    }
    let limit = file.size() + EXTRA_MEMORY_BYTES;
    if entry.memory_size > limit {
        let expected = format!("at most {limit} bytes for a file of {}", file.size());
        return Err(file.corrupt(at + 40, "p_memsz", expected, entry.memory_size.to_string()));
    }
    // Leaves space to round up to a page without overflow.
    if entry.vaddr > u64::MAX / 2 {
        return Err(file.corrupt(at + 16, "p_vaddr", "an address below 2^63", format!("{:#x}", entry.vaddr)));
    }
    if entry.flags & PF_W != 0 && entry.flags & PF_X != 0 {
        let expected = "writable or executable, not both";
        return Err(file.unsupported(at + 4, "p_flags", expected, format!("{:#x}", entry.flags)));
    }
    let this = Segment {
        file_offset: entry.offset,
        file_size: entry.file_size,
        vaddr: entry.vaddr,
        memory_size: entry.memory_size,
        flags: entry.flags,
    };
    if let Some(previous) = previous
        && this.pages().start < previous.pages().end
    {
        let expected = format!("a page after {:#x}, the end of the previous segment", previous.pages().end);
        return Err(file.corrupt(at + 16, "p_vaddr", expected, format!("{:#x}", entry.vaddr)));
    }
    Ok(this)
}

/// The first page's address, and the number of bytes that all segments span.
fn layout(file: Reader<'_>, segments: &[Segment]) -> Result<(u64, u64), FormatError> {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(file.corrupt(32, "e_phoff", "a PT_LOAD segment", "none"));
    };
    let span = last.pages().end - first.pages().start;
    let limit = (file.size() + EXTRA_MEMORY_BYTES).next_multiple_of(PAGE);
    if span > limit {
        let expected = format!("segments within {limit} bytes for a file of {}", file.size());
        return Err(file.corrupt(32, "p_vaddr", expected, format!("{span} bytes")));
    }
    Ok((first.pages().start, span))
}

/// The whole pages that are read-only after relocation, relative to the first page. Like the system's loader,
/// rounds both ends down: data that shares a page with writable data stays writable.
fn protected_range(
    file: Reader<'_>,
    entry: &ProgramHeader,
    segments: &[Segment],
    first_page: u64,
) -> Result<Range<u64>, FormatError> {
    let end = entry.vaddr.checked_add(entry.memory_size);
    let holder = segments.iter().find(|segment| {
        // Linkers pad the range to the end of its last page.
        end.is_some_and(|end| segment.vaddr <= entry.vaddr && end <= segment.pages().end)
    });
    if holder.is_none() {
        let found = format!("{:#x}+{:#x}", entry.vaddr, entry.memory_size);
        return Err(file.corrupt(entry.at + 16, "PT_GNU_RELRO", "a range of a loaded segment", found));
    }
    let start = entry.vaddr / PAGE * PAGE;
    let end = (entry.vaddr + entry.memory_size) / PAGE * PAGE;
    Ok(start - first_page..end.max(start) - first_page)
}
