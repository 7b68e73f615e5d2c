//! Windows.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use rehal_jobs::JobEnd;

use crate::kernel::Shortage;

/// Opens a file: the directory of a user has no files of others.
pub(crate) fn open_unfollowed(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}

/// None: the directory of a user is that user's.
pub(crate) fn writer(_metadata: &Metadata, _may_be_sticky: bool) -> Option<String> {
    None
}

/// Not known from metadata: length and time distinguish files.
pub(crate) fn number(_metadata: &Metadata) -> u64 {
    0
}

/// The end of a program.
pub(crate) fn describe_end(end: JobEnd) -> String {
    match end {
        JobEnd::Exited(code) => format!("exit code: {code:#x}"),
        end => end.to_string(),
    }
}

/// None is known by the end of a program.
pub(crate) fn shortage(_end: JobEnd, _messages: &str) -> Option<Shortage> {
    None
}

/// Processes have no limit of memory.
pub fn memory_limit() -> Option<(u64, char)> {
    None
}
