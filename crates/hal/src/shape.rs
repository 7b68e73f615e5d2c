//! What makes transfers wrong on every device, whatever they name: asked when a capture is planned,
//! when a program issues one, and when a binding table says where it goes.

use rehal_base::{Error, Result};

use crate::flags::WHOLE_BUFFER;

/// A pattern has 1, 2 or 4 bytes; what it fills (bytes from `offset`) is a multiple of that, at a
/// multiple of that.
pub fn check_fill(offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
    let bytes = pattern.len() as u64;
    if !matches!(bytes, 1 | 2 | 4) {
        return Err(Error::invalid_argument(format!("a fill pattern has 1, 2 or 4 bytes, not {bytes}")));
    }
    if !offset.is_multiple_of(bytes) || (length != WHOLE_BUFFER && !length.is_multiple_of(bytes)) {
        return Err(Error::invalid_argument(format!(
            "a fill of {length} bytes at offset {offset} is not aligned to its pattern of {bytes} bytes"
        )));
    }
    Ok(())
}

/// An update writes all of the bytes that it carries.
pub fn check_update(source: &[u8], length: u64) -> Result<()> {
    if length == WHOLE_BUFFER || source.len() as u64 == length {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("an update of {length} bytes carries {} bytes", source.len())))
}

/// Both sides of a copy have as many bytes.
pub fn check_copy(source_length: u64, target_length: u64) -> Result<()> {
    if source_length == target_length {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("a copy takes {source_length} bytes and writes {target_length}")))
}
