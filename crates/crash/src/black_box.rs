//! The kernels that the threads of a process run, in memory that its parent shares: a kernel may end the
//! process, or its thread, by a system call, so that nothing in the process can say which one it was.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::context::{describe_record, record};

/// Maximum number of threads. Kernels of further threads are not noted.
const THREADS: usize = 256;
/// Words of the name of a function; longer names are cut.
const NAME_WORDS: usize = 12;

/// The box. Zeros are an empty one.
#[repr(C)]
pub struct BlackBox {
    /// Number of steps of the host, and of changes of work in flight.
    steps: AtomicU64,
    threads: [ThreadSlot; THREADS],
}

#[repr(C)]
struct ThreadSlot {
    /// The system's id of the thread; 0 if the slot is free.
    thread: AtomicU32,
    /// Whether the thread runs a kernel.
    runs: AtomicBool,
    /// Number of kernels that the thread has begun.
    kernels: AtomicU64,
    /// Number of times that the thread has begun or left bytecode: it runs some if the number is odd.
    bytecode: AtomicU64,
    record: [AtomicU64; 2],
    /// The name of the function, followed by zeros.
    name: [AtomicU64; NAME_WORDS],
}

/// The box of this process.
static IN_USE: OnceLock<&'static BlackBox> = OnceLock::new();

thread_local! {
    /// The slot of the thread; the inner one is `None` if all are taken.
    static SLOT: Cell<Option<Option<&'static ThreadSlot>>> = const { Cell::new(None) };
    /// Frees it.
    static OWNED: OwnedSlot = const { OwnedSlot };
}

/// A thread that runs a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningThread {
    /// The system's id of the thread.
    pub thread: u32,
    /// The name of the function, or its first 96 bytes; empty if it has none.
    pub function: String,
    /// The record that it was replaying, such as `record #31, offset 7536`.
    pub record: Option<String>,
}

