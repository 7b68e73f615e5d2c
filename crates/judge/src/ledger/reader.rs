use std::path::{Path, PathBuf};

use rehal_base::{ElementType, Error, Fault, FileKind, FormatError, MappedFile, Range, Result};
use rehal_replay::{CHANGE_BYTES, Plan};
use zerocopy::FromBytes;

use super::CaptureIdentity;
use super::layout::{self, EntryHeader, Header, PieceRow, RangeHeader};
use crate::NumberSummary;

/// An open ledger. Its header is checked; entries are checked as they are read, in the order of the replay.
pub struct Ledger {
    bytes: LedgerBytes,
    header: Header,
}

enum LedgerBytes {
    File(MappedFile, PathBuf),
    Memory(Vec<u8>),
}

/// The subject of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The bytes that a dispatch wrote.
    Dispatch,
    /// The bytes that a host read saw.
    Read,
}

/// An entry of a ledger.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry<'l> {
    /// Its subject.
    pub kind: EntryKind,
    /// Ordinal of the record in the capture.
    pub record: u32,
    /// Ordinal of the record of the submission.
    pub submission: u32,
    /// How often the record had been performed before.
    pub occurrence: u64,
    /// The bindings that changed, by ordinal, or what the host read.
    pub ranges: Vec<EntryRange<'l>>,
}

/// A range of a buffer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EntryRange<'l> {
    /// Ordinal of the binding; `None` for a host read.
    pub binding: Option<u32>,
    /// The buffer's id in the capture.
    pub buffer_id: u64,
    /// The range of the buffer that is bound or read.
    pub range: Range,
    /// Its element type, if it is known.
    pub element_type: Option<ElementType>,
    /// The numbers that changed, if they are floating-point numbers.
    pub summary: Option<NumberSummary>,
    /// The bytes that changed, in order and without overlap.
    pub pieces: Vec<Piece<'l>>,
}

/// Bytes that changed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Piece<'l> {
    /// Where they are, in the bound range.
    pub range: Range,
    /// 128 bits of their BLAKE3.
    pub digest: [u8; 16],
    /// The first of them, as far as they are kept.
    pub kept: &'l [u8],
}

const FORMAT: &str = "ledger";

impl Ledger {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self> {
        let place = || format!("'{}'", path.display());
        let file = MappedFile::open(path)?;
        let header = header(file.bytes()).map_err(|error| {
            let other = FileKind::Ledger.refuse_other(file.bytes(), &place());
            other.unwrap_or_else(|| Error::from(error).context(place()))
        })?;
        Ok(Self { bytes: LedgerBytes::File(file, path.to_owned()), header })
    }

    /// Opens a ledger in memory.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = bytes.into();
        let header = header(&bytes)?;
        Ok(Self { bytes: LedgerBytes::Memory(bytes), header })
    }

    /// Whether it has an entry for each dispatch.
    pub fn has_dispatches(&self) -> bool {
        self.header.flags.get() & layout::HAS_DISPATCHES != 0
    }

    /// Fails unless it is a ledger of the capture of `plan`.
    pub fn check_capture(&self, plan: &Plan) -> Result<()> {
        let own =
            CaptureIdentity { length: self.header.capture_length.get(), digest: self.header.capture_digest };
        if CaptureIdentity::from_capture(plan.capture()) == own {
            return Ok(());
        }
        Err(self.located(Error::failed_precondition("the ledger was made from another capture")))
    }

    /// Adds the file to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        match &self.bytes {
            LedgerBytes::File(_, path) => error.context(format!("'{}'", path.display())),
            LedgerBytes::Memory(_) => error,
        }
    }

    /// The entries, in order.
    #[doc(hidden)]
    pub fn entries(&self) -> Entries<'_> {
        let bytes = match &self.bytes {
            LedgerBytes::File(file, _) => file.bytes(),
            LedgerBytes::Memory(bytes) => bytes,
        };
        Entries { bytes, at: size_of::<Header>(), count: 0, state: State::Open }
    }
}

fn header(bytes: &[u8]) -> Result<Header, FormatError> {
    let error = |fault, offset, field, expected: &str, found: String| {
        Err(FormatError::new(FORMAT, fault, offset, field, expected, found))
    };
    if !bytes.starts_with(&layout::MAGIC) {
        let start = bytes[..bytes.len().min(8)].escape_ascii().to_string();
        return error(Fault::Unsupported, 0, "magic", "RHLEDGER", format!("'{start}'"));
    }
    let Ok((header, _)) = Header::read_from_prefix(bytes) else {
        return error(Fault::Truncated, 0, "header", "72 bytes", format!("{} bytes", bytes.len()));
    };
    if header.version_major.get() != layout::VERSION.0 {
        let found = format!("{}.{}", header.version_major, header.version_minor);
        return error(Fault::Unsupported, 8, "version_major", "version 1", found);
    }
    let checksum = crc32fast::hash(&bytes[..std::mem::offset_of!(Header, checksum)]);
    if header.checksum.get() != checksum {
        let found = format!("{:08x}", header.checksum.get());
        return error(Fault::Corrupt, 64, "checksum", &format!("{checksum:08x}"), found);
    }
    if header.flags.get() & !layout::HAS_DISPATCHES != 0 {
        return error(Fault::Unsupported, 12, "flags", "0 or 1", header.flags.to_string());
    }
    if header.reserved.get() != 0 {
        return error(Fault::Corrupt, 68, "reserved", "0", header.reserved.to_string());
    }
    Ok(header)
}

