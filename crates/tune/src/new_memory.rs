//! The contents of memory that nothing has written.

use rehal_base::Result;
use rehal_hal::{Buffer, transfer};

/// Maximum number of bytes of a buffer to fill with one transfer.
const AT_ONCE_BYTES: usize = 1 << 20;

/// Zeroes a buffer that has just been allocated. Devices may return memory with the results of earlier work, which the same results would
/// not change, and which differ from one replay to the next beside what a dispatch writes.
pub fn zero_new_memory(buffer: &Buffer) -> Result<()> {
    fill_new_memory(buffer, 0)
}

/// The same with other bytes than zeros.
pub(crate) fn fill_new_memory(buffer: &Buffer, byte: u8) -> Result<()> {
    let bytes = vec![byte; usize::try_from(buffer.size()).unwrap_or(usize::MAX).min(AT_ONCE_BYTES)];
    for offset in (0..buffer.size()).step_by(AT_ONCE_BYTES) {
        let rest = usize::try_from(buffer.size() - offset).unwrap_or(usize::MAX);
        transfer::write(buffer, offset, &bytes[..rest.min(bytes.len())])?;
    }
    Ok(())
}
