//! The accesses to each byte of memory while races are checked.
//!
//! A cell keeps the last write, and the reads and the atomic operations of which none precedes another. Those
//! of one group of 32 threads are a mask of threads, those of several a mask of groups; of several blocks,
//! which nothing orders, only that there are some.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::order::Order;

/// Bytes whose shadow is allocated together.
const PAGE_BYTES: u64 = 16 << 10;
/// Bytes of a cell, unless an access to a part of them made it those of single bytes.
const WORD_BYTES: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// These do not race with each other.
    Atomic,
}

/// The write, the reads and the atomic operations; then the masks of the latter two.
type Cell = [AtomicU64; 4];
const WRITE: usize = 0;
const READS: usize = 1;
const ATOMICS: usize = 2;
const MASKS: usize = 3;

/// Bits of accesses, from the least: the thread in its group, the group or one of the two below, the time,
/// and the block. 0 stands for none.
const GROUP_SHIFT: u32 = 5;
const TIME_SHIFT: u32 = 11;
const BLOCK_SHIFT: u32 = 40;
const TIME: u64 = (1 << (BLOCK_SHIFT - TIME_SHIFT)) - 1;
/// In place of a group: several of the block.
const GROUPS: u64 = 32;
/// In place of a block: several.
const BLOCKS: u64 = 1 << GROUP_SHIFT;

/// The bits of a block.
pub(crate) fn block_bits(block: u64) -> u64 {
    (1 + block % ((1 << (64 - BLOCK_SHIFT)) - 1)) << BLOCK_SHIFT
}

/// A thread at a time.
#[derive(Clone, Copy)]
pub(crate) struct Actor {
    thread: u32,
    /// Encoded, without the thread in its group.
    at: u64,
}

impl Actor {
    #[inline(always)]
    pub(crate) fn new(block: u64, thread: u32, order: &Order) -> Self {
        let time = u64::from(order.now) & TIME;
        let group = u64::from(thread / 32);
        Self { thread, at: block | time << TIME_SHIFT | group << GROUP_SHIFT }
    }

    /// Whether accesses of threads of its block precede what it does.
    fn follows(self, at: u64, mask: u32, order: &Order) -> bool {
        let (time, group) = ((at >> TIME_SHIFT & TIME) as u32, (at >> GROUP_SHIFT & 63) as u32);
        let precedes = |other: u32| order.precedes(other, time, self.thread);
        let bits = |mask: u32| (0..32).filter(move |it| mask >> it & 1 != 0);
        time < order.block
            || if u64::from(group) == GROUPS {
                // Of a group, it is not known which threads. Mostly they know the same.
                let tried = if order.is_partial { 32 } else { 1 };
                let others =
                    |group: u32| (32 * group..32 * group + 32).filter(|it| *it != self.thread).take(tried);
                bits(mask).all(|group| others(group).any(precedes))
            } else {
                bits(mask).map(|it| 32 * group + it).all(|it| it == self.thread || precedes(it))
            }
    }
}

/// The shadow of memory.
pub(crate) struct Shadow {
    pages: Vec<Page>,
    bytes: u64,
    /// Whether threads of several blocks access the memory, of which accesses of other blocks race.
    is_global: bool,
    used: AtomicU64,
    limit: u64,
}

#[derive(Default)]
struct Page {
    words: OnceLock<Box<[Cell]>>,
    /// In place of the words.
    bytes: OnceLock<Box<[Cell]>>,
}

impl Shadow {
    pub(crate) fn new(bytes: u64, is_global: bool, limit: u64) -> Self {
        let count = bytes.div_ceil(PAGE_BYTES);
        let used = count.saturating_mul(size_of::<Page>() as u64);
        let count = if used > limit { 0 } else { count };
        let pages = (0..count).map(|_| Page::default()).collect();
        Self { pages, bytes, is_global, used: AtomicU64::new(used), limit }
    }

