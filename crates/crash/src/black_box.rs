//! What the threads of a process run, in memory that its parent shares: a kernel may end the process, or its
//! thread, by a system call, so that nothing in the process can say which one it was.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::context::record;
use crate::{Running, Text, describe_record};

/// Threads that are known; others run kernels that are not.
const THREADS: usize = 256;
/// Memory for descriptions of kernels. Pages that are not used take none.
const NAMES_BYTES: usize = 1 << 20;
/// Kernels whose marks are found again when their executable is loaded again, as each iteration of a benchmark
/// does.
const KNOWN: usize = 1024;
/// The mark of a kernel whose description has no room.
const UNKNOWN: u32 = u32::MAX;

/// The box. Zeros are an empty one.
#[repr(C)]
pub struct BlackBox {
    threads: [ThreadSlot; THREADS],
    /// By the identity of the kernel, modulo their number.
    known: [KnownKernel; KNOWN],
    /// Bytes of the names that are in use.
    used: AtomicU32,
    /// Each a length of two bytes and the text.
    names: [AtomicU8; NAMES_BYTES],
}

#[repr(C)]
struct ThreadSlot {
    /// The system's id of the thread; 0 if the slot is free.
    thread: AtomicU32,
    /// The mark of the kernel that it runs: 1 more than the place of its description; 0 if it runs none.
    kernel: AtomicU32,
    record: [AtomicU64; 2],
}

#[repr(C)]
struct KnownKernel {
    /// See [`Running::identity`]; 0 while the mark changes.
    identity: AtomicU64,
    mark: AtomicU32,
}

/// The box of this process.
static IN_USE: OnceLock<&'static BlackBox> = OnceLock::new();

thread_local! {
    /// The slot of the thread.
    static SLOT: Cell<Option<&'static ThreadSlot>> = const { Cell::new(None) };
    /// Frees it.
    static OWNED: OwnedSlot = const { OwnedSlot };
}

/// A thread that a kernel was running on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningThread {
    /// The system's id of the thread.
    pub thread: u32,
    /// The function and its executable, such as `function 'f' (0) of executable 4`; empty if there was no
    /// room for it.
    pub kernel: String,
    /// The record that it was replaying, such as `record #31, offset 7536`.
    pub record: Option<String>,
}

