//! The state of a process that kernels may change by system calls.

use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU32, Ordering};

/// No umask.
const UNKNOWN: u32 = u32::MAX;

/// The signals whose handlers a process can set.
const SIGNALS: std::ops::Range<libc::c_int> = 1..32;

/// The state of a process for all of its threads, and the signals that the calling one blocks.
pub struct ProcessState {
    directory: Option<(File, [u64; 2])>,
    /// [`UNKNOWN`] if the system does not say it.
    umask: AtomicU32,
    blocked: libc::sigset_t,
    actions: Vec<libc::sigaction>,
}

impl ProcessState {
    /// The state now.
    pub fn capture() -> Self {
        let mut directory = File::options();
        directory.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        Self {
            directory: directory.open(".").ok().zip(current_directory()),
            umask: AtomicU32::new(umask().unwrap_or(UNKNOWN)),
            blocked: blocked(),
            actions: SIGNALS.map(action).collect(),
        }
    }

    /// The program itself has set its umask to this.
    pub fn expect_umask(&self, umask: u32) {
        self.umask.store(umask, Ordering::Relaxed);
    }

    /// Makes the state that of the capture again, on the same thread; returns what was different, in words.
    pub fn restore(&self) -> Vec<&'static str> {
        let mut changed = Vec::new();
        if let Some((directory, id)) = &self.directory
            && current_directory() != Some(*id)
        {
            // SAFETY: the descriptor is open.
            unsafe { libc::fchdir(directory.as_raw_fd()) };
            changed.push("the working directory");
        }
        let umask = self.umask.load(Ordering::Relaxed);
        if umask != UNKNOWN && self::umask().is_some_and(|it| it != umask) {
            // SAFETY: has no preconditions.
            unsafe { libc::umask(umask) };
            changed.push("the mask of the modes of files (umask)");
        }
        let blocked = blocked();
        let is_same = |signal| {
            // SAFETY: both sets are initialized.
            unsafe { libc::sigismember(&self.blocked, signal) == libc::sigismember(&blocked, signal) }
        };
        if !SIGNALS.into_iter().all(is_same) {
            // SAFETY: the set is initialized, and was that of this thread.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.blocked, std::ptr::null_mut()) };
            changed.push("the signals that are blocked");
        }
        let others = SIGNALS.zip(&self.actions).filter(|(signal, it)| {
            let now = action(*signal);
            // Set by the C library.
            let flags = |it: &libc::sigaction| it.sa_flags & !0x0400_0000;
            (now.sa_sigaction, flags(&now)) != (it.sa_sigaction, flags(it))
        });
        let others: Vec<_> = others.collect();
        for (signal, action) in &others {
            // SAFETY: the action was that of the process.
            unsafe { libc::sigaction(*signal, *action, std::ptr::null_mut()) };
        }
        if !others.is_empty() {
            changed.push("handlers of signals");
        }
        changed
    }
}

fn current_directory() -> Option<[u64; 2]> {
    let metadata = std::fs::metadata(".").ok()?;
    Some([metadata.dev(), metadata.ino()])
}

/// As the system says it: to ask for it by the system call changes it.
fn umask() -> Option<u32> {
    // It follows the name.
    let mut start = [0; 256];
    let count = File::open("/proc/self/status").ok()?.read(&mut start).ok()?;
    let line = start[..count].split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"))?;
    u32::from_str_radix(str::from_utf8(line).ok()?.trim(), 8).ok()
}

fn blocked() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the call only fills in the set, of which zeros are a value.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
        set.assume_init()
    }
}

fn action(signal: libc::c_int) -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call only fills in the action, of which zeros are a value.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing else runs in the process of this test, or depends on these.
    #[test]
    fn what_has_changed_is_restored() {
        let state = ProcessState::capture();
        assert!(state.restore().is_empty());
        let directory = std::env::current_dir().unwrap();
        std::env::set_current_dir("/").unwrap();
        // SAFETY: the calls change what is restored below.
        unsafe {
            libc::umask(0o123);
            libc::signal(libc::SIGUSR2, libc::SIG_IGN);
            let mut set = blocked();
            libc::sigaddset(&mut set, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        }
        assert_eq!(state.restore().len(), 4);
        assert!(state.restore().is_empty());
        assert_eq!(std::env::current_dir().unwrap(), directory);
        assert_eq!(action(libc::SIGUSR2).sa_sigaction, libc::SIG_DFL);
    }
}
