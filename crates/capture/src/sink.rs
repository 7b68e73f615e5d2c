use std::fmt;
use std::io::{Result, Write};

/// Capacity of a [`WriteBuffer`] in bytes.
pub(crate) const BUFFER_BYTES: usize = 128 * 1024;

/// The destination of a [`Writer`](crate::Writer): any [`Write`], or a type that takes over the writer's
/// buffers, for example to write them on another thread without copying them.
///
/// Bytes arrive in the file's order. A sink that writes later reports an error from one of the next calls.
pub trait Sink {
    /// Writes all of `bytes`.
    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()>;

    /// Writes the contents of `buffer`, and leaves an empty buffer in its place: this one, or another if the
    /// sink keeps it until it is written.
    fn write_buffer(&mut self, buffer: &mut WriteBuffer) -> Result<()>;

    /// Flushes all bytes, and returns when they are written.
    fn flush(&mut self) -> Result<()>;

    /// Flushes all bytes; may return before they are written.
    fn start_flush(&mut self) -> Result<()>;
}

impl<W: Write> Sink for W {
    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes)
    }

    fn write_buffer(&mut self, buffer: &mut WriteBuffer) -> Result<()> {
        let written = self.write_all(buffer.filled());
        buffer.clear();
        written
    }

    fn flush(&mut self) -> Result<()> {
        Write::flush(self)
    }

    fn start_flush(&mut self) -> Result<()> {
        Write::flush(self)
    }
}

/// Bytes on their way from a [`Writer`](crate::Writer) to its [`Sink`]: at most 128 KiB.
pub struct WriteBuffer {
    /// Always of full length: unlike a vector's, its free part can be filled in place.
    bytes: Box<[u8]>,
    filled_bytes: usize,
}

impl WriteBuffer {
    /// The contents.
    pub fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled_bytes]
    }

    /// Removes the contents; the memory is kept.
    pub fn clear(&mut self) {
        self.filled_bytes = 0;
    }

    /// Appends as many of `bytes` as fit, and returns how many that are.
    pub fn extend(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.free_bytes());
        self.fill_with(count, |free| free.copy_from_slice(&bytes[..count]));
        count
    }

    /// Bytes that can be appended.
    pub(crate) fn free_bytes(&self) -> usize {
        self.bytes.len() - self.filled_bytes
    }

    /// Appends `count` bytes, at most [`WriteBuffer::free_bytes`], that `fill` writes.
    pub(crate) fn fill_with(&mut self, count: usize, fill: impl FnOnce(&mut [u8])) {
        fill(&mut self.bytes[self.filled_bytes..][..count]);
        self.filled_bytes += count;
    }

    /// Replaces the contents at `offset`.
    pub(crate) fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[..self.filled_bytes][offset..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Default for WriteBuffer {
    /// An empty buffer.
    fn default() -> Self {
        Self { bytes: vec![0; BUFFER_BYTES].into(), filled_bytes: 0 }
    }
}

impl fmt::Debug for WriteBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBuffer").field("filled_bytes", &self.filled_bytes).finish_non_exhaustive()
    }
}
