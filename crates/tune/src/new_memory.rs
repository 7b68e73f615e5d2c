//! The contents of memory that nothing has written.

use rehal_base::Result;
use rehal_hal::{Buffer, transfer};

/// Maximum number of bytes of a buffer to zero with one transfer.
const AT_ONCE_BYTES: usize = 1 << 20;

/// Zeroes a buffer that has just been allocated. Devices may return memory with the results of earlier work, which the same results would
/// not change, and which differ from one replay to the next beside what a dispatch writes.
pub fn zero_new_memory(buffer: &Buffer) -> Result<()> {
    let zeros = vec![0; usize::try_from(buffer.size()).unwrap_or(usize::MAX).min(AT_ONCE_BYTES)];
    for offset in (0..buffer.size()).step_by(AT_ONCE_BYTES) {
        let rest = usize::try_from(buffer.size() - offset).unwrap_or(usize::MAX);
        transfer::write(buffer, offset, &zeros[..rest.min(zeros.len())])?;
    }
    Ok(())
}