impl BlackBox {
    /// An empty one, in memory that processes share which are copied from this one. It is never freed. Fails
    /// if memory is short.
    pub fn create() -> io::Result<&'static Self> {
        crate::platform::shared_zeros()
    }

    /// From now on, threads of this process say here what they run.
    pub fn enter(&'static self) {
        let _ = IN_USE.set(self);
    }

    /// The threads that run kernels now, or did when their process ended.
    pub fn running(&self) -> Vec<RunningThread> {
        self.threads.iter().filter_map(|slot| self.running_in(slot)).collect()
    }

    fn running_in(&self, slot: &ThreadSlot) -> Option<RunningThread> {
        let kernel = slot.kernel.load(Ordering::Acquire);
        let thread = slot.thread.load(Ordering::Relaxed);
        let record = slot.record.each_ref().map(|it| it.load(Ordering::Relaxed));
        let is_running = kernel != 0 && thread != 0;
        is_running.then(|| RunningThread {
            thread,
            kernel: self.name(kernel),
            record: describe_record(record),
        })
    }

    fn name(&self, mark: u32) -> String {
        let byte = |at: usize| self.names.get(at).map_or(0, |it| it.load(Ordering::Relaxed));
        if mark == UNKNOWN {
            return String::new();
        }
        let at = mark as usize - 1;
        let length = usize::from(u16::from_le_bytes([byte(at), byte(at + 1)]));
        let bytes: Vec<u8> = (0..length).map(|it| byte(at + 2 + it)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Keeps a description; returns its mark.
    fn keep(&self, text: &[u8]) -> u32 {
        let length = (text.len() + 2) as u32;
        let fits = |used: u32| used.checked_add(length).filter(|end| *end as usize <= NAMES_BYTES);
        let Ok(at) = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
            return UNKNOWN;
        };
        let bytes = (text.len() as u16).to_le_bytes().into_iter().chain(text.iter().copied());
        self.names[at as usize..].iter().zip(bytes).for_each(|(to, byte)| to.store(byte, Ordering::Relaxed));
        at + 1
    }

    /// The mark of a kernel that has a description.
    fn known(&self, identity: u64) -> Option<u32> {
        let known = &self.known[identity as usize % KNOWN];
        let is_same = || known.identity.load(Ordering::Acquire) == identity;
        let mark = is_same().then(|| known.mark.load(Ordering::Acquire))?;
        (identity != 0 && is_same()).then_some(mark)
    }

    fn remember(&self, identity: u64, mark: u32) {
        let known = &self.known[identity as usize % KNOWN];
        known.identity.store(0, Ordering::Release);
        known.mark.store(mark, Ordering::Release);
        known.identity.store(identity, Ordering::Release);
    }

    fn slot(&'static self) -> Option<&'static ThreadSlot> {
        let thread = crate::platform::thread_id() as u32;
        let take = |slot: &&ThreadSlot| {
            slot.thread.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let slot = self.threads.iter().find(take)?;
        OWNED.try_with(|_| SLOT.set(Some(slot))).ok()?;
        Some(slot)
    }
}

struct OwnedSlot;

impl Drop for OwnedSlot {
    fn drop(&mut self) {
        if let Some(slot) = SLOT.take() {
            slot.kernel.store(0, Ordering::Relaxed);
            slot.thread.store(0, Ordering::Release);
        }
    }
}

/// While it lives, the box of this process says that the thread runs a kernel.
pub(crate) struct Noted {
    slot: &'static ThreadSlot,
    previous: u32,
}

impl Noted {
    /// Returns `None` without a box.
    #[inline]
    pub(crate) fn begin(kernel: &dyn Running) -> Option<Self> {
        let black_box = IN_USE.get()?;
        let slot = SLOT.get().or_else(|| black_box.slot())?;
        let mut mark = kernel.mark().load(Ordering::Acquire);
        if mark == 0 {
            mark = describe(black_box, kernel);
        }
        let [ordinal, offset] = record();
        slot.record[0].store(ordinal, Ordering::Relaxed);
        slot.record[1].store(offset, Ordering::Relaxed);
        let previous = slot.kernel.load(Ordering::Relaxed);
        slot.kernel.store(mark, Ordering::Release);
        Some(Self { slot, previous })
    }
}

impl Drop for Noted {
    #[inline]
    fn drop(&mut self) {
        self.slot.kernel.store(self.previous, Ordering::Release);
    }
}

/// Keeps the description of a kernel, once.
#[cold]
fn describe(black_box: &BlackBox, kernel: &dyn Running) -> u32 {
    let identity = kernel.identity();
    let mark = black_box.known(identity).unwrap_or_else(|| {
        let mut text = Text::new();
        kernel.describe_function(&mut text);
        let mark = black_box.keep(text.bytes());
        black_box.remember(identity, mark);
        mark
    });
    kernel.mark().store(mark, Ordering::Release);
    mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_kept_while_there_is_room() {
        let black_box = BlackBox::create().unwrap();
        let marks = ["function 'f'", "", "function 'g'"].map(|text| black_box.keep(text.as_bytes()));
        assert_eq!(marks.map(|it| black_box.name(it)), ["function 'f'", "", "function 'g'"]);
        assert_eq!(black_box.keep(&vec![b'x'; NAMES_BYTES]), UNKNOWN);
        assert_eq!(black_box.name(UNKNOWN), "");
        assert_eq!(black_box.known(5), None);
        black_box.remember(5, marks[0]);
        assert_eq!([5, 5 + KNOWN as u64, 0].map(|it| black_box.known(it)), [Some(marks[0]), None, None]);
        assert!(black_box.running().is_empty());
        let slot = &black_box.threads[3];
        slot.thread.store(7, Ordering::Relaxed);
        slot.record[0].store(31, Ordering::Relaxed);
        slot.record[1].store(7536, Ordering::Relaxed);
        slot.kernel.store(marks[2], Ordering::Relaxed);
        let record = Some("record #31, offset 7536".to_owned());
        let expected = RunningThread { thread: 7, kernel: "function 'g'".into(), record };
        assert_eq!(black_box.running(), [expected]);
    }
}
