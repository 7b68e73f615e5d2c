use std::io::Write;
use std::ops::ControlFlow;

use rehal_base::{Error, Range, Result};
use rehal_capture::layout::ReadDigest;
use rehal_replay::{ChangeTracker, HostRead, Observer, Operation, Plan};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::CaptureIdentity;
use super::encoder::{EntryEncoder, seal};
use super::layout::{self, EntryHeader, Header, PieceRow, RangeHeader};
use crate::tolerance::{ElementTypeRule, element_type_of};

/// The entries of a ledger.
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
    /// Its entries.
    pub contents: LedgerContents,
    /// Maximum number of bytes that it keeps of each range, from which single elements can be compared. Other
    /// bytes are compared by their digests.
    pub kept_bytes: u64,
    /// The element types of what functions write and the program reads; the last rule that matches counts.
    /// Numbers of a floating-point type are summarized.
    pub element_types: Vec<ElementTypeRule>,
}

/// Observes a replay and writes its ledger.
///
/// Entries are written as the replay goes, so that the ledger of a replay that ends early can be read up to
/// there. A ledger is complete once [`LedgerWriter::finish`] returns.
pub struct LedgerWriter<W: Write> {
    sink: W,
    contents: LedgerContents,
    changes: ChangeTracker,
    encoder: EntryEncoder,
    entry_count: u64,
}

impl<W: Write> LedgerWriter<W> {
    /// Begins the ledger of a replay of `plan`.
    pub fn new(mut sink: W, plan: &Plan, options: LedgerOptions) -> Result<Self> {
        let header = header(plan, options.contents, options.kept_bytes);
        sink.write_all(header.as_bytes()).map_err(writing)?;
        let LedgerOptions { contents, kept_bytes, element_types } = options;
        let encoder = EntryEncoder::new(kept_bytes, element_types);
        Ok(Self { sink, contents, changes: ChangeTracker::default(), encoder, entry_count: 0 })
    }

    /// Marks the ledger as complete and returns the sink, flushed.
    pub fn finish(mut self) -> Result<W> {
        self.encoder.begin(EntryHeader {
            kind: U32::new(layout::ENTRY_END),
            occurrence: U64::new(self.entry_count),
            ..EntryHeader::default()
        });
        self.sink.write_all(self.encoder.end()).map_err(writing)?;
        self.sink.flush().map_err(writing)?;
        Ok(self.sink)
    }
}

fn header(plan: &Plan, contents: LedgerContents, kept_limit: u64) -> Header {
    let capture = CaptureIdentity::from_capture(plan.capture());
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

/// A ledger made from the entries that a capture has.
pub(super) struct Assembled {
    bytes: Vec<u8>,
    entry: Vec<u8>,
    count: u64,
}

impl Assembled {
    pub fn new(plan: &Plan, contents: LedgerContents) -> Self {
        Self { bytes: header(plan, contents, 0).as_bytes().to_vec(), entry: Vec::new(), count: 0 }
    }

    /// Adds what the map with the ordinal `record` read.
    pub fn read(&mut self, record: u32, it: &ReadDigest) {
        let pieces = [PieceRow { offset: U64::new(0), length: it.length, digest: it.digest }];
        let pieces = if it.length.get() == 0 { &[][..] } else { &pieces };
        let header = EntryHeader {
            kind: U32::new(layout::ENTRY_READ),
            record: U32::new(record),
            submission: U32::new(record),
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
        self.add(header, &[range.as_bytes(), pieces.as_bytes()]);
    }

    /// Adds the entry of a dispatch: its header and its ranges.
    pub fn dispatch(&mut self, header: EntryHeader, ranges: &[u8]) {
        self.add(header, &[ranges]);
    }

    fn add(&mut self, header: EntryHeader, parts: &[&[u8]]) {
        self.entry.clear();
        self.entry.extend_from_slice(header.as_bytes());
        parts.iter().for_each(|part| self.entry.extend_from_slice(part));
        seal(&mut self.entry);
        self.bytes.extend_from_slice(&self.entry);
        self.count += 1;
    }

    /// The ledger; `is_complete` unless entries may be missing at the end.
    pub fn finish(mut self, is_complete: bool) -> Vec<u8> {
        if is_complete {
            let end = EntryHeader {
                kind: U32::new(layout::ENTRY_END),
                occurrence: U64::new(self.count),
                ..EntryHeader::default()
            };
            self.add(end, &[]);
        }
        self.bytes
    }
}

fn writing(error: std::io::Error) -> Error {
    Error::io("writing the ledger", &error)
}

impl<W: Write> Observer for LedgerWriter<W> {
    fn wants_operations(&self) -> bool {
        self.contents == LedgerContents::Dispatches
    }

    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.changes.begin(operation.bindings())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let Some(dispatch) = &operation.dispatch else { return Ok(ControlFlow::Continue(())) };
        self.changes.end()?;
        let header = EntryHeader {
            record: U32::new(operation.location.ordinal),
            submission: U32::new(operation.submission.ordinal),
            occurrence: U64::new(operation.occurrence),
            ..EntryHeader::default()
        };
        let entry = self.encoder.dispatch(header, dispatch.name, &self.changes);
        self.entry_count += 1;
        self.sink.write_all(entry).map_err(writing)?;
        self.changes.release();
        Ok(ControlFlow::Continue(()))
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.encoder.begin(EntryHeader {
            kind: U32::new(layout::ENTRY_READ),
            record: U32::new(read.location.ordinal),
            submission: U32::new(read.location.ordinal),
            range_count: U32::new(1),
            ..EntryHeader::default()
        });
        let bytes = read.memory.bytes(read.memory.whole())?;
        let element_type = element_type_of(&self.encoder.element_types, None);
        let header = RangeHeader {
            binding: U32::new(layout::NO_BINDING),
            element_type: U32::new(element_type.map_or(0, |it| it.0)),
            buffer_id: U64::new(read.buffer_id),
            offset: U64::new(read.offset),
            length: U64::new(bytes.len() as u64),
            ..RangeHeader::default()
        };
        let whole = [Range { offset: 0, length: bytes.len() as u64 }];
        self.encoder.range(header, &bytes, &whole);
        self.entry_count += 1;
        self.sink.write_all(self.encoder.end()).map_err(writing)
    }
}
