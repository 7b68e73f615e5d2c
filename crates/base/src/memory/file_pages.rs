//! Pages of files in the place of copies: what is read unchanged takes no memory.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};

use super::HostMemory;
use super::pages::{FilePages, LEAST_BYTES, MOST_RANGES, RANGES, whole_pages};
use crate::platform::is_mappable;
use crate::{Error, MappedFile, Range, Result, parallel, platform};

/// The number of bytes that a thread copies at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// The number of bytes that are compared at a time: a page of most systems.
const CHUNK_BYTES: u64 = 4096;

/// Bytes with one owner, as those of a vector: see [`HostMemory::to_copy`].
pub struct OwnBytes(HostMemory);

impl OwnBytes {
    /// The bytes of an allocation. Fails for other memory.
    pub fn new(mut memory: HostMemory) -> Result<Self> {
        match memory.exclusive_bytes() {
            Some(_) => Ok(Self(memory)),
            None => Err(Error::failed_precondition("memory with other owners has no own bytes")),
        }
    }

    /// A copy of a part, which shares pages of files.
    pub fn part(&self, range: Range) -> Result<Self> {
        self.0.to_copy(range).map(Self)
    }
}

impl Deref for OwnBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation is initialized and has this length. Only `deref_mut`, which borrows all of
        // it, lends it for writing: nothing else has the memory.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.0.length) }
    }
}

impl DerefMut for OwnBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.exclusive_bytes().unwrap_or_default()
    }
}

impl PartialEq for OwnBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl HostMemory {
    /// Fills `range` as [`HostMemory::read_file_at`] does, but maps pages of the file in the place of the
    /// memory's own where that can be: if its address and the file's offset agree (see
    /// [`HostMemory::allocate_for_file`]), at least 1 MiB long, and of a regular file of a local file system
    /// that is open for reading only. Returns whether pages are mapped.
    ///
    /// Mapped pages that are written become the memory's own; the file never changes. Until then, a change
    /// of the file may show in them, and an access raises SIGBUS if the file has been truncated: the caller
    /// finds out afterwards whether it has changed: see [`MappedFile::check_unchanged`].
    #[doc(hidden)]
    pub fn map_file_at(
        &self,
        file: &Arc<MappedFile>,
        file_offset: u64,
        range: Range,
    ) -> Result<std::io::Result<bool>> {
        let start = self.at_mut(range.offset, range.length)?;
        let read = || Ok(self.read_file_at(file.file(), file_offset, range)?.map(|()| false));
        let Some(pages) = whole_pages(start.addr(), file_offset, range) else { return read() };
        let Some(file_pages) = self.mappable().filter(|_| is_mappable(file.file())) else { return read() };
        match file.metadata() {
            Ok(metadata) if metadata.len() >= file_offset.saturating_add(range.length) => {}
            // Fails as it does there, or is read.
            _ => return read(),
        }
        let before = Range { length: pages.offset - range.offset, ..range };
        let after = Range { offset: pages.end(), length: range.end() - pages.end() };
        for edge in [before, after] {
            let at = file_offset + (edge.offset - range.offset);
            if let Err(error) = self.read_file_at(file.file(), at, edge)? {
                return Ok(Err(error));
            }
        }
        let mut all = file_pages.get_or_init(Box::default).lock().unwrap_or_else(PoisonError::into_inner);
        // What is read again and again counts once. All of it is overwritten, also if it is read.
        let (first, end) = (start.addr() as u64, start.addr() as u64 + range.length);
        all.retain(|it| it.start < first || it.start + it.length > end);
        let noted = FilePages { start: first, length: range.length, file: file.clone(), file_offset };
        if RANGES.fetch_add(1, Ordering::Relaxed) >= MOST_RANGES {
            return read();
        }
        let at = self.at_mut(pages.offset, pages.length)?;
        // SAFETY: the pages are within a mapping that this memory owns, and stay readable and writable. They
        // are exchanged at once, and nothing borrows them: an access of another thread meets the old ones or
        // the new ones, as when it races with a read.
        let mapped = unsafe {
            platform::map_over(at, pages.length as usize, file.file(), file_offset + before.length)
        };
        match mapped {
            true => {
                all.push(noted);
                file.lend();
                Ok(Ok(true))
            }
            // A process may have only so many mappings.
            false => read(),
        }
    }

