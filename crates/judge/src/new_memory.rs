//! The contents of memory that nothing has written.

use rehal_base::Result;
use rehal_hal::{Buffer, transfer};

/// Maximum number of bytes of a buffer to fill with one transfer.
const AT_ONCE_BYTES: usize = 1 << 20;

/// Fills a buffer that has just been allocated with a byte.
pub(crate) fn fill_new_memory(buffer: &Buffer, byte: u8) -> Result<()> {
    let bytes = vec![byte; usize::try_from(buffer.size()).unwrap_or(usize::MAX).min(AT_ONCE_BYTES)];
    for offset in (0..buffer.size()).step_by(AT_ONCE_BYTES) {
        let rest = usize::try_from(buffer.size() - offset).unwrap_or(usize::MAX);
        transfer::write(buffer, offset, &bytes[..rest.min(bytes.len())])?;
    }
    Ok(())
}
