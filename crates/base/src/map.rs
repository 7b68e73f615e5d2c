#![allow(unsafe_code, reason = "maps files; docs/unsafe.md says why and what it rests on")]

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use memmap2::{Mmap, MmapOptions, MmapRaw};

use crate::{Error, FileId, Result, page_bytes, platform};

mod mapped;

pub use mapped::mapped_file_at;

/// A whole file, mapped read-only.
///
/// Pages are loaded on access and released by [`MappedFile::forget`], so that a streaming reader needs no
/// memory of its own for a file of any size.
pub struct MappedFile {
    map: Option<Mmap>,
    file: File,
    /// A second, writable mapping, created on demand.
    private: OnceLock<MmapRaw>,
    path: PathBuf,
    /// The length and the time of the last change, when it was mapped.
    state: (u64, Option<SystemTime>),
    /// Whether memory may have pages of it.
    is_lent: AtomicBool,
}

impl MappedFile {
    /// Maps the regular file at `path`.
    ///
    /// Fails if it does not exist, cannot be read, or is not a regular file (a directory, a pipe).
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        // Checked before opening: opening a pipe blocks until it has a writer.
        let metadata =
            std::fs::metadata(path).map_err(|e| Error::io(format_args!("opening '{shown}'"), &e))?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { "a directory" } else { "not a regular file" };
            return Err(Error::invalid_argument(format!("'{shown}' is {kind}")));
        }
        Self::from_file(File::open(path).map_err(|e| Error::io(format_args!("opening '{shown}'"), &e))?, path)
    }

    /// Maps a regular file that is open for reading; `path` is its name in errors.
    pub fn from_file(file: File, path: &Path) -> Result<Self> {
        let shown = path.display();
        let metadata = file.metadata().map_err(|e| Error::io(format_args!("reading '{shown}'"), &e))?;
        let mut map = None;
        if metadata.len() != 0 {
            // SAFETY: the mapping is private and read-only. Another process that writes to or truncates the
            // file while it is mapped can change bytes or raise SIGBUS; readers check each value after
            // reading it once, and docs/unsafe.md names what remains.
            let mapped = unsafe { Mmap::map(&file) };
            map = Some(mapped.map_err(|e| Error::io(format_args!("mapping '{shown}'"), &e))?);
        }
        let (private, path, state) = (OnceLock::new(), path.to_path_buf(), state(&metadata));
        Ok(Self { map, file, private, path, state, is_lent: AtomicBool::new(false) })
    }

    /// Notes that memory has pages of the file.
    pub(crate) fn lend(&self) {
        self.is_lent.store(true, Ordering::Relaxed);
    }

    /// Fails if memory may have pages of the file, and the file has been changed since it was mapped: what
    /// used the memory may have seen either contents. See [`crate::HostMemory::map_file_at`].
    pub fn check_unchanged(&self) -> Result<()> {
        if !self.is_lent.load(Ordering::Relaxed) || state(&self.metadata()?) == self.state {
            return Ok(());
        }
        Err(Error::data_loss("the file was changed while it was in use")
            .advise("run it again once nothing writes to the file; to replace a file that is in use, write a new one and rename it over the old"))
    }

    /// A second, copy-on-write mapping of the file, as a pointer to its first byte: writes are visible
    /// neither in [`MappedFile::bytes`] nor in the file. All callers share it, and it lives as long as
    /// `self`.
    pub(crate) fn private(&self) -> Result<NonNull<u8>> {
        if let Some(map) = self.private.get() {
            return Ok(first(map));
        }
        let mut options = MmapOptions::new();
        // Memory is reserved for pages once they are written: the file may be larger than what there is.
        options.len(self.bytes().len()).no_reserve_swap();
        // SAFETY: as for the mapping above; pages that are written become private to this process.
        let map = unsafe { options.map_copy(&self.file) }.map_err(|error| {
            Error::io(format_args!("mapping '{}' as writable", self.path.display()), &error)
        })?;
        Ok(first(self.private.get_or_init(|| MmapRaw::from(map))))
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }

    /// How many of [`MappedFile::bytes`] the file still has: access beyond them raises SIGBUS. Callers that
    /// map a file which others may truncate ask right before they read.
    pub fn present_bytes(&self) -> Result<u64> {
        Ok(self.metadata()?.len().min(self.bytes().len() as u64))
    }

    /// The address of the first of [`MappedFile::bytes`]; dangling for an empty file.
    pub(crate) fn start(&self) -> NonNull<u8> {
        let map = self.map.as_ref().map(|map| map.as_ptr().cast_mut());
        map.and_then(NonNull::new).unwrap_or(NonNull::dangling())
    }

    /// The state of the open file, which `path` may no longer lead to.
    pub fn metadata(&self) -> Result<Metadata> {
        let reading = |error| Error::io(format_args!("reading '{}'", self.path.display()), &error);
        self.file.metadata().map_err(reading)
    }

    /// Which file it is.
    pub fn id(&self) -> Result<FileId> {
        let reading = |error| Error::io(format_args!("reading '{}'", self.path.display()), &error);
        FileId::of(&self.file).map_err(reading)
    }

    /// The path it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Releases the memory of `offset..offset + length` (rounded inwards to whole pages); the next access
    /// reads the bytes from the file again.
    pub fn forget(&self, offset: usize, length: usize) {
        let Some(map) = &self.map else { return };
        let page = page_bytes();
        let start = offset.next_multiple_of(page);
        let end = offset.saturating_add(length).min(map.len()) / page * page;
        if start < end {
            // SAFETY: the mapping is file-backed and read-only, so dropped pages are reloaded with the file's
            // bytes and no write can be lost.
            unsafe { platform::forget(map, start, end - start) };
        }
    }
}

/// The properties of a file that tell a change of it.
fn state(metadata: &Metadata) -> (u64, Option<SystemTime>) {
    (metadata.len(), metadata.modified().ok())
}

fn first(map: &MmapRaw) -> NonNull<u8> {
    NonNull::new(map.as_mut_ptr()).expect("a mapping has an address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not support mapping files")]
    fn rejects_directories_and_maps_empty_files() {
        let directory = std::env::temp_dir();
        let error = MappedFile::open(&directory).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("is a directory")));
        let path = directory.join(format!("rehal-empty-{}", std::process::id()));
        File::create(&path).unwrap();
        assert!(MappedFile::open(&path).unwrap().bytes().is_empty());
        std::fs::remove_file(&path).unwrap();
    }
}
