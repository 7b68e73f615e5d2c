//! The checksums that rehal's recorder adds to a capture: a CRC-32 of each block of 4 KiB of the file
//! (the CRC of gzip, <https://www.rfc-editor.org/rfc/rfc1952#section-8>).
//!
//! The first record, a session record, has the payload type [`PayloadType::CHECKSUMMED`] and no payload. The
//! last record is another session record, of type [`PayloadType::CHECKSUMS`]: a checksum for each block
//! before it, including the file header, and a [`ChecksumFooter`]. Readers that do not know these types, such
//! as the reference's, skip both. Session records are used because the reference's replay ignores them, but
//! rejects optional records of an unknown type.
//!
//! A CRC, because it detects all burst errors of up to 32 bits, and because it is linear: when a status or
//! the file length is patched later, the checksum of its block is adjusted without reading the block again.
//!
//! The `Writer` sums the bytes that it writes to its sink. `Records` verifies the blocks of each record
//! before it returns the record; `records_without_data` neither verifies nor reads the data of payloads.

use std::fmt;

use rehal_base::{Fault, FormatError, MappedFile, Remedy};
use serde::{Serialize, Serializer};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::{ChecksumFooter, RecordHeader};
use crate::{PayloadType, Record};

/// Bytes per checksum. A block of 4 KiB narrows damage down to a few records of typical size, at an overhead
/// of one byte in a thousand.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// A verified range of a mapped file of at least this size is evicted, unless it is about to be read.
const EVICTED_BYTES: usize = 4 << 20;

/// Whether a capture has checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumState {
    /// Not recorded: the recorder, such as the reference's, does not add checksums.
    Absent,
    /// Missing: announced by the first record, but the capture was never closed or is truncated.
    Missing,
    /// One for each block of 4 KiB.
    Present,
}

/// A range of a capture whose checksum does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// File offset of its first byte.
    pub offset: u64,
    /// Its length in bytes: one or more blocks, or the checksum record.
    pub length: u64,
    /// Ordinals of the first and the last record in it, unless damage before it hides the record boundaries.
    #[serde(flatten, serialize_with = "first_and_last")]
    pub records: Option<(u64, u64)>,
}

fn first_and_last<S: Serializer>(records: &Option<(u64, u64)>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([
        ("first_record", records.map(|(first, _)| first)),
        ("last_record", records.map(|(_, last)| last)),
    ])
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {} to {} ", self.offset, self.offset + self.length - 1)?;
        match self.records {
            Some((first, last)) if first == last => write!(f, "(record #{first})"),
            Some((first, last)) => write!(f, "(records #{first} to #{last})"),
            None => write!(f, "(after damage that hides the record boundaries)"),
        }
    }
}

/// Computes the checksums of a capture while it is written.
#[derive(Default)]
pub(crate) struct Blocks {
    complete: Vec<U32>,
    current: crc32fast::Hasher,
    current_bytes: usize,
}

impl Blocks {
    /// Adds the next bytes of the file.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.current_bytes));
            self.current.update(now);
            self.current_bytes += now.len();
            if self.current_bytes == BLOCK_BYTES {
                self.complete.push(U32::new(std::mem::take(&mut self.current).finalize()));
                self.current_bytes = 0;
            }
            bytes = later;
        }
    }

    /// Updates the checksums for bytes at `offset` that were added as zeros and are patched to `bytes`.
    pub fn patch(&mut self, offset: u64, bytes: &[u8]) {
        for (byte, offset) in bytes.iter().zip(offset..) {
            let (index, at) = (offset as usize / BLOCK_BYTES, offset as usize % BLOCK_BYTES);
            // CRCs are linear: changing this byte changes the CRC by the same XOR in all messages of this
            // length.
            let difference = |length: usize| {
                let mut block = vec![0; length];
                let zeros = crc32fast::hash(&block);
                block[at] = *byte;
                crc32fast::hash(&block) ^ zeros
            };
            match self.complete.get_mut(index) {
                Some(checksum) => *checksum = U32::new(checksum.get() ^ difference(BLOCK_BYTES)),
                None => {
                    let checksum = self.current.clone().finalize() ^ difference(self.current_bytes);
                    self.current =
                        crc32fast::Hasher::new_with_initial_len(checksum, self.current_bytes as u64);
                }
            }
        }
    }

    /// Payload size of the [`PayloadType::CHECKSUMS`] record of a file with `length` bytes before it.
    pub fn payload_bytes(length: u64) -> u64 {
        length.div_ceil(BLOCK_BYTES as u64) * size_of::<U32>() as u64 + size_of::<ChecksumFooter>() as u64
    }

    /// The checksums of all bytes added.
    pub fn finish(mut self) -> Vec<U32> {
        if self.current_bytes > 0 {
            self.complete.push(U32::new(self.current.finalize()));
        }
        self.complete
    }
}

