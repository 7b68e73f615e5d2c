//! Windows.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::path::Path;

/// Files have the permissions of their directory.
pub(crate) fn keep_private(_capture: &Path) {}

/// Each file has a name.
pub(crate) fn unnamed_file(_directory: &Path, _existing: Option<&Metadata>) -> Option<File> {
    None
}

/// The permissions of the directory.
pub(crate) fn permissions(_existing: Option<&Metadata>) -> Option<Permissions> {
    None
}

/// Has no effect: code runs in the process that reports, and embedded executables print nothing.
#[allow(clippy::unnecessary_wraps, reason = "fails on other systems")]
pub(crate) fn print_to_stderr() -> io::Result<()> {
    Ok(())
}

/// Fails, as each file has a name.
pub(crate) fn name_file(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Rust's runtime opens nothing in the place of a standard output that is closed.
pub(crate) fn stdout_was_closed() -> bool {
    false
}

/// Runs the tool: the program has the runtime of Rust.
pub fn main_without_runtime() -> std::ffi::c_int {
    crate::main().into()
}
