use std::ops::Range;

use super::sync::{AtomicU64, Ordering};

/// The tiles of one stage, distributed by work stealing.
///
/// Each worker has a range. It takes chunks from its front; a worker whose range is empty steals the back half of
/// another's. A range is one word, so that both are one compare-and-exchange.
pub(super) struct Tiles {
    ranges: Box<[OwnLine]>,
    /// Tiles that are not complete.
    left: AtomicU64,
}

/// Two cache lines, which processors prefetch as a pair: without false sharing, since the owner writes often.
#[repr(align(128))]
struct OwnLine(AtomicU64);

const EMPTY: u64 = 0;

fn pack(range: &Range<u32>) -> u64 {
    if range.start >= range.end { EMPTY } else { u64::from(range.start) << 32 | u64::from(range.end) }
}

fn unpack(word: u64) -> Range<u32> {
    (word >> 32) as u32..word as u32
}

impl Tiles {
    /// No tiles, for `workers` workers.
    pub(super) fn new(workers: usize) -> Self {
        let ranges = (0..workers).map(|_| OwnLine(AtomicU64::new(EMPTY))).collect();
        Self { ranges, left: AtomicU64::new(0) }
    }

    /// Begins a stage of `count` tiles, not 0, all in the range of `worker`. Only valid if no tile is left, on the
    /// thread that completed the last of them.
    ///
    /// What that thread wrote before happens-before taking any of these tiles.
    pub(super) fn refill(&self, worker: usize, count: u32) {
        self.left.store(count.into(), Ordering::Relaxed);
        self.ranges[worker].0.store(pack(&(0..count)), Ordering::Release);
    }

    /// Takes tiles for `worker`: of its own range, else of the first of `victims` that has some. `chunk` limits how many
    /// it takes of a range.
    pub(super) fn take(
        &self,
        worker: usize,
        victims: &[usize],
        chunk: impl Fn(&Range<u32>) -> u32,
    ) -> Option<Range<u32>> {
        let own = &self.ranges[worker].0;
        loop {
            let word = own.load(Ordering::Relaxed);
            let range = unpack(word);
            if range.is_empty() {
                break;
            }
            let (first, rest) = split(&range, chunk(&range));
            if exchange(own, word, pack(&rest)) {
                return Some(first);
            }
        }
        let stolen = victims.iter().find_map(|victim| self.steal(*victim))?;
        let (first, rest) = split(&stolen, chunk(&stolen));
        // No other worker writes to an empty range.
        own.store(pack(&rest), Ordering::Release);
        Some(first)
    }

    /// The back half of a range.
    fn steal(&self, victim: usize) -> Option<Range<u32>> {
        let range_of_victim = &self.ranges[victim].0;
        loop {
            let word = range_of_victim.load(Ordering::Relaxed);
            let range = unpack(word);
            if range.is_empty() {
                return None;
            }
            let middle = range.start + (range.end - range.start) / 2;
            if exchange(range_of_victim, word, pack(&(range.start..middle))) {
                return Some(middle..range.end);
            }
        }
    }

    /// Records that tiles are complete. Returns whether they were the last: then all writes of the workers that ran any of
    /// them are visible.
    pub(super) fn complete(&self, count: u32) -> bool {
        self.left.fetch_sub(count.into(), Ordering::AcqRel) == u64::from(count)
    }
}

/// ABA is harmless: a tile is taken once in a stage, so equal words are the same tiles, even if the range changed in
/// between.
fn exchange(word: &AtomicU64, current: u64, new: u64) -> bool {
    word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

fn split(range: &Range<u32>, count: u32) -> (Range<u32>, Range<u32>) {
    let middle = range.start + count.clamp(1, range.end - range.start);
    (range.start..middle, middle..range.end)
}
