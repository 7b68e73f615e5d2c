//! Temporary directories that can be removed when a signal ends the process.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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

    /// Removes all that exist, for a process that is about to end. Must not be called from a signal handler.
    pub fn remove_all() {
        for path in PATHS.lock().drain(..) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        PATHS.lock().retain(|path| path != self.0.path());
    }
}
