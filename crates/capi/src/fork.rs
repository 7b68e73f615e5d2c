//! Calls of the library in a child after fork(2).
//!
//! The child has one thread. If there were others that may have held a lock, or waited for one, a call there
//! could wait forever, or wake what does not exist: those of devices, recorders and profiles, and those of
//! the program that were in calls. Then every call in the child, and in its children, fails before it uses
//! anything. Both are known without a handler of fork: calls are counted, in all and on this thread, and a
//! process that has started threads of the library stays marked.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rehal::device::DeviceGroup;
use rehal::{Error, Result};

/// The process that called last, 0 before the first call, with [`REFUSED`] if it may not call.
static PROCESS: AtomicU64 = AtomicU64::new(0);
/// Calls of all threads.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Whether threads of the library were started in this process, or in one that it was forked from.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Calls of this thread, which calls the library again from callbacks.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A bit above those of process ids.
const REFUSED: u64 = 1 << 32;

/// A call of the library.
pub struct Call;

impl Call {
    /// Begins a call. Fails in a child of a process that had other threads of the library, or in it.
    pub fn begin() -> Result<Self> {
        if is_refused() {
            let message = "this process was forked while the library had threads, or calls on other threads";
            let advice = "call execve in the child, or fork before opening devices other than local-sync, recorders and profiles";
            return Err(Error::failed_precondition(message).advise(advice));
        }
        Ok(Self::begin_anywhere())
    }

    /// Begins one that also a child may make, such as one that frees.
    pub fn begin_anywhere() -> Self {
        CALLS.fetch_add(1, Ordering::Relaxed);
        DEPTH.set(DEPTH.get() + 1);
        Self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        CALLS.fetch_sub(1, Ordering::Release);
    }
}

/// Whether this process may not call the library.
pub fn is_refused() -> bool {
    let own = u64::from(std::process::id());
    let mut last = PROCESS.load(Ordering::Acquire);
    loop {
        if last & !REFUSED == own {
            return last & REFUSED != 0;
        }
        // The first call of this process. No call of another thread is counted before it is known.
        let has_others = CALLS.load(Ordering::Acquire) > DEPTH.get();
        let is_refused =
            last != 0 && (last & REFUSED != 0 || has_others || HAS_THREADS.load(Ordering::Acquire));
        let next = if is_refused { own | REFUSED } else { own };
        match PROCESS.compare_exchange(last, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return is_refused,
            Err(other) => last = other,
        }
    }
}

/// Threads of the library are being started.
pub fn threads_start() {
    HAS_THREADS.store(true, Ordering::Release);
}

/// Devices have been opened. Those that are not synchronous have threads, or drivers with threads.
pub fn note_threads(devices: &DeviceGroup) {
    if devices.devices().iter().any(|it| !it.info().is_synchronous) {
        threads_start();
    }
}
