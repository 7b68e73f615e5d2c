use rehal_base::{Fault, FormatError, Range};
use zerocopy::FromBytes;

use super::layout::*;
use crate::{Location, Parsed, Pattern};

const FORMAT: &str = "parameter archive";

const HEADER_BYTES: u64 = size_of::<Header>() as u64;
const ENTRY_HEADER_BYTES: u64 = size_of::<EntryHeader>() as u64;

/// The parameters of all archives in `bytes`; linked archives follow the one that links to them.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Parsed>, FormatError> {
    let mut reader = Reader::new(bytes);
    let mut base = 0;
    loop {
        let archive = reader.archive(base)?;
        reader.entries(&archive)?;
        // Links only point forward, so the loop terminates.
        match archive.next {
            Some(next) => base = next,
            None => return Ok(reader.parsed),
        }
    }
}

/// A header whose segments are in bounds of the file. Ranges are relative to the file.
struct Archive {
    base: u64,
    entry_count: u64,
    entries: Range,
    metadata: Range,
    storage: Range,
    next: Option<u64>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    parsed: Vec<Parsed>,
    /// Limit on further entries. Archives may overlap, so their own sizes bound nothing.
    entries_left: u64,
    /// Limit on further bytes of names, metadata and paths, for the same reason.
    text_left: u64,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let length = bytes.len() as u64;
        // Entries may share a name's bytes, but real files do so rarely.
        let text_left = length.saturating_mul(4).saturating_add(1 << 16);
        Self { bytes, parsed: Vec::new(), entries_left: length / ENTRY_HEADER_BYTES, text_left }
    }

    fn archive(&self, base: u64) -> Result<Archive, FormatError> {
        let prefix: &HeaderPrefix = self.read(base, "header")?;
        let at = |offset: usize| base + offset as u64;
        if prefix.magic.get() != MAGIC {
            let found = format!("{:08X}", prefix.magic.get());
            return Err(corrupt(at(0), "magic", format!("{MAGIC:08X} (IRPA)"), found));
        }
        let (major, minor) = (prefix.version_major.get(), prefix.version_minor.get());
        if (major, minor) != (0, 0) {
            return Err(unsupported(at(4), "version", "0.0".into(), format!("{major}.{minor}")));
        }
        if prefix.header_size.get() != HEADER_BYTES {
            let found = prefix.header_size.get().to_string();
            return Err(corrupt(at(8), "header_size", HEADER_BYTES.to_string(), found));
        }
        let next = match prefix.next_header_offset.get() {
            0 => None,
            offset => Some(base.checked_add(offset).ok_or_else(|| {
                corrupt(at(16), "next_header_offset", "an offset in the file", offset.to_string())
            })?),
        };
        let header: &Header = self.read(base, "header")?;
        Ok(Archive {
            base,
            entry_count: header.entry_count.get(),
            entries: self.segment(base, 40, "entry_segment", header.entry_segment)?,
            metadata: self.segment(base, 56, "metadata_segment", header.metadata_segment)?,
            storage: self.segment(base, 72, "storage_segment", header.storage_segment)?,
            next,
        })
    }

    /// The range in the file of a header's segment.
    fn segment(&self, base: u64, at: u64, field: &'static str, span: Span) -> Result<Range, FormatError> {
        let length = span.length.get();
        if length == 0 {
            return Ok(Range { offset: base, length });
        }
        let range = base.checked_add(span.offset.get()).and_then(|offset| Range::new(offset, length));
        let size = self.bytes.len() as u64;
        range.filter(|range| range.fits(size)).ok_or_else(|| {
            let found = format!("{length} bytes at {base} + {}", span.offset);
            let (expected, fault) =
                (format!("a range within the {size} bytes of the file"), Fault::Truncated);
            FormatError::new(FORMAT, fault, base + at, field, expected, found)
        })
    }

    fn entries(&mut self, archive: &Archive) -> Result<(), FormatError> {
        if archive.entry_count > self.entries_left {
            let expected = format!("at most {}, which fit in the file", self.entries_left);
            let found = archive.entry_count.to_string();
            return Err(corrupt(archive.base + 32, "entry_count", expected, found));
        }
        self.entries_left -= archive.entry_count;
        let mut table = archive.entries;
        for _ in 0..archive.entry_count {
            let entry = self.next_entry(&mut table)?;
            self.entry(archive, entry)?;
        }
        Ok(())
    }

    /// The range of the next entry; advances `table` past it.
    fn next_entry(&self, table: &mut Range) -> Result<Range, FormatError> {
        let at = table.offset;
        let room = |field, found: u64| {
            let expected = format!("an entry within the remaining {} bytes of the table", table.length);
            corrupt(at, field, expected, format!("{found} bytes"))
        };
        if table.length < ENTRY_HEADER_BYTES {
            return Err(room("entry_count", ENTRY_HEADER_BYTES));
        }
        let size = self.read::<EntryHeader>(at, "entry")?.entry_size.get();
        if size < ENTRY_HEADER_BYTES || size > table.length {
            return Err(room("entry_size", size));
        }
        // The last entry's padding is optional.
        let step = size.next_multiple_of(ENTRY_ALIGNMENT).min(table.length);
        *table = Range { offset: at + step, length: table.length - step };
        Ok(Range { offset: at, length: size })
    }

    fn entry(&mut self, archive: &Archive, entry: Range) -> Result<(), FormatError> {
        let at = entry.offset;
        let header: &EntryHeader = self.read(at, "entry")?;
        let (length, location) = match header.kind.get() {
            ENTRY_SKIP => return Ok(()),
            ENTRY_SPLAT => splat(self.read_entry(entry)?, at)?,
            ENTRY_DATA => data(self.read_entry(entry)?, at, archive)?,
            ENTRY_EXTERNAL => self.external(self.read_entry(entry)?, at, archive)?,
            kind => {
                let expected = "0 (skip), 1 (splat), 2 (data) or 3 (external)".into();
                return Err(unsupported(at + 8, "type", expected, kind.to_string()));
            }
        };
        let name = self.text(archive, at + 20, "name", header.name)?;
        let metadata = self.blob(archive, at + 36, "metadata", header.metadata)?.to_vec();
        let minimum_alignment = header.minimum_alignment.get();
        self.parsed.push(Parsed { name, metadata, length, minimum_alignment, location });
        Ok(())
    }

    fn external(
        &mut self,
        entry: &ExternalEntry,
        at: u64,
        archive: &Archive,
    ) -> Result<(u64, Location), FormatError> {
        let path = self.text(archive, at + 60, "path", entry.path)?;
        if path.is_empty() {
            return Err(corrupt(at + 60, "path", "a path", "none"));
        }
        let (offset, length) = (entry.range.offset.get(), entry.range.length.get());
        if Range::new(offset, length).is_none() {
            let found = format!("{length} bytes at {offset}");
            return Err(corrupt(at + 76, "range", "bytes of a file", found));
        }
        Ok((length, Location::External { path, offset }))
    }

    fn text(
        &mut self,
        archive: &Archive,
        at: u64,
        field: &'static str,
        span: Span,
    ) -> Result<String, FormatError> {
        match std::str::from_utf8(self.blob(archive, at, field, span)?) {
            Ok(text) => Ok(text.to_string()),
            Err(error) => Err(corrupt(at, field, "UTF-8 text", error.to_string())),
        }
    }

    /// Bytes in the metadata segment.
    fn blob(
        &mut self,
        archive: &Archive,
        at: u64,
        field: &'static str,
        span: Span,
    ) -> Result<&'a [u8], FormatError> {
        let (offset, length) = (span.offset.get(), span.length.get());
        if length == 0 {
            return Ok(&[]);
        }
        let range = within(archive.metadata, span).ok_or_else(|| {
            let expected =
                format!("a range within the {} bytes of the metadata segment", archive.metadata.length);
            corrupt(at, field, expected, format!("{length} bytes at {offset}"))
        })?;
        self.text_left = self.text_left.checked_sub(length).ok_or_else(|| {
            let expected = "names and metadata in proportion to the file's size";
            corrupt(at, field, expected, format!("{length} more bytes"))
        })?;
        Ok(&self.bytes[range.offset as usize..range.end() as usize])
    }

    /// An entry of a known type; a newer writer may have appended fields.
    fn read_entry<T: Layout>(&self, entry: Range) -> Result<&'a T, FormatError> {
        let needed = size_of::<T>() as u64;
        if entry.length < needed {
            let expected = format!("{needed} bytes or more");
            return Err(corrupt(entry.offset, "entry_size", expected, entry.length.to_string()));
        }
        self.read(entry.offset, "entry")
    }

    fn read<T: Layout>(&self, offset: u64, field: &'static str) -> Result<&'a T, FormatError> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or(&[]);
        match T::ref_from_prefix(rest) {
            Ok((value, _)) => Ok(value),
            Err(_) => {
                let (expected, found) = (format!("{} bytes", size_of::<T>()), format!("{}", rest.len()));
                Err(FormatError::new(FORMAT, Fault::Truncated, offset, field, expected, found))
            }
        }
    }
}

