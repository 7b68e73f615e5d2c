use std::ops::Range;

/// The name of the format in errors.
pub(super) const FORMAT: &str = "module";

use rehal_base::{Cursor, Fault, FormatError};

/// Bytes of the length prefix before the flatbuffer.
pub const PREFIX_BYTES: usize = 4;

const ZIP_SIGNATURE: u32 = 0x0403_4b50;
/// A ZIP local file header up to the lengths of its name and extra field.
const ZIP_HEADER_BYTES: usize = 30;
const ZIP_LENGTHS_OFFSET: usize = 26;
/// Alignment of the data after the flatbuffer, from the archive's first byte.
const SEGMENT_ALIGNMENT: usize = 64;
/// Alignment of the flatbuffer itself.
const PREFIX_ALIGNMENT: usize = 8;

/// The layout of a `.vmfb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The flatbuffer, without its length prefix.
    pub flatbuffer: Range<usize>,
    /// The base of external rodata. May be past the end of the file if there is none.
    pub rodata_start: usize,
}

impl Layout {
    /// Finds the flatbuffer in `bytes`, a module as the compiler writes it: the flatbuffer with its length
    /// prefix, optionally after a ZIP header (and with a ZIP directory at the end) so that common tools can
    /// list it.
    ///
    /// Source of the fact: `archive.c` of release 3.13.0.
    pub fn read(bytes: &[u8]) -> Result<Self, FormatError> {
        let prefix_at = zip_header_bytes(bytes)?;
        let error = |fault, expected: &str, found: String| {
            FormatError::new(FORMAT, fault, prefix_at as u64, "flatbuffer length", expected, found)
        };
        let mut cursor = Cursor::new(&bytes[prefix_at..]);
        let Some(length) = cursor.u32() else {
            let found = format!("{} bytes", bytes.len() - prefix_at);
            return Err(error(Fault::Truncated, "the length of a flatbuffer", found));
        };
        if cursor.remaining() < 12 || (length as usize) > cursor.remaining() {
            return Err(not_whole(bytes, prefix_at, length, cursor.remaining()));
        }
        if !prefix_at.is_multiple_of(PREFIX_ALIGNMENT) {
            return Err(error(
                Fault::Corrupt,
                "a start at a multiple of 8 bytes",
                format!("byte {prefix_at}"),
            ));
        }
        let start = prefix_at + PREFIX_BYTES;
        let end = start + length as usize;
        Ok(Self { flatbuffer: start..end, rodata_start: end.next_multiple_of(SEGMENT_ALIGNMENT) })
    }
}

/// Bytes before the flatbuffer's length.
fn zip_header_bytes(bytes: &[u8]) -> Result<usize, FormatError> {
    if Cursor::new(bytes).u32() != Some(ZIP_SIGNATURE) {
        return Ok(0);
    }
    let truncated = |expected: String| {
        let found = format!("{} bytes", bytes.len());
        FormatError::new(FORMAT, Fault::Truncated, 0, "ZIP header", expected, found)
    };
    let lengths = bytes.get(ZIP_LENGTHS_OFFSET..ZIP_HEADER_BYTES);
    let mut cursor = Cursor::new(lengths.ok_or_else(|| truncated(format!("{ZIP_HEADER_BYTES} bytes")))?);
    let name = usize::from(cursor.u16().unwrap_or(0));
    let extra = usize::from(cursor.u16().unwrap_or(0));
    let header = ZIP_HEADER_BYTES + name + extra;
    if header > bytes.len() {
        return Err(truncated(format!("{header} bytes")));
    }
    Ok(header)
}

/// The error for a truncated file, or for one that is not a module: the identifier tells which.
fn not_whole(bytes: &[u8], prefix_at: usize, length: u32, remaining: usize) -> FormatError {
    let looks_like_one = bytes.get(prefix_at + 8..prefix_at + 12).is_some_and(|id| id == b"IREE");
    let (expected, found) = (format!("{length} bytes after it"), format!("{remaining}"));
    if looks_like_one || remaining < 12 {
        return FormatError::new(
            FORMAT,
            Fault::Truncated,
            prefix_at as u64,
            "flatbuffer length",
            expected,
            found,
        );
    }
    FormatError::new(FORMAT, Fault::Corrupt, prefix_at as u64, "flatbuffer length", expected, found)
        .advise("expected a .vmfb written by iree-compile with its default output format")
}
