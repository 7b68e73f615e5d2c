use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rehal_base::{Error, Result};

use super::temporary::{TEMPORARY_ADVICE, full_directory};

/// A file without a name in the directory for temporary files, which the end of the process removes in any
/// case. Its copies write at the same position.
#[derive(Debug)]
pub struct TemporaryFile {
    file: File,
    /// Whether the directory is full.
    is_full: Arc<AtomicBool>,
}

impl TemporaryFile {
    /// Creates one; the error names the directory, and how to choose another.
    pub fn create() -> Result<Self> {
        let directory = std::env::temp_dir();
        let failed = |error| {
            Error::io(format!("creating a temporary file in '{}'", directory.display()), &error)
                .advise(TEMPORARY_ADVICE)
        };
        let file = tempfile::tempfile_in(&directory).map_err(failed)?;
        Ok(Self { file, is_full: Arc::default() })
    }

    /// Another handle.
    pub fn try_clone(&self) -> Result<Self> {
        let file = self.file.try_clone();
        let file = file.map_err(|error| Error::io("copying the handle of a temporary file", &error))?;
        Ok(Self { file, is_full: self.is_full.clone() })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The outcome of writing it, whose error names the directory if it is full.
    pub fn explain<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| match self.is_full.load(Ordering::Relaxed) {
            true => full_directory(error, &std::env::temp_dir()),
            false => error,
        })
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        if matches!(&written, Err(error) if error.kind() != io::ErrorKind::Interrupted) {
            self.is_full.store(true, Ordering::Relaxed);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for TemporaryFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}
