//! Temporary directories, files of results that are not complete, and processes, which can be removed when a signal ends the process.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// What is to be removed.
static PATHS: Mutex<Paths> = Mutex::new(Paths {
    temporary: Vec::new(),
    files: Vec::new(),
    directories: Vec::new(),
    groups: Vec::new(),
});

/// What exists.
struct Paths {
    /// Temporary directories.
    temporary: Vec<PathBuf>,
    /// The files of results, and the directories that were created for them, each before its parent: by the [`PartialResult`].
    files: Vec<(u64, PathBuf)>,
    directories: Vec<(u64, PathBuf)>,
    /// Processes with groups of their own.
    groups: Vec<Pid>,
}

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

/// Changes the list of groups of processes: no signal finds a group that is not in it.
pub(crate) fn with_groups<T>(change: impl FnOnce(&mut Vec<Pid>) -> T) -> T {
    change(&mut PATHS.lock().groups)
}

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
        paths.temporary.push(directory.path().to_owned());
        Ok(Self(directory))
    }

    /// Creates one in the directory for temporary files; the error says how to choose another.
    pub fn in_temp(prefix: &str) -> Result<Self> {
        Self::create(&std::env::temp_dir(), prefix).map_err(|error| error.advise(TEMPORARY_ADVICE))
    }

    /// The outcome of work in one of [`TemporaryDirectory::in_temp`]: an error of writing a file in it says how to choose another, as
    /// when the disk is full.
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
        self.0.path()
    }

    /// Ends the processes of all jobs, and removes all directories that exist, and results that are not complete, for a process that is
    /// about to end: from then on, threads that create or drop one wait forever. Must not be called from a signal handler.
    pub fn remove_all() {
        let mut paths = PATHS.lock();
        // First: they may write to the directories.
        for group in paths.groups.drain(..) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        for path in paths.temporary.drain(..) {
            remove(&path);
        }
        for (_, path) in paths.files.drain(..) {
            let _ = std::fs::remove_file(path);
        }
        for (_, path) in paths.directories.drain(..) {
            // Only empty ones are removed.
            let _ = std::fs::remove_dir(path);
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
        paths.temporary.retain(|path| path != self.0.path());
    }
}

/// The files of a result that appear one by one: [`TemporaryDirectory::remove_all`] removes them while this exists, so that a signal
/// leaves none. If the process ends otherwise, they stay.
#[derive(Debug)]
pub(crate) struct PartialResult(u64);

impl PartialResult {
    /// One without files.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates a directory, and its parents, unless they exist.
    pub(crate) fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let mut paths = PATHS.lock();
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing = directory.ancestors().take_while(is_missing);
        let missing: Vec<_> = missing.map(|path| (self.0, path.to_owned())).collect();
        std::fs::create_dir_all(directory)?;
        paths.directories.extend(missing);
        Ok(())
    }

    /// Renames a file, which then is one of the result.
    pub(crate) fn publish(&self, from: &Path, to: PathBuf) -> io::Result<()> {
        let mut paths = PATHS.lock();
        std::fs::rename(from, &to)?;
        // One that is replaced is in the list.
        if !paths.files.iter().any(|(_, path)| *path == to) {
            paths.files.push((self.0, to));
        }
        Ok(())
    }
}

impl Drop for PartialResult {
    fn drop(&mut self) {
        let mut paths = PATHS.lock();
        paths.files.retain(|(id, _)| *id != self.0);
        paths.directories.retain(|(id, _)| *id != self.0);
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
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
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
    use std::sync::atomic::AtomicBool;

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
        assert!(PATHS.lock().temporary.contains(&path));
        drop(directory);
        assert!(!PATHS.lock().temporary.contains(&path) && !path.exists());
    }

    #[test]
    fn a_dropped_result_leaves_the_list_and_its_files_stay() {
        let parent = tempfile::tempdir().unwrap();
        let result = PartialResult::new();
        let directory = parent.path().join("a/b");
        result.create_directory(&directory).unwrap();
        for _ in 0..2 {
            fs::write(parent.path().join("file"), "x").unwrap();
            result.publish(&parent.path().join("file"), directory.join("file")).unwrap();
        }
        let listed = || {
            let paths = PATHS.lock();
            let files = paths.files.iter().filter(|(id, _)| *id == result.0).map(|(_, path)| path.clone());
            let directories = paths.directories.iter().filter(|(id, _)| *id == result.0);
            files.chain(directories.map(|(_, path)| path.clone())).collect::<Vec<_>>()
        };
        let expected = [directory.join("file"), directory.clone(), parent.path().join("a")];
        assert_eq!(listed(), expected);
        let id = result.0;
        drop(result);
        assert!(!PATHS.lock().files.iter().any(|(it, _)| *it == id) && directory.join("file").exists());
    }
}
