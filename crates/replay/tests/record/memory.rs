use std::io::{Cursor, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

/// Memory that a capture is written to, shared with the test.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Memory {
    /// The bytes written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().get_ref().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.lock().unwrap().seek(to)
    }
}
