//! Which pages of which files can take the place of memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, OnceLock};

use crate::{MappedFile, Range};

/// The fewest bytes of whole pages that are mapped: a mapping takes one of the few that a process may have,
/// and faults.
pub(super) const LEAST_BYTES: usize = 1 << 20;

/// The file systems whose files are mapped, by their numbers in statfs(2): a file of a network can fail to be
/// read at any time, and others are not known.
#[cfg(target_os = "linux")]
const LOCAL_FILE_SYSTEMS: [u32; 10] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683E, // Btrfs
    0xF2F5_2010, // F2FS
    0x2FC1_2FC1, // ZFS
    0xCA45_1A4E, // bcachefs
    0x0102_1994, // tmpfs
    0x794C_7630, // overlayfs
    0x7371_7368, // SquashFS
    0xE0F5_E1E2, // EROFS
];

/// The size of a page of this system.
pub(super) fn page_bytes() -> usize {
    // SAFETY: the call has no arguments in memory.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(super::guarded::PAGE_BYTES)
}

/// Where in a page memory begins whose first byte is to be a file's at `offset`; 0 if `alignment` forbids it.
pub(super) fn place_in_page(offset: u64, alignment: usize) -> usize {
    let place = (offset % page_bytes() as u64) as usize;
    if place.is_multiple_of(alignment) { place } else { 0 }
}

/// A range of memory that was read from a file, of which pages may be mapped.
pub(super) struct FilePages {
    /// The address of its first byte.
    pub start: u64,
    pub length: u64,
    pub file: Arc<MappedFile>,
    /// The offset of the first byte in the file.
    pub file_offset: u64,
}

/// The ranges of a memory that were read so.
pub(super) type AllFilePages = OnceLock<Box<Mutex<Vec<FilePages>>>>;

/// The pages in `range`, which begins at address `start`, that a mapping of the file at `file_offset` can
/// replace; `None` if there are too few.
pub(super) fn whole_pages(start: usize, file_offset: u64, range: Range) -> Option<Range> {
    if range.length < LEAST_BYTES as u64 {
        return None;
    }
    let page = page_bytes() as u64;
    let before = (start as u64).wrapping_neg() % page;
    let length = range.length.checked_sub(before)? / page * page;
    let agrees = (start as u64 ^ file_offset).is_multiple_of(page);
    let pages = Range { offset: range.offset + before, length };
    (agrees && length >= LEAST_BYTES as u64).then_some(pages)
}

/// Whether the pages of a file can be relied on as far as its system tells. This process may write a file
/// that is open for writing.
#[cfg(target_os = "linux")]
pub(super) fn is_mappable(file: &File) -> bool {
    let mut system = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the structure has room for the answer.
    let is_known = unsafe { libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) } == 0;
    // SAFETY: as above; the call takes no argument.
    let mode = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    mode >= 0
        && mode & libc::O_ACCMODE == libc::O_RDONLY
        && is_known
        // SAFETY: the call succeeded, so it wrote the structure.
        && LOCAL_FILE_SYSTEMS.contains(&(unsafe { system.assume_init() }.f_type as u32))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_mappable(_file: &File) -> bool {
    false
}
