use std::ops::Range;

use super::sync::{AtomicU64, Ordering};

/// The tiles of one stage, distributed by work stealing.
///
/// Each worker has a range. It takes chunks from its front; a worker whose range is empty steals the back
/// half of another's. A range is one word, so that both are one compare-and-exchange.
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

    /// Begins a stage of `count` tiles, not 0, all in the range of `worker`. Only valid if no tile is left,
    /// on the thread that completed the last of them.
    ///
    /// What that thread wrote before happens-before taking any of these tiles.
    pub(super) fn refill(&self, worker: usize, count: u32) {
        self.left.store(count.into(), Ordering::Relaxed);
        self.ranges[worker].0.store(pack(&(0..count)), Ordering::Release);
    }

    /// The victim that a thief would choose now.
    #[cfg(test)]
    pub(super) fn choice(&self, victims: &[usize], chunk: impl Fn(&Range<u32>) -> u32) -> Option<usize> {
        self.victim(victims, chunk).map(|(victim, _)| victim)
    }

    /// Takes tiles of the worker's own range. `chunk` limits how many.
    pub(super) fn take_own(&self, worker: usize, chunk: impl Fn(&Range<u32>) -> u32) -> Option<Range<u32>> {
        let own = &self.ranges[worker].0;
        loop {
            let word = own.load(Ordering::Relaxed);
            let range = unpack(word);
            if range.is_empty() {
                return None;
            }
            let (first, rest) = split(&range, chunk(&range));
            if exchange(own, word, pack(&rest)) {
                return Some(first);
            }
        }
    }

    /// Takes tiles for a worker whose range is empty: the back half of the range of a victim becomes its own.
    /// `chunk` limits how many it takes of that.
    pub(super) fn steal(
        &self,
        worker: usize,
        victims: &[usize],
        chunk: impl Fn(&Range<u32>) -> u32,
    ) -> Option<Range<u32>> {
        loop {
            let (victim, word) = self.victim(victims, &chunk)?;
            let range = unpack(word);
            let middle = range.start + (range.end - range.start) / 2;
            if !exchange(&self.ranges[victim].0, word, pack(&(range.start..middle))) {
                continue;
            }
            let stolen = middle..range.end;
            let (first, rest) = split(&stolen, chunk(&stolen));
            // No other worker writes to an empty range.
            self.ranges[worker].0.store(pack(&rest), Ordering::Release);
            return Some(first);
        }
    }

    /// The first victim with at least four chunks, so that thieves rarely return; else the one with most
    /// tiles, if any.
    fn victim(&self, victims: &[usize], chunk: impl Fn(&Range<u32>) -> u32) -> Option<(usize, u64)> {
        let mut most: Option<(usize, u64, usize)> = None;
        for &victim in victims {
            let word = self.ranges[victim].0.load(Ordering::Relaxed);
            let range = unpack(word);
            if range.is_empty() {
                continue;
            }
            if range.len() / 4 >= chunk(&range) as usize {
                return Some((victim, word));
            }
            if most.is_none_or(|(.., length)| length < range.len()) {
                most = Some((victim, word, range.len()));
            }
        }
        most.map(|(victim, word, _)| (victim, word))
    }

    /// Records that tiles are complete. Returns whether they were the last: then all writes of the workers
    /// that ran any of them are visible.
    pub(super) fn complete(&self, count: u32) -> bool {
        self.left.fetch_sub(count.into(), Ordering::AcqRel) == u64::from(count)
    }
}

/// How many tiles of its range a worker takes: those of a chunk by their cost, and if `others` may steal, at
/// most a part of the range.
pub(crate) fn chunk_size(by_cost: u32, range: &Range<u32>, others: usize) -> u32 {
    let parts = if others == 0 { 1 } else { (2 * (others + 1)).min(8) };
    by_cost.min((range.end - range.start) / parts as u32).max(1)
}

/// ABA is harmless: a tile is taken once in a stage, so equal words are the same tiles, even if the range
/// changed in between.
fn exchange(word: &AtomicU64, current: u64, new: u64) -> bool {
    word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

fn split(range: &Range<u32>, count: u32) -> (Range<u32>, Range<u32>) {
    let middle = range.start + count.clamp(1, range.end - range.start);
    (range.start..middle, middle..range.end)
}
