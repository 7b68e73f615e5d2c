//! Systems of the Unix family.

mod channel;
pub(crate) mod fork;
pub(crate) mod group;
pub mod interrupts;
mod local;

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use self::fork::close_inherited;
use super::end_with_parent;
use crate::confine::ProcessLimits;

pub(crate) use self::channel::Channel;
pub use self::fork::{CopyEnd, PROGRESS_TIME, end_by, note_emulator_threads, supervise};
pub use self::local::Conversation;

/// Returns `None`: a tool runs captured code in a [copy](crate::supervise) of its process.
#[doc(hidden)]
pub fn run_in_child(_report: fn(&Error)) -> Result<Option<u8>> {
    Ok(None)
}

pub(crate) fn cannot(what: &str, error: impl Display) -> Error {
    Error::failed_precondition(format!("{what}: {error}"))
}

/// The permissions of a directory of this user alone.
pub(crate) fn private_directory() -> Option<Permissions> {
    Some(Permissions::from_mode(0o700))
}

/// Whether a file or directory is this user's.
pub(crate) fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// A file without a name in a directory.
pub(crate) fn temporary_file(directory: &Path) -> io::Result<File> {
    tempfile::tempfile_in(directory)
}

/// The file that has this code: a library, or the program.
pub(crate) fn own_library() -> Option<PathBuf> {
    let address = own_library as *const () as usize;
    rehal_base::mapped_file_at(address, |path, _| OsStr::from_bytes(path).into())
}

/// Limits this process.
pub(crate) fn enter_limits(of: &ProcessLimits, mapped_bytes: u64) -> Result<()> {
    let limits = [
        (Resource::Data, of.memory_bytes.map(|it| it.saturating_add(mapped_bytes))),
        // Unknown numbers of threads are not limited: the limit includes those of the user.
        (Resource::Nproc, of.thread_count.zip(thread_count()).map(|(own, all)| own.saturating_add(all))),
        (Resource::Fsize, of.file_bytes),
        (Resource::Core, (!of.dumps_core).then_some(0)),
    ];
    for (resource, limit) in limits {
        let Some(limit) = limit else { continue };
        // One that is lower already stays.
        let limit = getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit));
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        setrlimit(resource, limit).map_err(|error| cannot("limiting the process", error))?;
    }
    Ok(())
}

/// Number of threads of the machine.
fn thread_count() -> Option<u64> {
    // Three numbers, then those that run and all.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').nth(3).and_then(|counts| counts.split_once('/')?.1.parse().ok())
}

/// Makes this process end with its parent, even if its work ignores SIGTERM, and closes inherited descriptors
/// but for these.
pub(crate) fn leave_parent(kept: &[i32]) -> Result<()> {
    end_with_parent(Signal::KILL)
        .map_err(|error| cannot("asking for the signal of the parent's end", error))?;
    close_inherited(kept).map_err(|error| cannot("closing inherited descriptors", error))
}
