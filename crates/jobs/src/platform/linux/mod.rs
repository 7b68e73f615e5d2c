//! Linux.

mod files;
mod filter;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rehal_base::Result;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, pidfd_open, prlimit, set_parent_process_death_signal,
};

pub(crate) use files::{can_confine, describe_confinement, restrict_files};
pub(crate) use filter::CALLS_ON_FILES;

/// The directory that has the open descriptors of this process.
pub(crate) const DESCRIPTORS: &str = "/proc/self/fd";

/// A file in memory.
pub(crate) fn memory_file() -> io::Result<File> {
    Ok(memfd_create("rehal-temporary", MemfdFlags::CLOEXEC)?.into())
}

/// A file in memory, and the path by which other processes of the user open it: it has no other name.
pub fn shared_file() -> io::Result<(File, OsString)> {
    let file = memory_file()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file, path.into()))
}

/// Ends this process by a signal when its parent ends.
pub(crate) fn end_with_parent(signal: Signal) -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(signal))?)
}

/// A descriptor that is readable when a process has ended; `None` if the system does not have it.
pub(crate) fn process_descriptor(process: Pid) -> Option<OwnedFd> {
    pidfd_open(process, PidfdFlags::empty()).ok()
}

/// Limits the memory of a process, and of those that it starts from now on.
pub(crate) fn limit_memory(process: Pid, bytes: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    match prlimit(Some(process), Resource::Data, limit) {
        // It has ended.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the system lets this process filter its system calls, which containers may deny.
fn can_filter() -> bool {
    const GET_ACTION_AVAIL: u32 = 2;
    let trap: u32 = 0x0003_0000;
    // SAFETY: the call reads the number, and changes nothing.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, &raw const trap) == 0 }
}

/// Denies system calls, if the system lets this process filter them. See [`filter::apply`].
pub(crate) fn filter_calls(controls_devices: bool, changes_names: bool) -> Result<()> {
    if can_filter() { filter::apply(controls_devices, changes_names) } else { Ok(()) }
}
