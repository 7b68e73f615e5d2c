//! Metadata of files in a confined process: a filter of system calls cannot see paths, and Landlock does not
//! deny stat(2). So the filter traps it, and what it asks is answered by way of a descriptor: of files that
//! the process may read.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::mem;

use super::processor;

/// `si_code` of a system call that a filter traps.
const SYS_SECCOMP: c_int = 1;

/// Answers the calls once a filter traps them.
pub(crate) fn answer_metadata() {
    // SAFETY: the handler only makes async-signal-safe calls, and accesses memory that its caller names only
    // by way of the system. It runs where an ordinary call would: on the stack of its thread.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = answer as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut());
    }
}

extern "C" fn answer(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes valid pointers for a handler with SA_SIGINFO. After a trap, the registers are
    // those of the call, and the value of its number's is its result.
    unsafe {
        if (*info).si_code != SYS_SECCOMP {
            return;
        }
        let errno = *libc::__errno_location();
        let context = &mut *context.cast::<libc::ucontext_t>();
        let result = perform(processor::number(context), processor::arguments(context));
        processor::set_result(context, result);
        *libc::__errno_location() = errno;
    }
}

/// The result of a call, as the system returns it.
///
/// # Safety
/// The pointers of the call are the caller's: wrong ones make the system return an error, but for the one to
/// which the answer to statx(2) is copied, and for the first byte of a path with `AT_EMPTY_PATH`.
unsafe fn perform(number: c_long, [first, second, third, fourth, fifth]: [i64; 5]) -> i64 {
    let here = libc::AT_FDCWD as i64;
    // SAFETY: as above.
    unsafe {
        match number {
            libc::SYS_newfstatat => by_path([first, second, fourth], third),
            libc::SYS_statx => {
                let mut found: libc::stat = mem::zeroed();
                let result = by_path([first, second, third], (&raw mut found) as i64);
                if result == 0 {
                    *(fifth as *mut libc::statx) = extended(&found);
                }
                result
            }
            _ => match processor::flags_of(number) {
                Some(flags) => by_path([here, first, i64::from(flags)], second),
                None => -i64::from(libc::ENOSYS),
            },
        }
    }
}

/// Writes the metadata of a file, which has a directory, a path and flags, to a `stat` at this address.
///
/// # Safety
/// As for [`perform`].
unsafe fn by_path([directory, path, flags]: [i64; 3], to: i64) -> i64 {
    let raw = |result: c_long| if result == -1 { -i64::from(errno()) } else { result };
    // SAFETY: as above; the system checks the pointers.
    unsafe {
        if flags & libc::AT_EMPTY_PATH as i64 != 0 && (path == 0 || *(path as *const c_char) == 0) {
            return raw(libc::syscall(libc::SYS_fstat, directory, to));
        }
        let follows = if flags & libc::AT_SYMLINK_NOFOLLOW as i64 == 0 { 0 } else { libc::O_NOFOLLOW };
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY | follows;
        let file = raw(libc::syscall(libc::SYS_openat, directory, path, flags));
        if file < 0 {
            return file;
        }
        let result = raw(libc::syscall(libc::SYS_fstat, file, to));
        libc::syscall(libc::SYS_close, file);
        result
    }
}

fn errno() -> c_int {
    // SAFETY: the location is the calling thread's.
    unsafe { *libc::__errno_location() }
}

/// The processors differ in the width of some fields.
fn narrow(value: impl Into<u64>) -> u32 {
    value.into() as u32
}

/// The same metadata as statx(2) returns it, without the time of creation.
fn extended(found: &libc::stat) -> libc::statx {
    let time = |seconds, nanoseconds| {
        // SAFETY: a zeroed time is valid.
        let mut time: libc::statx_timestamp = unsafe { mem::zeroed() };
        (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
        time
    };
    // SAFETY: zeroed metadata is valid.
    let mut all: libc::statx = unsafe { mem::zeroed() };
    all.stx_mask = libc::STATX_BASIC_STATS;
    (all.stx_blksize, all.stx_blocks) = (found.st_blksize as u32, found.st_blocks as u64);
    (all.stx_nlink, all.stx_mode, all.stx_ino) = (narrow(found.st_nlink), found.st_mode as u16, found.st_ino);
    (all.stx_uid, all.stx_gid, all.stx_size) = (found.st_uid, found.st_gid, found.st_size as u64);
    all.stx_atime = time(found.st_atime, found.st_atime_nsec);
    all.stx_mtime = time(found.st_mtime, found.st_mtime_nsec);
    all.stx_ctime = time(found.st_ctime, found.st_ctime_nsec);
    (all.stx_dev_major, all.stx_dev_minor) = (libc::major(found.st_dev), libc::minor(found.st_dev));
    (all.stx_rdev_major, all.stx_rdev_minor) = (libc::major(found.st_rdev), libc::minor(found.st_rdev));
    all
}
