//! Linux.

mod tree;

pub use tree::remove_directory;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file systems whose files are mapped, by their numbers in statfs(2): a file of a network can fail to be
/// read at any time, and others are not known.
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

/// Whether the pages of a file can be relied on as far as its system tells. This process may write a file
/// that is open for writing.
pub(crate) fn is_mappable(file: &File) -> bool {
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

/// A file in a directory that gets its name later, open for reading and writing; `None` if the file system
/// has no such files.
pub fn unnamed_file(directory: &Path, mode: u32) -> Option<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(directory).ok()
}

/// The system's id of the calling thread. Async-signal-safe.
pub fn thread_id() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs().into()
}

/// The processes that ran or waited to, on average over the last 1, 5 and 15 minutes.
pub fn load_average() -> Option<[f64; 3]> {
    // Fixed point with 16 fractional bits: SI_LOAD_SHIFT of the kernel.
    Some(rustix::system::sysinfo().loads.map(|load| load as f64 / 65536.0))
}
