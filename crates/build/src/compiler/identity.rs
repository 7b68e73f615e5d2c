//! Which compiler a file is.

use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::platform::modified;
use rehal_base::{Error, Result};

use crate::platform::number;

/// A compiler, as long as its files do not change.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub path: PathBuf,
    /// Of the program and its library: length, inode and time of the last change.
    pub files: Vec<[u64; 4]>,
}

impl Identity {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(format!("opening '{}'", path.display()), &error);
        // Links may be changed to name another.
        let path = fs::canonicalize(path).map_err(failed)?;
        let files = [path.clone(), path.with_file_name("libIREECompiler.so")];
        let files = files.iter().filter_map(|it| fs::metadata(it).ok()).map(|it| {
            let (seconds, nanoseconds) = modified(&it);
            [it.len(), number(&it), seconds as u64, nanoseconds as u64]
        });
        Ok(Self { files: files.collect(), path })
    }
}