    /// Whether the limit kept an access from being checked.
    pub(crate) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }

    /// Notes an access, and returns whether it raced: the bytes of it that count.
    #[inline(always)]
    pub(crate) fn access(&self, kind: Kind, at: u64, counts: &[bool], actor: Actor, order: &Order) -> bool {
        let (cells, size) = self.cells(at, counts.len());
        let noted = cells.iter().zip(counts.chunks(size)).filter(|(_, counts)| counts.contains(&true));
        noted.fold(false, |any, (cell, _)| any | self.note(kind, cell, actor, order))
    }

    /// The cells of bytes, and the bytes of one. These are in one page: accesses are aligned.
    #[inline(always)]
    fn cells(&self, at: u64, bytes: usize) -> (&[Cell], usize) {
        let number = at / PAGE_BYTES;
        let Some(page) = self.pages.get(number as usize) else { return (&[], 1) };
        let offset = (at % PAGE_BYTES) as usize;
        let is_whole = offset.is_multiple_of(WORD_BYTES) && bytes.is_multiple_of(WORD_BYTES);
        let (cells, size) = match page.bytes.get() {
            None if is_whole => (page.words.get(), WORD_BYTES),
            cells => (cells, 1),
        };
        let cells = cells.map_or_else(|| self.allocate(number, page, size), |it| &it[..]);
        let rest = cells.get(offset / size..).unwrap_or_default();
        (&rest[..(bytes / size).min(rest.len())], size)
    }

    #[cold]
    fn allocate<'p>(&self, number: u64, page: &'p Page, size: usize) -> &'p [Cell] {
        let length = (self.bytes - number * PAGE_BYTES).min(PAGE_BYTES) as usize;
        let count = length.div_ceil(size);
        let more = (count * size_of::<Cell>()) as u64;
        if self.used.fetch_add(more, Ordering::Relaxed) + more > self.limit {
            return &[];
        }
        if size == WORD_BYTES {
            return page.words.get_or_init(|| (0..count).map(|_| Cell::default()).collect());
        }
        let words = page.words.get();
        let copied = |byte: usize| match words.and_then(|it| it.get(byte / WORD_BYTES)) {
            Some(cell) => cell.each_ref().map(|it| AtomicU64::new(it.load(Ordering::Relaxed))),
            None => Cell::default(),
        };
        page.bytes.get_or_init(|| (0..count).map(copied).collect())
    }

    #[inline(always)]
    fn note(&self, kind: Kind, cell: &Cell, actor: Actor, order: &Order) -> bool {
        let load = |index: usize| cell[index].load(Ordering::Relaxed);
        let races = |index: usize, mask: u32| {
            let at = load(index);
            at != 0
                && match at >> BLOCK_SHIFT == actor.at >> BLOCK_SHIFT {
                    true => !actor.follows(at, mask, order),
                    false => self.is_global,
                }
        };
        let masks = load(MASKS);
        let (reads, atomics) = (masks as u32, (masks >> 32) as u32);
        let raced = races(WRITE, 1 << (load(WRITE) & 31))
            || (kind != Kind::Read && races(READS, reads))
            || (kind != Kind::Atomic && races(ATOMICS, atomics));
        let (index, before) = match kind {
            Kind::Write => {
                cell[WRITE].store(actor.at | u64::from(actor.thread % 32), Ordering::Relaxed);
                return raced;
            }
            Kind::Read => (READS, reads),
            Kind::Atomic => (ATOMICS, atomics),
        };
        let (at, mask) = self.joined(load(index), before, actor, order);
        if (at, mask) != (load(index), before) {
            let shift = 32 * (index - READS);
            let others = masks & !(u64::from(u32::MAX) << shift);
            cell[index].store(at, Ordering::Relaxed);
            cell[MASKS].store(others | u64::from(mask) << shift, Ordering::Relaxed);
        }
        raced
    }

    /// Accesses of which none precedes another, after one more.
    fn joined(&self, at: u64, mask: u32, actor: Actor, order: &Order) -> (u64, u32) {
        const GROUP: u64 = 63 << GROUP_SHIFT;
        let bit = 1 << (actor.thread % 32);
        if at == actor.at {
            return (at, mask | bit);
        }
        let is_other_block = at >> BLOCK_SHIFT != actor.at >> BLOCK_SHIFT;
        let (own, group) = (actor.at & GROUP, at & GROUP);
        match group >> GROUP_SHIFT {
            _ if is_other_block && at != 0 && self.is_global => (BLOCKS, 0),
            _ if is_other_block || actor.follows(at, mask, order) => (actor.at, bit),
            _ if group == own => (actor.at, mask | bit),
            // Of several groups, the time of the first is kept: others arrive at a barrier later than it did.
            GROUPS => (at, mask | 1 << (own >> GROUP_SHIFT)),
            group => (at & !GROUP | GROUPS << GROUP_SHIFT, 1 << group | 1 << (own >> GROUP_SHIFT)),
        }
    }
}
