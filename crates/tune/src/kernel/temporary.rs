//! Temporary directories, and files of results that are not complete, which are removed when the process is
//! ended.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rehal_crash::{Removal, Stays, change};
use tempfile::TempDir;

/// What to do if the directory for temporary files does not serve.
pub(super) const TEMPORARY_ADVICE: &str =
    "name a directory that can be written in the environment: TMPDIR=PATH";

/// Names the directory for temporary files in an error of writing to it.
pub(super) fn full_directory(error: Error, directory: &Path) -> Error {
    let place = format!("the directory for temporary files, '{}'", directory.display());
    error
        .context(place)
        .replace_advice("make room for temporary files, or name another directory: TMPDIR=PATH")
}

/// A directory that only this user can access: another could replace what is in it. It is removed when this
/// is dropped, or the process is ended.
#[derive(Debug)]
pub struct TemporaryDirectory {
    directory: TempDir,
    removal: Option<Removal>,
}

impl TemporaryDirectory {
    /// Creates one in `parent`; its name starts with `prefix`.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
        change(|| {
            let directory = builder.tempdir_in(parent).map_err(|error| {
                Error::io(format!("creating a temporary directory in '{}'", parent.display()), &error)
            })?;
            let removal = Some(Removal::directory(directory.path()));
            Ok(Self { directory, removal })
        })
    }

    /// Creates one in the directory for temporary files; the error says how to choose another.
    pub fn in_temp(prefix: &str) -> Result<Self> {
        Self::create(&std::env::temp_dir(), prefix).map_err(|error| error.advise(TEMPORARY_ADVICE))
    }

    /// The outcome of work in one of [`TemporaryDirectory::in_temp`]: an error of writing a file in it says
    /// how to choose another, as when the disk is full.
    pub fn explain<T>(&self, outcome: Result<T>) -> Result<T> {
        let path = self.path().display().to_string();
        let is_written = |error: &Error| {
            let texts = error.context_lines().iter().map(String::as_str).chain([error.message()]);
            let is_code = matches!(error.code(), StatusCode::ResourceExhausted | StatusCode::Unavailable);
            is_code && texts.into_iter().any(|it| it.contains(&path))
        };
        outcome.map_err(|error| match is_written(&error) {
            true => full_directory(error, &std::env::temp_dir()),
            false => error,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        change(|| {
            let _ = std::fs::remove_dir_all(self.directory.path());
            self.removal = None;
        });
    }
}

/// The files of a result that appear one by one: a signal that ends the process removes them while this
/// exists. If the process ends otherwise, they stay.
#[derive(Debug, Default)]
pub(crate) struct PartialResult(Mutex<Vec<(PathBuf, Removal)>>);

impl PartialResult {
    /// Creates a directory, and its parents, unless they exist.
    pub(crate) fn create_directory(&self, directory: &Path) -> io::Result<()> {
        change(|| {
            let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
            let missing = directory.ancestors().take_while(is_missing);
            let missing: Vec<_> = missing.map(Path::to_owned).collect();
            std::fs::create_dir_all(directory)?;
            let listed = missing.into_iter().map(|path| {
                let removal = Removal::empty_directory(&path, Stays::AfterCrash);
                (path, removal)
            });
            self.0.lock().extend(listed);
            Ok(())
        })
    }

    /// Renames a file, which then is one of the result.
    pub(crate) fn publish(&self, from: &Path, to: PathBuf) -> io::Result<()> {
        change(|| {
            std::fs::rename(from, &to)?;
            let mut listed = self.0.lock();
            // One that is replaced is in the list.
            if !listed.iter().any(|(path, _)| *path == to) {
                let removal = Removal::file(&to, Stays::AfterCrash);
                listed.push((to, removal));
            }
            Ok(())
        })
    }
}

impl Drop for PartialResult {
    fn drop(&mut self) {
        change(|| self.0.get_mut().clear());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_dropped_directory_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = TemporaryDirectory::create(parent.path(), ".rehal-").unwrap();
        let path = directory.path().to_owned();
        fs::write(path.join("a"), "x").unwrap();
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_result_has_created_is_listed_until_it_is_dropped_and_stays() {
        let parent = tempfile::tempdir().unwrap();
        let result = PartialResult::default();
        let directory = parent.path().join("a/b");
        result.create_directory(&directory).unwrap();
        for _ in 0..2 {
            fs::write(parent.path().join("file"), "x").unwrap();
            result.publish(&parent.path().join("file"), directory.join("file")).unwrap();
        }
        let listed: Vec<_> = result.0.lock().iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(listed, [directory.clone(), parent.path().join("a"), directory.join("file")]);
        drop(result);
        assert!(directory.join("file").exists());
    }
}
