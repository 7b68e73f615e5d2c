//! Random delays of workers, for tests: what no wait orders happens in another order.

use std::ops::Range;
use std::time::Duration;

use parking_lot::Mutex;

use crate::pool::{Claims, Stage, Work};

/// Random delays of workers, for tests of the order of work: before a worker looks for tiles and runs them,
/// before and after it begins a stage, and before it settles a submission. Nothing runs inline, so that all
/// work is delayed.
///
/// A seed gives the same delays in each run, as far as thread scheduling permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerDelays {
    /// The seed of the random numbers.
    pub seed: u64,
    /// Maximum of one delay.
    pub limit: Duration,
}

/// The delays of the workers of a pool.
pub(super) struct Delays {
    random: Mutex<fastrand::Rng>,
    limit: Duration,
}

/// Work with a delay before each of its steps.
pub(super) struct Delayed<'a, W> {
    pub(super) work: &'a W,
    pub(super) delays: &'a Delays,
}

impl Delays {
    pub(super) fn new(options: WorkerDelays) -> Self {
        Self { random: Mutex::new(fastrand::Rng::with_seed(options.seed)), limit: options.limit }
    }

    /// Delays the calling thread, or does not. Few delays are long, so that others overtake those who wait.
    pub(super) fn wait(&self) {
        let mut random = self.random.lock();
        let (kind, part) = (random.u8(..16), random.f64());
        drop(random);
        match kind {
            0 => std::thread::sleep(self.limit.mul_f64(part)),
            1..4 => std::thread::yield_now(),
            _ => {}
        }
    }
}

impl<W: Work> Work for Delayed<'_, W> {
    fn next_stage(&self) -> Option<Stage> {
        self.delays.wait();
        let stage = self.work.next_stage();
        self.delays.wait();
        stage
    }

    fn invite(&self, helpers: usize) {
        self.work.invite(helpers);
    }

    fn stays(&self, has_turned: impl Fn() -> bool) -> bool {
        self.work.stays(has_turned)
    }

    /// Asked before tiles are taken, before they are stolen and before they are completed.
    fn leaves(&self) -> bool {
        self.delays.wait();
        self.work.leaves()
    }

    fn run(&self, claim: Range<u32>, claims: &mut Claims<'_>) {
        self.delays.wait();
        self.work.run(claim, claims);
    }
}
