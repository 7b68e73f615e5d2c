//! The structures of an archive, byte for byte (source: IREE's `schemas/parameter_archive.h`, 0.0).
//!
//! Packed and little-endian. The number before a field is its offset and the number after a name is the size,
//! both in bytes and checked at compile time.

use rehal_base::layouts;
use zerocopy::little_endian::{U16, U32, U64};

/// The first four bytes of every archive, `IRPA` as a little-endian u32.
pub(super) const MAGIC: u32 = 0x4150_5249;

/// Alignment of headers and table entries, in bytes.
pub(super) const ENTRY_ALIGNMENT: u64 = 16;

/// An entry that was erased.
pub(super) const ENTRY_SKIP: u32 = 0;
/// A [`SplatEntry`].
pub(super) const ENTRY_SPLAT: u32 = 1;
/// A [`DataEntry`].
pub(super) const ENTRY_DATA: u32 = 2;
/// An [`ExternalEntry`].
pub(super) const ENTRY_EXTERNAL: u32 = 3;

layouts! {
    /// The common prefix of all versions' headers.
    pub(super) HeaderPrefix = 32 {
        /// [`MAGIC`].
        0 magic: U32,
        /// 0.
        4 version_major: U16,
        /// 0.
        6 version_minor: U16,
        /// Size of the whole header.
        8 header_size: U64,
        /// Bytes from this header to the next archive's, or 0.
        16 next_header_offset: U64,
        /// Reserved.
        24 flags: U64,
    }

    /// A byte range, relative to a base named in the field's description.
    pub(super) Span = 16 {
        /// First byte.
        0 offset: U64,
        /// Number of bytes.
        8 length: U64,
    }

    /// The header of version 0. Segments are relative to its first byte.
    pub(super) Header = 88 {
        /// The common prefix.
        0 prefix: HeaderPrefix,
        /// Number of table entries.
        32 entry_count: U64,
        /// The table.
        40 entry_segment: Span,
        /// Names, metadata and paths.
        56 metadata_segment: Span,
        /// The data.
        72 storage_segment: Span,
    }

    /// The common prefix of all entries.
    pub(super) EntryHeader = 60 {
        /// Size of the entry, without trailing alignment.
        0 entry_size: U64,
        /// Its type.
        8 kind: U32,
        /// Reserved.
        12 flags: U64,
        /// The name, in the metadata segment.
        20 name: Span,
        /// The metadata, in the metadata segment.
        36 metadata: Span,
        /// Alignment of the data in bytes, or 0.
        52 minimum_alignment: U64,
    }

    /// A splat entry.
    pub(super) SplatEntry = 85 {
        /// The common prefix.
        0 header: EntryHeader,
        /// Length in bytes, a multiple of the pattern's.
        60 length: U64,
        /// The pattern, of which `pattern_length` bytes are used.
        68 pattern: [u8; 16],
        /// 1, 2, 4, 8 or 16.
        84 pattern_length: u8,
    }

    /// An entry with data in this archive.
    pub(super) DataEntry = 76 {
        /// The common prefix.
        0 header: EntryHeader,
        /// The bytes, in the storage segment.
        60 storage: Span,
    }

    /// An entry with data in another file.
    pub(super) ExternalEntry = 92 {
        /// The common prefix.
        0 header: EntryHeader,
        /// The file's path, in the metadata segment.
        60 path: Span,
        /// The bytes in that file.
        76 range: Span,
    }
}
