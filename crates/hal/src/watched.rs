use rehal_base::{Range, Result};

use crate::Buffer;

/// A buffer that tells which of its bytes are accessed.
pub struct WatchedBuffer {
    /// The buffer.
    pub buffer: Buffer,
    /// The watch of its accesses.
    pub accesses: Box<dyn WatchAccesses>,
}

/// Watches accesses to memory: reads and writes, by devices and by the host.
pub trait WatchAccesses {
    /// Begins to watch: nothing counts as accessed.
    fn watch(&self) -> Result<()>;

    /// Ends it. Returns ranges of bytes, in order, that contain every byte that was accessed.
    fn accessed(&self) -> Result<Vec<Range>>;
}