    /// Fills memory at `offset` with a range of other memory: a copy or, if that is a mapped file, its pages
    /// where [`HostMemory::map_file_at`] can map them.
    #[doc(hidden)]
    pub fn map_from(&self, offset: u64, source: &Self, range: Range) -> Result<()> {
        let Some((file, start)) = source.place_in_file().filter(|_| range.length >= LEAST_BYTES as u64)
        else {
            return self.copy_from(offset, source, range.offset, range.length);
        };
        source.at(range.offset, range.length)?;
        let target = Range { offset, ..range };
        let read = self.map_file_at(file, start as u64 + range.offset, target)?;
        read.map(drop).map_err(|error| Error::io(format_args!("reading '{}'", file.path().display()), &error))
    }

    /// A copy of `range`. Pages of a file that are mapped here and have not been changed are mapped there,
    /// too.
    pub fn to_copy(&self, range: Range) -> Result<Self> {
        let start = self.at(range.offset, range.length)?.addr() as u64;
        let is_shared = !self.parts_of_files(range)?.is_empty();
        let copy = Self::allocate_for_file(range.length, 0, is_shared.then_some(start))?;
        copy.share_from(0, self, range)?;
        Ok(copy)
    }

    /// As [`HostMemory::share_from`].
    #[doc(hidden)]
    pub fn share(&self, offset: u64, source: &OwnBytes) -> Result<()> {
        self.share_from(offset, &source.0, source.0.whole())
    }

    /// Copies bytes from other memory. Pages of files that are mapped there and have not been changed are
    /// mapped here, too, where the addresses agree.
    fn share_from(&self, offset: u64, source: &Self, range: Range) -> Result<()> {
        let start = self.at_mut(offset, range.length)?.addr() as u64;
        let parts = source.parts_of_files(range)?;
        for (part, file, file_offset) in &parts {
            let part = Range { offset: offset + part.offset, ..*part };
            // What it has of the file instead, if anything, is replaced below.
            let _ = self.map_file_at(file, *file_offset, part)?;
        }
        // One processor alone cannot use all the bandwidth of the memory.
        let pieces = (0..range.length).step_by(PIECE_BYTES as usize).collect();
        let copied = parallel::map(pieces, |from: u64| {
            let end = (from + PIECE_BYTES).min(range.length);
            if parts.is_empty() {
                return self.copy_from(offset + from, source, range.offset + from, end - from);
            }
            let mut at = from;
            while at < end {
                let length = (CHUNK_BYTES - (start + at) % CHUNK_BYTES).min(end - at);
                let (to, from) = (offset + at, range.offset + at);
                if !self.is_equal(to, source, from, length)? {
                    self.copy_from(to, source, from, length)?;
                }
                at += length;
            }
            Ok(())
        });
        copied.into_iter().collect()
    }

    /// The parts of a range that were read from files: where in the range, and from where in which file.
    fn parts_of_files(&self, range: Range) -> Result<Vec<(Range, Arc<MappedFile>, u64)>> {
        let start = self.at(range.offset, range.length)?.addr() as u64;
        let range = Range { offset: start, ..range };
        let Some(all) = self.mappable().and_then(OnceLock::get) else { return Ok(Vec::new()) };
        let all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let part = |it: &FilePages| {
            let (start, end) = (it.start.max(range.offset), (it.start + it.length).min(range.end()));
            let length = end.checked_sub(start)?;
            let part = Range { offset: start - range.offset, length };
            Some((part, it.file.clone(), it.file_offset + (start - it.start)))
        };
        Ok(all.iter().filter_map(part).collect())
    }
}
