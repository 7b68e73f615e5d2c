//! Temporary directories, and files of results that are not complete, which are removed when the process is
//! ended.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rehal_crash::{Removal, Stays, change};
use tempfile::TempDir;

use crate::platform::{is_own, private_directory};

/// The advice if the directory for temporary files does not serve.
pub(crate) const TEMPORARY_ADVICE: &str =
    "name a directory that can be written in the environment: TMPDIR=PATH";

/// Names the directory for temporary files in an error of writing to it.
pub fn full_directory(error: Error, directory: &Path) -> Error {
    let place = format!("the directory for temporary files, '{}'", directory.display());
    error
        .context(place)
        .replace_advice("make room for temporary files, or name another directory: TMPDIR=PATH")
}

/// A name for a temporary directory, of which those are removed that processes leave that were killed.
pub fn temporary_name(prefix: &str) -> String {
    let mut builder = tempfile::Builder::new();
    let named = builder.prefix(prefix).rand_bytes(RANDOM).make_in("", |_| Ok(()));
    let name = named.ok().and_then(|it| it.path().file_name()?.to_str().map(str::to_owned));
    name.unwrap_or_else(|| prefix.to_owned())
}

/// The random characters of a name: more than tempfile chooses, and than a user types.
const RANDOM: usize = 16;

/// A directory that only this user can access: another could replace what is in it. It is removed when this
/// is dropped, or the process is ended.
#[derive(Debug)]
pub struct TemporaryDirectory {
    directory: TempDir,
    removal: Option<Removal>,
    /// Locked while it is in use.
    _lock: Option<File>,
}

impl TemporaryDirectory {
    /// Creates one in `parent`; its name starts with `prefix`.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self> {
        Self::named(parent, &temporary_name(prefix))
    }

    /// Creates one in `parent` with a [`temporary_name`].
    pub fn named(parent: &Path, name: &str) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(name).rand_bytes(0);
        private_directory().map(|it| builder.permissions(it));
        change(|| {
            let directory = builder.tempdir_in(parent).map_err(|error| {
                Error::io(format!("creating a temporary directory in '{}'", parent.display()), &error)
            })?;
            let removal = Some(Removal::directory(directory.path()));
            Ok(Self { _lock: locked(directory.path()), directory, removal })
        })
    }

    /// Creates one in the directory for temporary files; the error says how to choose another. Removes those
    /// of processes that were killed.
    pub fn in_temp(prefix: &str) -> Result<Self> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent, prefix);
        Self::create(&parent, prefix).map_err(|error| error.advise(TEMPORARY_ADVICE))
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

/// The lock of a directory, unless another process has it.
fn locked(directory: &Path) -> Option<File> {
    File::open(directory).ok().filter(|it| it.try_lock().is_ok())
}

/// Removes the directories that [`TemporaryDirectory`] made with this prefix and that no process has locked.
pub fn remove_abandoned(parent: &Path, prefix: &str) {
    /// One that is younger may not be locked yet.
    const AGE: Duration = Duration::from_secs(60);
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.as_encoded_bytes().strip_prefix(prefix.as_bytes()).is_some_and(is_random);
        if !is_ours {
            continue;
        }
        let is_old = entry.metadata().is_ok_and(|it| {
            let age = it.modified().ok().and_then(|time| time.elapsed().ok());
            it.is_dir() && is_own(&it) && age.is_some_and(|age| age > AGE)
        });
        if is_old && locked(&entry.path()).is_some() {
            // Another process may remove it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether characters may be random: names that users choose rarely have all kinds. So do a few of ours, and
/// then stay.
fn is_random(name: &[u8]) -> bool {
    let kinds = [u8::is_ascii_uppercase, u8::is_ascii_lowercase, u8::is_ascii_digit];
    let is_of_kinds = name.iter().all(u8::is_ascii_alphanumeric);
    name.len() == RANDOM && is_of_kinds && kinds.iter().all(|is_kind| name.iter().any(is_kind))
}

/// The files of a result that appear one by one: a signal that ends the process removes them while this
/// exists. If the process ends otherwise, they stay.
#[derive(Debug, Default)]
pub struct PartialResult(Mutex<Vec<(PathBuf, Removal)>>);

impl PartialResult {
    /// Creates a directory, and its parents, unless they exist.
    pub fn create_directory(&self, directory: &Path) -> io::Result<()> {
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
    pub fn publish(&self, from: &Path, to: PathBuf) -> io::Result<()> {
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
        change(|| {
            for (path, _) in self.0.get_mut().drain(..) {
                // Of directories only empty ones, and no file: nothing was written, as after an error.
                let _ = std::fs::remove_dir(path);
            }
        });
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

    /// Without it, a full disk is reported without the directory that is full, or any error with it.
    #[test]
    fn errors_of_files_in_a_directory_say_how_to_choose_another() {
        let directory = TemporaryDirectory::in_temp("rehal-test-").unwrap();
        let path = directory.path().join("file").display().to_string();
        let explained = |error| directory.explain::<()>(Err(error)).unwrap_err().report().to_string();
        let full = |message: &str| Error::new(StatusCode::ResourceExhausted, message);
        let advice = "TMPDIR=PATH";
        assert!(explained(full(&path)).contains(advice));
        assert!(explained(full("no room").context(path.clone())).contains(advice));
        assert!(!explained(full("no room")).contains(advice));
        assert!(!explained(Error::not_found(path)).contains(advice));
        assert!(directory.path().starts_with(std::env::temp_dir()));
    }

    /// As a process leaves them that is killed.
    #[test]
    fn old_directories_that_no_process_has_locked_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let made = |name: &str, seconds: u64| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("output"), "x").unwrap();
            let time = std::time::SystemTime::now() - Duration::from_secs(seconds);
            File::open(&path).unwrap().set_modified(time).unwrap();
            path
        };
        let (old, new) = (made("x-aB3456789012345a", 3600), made("x-aB3456789012345b", 0));
        let used = made("x-aB3456789012345c", 3600);
        let others = ["y-aB3456789012345a", "x-aB345", "x-of-someone-else-1", "x-sixteenlettersab"];
        let others = others.map(|name| made(name, 3600));
        let lock = locked(&used).unwrap();
        remove_abandoned(parent.path(), "x-");
        assert_eq!([&old, &new, &used].map(|it| it.exists()), [false, true, true]);
        assert!(others.iter().all(|it| it.exists()));
        drop(lock);
        remove_abandoned(parent.path(), "x-");
        assert!(!used.exists());
        let directory = TemporaryDirectory::create(parent.path(), "x-").unwrap();
        assert!(locked(directory.path()).is_none());
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
        // Directories without files do not.
        let result = PartialResult::default();
        result.create_directory(&parent.path().join("c/d")).unwrap();
        drop(result);
        assert!(!parent.path().join("c").exists());
    }
}
