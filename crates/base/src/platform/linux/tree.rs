//! Removes a directory with what it contains, in a signal handler.

use std::ffi::{CStr, c_int, c_long};
use std::mem;

/// Directories within each other that are removed.
const MAX_DEPTH: usize = 8;
/// Memory for names of a directory, on the stack of the handler for each of [`MAX_DEPTH`] directories.
const NAMES_BYTES: usize = 2 << 10;

/// Times that a directory is read: others may create files in it meanwhile.
const MAX_PASSES: usize = 100;

/// Whether a directory is removed with what it contains, or does not exist. Async-signal-safe.
pub fn remove_directory(path: &CStr) -> bool {
    // SAFETY: the path is a string.
    let is_missing = || unsafe { libc::access(path.as_ptr(), libc::F_OK) != 0 };
    remove_below(libc::AT_FDCWD, path, MAX_DEPTH) || is_missing()
}

/// Removes a directory and what it contains; symbolic links are not followed. Whether it was removed.
/// Async-signal-safe: readdir(3) would allocate.
fn remove_below(parent: c_int, name: &CStr, depth: usize) -> bool {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name is a string.
    let directory = unsafe { libc::openat(parent, name.as_ptr(), flags) };
    if directory < 0 {
        return false;
    }
    // Names may be skipped while others are removed: it is read until nothing more can be removed.
    for _ in 0..MAX_PASSES {
        if depth == 0 || !remove_contents(directory, depth - 1) {
            break;
        }
        // SAFETY: it is open.
        unsafe { libc::lseek(directory, 0, libc::SEEK_SET) };
    }
    // SAFETY: it is open, and not used after this.
    unsafe { libc::close(directory) };
    unlink(parent, name, libc::AT_REMOVEDIR)
}

/// Removes what a directory contains, from where it is read; whether anything was removed. The names are
/// those that getdents64(2) writes (<https://man7.org/linux/man-pages/man2/getdents.2.html>).
fn remove_contents(directory: c_int, depth: usize) -> bool {
    let mut names = [0; NAMES_BYTES];
    let mut has_removed = false;
    loop {
        // SAFETY: the buffer has that many bytes.
        let length =
            unsafe { libc::syscall(libc::SYS_getdents64, directory, names.as_mut_ptr(), NAMES_BYTES) };
        // Negative for errors.
        let Some(mut rest) = written(&names, length) else { return has_removed };
        while let Some((name, next)) = first_name(rest) {
            rest = next;
            if name == c"." || name == c".." {
                continue;
            }
            has_removed |= unlink(directory, name, 0) || remove_below(directory, name, depth);
        }
    }
}

/// The entries that a call has written, unless there are none.
fn written(names: &[u8], length: c_long) -> Option<&[u8]> {
    usize::try_from(length).ok().filter(|length| *length > 0).and_then(|length| names.get(..length))
}

/// The name of the first entry, and the entries after it.
fn first_name(entries: &[u8]) -> Option<(&CStr, &[u8])> {
    const LENGTH: usize = mem::offset_of!(libc::dirent64, d_reclen);
    const NAME: usize = mem::offset_of!(libc::dirent64, d_name);
    let length = u16::from_ne_bytes(*entries.get(LENGTH..)?.first_chunk()?);
    let (entry, rest) = entries.split_at_checked(usize::from(length))?;
    Some((CStr::from_bytes_until_nul(entry.get(NAME..)?).ok()?, rest))
}

/// Whether the file, or the directory, was removed.
fn unlink(parent: c_int, name: &CStr, flags: c_int) -> bool {
    // SAFETY: the name is a string.
    unsafe { libc::unlinkat(parent, name.as_ptr(), flags) == 0 }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not support getdents64")]
    fn directories_are_removed_with_what_they_contain() {
        let directory = std::env::temp_dir().join(format!("rehal-tree-{}", std::process::id()));
        let tree = directory.join("tree");
        let inner = tree.join("a/b/c");
        std::fs::create_dir_all(&inner).unwrap();
        // More than one call returns.
        for number in 0..500 {
            std::fs::write(inner.join(format!("file of a kernel {number}")), "x").unwrap();
        }
        let kept = directory.join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, tree.join("link")).unwrap();
        let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        assert!(remove_directory(&path(&tree)));
        assert!(!tree.exists());
        assert!(kept.join("file").exists());
        // Neither a link nor a file is a directory.
        let link = directory.join("link");
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        assert!(!remove_directory(&path(&link)));
        assert!(!remove_directory(&path(&kept.join("file"))));
        assert!(link.exists() && kept.join("file").exists());
        assert!(remove_directory(&path(&directory)) && !directory.exists());
    }
}
