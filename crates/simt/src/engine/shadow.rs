//! Knowledge of each byte of memory while checks run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes whose shadow is allocated together.
const PAGE_BYTES: u64 = 1 << 10;

/// A thread at a time, encoded: block, thread, phase between barriers of the block, and step between
/// synchronizations of the warp. 0 means that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor(u64);

const THREAD_BITS: u32 = 11;
const PHASE_BITS: u32 = 14;
const STEP_BITS: u32 = 14;
/// Bits of phase and step together.
const TIME_BITS: u32 = PHASE_BITS + STEP_BITS;
const BLOCK_SHIFT: u32 = TIME_BITS + THREAD_BITS;
const TIME: u64 = (1 << TIME_BITS) - 1;
/// Mark of a second reader: reads of more than one thread.
const MANY: u64 = 1 << 63;

impl Actor {
    pub(crate) fn new(block: u64, thread: u32, phase: u32, step: u32) -> Self {
        let bits = |value: u64, bits: u32| value & ((1 << bits) - 1);
        let time = bits(phase.into(), PHASE_BITS) << STEP_BITS | bits(step.into(), STEP_BITS);
        let block = bits(block + 1, 63 - BLOCK_SHIFT) << BLOCK_SHIFT;
        Self(block | u64::from(thread) << TIME_BITS | time)
    }

    /// Whether an access of another actor is not ordered with one of this.
    #[inline]
    fn races(self, other: u64) -> bool {
        let own = self.0;
        if other == 0 || other & !MANY == own && other & MANY == 0 {
            return false;
        }
        if own >> BLOCK_SHIFT != (other & !MANY) >> BLOCK_SHIFT {
            return true;
        }
        if (own & TIME) >> STEP_BITS != (other & TIME) >> STEP_BITS {
            // A barrier orders them.
            return false;
        }
        if other & MANY != 0 {
            return true;
        }
        let (own_thread, other_thread) = (own >> TIME_BITS, other >> TIME_BITS);
        let is_ordered = own_thread >> 5 == other_thread >> 5 && own & TIME != other & TIME;
        own_thread != other_thread && !is_ordered
    }

    /// The reads of a byte after one more.
    #[inline]
    fn after_read(self, before: u64) -> u64 {
        let (own, known) = (self.0, before & !MANY);
        let is_other = before != 0 && known >> TIME_BITS != own >> TIME_BITS;
        // Reads of an earlier phase are ordered before the writes that follow.
        let is_now = known >> BLOCK_SHIFT != own >> BLOCK_SHIFT || known & TIME == own & TIME;
        if is_other && is_now { own | MANY } else { own | if is_now { before & MANY } else { 0 } }
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

    /// The cells of bytes, which are in one page: accesses are aligned.
    fn cells(&self, at: u64, bytes: usize) -> &[[AtomicU64; 2]] {
        let Some(page) = self.pages.get((at / PAGE_BYTES) as usize) else { return &[] };
        let page = page.get_or_init(|| (0..PAGE_BYTES).map(|_| Default::default()).collect());
        page.get((at % PAGE_BYTES) as usize..).map_or(&[], |it| &it[..bytes.min(it.len())])
    }

    pub(crate) fn read(&self, at: u64, bytes: usize, actor: Actor) -> Raced {
        let mut raced = false;
        for [write, reads] in self.cells(at, bytes) {
            let before = reads.load(Ordering::Relaxed);
            let after = actor.after_read(before);
            if after != before {
                reads.store(after, Ordering::Relaxed);
            }
            raced |= actor.races(write.load(Ordering::Relaxed));
        }
        raced
    }

    pub(crate) fn write(&self, at: u64, actor: Actor) -> Raced {
        let [[write, reads]] = self.cells(at, 1) else { return false };
        let before = write.swap(actor.0, Ordering::Relaxed);
        actor.races(before) || actor.races(reads.load(Ordering::Relaxed))
    }
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
        *reads = actor.after_read(*reads);
        actor.races(*write)
    }

    pub(crate) fn write(&mut self, at: usize, actor: Actor) -> Raced {
        let Some([write, reads]) = self.cells.get_mut(at) else { return false };
        let before = std::mem::replace(write, actor.0);
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