impl BlackBox {
    /// An empty one, in memory that processes share which are copied from this one. It is never freed. Fails
    /// if memory is short.
    pub fn create() -> io::Result<&'static Self> {
        crate::platform::shared_zeros()
    }

    /// That of this process.
    pub(crate) fn of_process() -> Option<&'static Self> {
        IN_USE.get().copied()
    }

    /// From now on, threads of this process say here what they run.
    pub fn enter(&'static self) {
        let _ = IN_USE.set(self);
    }

    /// The threads that run kernels now, or did when their process ended.
    pub fn running(&self) -> Vec<RunningThread> {
        let running = self.threads.iter().filter(|it| it.runs.load(Ordering::Acquire));
        running.map(ThreadSlot::last).filter(|it| it.thread != 0).collect()
    }

    /// The last kernels that threads have run, of those with a name. Threads may have ended.
    pub fn last(&self) -> Vec<RunningThread> {
        self.threads.iter().map(ThreadSlot::last).filter(|it| !it.function.is_empty()).collect()
    }

    /// Whether a thread runs bytecode.
    pub fn runs_bytecode(&self) -> bool {
        self.threads.iter().any(|it| it.bytecode.load(Ordering::Relaxed) % 2 == 1)
    }

    /// Changes whenever a thread begins or leaves a kernel, bytecode or a [step](note_step).
    pub fn progress(&self) -> u64 {
        let of_slot = |it: &ThreadSlot| {
            let begun = it.kernels.load(Ordering::Relaxed).wrapping_add(it.bytecode.load(Ordering::Relaxed));
            begun.wrapping_mul(2).wrapping_add(it.runs.load(Ordering::Relaxed).into())
        };
        self.threads.iter().map(of_slot).fold(self.steps.load(Ordering::Relaxed), u64::wrapping_add)
    }

    fn take_slot(&'static self) -> Option<&'static ThreadSlot> {
        let thread = crate::platform::thread_id() as u32;
        let take = |slot: &&ThreadSlot| {
            slot.thread.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let slot = OWNED.try_with(|_| self.threads.iter().find(take)).ok()?;
        SLOT.set(Some(slot));
        slot
    }
}

impl ThreadSlot {
    fn last(&self) -> RunningThread {
        let thread = self.thread.load(Ordering::Relaxed);
        let record = self.record.each_ref().map(|it| it.load(Ordering::Relaxed));
        let name = self.name.each_ref().map(|it| it.load(Ordering::Relaxed).to_ne_bytes());
        let name = name.as_flattened().split(|byte| *byte == 0).next().unwrap_or_default();
        let function = String::from_utf8_lossy(name).into_owned();
        RunningThread { thread, function, record: describe_record(record) }
    }

    fn begin(&self, function: &str) {
        let [ordinal, offset] = record();
        self.record[0].store(ordinal, Ordering::Relaxed);
        self.record[1].store(offset, Ordering::Relaxed);
        let (words, rest) = function.as_bytes().as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for (to, word) in self.name.iter().zip(words.iter().chain([&last])) {
            to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        add_one(&self.kernels);
        self.runs.store(true, Ordering::Release);
    }
}

/// Only its thread changes a count of a slot.
fn add_one(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Notes in the box of this process that the host continues, such as with the next record of a replay: see
/// [`BlackBox::progress`].
#[inline]
pub fn note_step() {
    // Of two threads that do so at the same time, one is enough.
    IN_USE.get().inspect(|black_box| add_one(&black_box.steps));
}

/// While it lives, the box of this process says that the thread runs bytecode, or, if it did before, that it
/// does not: see [`BlackBox::runs_bytecode`].
pub struct Bytecode(Option<&'static ThreadSlot>);

impl Bytecode {
    /// Begins bytecode, or a call out of it.
    #[inline]
    pub fn change() -> Self {
        let slot = IN_USE.get().and_then(|black_box| SLOT.get().unwrap_or_else(|| black_box.take_slot()));
        slot.inspect(|slot| add_one(&slot.bytecode));
        Self(slot)
    }
}

impl Drop for Bytecode {
    #[inline]
    fn drop(&mut self) {
        self.0.inspect(|slot| add_one(&slot.bytecode));
    }
}

struct OwnedSlot;

impl Drop for OwnedSlot {
    fn drop(&mut self) {
        if let Some(Some(slot)) = SLOT.take() {
            slot.runs.store(false, Ordering::Relaxed);
            slot.bytecode.store(0, Ordering::Relaxed);
            slot.thread.store(0, Ordering::Release);
        }
    }
}

/// While it lives, the box of this process says that the thread runs a kernel.
pub(crate) struct Noted(&'static ThreadSlot);

impl Noted {
    /// Returns `None` without a box, and in a kernel that another one has called, which stays noted.
    #[inline]
    pub(crate) fn begin<'f>(function: impl FnOnce() -> &'f str) -> Option<Self> {
        let black_box = IN_USE.get()?;
        let slot = SLOT.get().unwrap_or_else(|| black_box.take_slot())?;
        if slot.runs.load(Ordering::Relaxed) {
            return None;
        }
        slot.begin(function());
        Some(Self(slot))
    }
}

impl Drop for Noted {
    #[inline]
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_a_kernel_is_listed() {
        let black_box = BlackBox::create().unwrap();
        assert!(black_box.running().is_empty());
        let slot = &black_box.threads[3];
        slot.thread.store(7, Ordering::Relaxed);
        let long = "x".repeat(100);
        for name in ["add_dispatch_0", "12345678", "", &long] {
            slot.begin(name);
            let cut = &name[..name.len().min(8 * NAME_WORDS)];
            let function = cut.to_owned();
            assert_eq!(black_box.running(), [RunningThread { thread: 7, function, record: None }]);
        }
        slot.record[0].store(31, Ordering::Relaxed);
        slot.record[1].store(7536, Ordering::Relaxed);
        assert_eq!(black_box.running()[0].record.as_deref(), Some("record #31, offset 7536"));
        drop(Noted(slot));
        assert!(black_box.running().is_empty());
        assert_eq!(black_box.last()[0].record.as_deref(), Some("record #31, offset 7536"));
    }
}
