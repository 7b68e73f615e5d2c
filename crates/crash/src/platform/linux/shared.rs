//! Memory that a process shares with its copies.

use std::io;

/// An empty box, shared with the copies of this process. Never freed.
pub(crate) fn shared_zeros() -> io::Result<&'static crate::BlackBox> {
    let length = size_of::<crate::BlackBox>();
    // SAFETY: a fresh anonymous mapping at an address chosen by the system affects no other memory.
    let memory = unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0)
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is as large as the box, aligned to a page and never unmapped. The box consists of
    // atomics, for which zeros are valid, so that other processes may write to them.
    Ok(unsafe { &*memory.cast::<crate::BlackBox>() })
}
