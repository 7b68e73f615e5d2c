use std::ops::Range;

use super::sync::{AtomicU64, Ordering};
use super::tiles::Tiles;

/// The progress of a job: its stages run one after another, the tiles of a stage on any number of workers.
///
/// It is reused: idle, ready (it may be started), running, and idle again.
pub(crate) struct Progress {
    tiles: Tiles,
    /// The number of stages begun, and of jobs complete. Workers between two stages poll it.
    turn: Turn,
    state: AtomicU64,
    /// 1 if the job is cancelled: tiles that have not started will not run.
    cancelled: AtomicU64,
}

/// Alone in its cache lines: workers that poll it do not slow down others.
#[repr(align(128))]
struct Turn(AtomicU64);

const IDLE: u64 = 0;
const READY: u64 = 1;
const RUNNING: u64 = 2;

/// A stage of a job.
pub(crate) struct Stage {
    /// The number of tiles, not 0.
    pub(crate) tiles: u32,
    /// Number of other workers that are worth waking for it.
    pub(crate) helpers: usize,
}

/// One worker's view of a job's work.
pub(crate) trait Work {
    /// Begins the next stage, when all tiles of the one before are complete; `None` after the last.
    fn next_stage(&self) -> Option<Stage>;

    /// Asks `helpers` other workers to run the job.
    fn invite(&self, helpers: usize);

    /// Whether to look for tiles again, when there are none left: `has_turned` tells that a stage has begun,
    /// or that the job is complete. May wait for it.
    fn stays(&self, has_turned: impl Fn() -> bool) -> bool;

    /// Whether this worker leaves, although there may be tiles.
    fn leaves(&self) -> bool;

    /// Runs the tiles of `claim`, and may take [more](Claims::more) from `claims`. Tiles that it takes but
    /// does not run it puts back.
    fn run(&self, claim: Range<u32>, claims: &mut Claims<'_>);
}

impl Progress {
    /// An idle job for `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            tiles: Tiles::new(workers),
            turn: Turn(AtomicU64::new(0)),
            state: AtomicU64::new(IDLE),
            cancelled: AtomicU64::new(0),
        }
    }

    /// Makes an idle job ready. What the thread wrote before is visible to the worker that starts it.
    pub(crate) fn make_ready(&self) {
        self.cancelled.store(0, Ordering::Relaxed);
        self.state.store(READY, Ordering::Release);
    }

    /// Makes a job idle that is ready and will not run.
    pub(crate) fn make_idle(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// Prevents tiles and stages that have not started from running; the job then completes.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(1, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) != 0
    }

    /// Starts the job if it is ready, and runs its tiles on `worker` until none is left to take. Returns
    /// whether it is complete, and then idle: exactly one of the workers that run a job gets `true`.
    pub(crate) fn run(&self, worker: usize, victims: &[usize], work: &impl Work) -> bool {
        let leaves = || work.leaves();
        let mut claims = Claims {
            progress: self,
            worker,
            victims,
            taken: 0,
            put_back: None,
            is_last: false,
            leaves: &leaves,
        };
        let started = self.state.compare_exchange(READY, RUNNING, Ordering::AcqRel, Ordering::Acquire);
        match started {
            Ok(_) => claims.is_last = true,
            Err(RUNNING) => {}
            Err(_) => return false,
        }
        loop {
            if claims.is_last {
                claims.is_last = false;
                match if self.is_cancelled() { None } else { work.next_stage() } {
                    None => {
                        self.state.store(IDLE, Ordering::Release);
                        self.turn.0.fetch_add(1, Ordering::Release);
                        return true;
                    }
                    Some(stage) => {
                        self.tiles.refill(worker, stage.tiles);
                        self.turn.0.fetch_add(1, Ordering::Release);
                        if stage.helpers != 0 {
                            work.invite(stage.helpers);
                        }
                    }
                }
            }
            // Before looking for tiles: a stage that begins afterwards is not missed.
            let turn = self.turn.0.load(Ordering::Acquire);
            // One tile: `run` knows their cost and takes the rest of the chunk.
            while let Some(claim) = claims.next(|_| 1) {
                work.run(claim, &mut claims);
            }
            if !claims.is_last && work.leaves() {
                // Its tiles can be stolen, but maybe no other worker looks for any.
                work.invite(1);
                return false;
            }
            let has_turned = || self.turn.0.load(Ordering::Acquire) != turn;
            let is_over = || self.state.load(Ordering::Acquire) != RUNNING;
            if !claims.is_last && (!work.stays(has_turned) || is_over()) {
                return false;
            }
        }
    }
}

/// The tiles that one worker takes.
pub(crate) struct Claims<'a> {
    progress: &'a Progress,
    worker: usize,
    victims: &'a [usize],
    /// Tiles taken but not complete, without those put back.
    taken: u32,
    put_back: Option<Range<u32>>,
    /// Whether the last tile of the stage was completed here.
    is_last: bool,
    /// See [`Work::leaves`].
    leaves: &'a dyn Fn() -> bool,
}

impl Claims<'_> {
    /// Takes the next tiles, when those taken before have run, of the same stage or the next: at most `chunk`
    /// of the range that they are taken from. `None` if there are none, or the job is cancelled.
    ///
    /// Tiles are completed when the worker's range is empty: the counter is shared by all workers.
    fn next(&mut self, chunk: impl Fn(&Range<u32>) -> u32) -> Option<Range<u32>> {
        loop {
            let tiles = &self.progress.tiles;
            let is_cancelled = self.progress.is_cancelled();
            let chunk = |range: &Range<u32>| if is_cancelled { u32::MAX } else { chunk(range) };
            let range = match self.put_back.take() {
                Some(range) => range,
                None if self.is_last => return None,
                None => {
                    let leaves = (self.leaves)();
                    match if leaves { None } else { tiles.take_own(self.worker, chunk) } {
                        Some(range) => range,
                        None => {
                            let complete = std::mem::take(&mut self.taken);
                            if complete != 0 && tiles.complete(complete) {
                                self.is_last = true;
                                return None;
                            }
                            if leaves {
                                return None;
                            }
                            tiles.steal(self.worker, self.victims, chunk)?
                        }
                    }
                }
            };
            self.taken += range.end - range.start;
            // Tiles of a cancelled job are taken and not run: they count as complete.
            if !self.progress.is_cancelled() {
                return Some(range);
            }
        }
    }

    /// Takes more tiles of the stage whose tiles are being run: at most `chunk` of the range that they are
    /// taken from. `None` if there are none, some were put back, or the job is cancelled.
    ///
    /// It completes no tiles. A stage lasts until all of its tiles are complete, so what is taken is of the
    /// same stage; after [`Claims::next`] completed them, another worker may have begun the next one.
    pub(crate) fn more(&mut self, chunk: impl Fn(&Range<u32>) -> u32) -> Option<Range<u32>> {
        if self.put_back.is_some() || self.progress.is_cancelled() || (self.leaves)() {
            return None;
        }
        let tiles = &self.progress.tiles;
        let own = tiles.take_own(self.worker, &chunk);
        let range = own.or_else(|| tiles.steal(self.worker, self.victims, &chunk))?;
        self.taken += range.end - range.start;
        // As in `next`, tiles that are not run count as complete.
        (!self.progress.is_cancelled()).then_some(range)
    }

    /// Puts back the end of the range taken last; [`Claims::next`] takes it next.
    pub(crate) fn put_back(&mut self, range: Range<u32>) {
        self.taken -= range.end - range.start;
        self.put_back = Some(range);
    }
}
