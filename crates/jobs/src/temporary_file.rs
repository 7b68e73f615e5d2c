use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rehal_base::platform::reopen_path;
use rehal_base::{Error, Result};

use super::temporary::{TEMPORARY_ADVICE, full_directory};
use crate::platform::{memory_file, temporary_file};

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
        let file = match temporary_file(&directory) {
            // A confined process has no directory to write to: its file is in memory.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                memory_file().map_err(|_| failed(error))?
            }
            created => created.map_err(failed)?,
        };
        Ok(Self { file, is_full: Arc::default() })
    }

    /// Another handle.
    pub fn try_clone(&self) -> Result<Self> {
        let file = self.file.try_clone();
        let file = file.map_err(|error| Error::io("copying the handle of a temporary file", &error))?;
        Ok(Self { file, is_full: self.is_full.clone() })
    }

    /// A path by which this process opens it.
    pub fn path(&self) -> Result<PathBuf> {
        reopen_path(&self.file).map_err(|error| Error::io("naming a temporary file", &error))
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rehal_base::StatusCode;

    use super::*;

    /// Without it, a full disk is reported without the directory that is full, or any error with it.
    #[test]
    fn copies_share_their_position_and_whether_the_disk_is_full() {
        let failed = || Err::<(), _>(Error::new(StatusCode::ResourceExhausted, "writing"));
        let mut file = TemporaryFile::create().unwrap();
        let mut copy = file.try_clone().unwrap();
        assert_eq!((file.write(b"abc").unwrap(), copy.write(b"de").unwrap()), (3, 2));
        assert_eq!(file.seek(SeekFrom::Start(1)).unwrap(), 1);
        let mut text = String::new();
        copy.file().read_to_string(&mut text).unwrap();
        assert_eq!(text, "bcde");
        assert_eq!(copy.explain(failed()).unwrap_err().report(), "RESOURCE_EXHAUSTED; writing");
        // It has no room.
        let file_without_room = File::options().write(true).open("/dev/full").unwrap();
        let mut file = TemporaryFile { file: file_without_room, is_full: Arc::default() };
        let copy = file.try_clone().unwrap();
        assert!(file.write(b"x").is_err() && copy.explain(Ok(())).is_ok());
        let explained = copy.explain(failed()).unwrap_err().report().to_string();
        let place = format!("at: the directory for temporary files, '{}'", std::env::temp_dir().display());
        assert!(explained.contains(&place) && explained.contains("TMPDIR=PATH"), "{explained}");
    }
}
