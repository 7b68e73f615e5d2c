//! Linux.

mod affinity;

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, madvise};

pub(crate) use affinity::{Processors, allowed_processors, pin_thread, processor_id};

/// Libraries whose symbols executables use without declaring them: the compiler links without its libraries
/// and expects functions such as `exp` and `fmodf`, and helpers such as `__extendhfsf2`, in the host process.
/// This process does not link libm, and links only part of libgcc.
pub(super) const HOST_LIBRARIES: &[&str] = &["libm.so.6", "libgcc_s.so.1"];

/// Pages that are there when they are mapped.
pub(super) const POPULATED: MapFlags = MapFlags::POPULATE;

/// Pages of a stack.
pub(super) const STACK: MapFlags = MapFlags::STACK;

/// Keeps pages of a stack small: one that is used a little would take 2 MiB.
///
/// # Safety
/// The pages are mapped.
pub(super) unsafe fn keep_small(start: *mut c_void, length: usize) {
    // SAFETY: guaranteed by the caller; advice changes no byte.
    let _ = unsafe { madvise(start, length, Advice::LinuxNoHugepage) };
}

/// A library in an anonymous memory file, and its path while it is open.
pub(super) fn memory_file(bytes: &[u8]) -> io::Result<(File, PathBuf)> {
    let mut file = File::from(memfd_create("rehal-executable.so", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Without /proc, or in a sandbox that hides it, the loader could not open it either.
    std::fs::metadata(&path)?;
    Ok((file, path))
}

/// The words in which the system says what the processor has (source: the kernel's `arm64/elf_hwcaps`).
#[cfg(target_arch = "aarch64")]
pub(super) fn feature_words() -> [u64; 2] {
    // SAFETY: the call reads what the system has passed to the process.
    unsafe { [libc::getauxval(libc::AT_HWCAP), libc::getauxval(libc::AT_HWCAP2)] }
}
