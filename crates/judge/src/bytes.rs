//! Parts of byte strings, and bytes of buffers.

use rehal_base::{Error, Range, Result};
use rehal_hal::{Buffer, transfer};

/// Number of bytes that differ, of ranges of the same length.
pub(crate) fn different_bytes(one: &[u8], other: &[u8]) -> u64 {
    one.iter().zip(other).filter(|(one, other)| one != other).count() as u64
}

/// The bytes of a range of `bytes`.
pub fn part(bytes: &[u8], range: Range) -> &[u8] {
    &bytes[range.offset as usize..][..range.length as usize]
}

/// Replaces `target` with the bytes of a buffer. Its memory is reused.
pub(crate) fn read(buffer: &Buffer, offset: u64, length: u64, target: &mut Vec<u8>) -> Result<()> {
    target.clear();
    target
        .try_reserve_exact(length as usize)
        .map_err(|_| Error::resource_exhausted(format!("cannot copy {length} bytes to the host")))?;
    target.resize(length as usize, 0);
    transfer::read(buffer, offset, target)
}
