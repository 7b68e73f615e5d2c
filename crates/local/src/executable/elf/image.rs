use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{
    DT_NEEDED, PF_R, PF_W, PF_X, PT_DYNAMIC, PT_GNU_PROPERTY, PT_GNU_RELRO, PT_LOAD, PT_TLS, ProgramFlags,
    STT_GNU_IFUNC, STT_TLS,
};
use object::read::elf::Sym;
use rehal_base::{FormatError, page_bytes};
use smallvec::SmallVec;

use super::dynamic::Dynamic;
use super::header::{Segment, check_segment, file_offset};
use super::{fat, header, property, relocate};
use crate::platform::Protection;
use rehal_formats::elf::Reader;

/// Maximum memory of an image beyond its own bytes: gaps between segments and zeroed data.
const EXTRA_MEMORY_BYTES: u64 = 64 << 20;
/// The size of pages for which images are linked at least.
const SMALLEST_PAGE: u64 = 4096;

/// An ELF image whose structure is fully checked: segments, tables, relocations, symbols.
///
/// It borrows the bytes; parsing allocates only for unusual images.
pub struct Image<'a> {
    pub(super) file: Reader<'a>,
    pub(super) segments: SmallVec<[Segment; 4]>,
    /// Read-only after relocation (RELRO); whole pages, relative to `first_page`.
    pub(super) relro: Option<Range<u64>>,
    /// Size of a page in bytes.
    page: u64,
    /// Virtual address of the first page.
    pub(super) first_page: u64,
    /// Size in bytes up to the end of the last page.
    pub(super) span: u64,
    pub(super) dynamic: Dynamic<'a>,
}

