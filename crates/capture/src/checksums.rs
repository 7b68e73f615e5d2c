//! The checksums that rehal's recorder adds to a capture: a CRC-32 of each block of 4 KiB of the file.
//!
//! The first record, which says that a session begins, has the payload type [`PayloadType::CHECKSUMMED`] and no
//! payload. The last record is another of the session, of type [`PayloadType::CHECKSUMS`]: a checksum for each block of
//! what lies before it, the file header included, and a [`ChecksumFooter`]. Readers that do not know the types pass
//! over both, the reference's among them: records of a session have no effect, while its replay refuses optional
//! records of an unknown type.
//!
//! A CRC, because it finds all errors of up to 32 adjacent bits, and because it is linear: when a status or the file's
//! length is filled in later, the checksum of its block is adjusted without reading the block again.

use std::fmt;

use rehal_base::{Fault, FormatError, MappedFile};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::{ChecksumFooter, RecordHeader};
use crate::{PayloadType, Record};

/// Bytes that one checksum is of. A block of 4 KiB names the damage within some records of usual size, at a cost of
/// one byte in a thousand.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// A verified stretch of a mapped file of this size is let go, unless it is about to be read.
const FORGET_BYTES: usize = 4 << 20;

/// Whether a capture has checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumState {
    /// It was recorded by a program that adds none, such as the reference's tools.
    Absent,
    /// Its recorder adds them when it closes the capture, which it did not do, or the file was cut.
    Missing,
    /// It has one for each block of 4 KiB.
    Present,
}

/// A part of a capture whose checksum does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// File offset of its first byte.
    pub offset: u64,
    /// Its length in bytes: one or more blocks, or the record of the checksums.
    pub length: u64,
    /// Ordinals of the first and the last record in it, as far as the records up to there can be told apart.
    pub records: Option<(u64, u64)>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {} to {} ", self.offset, self.offset + self.length - 1)?;
        match self.records {
            Some((first, last)) if first == last => write!(f, "(record #{first})"),
            Some((first, last)) => write!(f, "(records #{first} to #{last})"),
            None => write!(f, "(behind damage that hides which records these are)"),
        }
    }
}

/// Checksums of a capture that is being written.
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

    /// Accounts for bytes at `offset`, which have been added as zeros and become `bytes`.
    pub fn fill_in(&mut self, offset: u64, bytes: &[u8]) {
        for (byte, offset) in bytes.iter().zip(offset..) {
            let (index, at) = (offset as usize / BLOCK_BYTES, offset as usize % BLOCK_BYTES);
            // The CRC of a message of the same length that differs in this byte differs by the same in every message.
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

    /// Bytes of the payload of [`PayloadType::CHECKSUMS`] behind `length` bytes of file.
    pub fn payload_bytes(length: u64) -> u64 {
        length.div_ceil(BLOCK_BYTES as u64) * size_of::<U32>() as u64 + size_of::<ChecksumFooter>() as u64
    }

    /// The checksums of all that was added.
    pub fn finish(mut self) -> Vec<U32> {
        if self.current_bytes > 0 {
            self.complete.push(U32::new(self.current.finalize()));
        }
        self.complete
    }
}

/// The last field of the footer: of the record of the checksums up to there.
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
    /// What they are of.
    bytes: &'a [u8],
    checksums: &'a [U32],
    /// The record that has them.
    record: &'a [u8],
}

/// The checksum of a block, or of the record of the checksums, is not what it should be.
pub(crate) struct Mismatch {
    offset: u64,
    length: u64,
    expected: u32,
    found: u32,
}

impl<'a> Table<'a> {
    /// Finds the checksums at the end of `bytes`, a whole capture.
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

    /// Compares the checksum of block `index`.
    fn check(&self, index: usize) -> Result<(), Mismatch> {
        let start = index * BLOCK_BYTES;
        let block = &self.bytes[start..self.bytes.len().min(start + BLOCK_BYTES)];
        compare(start, block, self.checksums[index].get())
    }

    /// Compares the checksum of the checksums.
    fn check_self(&self) -> Result<(), Mismatch> {
        let (summed, stored) = self.record.split_at(self.record.len() - size_of::<U32>());
        let stored = U32::read_from_bytes(stored).map_or(0, U32::get);
        compare(self.bytes.len(), summed, stored)
    }

    /// What is damaged, without the records. `walked` is called with an offset every few megabytes.
    pub fn damage(&self, walked: &mut dyn FnMut(u64)) -> Vec<Damage> {
        // If they are damaged themselves, nothing can be said of what they are of.
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
            if ((index + 1) * BLOCK_BYTES).is_multiple_of(FORGET_BYTES) {
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

    /// The error that names `ordinal` as the record that was being read.
    #[cold]
    pub fn error(&self, ordinal: u64) -> FormatError {
        let Self { offset, length, expected, found } = *self;
        let expected = format!("{expected:08x} for bytes {offset} to {}", offset + length - 1);
        FormatError::new("capture", Fault::Corrupt, offset, "checksum", expected, format!("{found:08x}"))
            .in_record(ordinal)
            .advise(
                "the file is damaged: copy it again from its source, or capture again; \
                 rehal info lists all that is damaged, and --recover reads it nevertheless",
            )
    }
}

/// How much of a record is verified before it is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// All but its data, for readers that do not look at it; see [`Payload::data`](crate::Payload::data).
    WithoutData,
}

/// Verifies blocks from the front of a capture on, each once.
#[derive(Clone)]
pub(crate) struct Verifier<'a> {
    table: Table<'a>,
    map: Option<&'a MappedFile>,
    extent: Extent,
    /// Where the next block starts that has not been looked at; beyond the file when all is done.
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

    /// Steps over the blocks that are data and nothing else.
    fn skip_data(&mut self, record: &Record<'_>) -> Result<(), Mismatch> {
        // A payload that cannot be taken apart is verified as a whole: damage may be why.
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
            // A mismatch is only worth what the checksum is.
            matches.or_else(|mismatch| self.table.check_self().and(Err(mismatch)))?;
            self.position = (self.position + BLOCK_BYTES).min(summed);
            if self.position - kept >= FORGET_BYTES
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
