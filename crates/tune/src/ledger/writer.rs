use std::io::Write;
use std::ops::ControlFlow;

use rehal_base::{ElementType, Error, Range, Result};
use rehal_capture::layout::ReadDigest;
use rehal_replay::{HostRead, Observer, Operation, Plan};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::layout::{self, EntryHeader, Header, PieceRow, RangeHeader};
use super::{CaptureIdentity, digest};
use crate::number_summary::Summing;
use crate::tolerance::{ElementTypeRule, element_type_of};
use crate::written::{Written, part};

/// What a ledger has an entry for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LedgerContents {
    /// Each dispatch and each host read. The replay performs operations one by one.
    #[default]
    Dispatches,
    /// Each host read.
    Reads,
}

/// Options of a [`LedgerWriter`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LedgerOptions {
    /// What it has entries for.
    pub contents: LedgerContents,
    /// Maximum number of bytes that it keeps of each range, from which single elements can be compared. Other bytes are
    /// compared by their digests.
    pub kept_bytes: u64,
    /// The element types of what functions write and the program reads; the last rule that matches counts. Numbers of a
    /// floating-point type are summarized.
    pub element_types: Vec<ElementTypeRule>,
}

/// Observes a replay and writes its ledger.
///
/// Entries are written as the replay goes, so that the ledger of a replay that ends early can be read up to there.
/// A ledger is complete once [`LedgerWriter::finish`] returns.
pub struct LedgerWriter<W: Write> {
    sink: W,
    options: LedgerOptions,
    written: Written,
    entry: Vec<u8>,
    entry_count: u64,
}

/// Bytes of a piece, unless there would be too many.
const PIECE_BYTES: u64 = 16 << 10;
/// Number of pieces of a range, beyond which pieces are larger; each change has at least one.
const PIECES: u64 = 1024;

impl<W: Write> LedgerWriter<W> {
    /// Begins the ledger of a replay of `plan`.
    pub fn new(mut sink: W, plan: &Plan, options: LedgerOptions) -> Result<Self> {
        let header = header(plan, options.contents, options.kept_bytes);
        sink.write_all(header.as_bytes()).map_err(writing)?;
        Ok(Self { sink, options, written: Written::default(), entry: Vec::new(), entry_count: 0 })
    }

    /// Marks the ledger as complete and returns the sink, flushed.
    pub fn finish(mut self) -> Result<W> {
        self.begin(EntryHeader {
            kind: U32::new(layout::ENTRY_END),
            occurrence: U64::new(self.entry_count),
            ..EntryHeader::default()
        });
        self.end()?;
        self.sink.flush().map_err(writing)?;
        Ok(self.sink)
    }

    fn begin(&mut self, header: EntryHeader) {
        self.entry.clear();
        self.entry.extend_from_slice(header.as_bytes());
    }

    fn end(&mut self) -> Result<()> {
        seal(&mut self.entry);
        self.entry_count += 1;
        self.sink.write_all(&self.entry).map_err(writing)
    }

    /// Adds a range of which `changes` changed to `bytes`.
    fn range(&mut self, mut header: RangeHeader, bytes: &[u8], changes: &[Range]) {
        let pieces = pieces(changes);
        let changed = || pieces.iter().map(|piece| part(bytes, *piece));
        header.piece_count = U32::new(pieces.len() as u32);
        if let Some(mut summing) = Summing::of(ElementType(header.element_type.get())) {
            changed().for_each(|bytes| summing.add(bytes));
            let summary = summing.finish();
            header.flags = U32::new(layout::HAS_SUMMARY);
            header.minimum = U64::new(summary.minimum.to_bits());
            header.maximum = U64::new(summary.maximum.to_bits());
            header.mean = U64::new(summary.mean.to_bits());
            header.finite_count = U64::new(summary.finite_count);
            header.nan_count = U64::new(summary.nan_count);
            header.infinity_count = U64::new(summary.infinity_count);
        }
        let total: u64 = pieces.iter().map(|piece| piece.length).sum();
        let kept = total.min(self.options.kept_bytes);
        header.kept_length = U64::new(kept);
        self.entry.extend_from_slice(header.as_bytes());
        for piece in &pieces {
            let row = PieceRow {
                offset: U64::new(piece.offset),
                length: U64::new(piece.length),
                digest: digest(part(bytes, *piece)),
            };
            self.entry.extend_from_slice(row.as_bytes());
        }
        let mut rest = kept as usize;
        for bytes in changed() {
            let length = bytes.len().min(rest);
            self.entry.extend_from_slice(&bytes[..length]);
            rest -= length;
        }
        self.entry.resize(self.entry.len().next_multiple_of(layout::ALIGNMENT as usize), 0);
    }
}

fn header(plan: &Plan, contents: LedgerContents, kept_limit: u64) -> Header {
    let capture = CaptureIdentity::of(plan.capture());
    let mut header = Header {
        magic: layout::MAGIC,
        version_major: U16::new(layout::VERSION.0),
        version_minor: U16::new(layout::VERSION.1),
        flags: U32::new(match contents {
            LedgerContents::Dispatches => layout::HAS_DISPATCHES,
            LedgerContents::Reads => 0,
        }),
        capture_length: U64::new(capture.length),
        capture_digest: capture.digest,
        kept_limit: U64::new(kept_limit),
        ..Header::default()
    };
    let summed = std::mem::offset_of!(Header, checksum);
    header.checksum = U32::new(crc32fast::hash(&header.as_bytes()[..summed]));
    header
}