/// The footer of the checksum record. Its last field is the checksum of the record up to that field.
pub(crate) fn footer(record_offset: u64, header: &RecordHeader, checksums: &[U32]) -> ChecksumFooter {
    let record_offset = U64::new(record_offset);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.as_bytes());
    hasher.update(checksums.as_bytes());
    hasher.update(record_offset.as_bytes());
    ChecksumFooter { record_offset, checksum: U32::new(hasher.finalize()) }
}

/// The checksums of a capture, in place.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    /// The bytes that they cover.
    bytes: &'a [u8],
    checksums: &'a [U32],
    /// The checksum record.
    record: &'a [u8],
}

/// The checksum of a block, or of the checksum record, does not match.
pub(crate) struct Mismatch {
    offset: u64,
    length: u64,
    expected: u32,
    found: u32,
}

impl<'a> Table<'a> {
    /// Finds the checksums at the end of `bytes`, a complete capture.
    pub fn find(bytes: &'a [u8]) -> Option<Self> {
        let (rest, footer) = ChecksumFooter::ref_from_suffix(bytes).ok()?;
        let record_offset = footer.record_offset.get();
        let (bytes, record) = bytes.split_at_checked(usize::try_from(record_offset).ok()?)?;
        let (header, _) = RecordHeader::ref_from_prefix(record).ok()?;
        let payload_bytes = record.len() - size_of::<RecordHeader>();
        if payload_bytes as u64 != Blocks::payload_bytes(record_offset)
            || header.payload_type.get() != PayloadType::CHECKSUMS.0
        {
            return None;
        }
        let checksums = rest.get(bytes.len() + size_of::<RecordHeader>()..)?;
        Some(Self { bytes, checksums: <[U32]>::ref_from_bytes(checksums).ok()?, record })
    }

    /// Verifies block `index`.
    fn check(&self, index: usize) -> Result<(), Mismatch> {
        let start = index * BLOCK_BYTES;
        let block = &self.bytes[start..self.bytes.len().min(start + BLOCK_BYTES)];
        compare(start, block, self.checksums[index].get())
    }

    /// Verifies the checksum record itself.
    fn check_self(&self) -> Result<(), Mismatch> {
        let (summed, stored) = self.record.split_at(self.record.len() - size_of::<U32>());
        let stored = U32::read_from_bytes(stored).map_or(0, U32::get);
        compare(self.bytes.len(), summed, stored)
    }

    /// The damaged ranges, without record ordinals. `walked` is called with an offset every few megabytes.
    pub fn damage(&self, walked: &mut dyn FnMut(u64)) -> Vec<Damage> {
        // If the checksums themselves are damaged, they say nothing about the blocks.
        if let Err(mismatch) = self.check_self() {
            return vec![Damage { length: self.record.len() as u64, ..mismatch.damage() }];
        }
        let mut damage: Vec<Damage> = Vec::new();
        for index in 0..self.checksums.len() {
            if let Err(mismatch) = self.check(index) {
                match damage.last_mut() {
                    Some(last) if last.offset + last.length == mismatch.offset => {
                        last.length += mismatch.length
                    }
                    _ => damage.push(mismatch.damage()),
                }
            }
            if ((index + 1) * BLOCK_BYTES).is_multiple_of(EVICTED_BYTES) {
                walked(((index + 1) * BLOCK_BYTES) as u64);
            }
        }
        damage
    }
}

