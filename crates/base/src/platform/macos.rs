//! macOS.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// No file is: see [`Ability::FilePages`](crate::Ability).
pub(crate) fn is_mappable(_file: &File) -> bool {
    false
}

/// The system has no such files.
pub fn unnamed_file(_directory: &Path, _mode: u32) -> Option<File> {
    None
}

/// The system's id of the calling thread.
pub fn thread_id() -> u64 {
    let mut id = 0;
    // SAFETY: 0 is the calling thread, and the number is written to a variable of its type.
    unsafe { libc::pthread_threadid_np(0, &mut id) };
    id
}

/// The processes that ran or waited to, on average over the last 1, 5 and 15 minutes.
pub fn load_average() -> Option<[f64; 3]> {
    let mut loads = [0.0; 3];
    // SAFETY: the array has room for three.
    (unsafe { libc::getloadavg(loads.as_mut_ptr(), 3) } == 3).then_some(loads)
}

/// Whether a directory is removed with what it contains, or does not exist. No signal handler calls it.
pub fn remove_directory(path: &CStr) -> bool {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    std::fs::remove_dir_all(path).is_ok() || !path.exists()
}