impl<'a> Image<'a> {
    /// Checks `bytes`, an ELF image or a FatELF container with one for this machine.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        Self::parse_for(bytes, page_bytes() as u64)
    }

    /// The same for pages of this many bytes.
    fn parse_for(bytes: &'a [u8], page: u64) -> Result<Self, FormatError> {
        let file = fat::select(bytes)?;
        header::check_machine(file)?;
        let headers = header::segments(file)?;
        let mut segments = SmallVec::new();
        let mut dynamic = None;
        let mut relro = None;
        for (at, entry) in headers.iter() {
            let entry = Segment::from(entry);
            match entry.kind {
                PT_LOAD if entry.memory_size > 0 || entry.file_size > 0 => {
                    check_loaded(file, at, &entry, segments.last(), page)?;
                    segments.push(entry);
                }
                PT_DYNAMIC => dynamic = Some((at, entry)),
                PT_GNU_RELRO => relro = Some((at, entry)),
                PT_GNU_PROPERTY => property::check(file, &entry)?,
                PT_TLS => {
                    let expected = "no thread-local storage";
                    return Err(file.unsupported(at, "p_type", expected, "PT_TLS"));
                }
                _ => {}
            }
        }
        let (first_page, span) = layout(file, &segments, page)?;
        let relro = relro
            .map(|(at, entry)| protected_range(file, at, &entry, &segments, first_page, page))
            .transpose()?;
        let Some((at, entry)) = dynamic else {
            return Err(file.corrupt(headers.offset, "p_type", "a PT_DYNAMIC segment", "none"));
        };
        let dynamic = Dynamic::read(file, &segments, &entry, at)?;
        let this = Self { file, segments, relro, page, first_page, span, dynamic };
        this.check_imports()?;
        relocate::check(file, &this.dynamic, &this.segments)?;
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

    /// Names of the symbols that the image exports.
    pub fn symbol_names(&self) -> impl Iterator<Item = String> {
        let names = self.dynamic.exported().filter_map(|(_, symbol)| self.dynamic.name(symbol));
        names.map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The image-relative address of the function `name`, or an error if the image does not export it or it
    /// is not in executable memory.
    pub fn function(&self, name: &'static str) -> Result<u64, FormatError> {
        let symbols = &self.dynamic.symbols;
        let Some((at, symbol)) = self.dynamic.find(name) else {
            let found = format!("{} other symbols", symbols.entries.len().saturating_sub(1));
            return Err(self.file.corrupt(
                symbols.offset,
                "DT_SYMTAB",
                format!("the function '{name}'"),
                found,
            ));
        };
        let vaddr = symbol.st_value.get(LE);
        let is_code = self.segment_of(vaddr, 1).is_some_and(Segment::is_executable);
        if !is_code || matches!(symbol.st_type(), STT_TLS | STT_GNU_IFUNC) {
            let found = format!("{vaddr:#x}");
            return Err(self.file.corrupt(at + 8, "st_value", "an address in executable memory", found));
        }
        Ok(vaddr)
    }

    /// Rejects an image with imports.
    pub(super) fn check_imports(&self) -> Result<(), FormatError> {
        let dynamic = &self.dynamic;
        if let Some((at, symbol)) = dynamic.symbols.iter().skip(1).find(|(_, it)| it.is_undefined(LE)) {
            let name = dynamic.name(symbol).unwrap_or_default();
            let found = format!("an import of '{}'", String::from_utf8_lossy(name));
            return Err(self.file.unsupported(at + 6, "st_shndx", "no symbols from other libraries", found));
        }
        if let Some((at, _)) = dynamic.entry(DT_NEEDED) {
            return Err(self.file.unsupported(at, "d_tag", "no other libraries", "DT_NEEDED"));
        }
        Ok(())
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
            let pages = segment.pages(self.page);
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
    fn pages(&self, page: u64) -> Range<u64> {
        self.vaddr / page * page..(self.vaddr + self.memory_size).next_multiple_of(page)
    }

    fn protection(&self) -> Protection {
        match self.flags & (PF_R | PF_W | PF_X) {
            ProgramFlags(0) => Protection::None,
            flags if flags.contains(PF_X) => Protection::ReadExecute,
            flags if flags.contains(PF_W) => Protection::ReadWrite,
            _ => Protection::Read,
        }
    }
}

/// Checks one loaded segment against the file and the previous segment.
fn check_loaded(
    file: Reader<'_>,
    at: u64,
    entry: &Segment,
    previous: Option<&Segment>,
    page: u64,
) -> Result<(), FormatError> {
    check_segment(file, at, entry)?;
    let limit = file.size() + EXTRA_MEMORY_BYTES;
    if entry.memory_size > limit {
        let expected = format!("at most {limit} bytes for a file of {}", file.size());
        return Err(file.corrupt(at + 40, "p_memsz", expected, entry.memory_size.to_string()));
    }
    // Leaves space to round up to a page without overflow.
    if entry.vaddr > u64::MAX / 2 {
        return Err(file.corrupt(at + 16, "p_vaddr", "an address below 2^63", format!("{:#x}", entry.vaddr)));
    }
    if entry.flags.contains(PF_W | PF_X) {
        let expected = "writable or executable, not both";
        return Err(file.unsupported(at + 4, "p_flags", expected, format!("{:#x}", entry.flags)));
    }
    if let Some(previous) = previous
        && entry.pages(page).start < previous.pages(page).end
    {
        let end = previous.pages(page).end;
        let expected = format!("a page after {end:#x}, the end of the previous segment");
        let found = format!("{:#x}", entry.vaddr);
        // On a system with smaller pages, it may be another page.
        let is_other = entry.pages(SMALLEST_PAGE).start >= previous.pages(SMALLEST_PAGE).end;
        return Err(match is_other {
            true => file
                .unsupported(at + 16, "p_vaddr", expected, found)
                .advise(format!("link the executable for pages of {page} bytes: -z max-page-size={page}")),
            false => file.corrupt(at + 16, "p_vaddr", expected, found),
        });
    }
    Ok(())
}

/// The first page's address, and the number of bytes that all segments span.
fn layout(file: Reader<'_>, segments: &[Segment], page: u64) -> Result<(u64, u64), FormatError> {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(file.corrupt(32, "e_phoff", "a PT_LOAD segment", "none"));
    };
    let span = last.pages(page).end - first.pages(page).start;
    let limit = (file.size() + EXTRA_MEMORY_BYTES).next_multiple_of(page);
    if span > limit {
        let expected = format!("segments within {limit} bytes for a file of {}", file.size());
        return Err(file.corrupt(32, "p_vaddr", expected, format!("{span} bytes")));
    }
    Ok((first.pages(page).start, span))
}

/// The whole pages that are read-only after relocation, relative to the first page. Like the system's loader,
/// rounds both ends down: data that shares a page with writable data stays writable.
fn protected_range(
    file: Reader<'_>,
    at: u64,
    entry: &Segment,
    segments: &[Segment],
    first_page: u64,
    page: u64,
) -> Result<Range<u64>, FormatError> {
    let end = entry.vaddr.checked_add(entry.memory_size);
    let holder = segments.iter().find(|segment| {
        // Linkers pad the range to the end of its last page.
        end.is_some_and(|end| segment.vaddr <= entry.vaddr && end <= segment.pages(page).end)
    });
    if holder.is_none() {
        let found = format!("{:#x}+{:#x}", entry.vaddr, entry.memory_size);
        return Err(file.corrupt(at + 16, "PT_GNU_RELRO", "a range of a loaded segment", found));
    }
    let start = entry.vaddr / page * page;
    let end = (entry.vaddr + entry.memory_size) / page * page;
    Ok(start - first_page..end.max(start) - first_page)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rehal_base::Fault;

    use super::*;

    /// A library with data that is relocated, linked for pages of this size.
    fn library(page: u64) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let (source, library) = (directory.path().join("a.c"), directory.path().join("a.so"));
        std::fs::write(&source, "static int a; int* b = &a; int** get(void) { return &b; }").unwrap();
        let mut cc = Command::new("cc");
        cc.args([
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-fvisibility=hidden",
            &format!("-Wl,-z,max-page-size={page}"),
        ]);
        assert!(cc.arg(&source).arg("-o").arg(&library).status().unwrap().success());
        std::fs::read(library).unwrap()
    }

    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "the compiler is for x86-64")]
    fn pages_may_be_larger_up_to_those_that_an_image_is_linked_for() {
        let (small, large) = (library(4 << 10), library(64 << 10));
        for page in [4 << 10, 16 << 10, 64 << 10] {
            let image = Image::parse_for(&large, page).unwrap();
            let runs = image.protections();
            assert!(image.span.is_multiple_of(page) && image.first_page.is_multiple_of(page));
            let is_aligned = |it: &usize| it.is_multiple_of(page as usize);
            assert!(runs.iter().all(|(run, _)| is_aligned(&run.start) && is_aligned(&run.end)), "{runs:?}");
            assert!(runs.iter().any(|(_, protection)| *protection == Protection::ReadExecute), "{runs:?}");
        }
        assert!(Image::parse_for(&small, 4 << 10).is_ok());
        for page in [16 << 10, 64 << 10] {
            let error = Image::parse_for(&small, page).err().unwrap();
            assert_eq!((error.fault, error.field), (Fault::Unsupported, "p_vaddr"));
            assert!(error.advice.unwrap().to_string().ends_with(&format!("-z max-page-size={page}")));
        }
    }
}