/// A structure that is read zero-copy.
trait Layout: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned {}
impl<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned> Layout for T {}

fn splat(entry: &SplatEntry, at: u64) -> Result<(u64, Location), FormatError> {
    let bytes = entry.pattern.get(..usize::from(entry.pattern_length));
    let Some(pattern) = bytes.and_then(Pattern::new) else {
        let found = entry.pattern_length.to_string();
        return Err(corrupt(at + 84, "pattern_length", "1, 2, 4, 8 or 16", found));
    };
    let length = entry.length.get();
    if !pattern.divides(length) {
        let expected = format!("a multiple of the pattern's {} bytes", entry.pattern_length);
        return Err(corrupt(at + 60, "length", expected, length.to_string()));
    }
    Ok((length, Location::Splat(pattern)))
}

fn data(entry: &DataEntry, at: u64, archive: &Archive) -> Result<(u64, Location), FormatError> {
    let length = entry.storage.length.get();
    // The reference also writes offset 0 for an empty parameter.
    if length == 0 {
        return Ok((0, Location::Here(0)));
    }
    let range = within(archive.storage, entry.storage).ok_or_else(|| {
        let expected = format!("a range within the {} bytes of the storage segment", archive.storage.length);
        let found = format!("{length} bytes at {}", entry.storage.offset);
        corrupt(at + 60, "storage", expected, found)
    })?;
    Ok((length, Location::Here(range.offset)))
}

/// The range in the file of `span`, relative to `segment`.
fn within(segment: Range, span: Span) -> Option<Range> {
    let span = Range::new(span.offset.get(), span.length.get())?;
    let inside = span.fits(segment.length);
    inside.then(|| Range { offset: segment.offset + span.offset, length: span.length })
}

fn corrupt(
    offset: u64,
    field: &'static str,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> FormatError {
    FormatError::new(FORMAT, Fault::Corrupt, offset, field, expected, found)
}

fn unsupported(offset: u64, field: &'static str, expected: String, found: String) -> FormatError {
    FormatError::new(FORMAT, Fault::Unsupported, offset, field, expected, found)
}
