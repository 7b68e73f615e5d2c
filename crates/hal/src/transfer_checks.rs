//! Transfer checks that hold on every device: applied when a capture is planned, when a program issues a
//! transfer, and when a binding table supplies its buffers.

use rehal_base::{Error, Result};

use crate::flags::WHOLE_BUFFER;

/// A pattern has 1, 2 or 4 bytes.
pub fn check_pattern(pattern: &[u8]) -> Result<()> {
    match pattern.len() {
        1 | 2 | 4 => Ok(()),
        bytes => Err(Error::invalid_argument(format!("a fill pattern has 1, 2 or 4 bytes, not {bytes}"))),
    }
}

/// A pattern has 1, 2 or 4 bytes; the filled range is a multiple of that and aligned to it.
pub fn check_fill(offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
    check_pattern(pattern)?;
    let bytes = pattern.len() as u64;
    if !offset.is_multiple_of(bytes) || (length != WHOLE_BUFFER && !length.is_multiple_of(bytes)) {
        return Err(Error::invalid_argument(format!(
            "a fill of {length} bytes at offset {offset} is not aligned to its pattern of {bytes} bytes"
        )));
    }
    Ok(())
}

/// An update writes all bytes it carries.
pub fn check_update(source: &[u8], length: u64) -> Result<()> {
    if length == WHOLE_BUFFER || source.len() as u64 == length {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("an update of {length} bytes carries {} bytes", source.len())))
}

/// Both ranges of a copy have the same length. They may overlap: the target gets the bytes that the source
/// had before.
pub fn check_copy(source_length: u64, target_length: u64) -> Result<()> {
    if source_length == target_length {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "copy lengths differ: source {source_length} bytes, target {target_length} bytes"
    )))
}