/// Fills in the length and the checksum of an entry.
fn seal(entry: &mut [u8]) {
    let length = entry.len() as u64;
    entry[..8].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(entry);
    let at = std::mem::offset_of!(EntryHeader, checksum);
    entry[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// The ledger of host reads whose digests a capture has: the record of each map, with what it read. `is_complete` unless reads
/// may be missing at the end.
pub(super) fn of_digests(plan: &Plan, digests: &[(u32, ReadDigest)], is_complete: bool) -> Vec<u8> {
    let mut bytes = header(plan, LedgerContents::Reads, 0).as_bytes().to_vec();
    let mut entry = Vec::new();
    let mut add = |entry_header: EntryHeader, range: &[u8], pieces: &[u8]| {
        entry.clear();
        entry.extend_from_slice(entry_header.as_bytes());
        entry.extend_from_slice(range);
        entry.extend_from_slice(pieces);
        seal(&mut entry);
        bytes.extend_from_slice(&entry);
    };
    for (record, it) in digests {
        let pieces = [PieceRow { offset: U64::new(0), length: it.length, digest: it.digest }];
        let pieces = if it.length.get() == 0 { &[][..] } else { &pieces };
        let entry_header = EntryHeader {
            kind: U32::new(layout::ENTRY_READ),
            record: U32::new(*record),
            submission: U32::new(*record),
            range_count: U32::new(1),
            ..EntryHeader::default()
        };
        let range = RangeHeader {
            binding: U32::new(layout::NO_BINDING),
            buffer_id: it.buffer_id,
            offset: it.offset,
            length: it.length,
            piece_count: U32::new(pieces.len() as u32),
            ..RangeHeader::default()
        };
        add(entry_header, range.as_bytes(), pieces.as_bytes());
    }
    if is_complete {
        let end = EntryHeader {
            kind: U32::new(layout::ENTRY_END),
            occurrence: U64::new(digests.len() as u64),
            ..EntryHeader::default()
        };
        add(end, &[], &[]);
    }
    bytes
}

/// Cuts changes into pieces.
fn pieces(changes: &[Range]) -> Vec<Range> {
    let total: u64 = changes.iter().map(|range| range.length).sum();
    let length = (total / PIECES).next_power_of_two().max(PIECE_BYTES);
    let cut = |range: &Range| {
        let Range { offset, length: whole } = *range;
        let starts = (0..whole).step_by(length as usize);
        starts.map(move |at| Range { offset: offset + at, length: length.min(whole - at) })
    };
    changes.iter().flat_map(cut).collect()
}

fn writing(error: std::io::Error) -> Error {
    Error::io("writing the ledger", &error)
}

impl<W: Write> Observer for LedgerWriter<W> {
    fn wants_operations(&self) -> bool {
        self.options.contents == LedgerContents::Dispatches
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.written.begin(operation)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let Some(dispatch) = &operation.dispatch else { return Ok(ControlFlow::Continue(())) };
        let mut written = std::mem::take(&mut self.written);
        written.end()?;
        let changed = || written.bindings.iter().filter(|binding| !binding.changes.is_empty());
        self.begin(EntryHeader {
            kind: U32::new(layout::ENTRY_DISPATCH),
            record: U32::new(operation.location.ordinal),
            submission: U32::new(operation.submission.ordinal),
            occurrence: U64::new(operation.occurrence),
            range_count: U32::new(changed().count() as u32),
            ..EntryHeader::default()
        });
        let name = dispatch.info.name.as_bytes();
        let element_type = element_type_of(&self.options.element_types, Some(name));
        for binding in changed() {
            let header = RangeHeader {
                binding: U32::new(binding.binding),
                element_type: U32::new(element_type.map_or(0, |it| it.0)),
                buffer_id: U64::new(binding.buffer_id),
                offset: U64::new(binding.offset),
                length: U64::new(binding.after().len() as u64),
                ..RangeHeader::default()
            };
            self.range(header, binding.after(), &binding.changes);
        }
        written.release();
        self.written = written;
        self.end().map(ControlFlow::Continue)
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.begin(EntryHeader {
            kind: U32::new(layout::ENTRY_READ),
            record: U32::new(read.location.ordinal),
            submission: U32::new(read.location.ordinal),
            range_count: U32::new(1),
            ..EntryHeader::default()
        });
        let bytes = read.memory.bytes(read.memory.whole())?;
        let element_type = element_type_of(&self.options.element_types, None);
        let header = RangeHeader {
            binding: U32::new(layout::NO_BINDING),
            element_type: U32::new(element_type.map_or(0, |it| it.0)),
            buffer_id: U64::new(read.buffer_id),
            offset: U64::new(read.offset),
            length: U64::new(bytes.len() as u64),
            ..RangeHeader::default()
        };
        let whole = [Range { offset: 0, length: bytes.len() as u64 }];
        self.range(header, &bytes, &whole);
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_changes_and_are_few() {
        let range = |offset, length| Range { offset, length };
        assert!(pieces(&[range(0, 0)]).is_empty());
        let cut = pieces(&[range(16, 40_000), range(50_000, 16)]);
        let cut: Vec<_> = cut.iter().map(|it| (it.offset, it.length)).collect();
        assert_eq!(cut, [(16, 16384), (16400, 16384), (32784, 7232), (50_000, 16)]);
        for total in [1 << 20, 1 << 30, (1 << 40) + 5] {
            let cut = pieces(&[range(0, total)]);
            assert!(cut.len() as u64 <= 2 * PIECES, "{}", cut.len());
            assert_eq!(cut.iter().map(|it| it.length).sum::<u64>(), total);
        }
    }
}
