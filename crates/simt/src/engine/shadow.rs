//! Knowledge of each byte of memory while checks run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes whose shadow is allocated together.
const PAGE_BYTES: u64 = 1 << 10;

/// A thread at a time: block, thread, and phase between barriers. 0 means that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub block: u64,
    /// In its block, below 2,048.
    pub thread: u32,
    /// Barriers that the block passed.
    pub phase: u32,
    /// Synchronizations that its warp passed since.
    pub step: u32,
}

const THREAD_BITS: u32 = 11;
const PHASE_BITS: u32 = 14;
const STEP_BITS: u32 = 14;
/// Mark of a second reader: reads of more than one thread.
const MANY: u64 = 1 << 63;

impl Actor {
    fn encoded(self) -> u64 {
        let bits = |value: u64, bits: u32| value & ((1 << bits) - 1);
        let block = bits(self.block + 1, 63 - THREAD_BITS - PHASE_BITS - STEP_BITS);
        let time = bits(self.phase.into(), PHASE_BITS) << STEP_BITS | bits(self.step.into(), STEP_BITS);
        (block << THREAD_BITS | u64::from(self.thread)) << (PHASE_BITS + STEP_BITS) | time
    }

    /// Whether an access of another actor, encoded, is not ordered with one of this.
    fn races(self, other: u64) -> bool {
        if other == 0 {
            return false;
        }
        let own = self.encoded();
        let (own_time, other_time) = (own & ((1 << 28) - 1), other & ((1 << 28) - 1));
        let (own_thread, other_thread) = (own >> 28, (other & !MANY) >> 28);
        let (own_block, other_block) = (own_thread >> THREAD_BITS, other_thread >> THREAD_BITS);
        if own_block != other_block {
            return true;
        }
        if own_time >> STEP_BITS != other_time >> STEP_BITS {
            // A barrier orders them, unless another thread of many read again since.
            return false;
        }
        if other & MANY != 0 {
            return true;
        }
        let is_same_warp = own_thread >> 5 == other_thread >> 5;
        own_thread != other_thread && !(is_same_warp && own_time != other_time)
    }
}

/// The shadow of global memory, shared by all blocks of a grid: the last write and the reads of each byte.
pub(crate) struct GridShadow {
    pages: Vec<OnceLock<Box<[[AtomicU64; 2]]>>>,
}

/// Whether an access raced with another.
pub(crate) type Raced = bool;

impl GridShadow {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { pages: (0..bytes.div_ceil(PAGE_BYTES)).map(|_| OnceLock::new()).collect() }
    }

    fn cell(&self, at: u64) -> Option<&[AtomicU64; 2]> {
        let page = self.pages.get((at / PAGE_BYTES) as usize)?;
        let page = page.get_or_init(|| (0..PAGE_BYTES).map(|_| Default::default()).collect());
        page.get((at % PAGE_BYTES) as usize)
    }

    pub(crate) fn read(&self, at: u64, actor: Actor) -> Raced {
        let Some([write, reads]) = self.cell(at) else { return false };
        let next = after_read(reads.load(Ordering::Relaxed), actor);
        reads.store(next, Ordering::Relaxed);
        actor.races(write.load(Ordering::Relaxed))
    }

    pub(crate) fn write(&self, at: u64, actor: Actor) -> Raced {
        let Some([write, reads]) = self.cell(at) else { return false };
        let before = write.swap(actor.encoded(), Ordering::Relaxed);
        actor.races(before) || actor.races(reads.load(Ordering::Relaxed))
    }
}

/// The reads of a byte after another one.
fn after_read(before: u64, actor: Actor) -> u64 {
    let own = actor.encoded();
    let time = (1 << 28) - 1;
    let is_other = before != 0 && (before & !MANY) >> 28 != own >> 28;
    // Reads of an earlier phase are ordered before the writes that follow.
    let is_now = before & time == own & time && (before & !MANY) >> 39 == own >> 39;
    if is_other && (is_now || (before & !MANY) >> 39 != own >> 39) { own | MANY } else { own }
}

/// The shadow of the memory of a block.
#[derive(Default)]
pub(crate) struct BlockShadow {
    /// The last write and the reads of each byte.
    cells: Vec<[u64; 2]>,
    written: Vec<bool>,
}

impl BlockShadow {
    pub(crate) fn start(&mut self, bytes: usize, races: bool, uninitialized: bool) {
        self.cells.clear();
        self.cells.resize(if races { bytes } else { 0 }, [0; 2]);
        self.written.clear();
        self.written.resize(if uninitialized { bytes } else { 0 }, false);
    }

    pub(crate) fn read(&mut self, at: usize, actor: Actor) -> Raced {
        let Some([write, reads]) = self.cells.get_mut(at) else { return false };
        *reads = after_read(*reads, actor);
        actor.races(*write)
    }

    pub(crate) fn write(&mut self, at: usize, actor: Actor) -> Raced {
        let Some([write, reads]) = self.cells.get_mut(at) else { return false };
        let before = std::mem::replace(write, actor.encoded());
        actor.races(before) || actor.races(*reads)
    }

    pub(crate) fn set_written(&mut self, at: usize, bytes: usize) {
        if let Some(written) = self.written.get_mut(at..at + bytes) {
            written.fill(true);
        }
    }

    pub(crate) fn is_written(&self, at: usize, bytes: usize) -> bool {
        self.written.get(at..at + bytes).is_none_or(|it| it.iter().all(|it| *it))
    }
}