fn compare(offset: usize, bytes: &[u8], expected: u32) -> Result<(), Mismatch> {
    let found = crc32fast::hash(bytes);
    if found == expected {
        return Ok(());
    }
    Err(Mismatch { offset: offset as u64, length: bytes.len() as u64, expected, found })
}

impl Mismatch {
    fn damage(&self) -> Damage {
        Damage { offset: self.offset, length: self.length, records: None }
    }

    /// The error, naming `ordinal` as the record being read.
    #[cold]
    pub fn error(&self, ordinal: u64) -> FormatError {
        let Self { offset, length, expected, found } = *self;
        let expected = format!("{expected:08x} for bytes {offset} to {}", offset + length - 1);
        FormatError::new("capture", Fault::Corrupt, offset, "checksum", expected, format!("{found:08x}"))
            .in_record(ordinal)
            .advise(Remedy::RecoverDamaged)
    }
}

/// How much of a record is verified before it is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// All but its data, for readers that do not use it; see [`Payload::data`](crate::Payload::data).
    WithoutData,
}

/// Verifies the blocks of a capture from front to back, each once.
#[derive(Clone)]
pub(crate) struct Verifier<'a> {
    table: Table<'a>,
    map: Option<&'a MappedFile>,
    extent: Extent,
    /// Start of the next unverified block; beyond the end of the file when done.
    position: usize,
}

impl<'a> Verifier<'a> {
    pub fn new(table: Table<'a>, map: Option<&'a MappedFile>, extent: Extent) -> Self {
        Self { table, map, extent, position: 0 }
    }

    /// Verifies all blocks up to `end`.
    #[inline]
    pub fn reach(&mut self, end: usize) -> Result<(), Mismatch> {
        if end <= self.position { Ok(()) } else { self.verify(end) }
    }

    /// Verifies a record whose header has been verified.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) -> Result<(), Mismatch> {
        let end = record.payload_offset() as usize + record.payload.len();
        if end <= self.position {
            return Ok(());
        }
        if self.extent == Extent::WithoutData && record.payload.len() > BLOCK_BYTES {
            self.skip_data(record)?;
        }
        self.verify(end)
    }

    /// Skips the blocks that contain only data.
    fn skip_data(&mut self, record: &Record<'_>) -> Result<(), Mismatch> {
        // A malformed payload is verified as a whole: it may be malformed because it is damaged.
        let Ok(payload) = record.payload() else { return Ok(()) };
        let data = payload.data();
        if data.is_empty() {
            return Ok(());
        }
        let start =
            record.payload_offset() as usize + (data.as_ptr().addr() - record.payload.as_ptr().addr());
        self.reach(start)?;
        self.position = self.position.max((start + data.len()) / BLOCK_BYTES * BLOCK_BYTES);
        Ok(())
    }

    #[inline(never)]
    fn verify(&mut self, end: usize) -> Result<(), Mismatch> {
        let summed = self.table.bytes.len();
        let mut kept = self.position;
        while self.position < end.min(summed) {
            let matches = self.table.check(self.position / BLOCK_BYTES);
            // A mismatch is only meaningful if the checksum record is intact.
            matches.or_else(|mismatch| self.table.check_self().and(Err(mismatch)))?;
            self.position = (self.position + BLOCK_BYTES).min(summed);
            if self.position - kept >= EVICTED_BYTES
                && let Some(map) = self.map
            {
                map.forget(kept, self.position - kept);
                kept = self.position;
            }
        }
        if end > summed {
            self.table.check_self()?;
            self.position = usize::MAX;
        }
        Ok(())
    }
}
