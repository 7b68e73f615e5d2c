//! macOS.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rehal_base::Result;
use rustix::process::{Pid, Signal};

use crate::platform::Reach;

/// The directory that has the open descriptors of this process.
pub(crate) const DESCRIPTORS: &str = "/dev/fd";
/// Nothing tells which calls a process waits for.
pub(crate) const CALLS_ON_FILES: [i64; 0] = [];

/// Fails: no process is confined.
pub(crate) fn memory_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: files in memory have no path there.
pub fn shared_file() -> io::Result<(File, OsString)> {
    Err(io::Error::other("a replay in two processes has no file in memory on this system"))
}

/// The system has no signal for that: a process whose parent is killed runs until its work is done.
pub(crate) fn end_with_parent(_signal: Signal) -> io::Result<()> {
    Ok(())
}

/// The system does not have it.
pub(crate) fn process_descriptor(_process: Pid) -> Option<OwnedFd> {
    None
}

/// Fails: a process can limit only itself.
pub(crate) fn limit_memory(_process: Pid, _bytes: u64) -> io::Result<()> {
    Err(io::Error::other("the memory of a process cannot be limited on this system"))
}

/// Nothing that is asked for can be enforced, as [`Confinement::lacks`](crate::Confinement::lacks) says.
pub(crate) fn can_confine() -> bool {
    false
}

pub(crate) fn restrict_files(_reach: &Reach<'_>) -> Result<()> {
    Ok(())
}

pub(crate) fn filter_calls(_controls_devices: bool, _changes_names: bool) -> Result<()> {
    Ok(())
}

pub(crate) fn describe_confinement() -> String {
    "not at all: this build has no confinement for macOS".into()
}
