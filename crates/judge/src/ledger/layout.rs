//! The structures of a ledger, byte for byte, version 1.0.
//!
//! Packed and little-endian. The number before a field is its offset and the number after a name is the size,
//! both in bytes and checked at compile time.

use rehal_base::layouts;
use zerocopy::little_endian::{U16, U32, U64};

/// The first eight bytes of every ledger.
pub(crate) const MAGIC: [u8; 8] = *b"RHLEDGER";
/// The version that is written.
pub(crate) const VERSION: (u16, u16) = (1, 0);
/// Alignment of entries, and of the kept bytes in them.
pub(crate) const ALIGNMENT: u64 = 8;

/// [`Header::flags`]: the ledger has an entry per dispatch.
pub(crate) const HAS_DISPATCHES: u32 = 1;

/// [`EntryHeader::kind`]: what a dispatch wrote.
pub(crate) const ENTRY_DISPATCH: u32 = 1;
/// [`EntryHeader::kind`]: what a host read saw.
pub(crate) const ENTRY_READ: u32 = 2;
/// [`EntryHeader::kind`]: the end of a complete ledger.
pub(crate) const ENTRY_END: u32 = 3;

/// [`RangeHeader::binding`] of a host read.
pub(crate) const NO_BINDING: u32 = u32::MAX;
/// [`RangeHeader::flags`]: the summary is present.
pub(crate) const HAS_SUMMARY: u32 = 1;

layouts! {
    /// The start of the file.
    pub(crate) Header = 72 {
        /// [`MAGIC`].
        0 magic: [u8; 8],
        /// 1.
        8 version_major: U16,
        /// 0.
        10 version_minor: U16,
        /// [`HAS_DISPATCHES`].
        12 flags: U32,
        /// Bytes of the capture.
        16 capture_length: U64,
        /// BLAKE3 of the bytes of the capture.
        24 capture_digest: [u8; 32],
        /// Maximum number of bytes that a range keeps.
        56 kept_limit: U64,
        /// CRC-32 of the bytes before this field.
        64 checksum: U32,
        /// 0.
        68 reserved: U32,
    }

    /// The start of an entry.
    pub(crate) EntryHeader = 40 {
        /// Bytes of the entry with this header, a multiple of [`ALIGNMENT`].
        0 length: U64,
        /// [`ENTRY_DISPATCH`], [`ENTRY_READ`] or [`ENTRY_END`].
        8 kind: U32,
        /// CRC-32 of the entry with 0 in this field.
        12 checksum: U32,
        /// Ordinal of the record in the capture.
        16 record: U32,
        /// Ordinal of the record of the submission; that of the record itself for a host read.
        20 submission: U32,
        /// How often the record had been performed before; at the end, the number of entries.
        24 occurrence: U64,
        /// Number of ranges.
        32 range_count: U32,
        /// 0.
        36 reserved: U32,
    }

    /// A range of a buffer: followed by its pieces, and by the kept bytes with padding.
    pub(crate) RangeHeader = 104 {
        /// Ordinal of the binding, or [`NO_BINDING`].
        0 binding: U32,
        /// Element type, or 0 if it is unknown.
        4 element_type: U32,
        /// The buffer's id in the capture.
        8 buffer_id: U64,
        /// First byte in the buffer.
        16 offset: U64,
        /// Number of bytes.
        24 length: U64,
        /// Number of pieces.
        32 piece_count: U32,
        /// [`HAS_SUMMARY`].
        36 flags: U32,
        /// Smallest finite number, as the bits of an f64.
        40 minimum: U64,
        /// Largest finite number, as the bits of an f64.
        48 maximum: U64,
        /// Mean of the finite numbers, as the bits of an f64.
        56 mean: U64,
        /// Number of finite numbers.
        64 finite_count: U64,
        /// Number of NaN.
        72 nan_count: U64,
        /// Number of infinities.
        80 infinity_count: U64,
        /// Number of kept bytes: those of the first pieces.
        88 kept_length: U64,
        /// 0.
        96 reserved: U64,
    }

    /// Bytes that changed.
    pub(crate) PieceRow = 32 {
        /// First byte, in the range.
        0 offset: U64,
        /// Number of bytes.
        8 length: U64,
        /// The first 16 bytes of their BLAKE3.
        16 digest: [u8; 16],
    }
}
