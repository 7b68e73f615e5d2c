//! A shared library in memory, with a path that the dynamic loader can open.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rehal_crash::{Removal, Stays};

use crate::platform::system::memory_file;

/// A library's bytes as a file, deleted on drop; libraries loaded from it stay.
///
/// The path of an in-memory file contains its descriptor number, which is reused after the drop.
pub(crate) struct LibraryFile {
    path: PathBuf,
    /// Keeps the memory file open while its path is in use.
    _memory: Option<File>,
    /// Of a file on disk, which has to be removed.
    on_disk: Option<Removal>,
}

impl LibraryFile {
    /// Writes `bytes` to an anonymous memory file, or, if the kernel does not support that, to a temporary
    /// file.
    pub(crate) fn new(bytes: &[u8]) -> io::Result<Self> {
        match Self::in_memory(bytes) {
            // The limit of the size of files, which those on disk have too.
            Err(error) if error.kind() != io::ErrorKind::FileTooLarge => Self::on_disk(bytes),
            made => made,
        }
    }

    fn in_memory(bytes: &[u8]) -> io::Result<Self> {
        let (file, path) = memory_file(bytes)?;
        Ok(Self { path, _memory: Some(file), on_disk: None })
    }

    fn on_disk(bytes: &[u8]) -> io::Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("rehal-{process}-{number}.so"));
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
            match options.write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let on_disk = Some(Removal::file(&path, Stays::Never));
                    let this = Self { path, _memory: None, on_disk };
                    file.write_all(bytes)?;
                    return Ok(this);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The path that the dynamic loader opens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Unlinks a file on disk early, so that it is not left behind if the process is killed. Its path is not
    /// reused by this process; an in-memory file keeps its own.
    pub(crate) fn remove_from_disk(&mut self) {
        if let Some(removal) = self.on_disk.take() {
            let _ = std::fs::remove_file(&self.path);
            drop(removal);
        }
    }
}

impl Drop for LibraryFile {
    fn drop(&mut self) {
        self.remove_from_disk();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_memory_and_on_disk_have_the_bytes_and_are_deleted() {
        for file in [LibraryFile::in_memory(b"bytes").unwrap(), LibraryFile::on_disk(b"bytes").unwrap()] {
            assert_eq!(std::fs::read(file.path()).unwrap(), b"bytes");
            let path = file.path().to_path_buf();
            let on_disk = file.on_disk.is_some();
            drop(file);
            assert!(!on_disk || !path.exists());
        }
    }
}