/// Reads the entries of a ledger. After the last one, [`Entries::is_complete`] says whether the ledger was
/// finished.
pub struct Entries<'l> {
    bytes: &'l [u8],
    at: usize,
    count: u64,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Open,
    Complete,
    Failed,
}

impl<'l> Entries<'l> {
    /// Whether the end of the ledger has been read.
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// The next entry; `None` at the end, and where a ledger is truncated.
    fn read(&mut self) -> Result<Option<Entry<'l>>, FormatError> {
        let rest = &self.bytes[self.at..];
        let Ok((header, _)) = EntryHeader::read_from_prefix(rest) else { return Ok(None) };
        let length = header.length.get();
        let least = size_of::<EntryHeader>() as u64;
        if length < least || !length.is_multiple_of(layout::ALIGNMENT) {
            return Err(self.corrupt(0, "length", "a multiple of 8, and at least 40", length.to_string()));
        }
        let Some(entry) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else {
            return Ok(None);
        };
        self.check_sum(&header, entry)?;
        if header.reserved.get() != 0 {
            return Err(self.corrupt(36, "reserved", "0", header.reserved.to_string()));
        }
        let kind = match header.kind.get() {
            layout::ENTRY_DISPATCH => EntryKind::Dispatch,
            layout::ENTRY_READ => EntryKind::Read,
            layout::ENTRY_END if entry.len() < rest.len() => {
                let found = format!("{} more bytes", rest.len() - entry.len());
                return Err(self.corrupt(0, "end", "the end of the file", found));
            }
            layout::ENTRY_END if header.range_count.get() != 0 || entry.len() as u64 != least => {
                return Err(self.corrupt(0, "length", "40 bytes without ranges", length.to_string()));
            }
            layout::ENTRY_END if header.occurrence.get() == self.count => {
                self.state = State::Complete;
                return Ok(None);
            }
            layout::ENTRY_END => {
                let found = header.occurrence.to_string();
                return Err(self.corrupt(24, "occurrence", &format!("{} entries", self.count), found));
            }
            other => return Err(self.corrupt(8, "kind", "1, 2 or 3", other.to_string())),
        };
        let ranges = self.ranges(header.range_count.get(), kind, entry)?;
        self.at += entry.len();
        self.count += 1;
        Ok(Some(Entry {
            kind,
            record: header.record.get(),
            submission: header.submission.get(),
            occurrence: header.occurrence.get(),
            ranges,
        }))
    }

    fn check_sum(&self, header: &EntryHeader, entry: &[u8]) -> Result<(), FormatError> {
        let sum = checksum(entry);
        match header.checksum.get() {
            own if own == sum => Ok(()),
            own => Err(self.corrupt(12, "checksum", &format!("{sum:08x}"), format!("{own:08x}"))),
        }
    }

    fn ranges(
        &self,
        count: u32,
        kind: EntryKind,
        entry: &'l [u8],
    ) -> Result<Vec<EntryRange<'l>>, FormatError> {
        let mut ranges = Vec::new();
        let mut at = size_of::<EntryHeader>();
        for _ in 0..count {
            let start = at;
            let range = self.range(entry, &mut at)?;
            if range.binding.is_some() != (kind == EntryKind::Dispatch) {
                return Err(self.corrupt(start, "binding", "one for dispatches only", format!("{kind:?}")));
            }
            let last = ranges.last().and_then(|last: &EntryRange<'_>| last.binding);
            if let Some((binding, last)) = range.binding.zip(last)
                && binding <= last
            {
                let expected = format!("more than {last}, that of the range before");
                return Err(self.corrupt(start, "binding", &expected, binding.to_string()));
            }
            ranges.push(range);
        }
        if kind == EntryKind::Read && count != 1 {
            return Err(self.corrupt(32, "range_count", "1", count.to_string()));
        }
        match entry.len() - at {
            0 => Ok(ranges),
            rest => Err(self.corrupt(at, "length", "the end of the entry", format!("{rest} bytes"))),
        }
    }

    fn range(&self, entry: &'l [u8], at: &mut usize) -> Result<EntryRange<'l>, FormatError> {
        let short = |at: usize, field| self.corrupt(at, field, "bytes in the entry", "its end".into());
        let start = *at;
        let Ok((header, rest)) = RangeHeader::ref_from_prefix(&entry[start..]) else {
            return Err(short(start, "range"));
        };
        if header.flags.get() & !layout::HAS_SUMMARY != 0 {
            return Err(self.corrupt(start + 36, "flags", "0 or 1", header.flags.to_string()));
        }
        if header.reserved.get() != 0 {
            return Err(self.corrupt(start + 96, "reserved", "0", header.reserved.to_string()));
        }
        let count = header.piece_count.get() as usize;
        let Ok((rows, rest)) = <[PieceRow]>::ref_from_prefix_with_elems(rest, count) else {
            return Err(short(start + 32, "piece_count"));
        };
        let kept_length = header.kept_length.get();
        let padded = kept_length.checked_next_multiple_of(layout::ALIGNMENT).unwrap_or(u64::MAX);
        let Some(kept) = usize::try_from(padded).ok().and_then(|length| rest.get(..length)) else {
            return Err(short(start + 88, "kept_length"));
        };
        *at = entry.len() - (rest.len() - kept.len());
        let range = Range::new(header.offset.get(), header.length.get()).ok_or_else(|| {
            self.corrupt(start + 24, "length", "an end in 64 bits", header.length.to_string())
        })?;
        let element_type = ElementType(header.element_type.get());
        Ok(EntryRange {
            binding: Some(header.binding.get()).filter(|binding| *binding != layout::NO_BINDING),
            buffer_id: header.buffer_id.get(),
            range,
            element_type: (element_type.0 != 0).then_some(element_type),
            summary: (header.flags.get() & layout::HAS_SUMMARY != 0).then(|| summary(header)),
            pieces: self.pieces(start, rows, range.length, &kept[..kept_length as usize])?,
        })
    }

    fn pieces(
        &self,
        start: usize,
        rows: &[PieceRow],
        length: u64,
        mut kept: &'l [u8],
    ) -> Result<Vec<Piece<'l>>, FormatError> {
        let mut pieces = Vec::with_capacity(rows.len());
        let mut end = 0;
        for (row, index) in rows.iter().zip(0..) {
            let at = start + size_of::<RangeHeader>() + index * size_of::<PieceRow>();
            let range = Range::new(row.offset.get(), row.length.get());
            let range = range.filter(|it| it.offset >= end && it.length != 0 && it.fits(length));
            // So that no element is in two pieces, or in a piece and in what did not change.
            let is_unit = |it: u64| it.is_multiple_of(CHANGE_BYTES as u64) || it == length;
            let Some(range) = range.filter(|it| is_unit(it.offset) && is_unit(it.end())) else {
                let found = format!("{} bytes at {}", row.length, row.offset);
                return Err(self.corrupt(at, "piece", "units of 16 bytes of the range, in order", found));
            };
            end = range.end();
            let (own, rest) = kept.split_at(kept.len().min(range.length as usize));
            kept = rest;
            pieces.push(Piece { range, digest: row.digest, kept: own });
        }
        match kept.len() {
            0 => Ok(pieces),
            rest => {
                let found = format!("{rest} more");
                Err(self.corrupt(start + 88, "kept_length", "at most the bytes of the pieces", found))
            }
        }
    }

    /// An error about a field at `at` in the entry.
    fn corrupt(&self, at: usize, field: &'static str, expected: &str, found: String) -> FormatError {
        // Ordinals of records are those of captures.
        let found = format!("{found} in entry #{}", self.count);
        FormatError::new(FORMAT, Fault::Corrupt, (self.at + at) as u64, field, expected, found)
    }
}

impl<'l> Iterator for Entries<'l> {
    type Item = Result<Entry<'l>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != State::Open {
            return None;
        }
        let outcome = self.read();
        if outcome.is_err() {
            self.state = State::Failed;
        }
        outcome.transpose()
    }
}

/// The checksum of an entry, which is at least as long as its header.
pub(super) fn checksum(entry: &[u8]) -> u32 {
    let at = std::mem::offset_of!(EntryHeader, checksum);
    let mut sum = crc32fast::Hasher::new();
    sum.update(&entry[..at]);
    sum.update(&[0; 4]);
    sum.update(&entry[at + 4..]);
    sum.finalize()
}

fn summary(header: &RangeHeader) -> NumberSummary {
    NumberSummary {
        minimum: f64::from_bits(header.minimum.get()),
        maximum: f64::from_bits(header.maximum.get()),
        mean: f64::from_bits(header.mean.get()),
        finite_count: header.finite_count.get(),
        nan_count: header.nan_count.get(),
        infinity_count: header.infinity_count.get(),
    }
}
