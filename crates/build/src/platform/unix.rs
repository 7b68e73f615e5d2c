//! Unix.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Error as IoError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use rehal_jobs::JobEnd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, Signal, getrlimit};

use crate::kernel::Shortage;

/// Opens a file, neither of a link nor of a pipe without a writer.
pub(crate) fn open_unfollowed(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.clone().custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32).open(path)
}

/// Why others than this user, and the administrator, can change what is there; `None` if they cannot. In a
/// sticky directory, they can rename nothing of this user.
pub(crate) fn writer(metadata: &Metadata, may_be_sticky: bool) -> Option<String> {
    let (user, mode) = (metadata.uid(), metadata.mode());
    if user != rustix::process::geteuid().as_raw() && user != 0 {
        return Some(format!("it belongs to another user ({user})"));
    }
    let is_sticky = may_be_sticky && mode & 0o1000 != 0;
    (mode & 0o022 != 0 && !is_sticky).then(|| format!("others may write to it (mode {:o})", mode & 0o7777))
}

/// Which file of a device it is.
pub(crate) fn number(metadata: &Metadata) -> u64 {
    metadata.ino()
}

/// The end of a program, as the system describes it.
pub(crate) fn describe_end(end: JobEnd) -> String {
    match end {
        JobEnd::Exited(code) => ExitStatus::from_raw(code << 8).to_string(),
        JobEnd::Signaled(signal) => ExitStatus::from_raw(signal).to_string(),
        end => end.to_string(),
    }
}

/// The shortage that a signal, or a message of the system, tells.
pub(crate) fn shortage(end: JobEnd, messages: &str) -> Option<Shortage> {
    let says = |errno: Errno| {
        let text = IoError::from(errno).to_string();
        messages.contains(text.split(" (os error").next().unwrap_or_default())
    };
    // Its own process may have been ended by the signal.
    if end == JobEnd::Signaled(Signal::XFSZ.as_raw()) || says(Errno::FBIG) {
        return Some(Shortage::FileSize);
    }
    if says(Errno::NOSPC) || says(Errno::DQUOT) {
        return Some(Shortage::Disk);
    }
    says(Errno::NOMEM).then_some(Shortage::Memory)
}

/// The memory that a process of this one may have, if that is limited, and the flag of `ulimit` for it.
pub fn memory_limit() -> Option<(u64, char)> {
    let limits = [(Resource::As, 'v'), (Resource::Data, 'd')];
    let limits = limits.into_iter().filter_map(|(it, flag)| Some((getrlimit(it).current?, flag)));
    limits.min()
}
