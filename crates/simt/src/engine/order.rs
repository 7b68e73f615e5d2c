//! Which accesses of the threads of a block happen before which.

/// Threads that synchronize: lanes of a warp.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub warp: u32,
    pub mask: u64,
    /// Their accesses before this time are ordered.
    pub time: u32,
    /// Whether they wait for the others, so that what they do next is ordered after these.
    pub waits: bool,
}

/// The order of a block: a clock that counts synchronizations, and until when a thread knows the accesses of
/// others. Barriers of the whole block and of whole warps, which are most, take one word; others a matrix.
pub(crate) struct Order {
    lanes: u32,
    threads: u32,
    /// The time.
    pub now: u32,
    /// All threads know all accesses before this time.
    pub block: u32,
    /// The threads of a warp know each other's accesses before this time.
    warps: Vec<u32>,
    /// Thread `a` knows the accesses of `b` before `known[a * threads + b]`.
    known: Vec<u32>,
    /// Whether that matters: parts of the block or of a warp synchronized since the whole block did.
    pub is_partial: bool,
}

impl Order {
    pub(crate) fn new(lanes: u32, threads: u32) -> Self {
        let warps = vec![0; threads.div_ceil(lanes) as usize];
        Self { lanes, threads, now: 0, block: 0, warps, known: Vec::new(), is_partial: false }
    }

    /// Starts a block.
    pub(crate) fn start(&mut self) {
        (self.now, self.block, self.is_partial) = (0, 0, false);
        self.warps.fill(0);
        self.known.clear();
    }

    /// Ends the accesses before a synchronization, and returns its time.
    pub(crate) fn advance(&mut self) -> u32 {
        self.now += 1;
        self.now
    }

    /// All threads of the block synchronized.
    pub(crate) fn join_block(&mut self) {
        (self.block, self.is_partial) = (self.now, false);
    }

    /// Lanes of a warp synchronize, which are all that have not ended, or not.
    pub(crate) fn join_lanes(&mut self, warp: u32, mask: u64, are_all: bool) {
        let time = self.advance();
        if are_all {
            self.warps[warp as usize] = time;
        }
        if !are_all || self.is_partial {
            self.join(&[Arrival { warp, mask, time, waits: true }]);
        }
    }

    /// Some threads synchronize: those that wait know what all know.
    pub(crate) fn join(&mut self, all: &[Arrival]) {
        let (threads, lanes) = (self.threads as usize, self.lanes as usize);
        self.is_partial = true;
        // What was known before the last barrier of the block is older than that.
        self.known.resize(threads * threads, 0);
        let members = |it: &Arrival| {
            let (start, mask) = (it.warp as usize * lanes, it.mask);
            (start..threads.min(start + lanes)).filter(move |it| mask >> (it - start) & 1 != 0)
        };
        let mut row = vec![0; threads];
        for part in all {
            for thread in members(part) {
                let known = &self.known[thread * threads..][..threads];
                row.iter_mut().zip(known).for_each(|(all, one)| *all = (*all).max(*one));
                row[thread] = row[thread].max(part.time);
            }
            let mates = row.iter_mut().skip(part.warp as usize * lanes).take(lanes);
            mates.for_each(|it| *it = (*it).max(self.warps[part.warp as usize]));
        }
        for thread in all.iter().filter(|it| it.waits).flat_map(members) {
            self.known[thread * threads..][..threads].copy_from_slice(&row);
        }
    }

    /// Whether an access of another thread at a time precedes what a thread does now.
    pub(crate) fn precedes(&self, other: u32, time: u32, thread: u32) -> bool {
        let shift = self.lanes.trailing_zeros();
        time < self.block
            || (thread >> shift == other >> shift && time < self.warps[(thread >> shift) as usize])
            || (self.is_partial && other < self.threads && {
                let known = self.known.get((thread * self.threads + other) as usize);
                known.is_some_and(|it| time < *it)
            })
    }
}
