//! Temporary directories that can be removed when a signal ends the process.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use tempfile::TempDir;

/// Those that exist.
static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that only this user can access: another could replace what is in it. It is removed when this is dropped, or by
/// [`TemporaryDirectory::remove_all`].
#[derive(Debug)]
pub struct TemporaryDirectory(TempDir);

impl TemporaryDirectory {
    /// Creates one in `parent`; its name starts with `prefix`.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
        // No signal finds one that is not in the list.
        let mut paths = PATHS.lock();
        let directory = builder.tempdir_in(parent).map_err(|error| {
            Error::io(format!("creating a temporary directory in '{}'", parent.display()), &error)
        })?;
        paths.push(directory.path().to_owned());
        Ok(Self(directory))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Removes all that exist, for a process that is about to end: from then on, threads that create or drop one wait forever. Must
    /// not be called from a signal handler.
    pub fn remove_all() {
        let mut paths = PATHS.lock();
        for path in paths.drain(..) {
            remove(&path);
        }
        // A thread that fails since its directory is gone must not end the process before all are removed, nor report that.
        std::mem::forget(paths);
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let mut paths = PATHS.lock();
        // Removed while it is locked: until then, it is in the list.
        let _ = std::fs::remove_dir_all(self.0.path());
        paths.retain(|path| path != self.0.path());
    }
}

/// Attempts to remove a directory that another thread writes to.
const ATTEMPTS: u32 = 100;

/// Removes a directory although other threads create files in it.
fn remove(path: &Path) {
    // They then find no directory with the name that they use.
    let mut name = path.as_os_str().to_owned();
    name.push(".removed");
    let renamed = PathBuf::from(name);
    let path = if std::fs::rename(path, &renamed).is_ok() { &renamed } else { path };
    for _ in 0..ATTEMPTS {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                // A file whose name was resolved before may still be created.
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_directory_that_is_written_to_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let path = parent.path().join(".rehal-x");
            let inner = path.join("exported");
            fs::create_dir_all(&inner).unwrap();
            let is_writing = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut number = 0;
                    while fs::write(inner.join(format!("{number}")), "x").is_ok() {
                        is_writing.store(true, Ordering::Relaxed);
                        number += 1;
                    }
                });
                while !is_writing.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                remove(&path);
                assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
            });
        }
    }

    #[test]
    fn a_dropped_directory_leaves_the_list() {
        let parent = tempfile::tempdir().unwrap();
        let directory = TemporaryDirectory::create(parent.path(), ".rehal-").unwrap();
        let path = directory.path().to_owned();
        fs::write(path.join("a"), "x").unwrap();
        assert!(PATHS.lock().contains(&path));
        drop(directory);
        assert!(!PATHS.lock().contains(&path) && !path.exists());
    }
}
