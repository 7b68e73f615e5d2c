//! Queues: how work reaches the device, and how it is known to be complete.
//!
//! A *lane* is a queue of Vulkan with one timeline semaphore, its progress. Work that is issued to a lane has
//! a *position*, and the progress is the position of the last work that is complete. A [`Frontier`] is a
//! position on each lane: what a submission needs, or what signals a semaphore. So submissions of one device
//! never wait for the host: what they need is issued before them, and a dependency is a barrier on the same
//! lane or a wait for the progress of another.
//!
//! Work that is issued while the lane is busy is collected, and submitted to Vulkan as one batch once a
//! thread waits for it, the lane becomes idle, or enough has been collected.
//!
//! The truth of a semaphore of the HAL is a `Timeline` of the host, which also knows the work that will
//! signal it (`VulkanSemaphore::schedule`). Operations that only order, such as barriers and allocas, issue
//! no work: the frontier that they wait for signals them. Submissions that wait for the host or for another
//! device are kept by `PendingSubmissions`.
//!
//! A thread that waits for a semaphore waits for the progress itself, and then settles what is complete, one
//! thread at a time and in order (`settle.rs`). The device's thread (`progress.rs`) does it for callbacks,
//! for other devices, and for work that no thread waits for within a millisecond. `tracks.rs`, the plan of
//! batches and barriers, calls nothing of Vulkan, so its tests cover a second queue on any machine. Above a
//! limit of submissions with commands, further ones stay with the host (`Core::defer`) until half of them are
//! complete: the thread that submits never waits.
//!
//! When a device is released, submissions whose waits are reached or scheduled complete, deferred ones
//! included. Those that still wait for the host, for another device, or for the signal of a deferred
//! submission fail with `ABORTED`. Host calls and transfers of files that have begun end before.
//!
//! If a call fails that the queues need, the device is lost: its timelines fail once nothing that was
//! submitted before executes any more (`Core::quiesce`). With a timeout, a watchdog thread watches each
//! submission as a batch of its own, and command buffers set an event after each dispatch, so that the
//! message names the dispatch that does not end. A device that may still execute is stuck: its objects are
//! never destroyed. Tests inject these failures (`faults.rs`).

mod faults;
mod frontier;
mod lane;
mod progress;
mod settle;
#[cfg(test)]
mod tests;
mod tracks;
mod waker;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ash::vk;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rehal_base::{Error, Result, StatusCode};
use rehal_crash::DriverWork;
use rehal_hal::{KeptSubmission, MemoryCounters, SemaphoreBackend, Timeline, defer_callbacks};

pub(crate) use frontier::{Frontier, LANES};
pub(crate) use progress::Progress;

use crate::command::{Instance, Recorder, RecorderPool, StagingMemory};
use crate::gpu::Gpu;
use crate::memory::{Block, Kind, Memory, Pool};
use crate::profile::{SubmissionTimestamps, Ticks};
use crate::semaphore::VulkanSemaphore;
use crate::submission::issue_now;
use faults::Faults;
use lane::Lane;
use settle::Settling;
use tracks::Tracks;
use waker::Waker;

/// The work of a device: what is issued, in flight and complete.
pub(crate) struct Core {
    gpu: Arc<Gpu>,
    staging: StagingMemory,
    recorders: RecorderPool,
    pool: Pool,
    counters: Arc<MemoryCounters>,
    lanes: Vec<Lane>,
    /// Wakes the thread of [`Progress`] while it waits for the device, if there are several lanes.
    waker: Option<Waker>,
    state: Mutex<State>,
    /// Wakes the thread of [`Progress`].
    work: Condvar,
    /// Wakes the watchdog when the device is dropped.
    closed: Condvar,
    settling: Mutex<Settling>,
    completed: [AtomicU64; LANES],
    #[allow(clippy::vec_box, reason = "boxes are moved to and from work in flight")]
    spare: Mutex<Vec<Box<KeptSubmission>>>,
    /// The semaphores of the device: all fail if it is lost.
    timelines: Mutex<Timelines>,
    /// The longest that a submission may take.
    timeout: Option<Duration>,
    /// Whether Vulkan has reported that the device is lost: nothing executes then.
    is_gone: AtomicBool,
    ticks: Ticks,
    /// Receives a clock sample that was late: none is issued behind it.
    late_sample: Mutex<Option<Receiver<Result<u64>>>>,
    faults: Faults,
    /// Held while a thread reads the progress, if the validation layer checks calls: see
    /// `Core::wait_by_polling`.
    turnstile: Mutex<()>,
}

#[derive(Default)]
struct State {
    tracks: Tracks,
    /// Issued submissions that are not settled, in order.
    entries: VecDeque<Entry>,
    /// How many of them have commands.
    executing: usize,
    /// Submissions that are issued when fewer have commands that are not complete, and the work that they
    /// wait for.
    backlog: VecDeque<(Box<KeptSubmission>, Frontier)>,
    /// Whether a thread is issuing some of those: one at a time, so that they stay in order.
    is_issuing: bool,
    /// Whether a callback or another device waits, which does not watch the device.
    is_demanded: bool,
    /// Whether the thread of [`Progress`] waits for work.
    is_asleep: bool,
    /// The work of the device that it waits for: nothing of the lanes that had nothing in flight when it
    /// began.
    watched: Option<Frontier>,
    is_closed: bool,
}

impl State {
    /// Whether all submissions are settled, and none is kept or being issued.
    fn is_done(&self) -> bool {
        self.entries.is_empty() && self.backlog.is_empty() && !self.is_issuing
    }

    /// Adds a submission behind those that need no more than it does. So those of a single lane are in the
    /// order in which they are complete, and what a submission waits for is before it.
    fn insert(&mut self, entry: Entry) {
        let is_before = |it: &Entry| it.needs.is_included_in(&entry.needs);
        let index = self.entries.iter().rposition(is_before).map_or(0, |index| index + 1);
        self.executing += usize::from(entry.has_commands());
        self.entries.insert(index, entry);
    }

    /// Removes a submission.
    fn remove(&mut self, index: usize) -> Option<Entry> {
        let entry = self.entries.remove(index)?;
        self.executing -= usize::from(entry.has_commands());
        Some(entry)
    }
}

/// A submission that is issued.
struct Entry {
    kept: Box<KeptSubmission>,
    /// The work after which its signals are settled.
    needs: Frontier,
    /// Objects that the device uses meanwhile.
    uses: Uses,
}

impl Entry {
    fn has_commands(&self) -> bool {
        self.recorder().is_some()
    }

    fn recorder(&self) -> Option<&Recorder> {
        let of_instance = || self.uses.instance.as_ref().map(|instance| instance.recorder());
        self.uses.recorder.as_deref().or_else(of_instance)
    }

    /// How many of its dispatches are known to be complete, if that can be told: see [`Recorder::mark`].
    fn dispatches_completed(&self) -> Option<usize> {
        self.recorder()?.marks_passed()
    }
}

/// Objects that work of the device uses: none of it is destroyed before the work is complete.
#[derive(Default)]
pub(crate) struct Uses {
    /// The commands, recorded for this submission.
    pub(crate) recorder: Option<Box<Recorder>>,
    /// The commands, recorded before.
    pub(crate) instance: Option<Arc<Instance>>,
    /// Memory.
    pub(crate) blocks: Vec<Arc<Block>>,
    /// Timestamps of the recorder for a profile.
    pub(crate) timestamps: Option<SubmissionTimestamps>,
    /// Receives the recorder's first timestamp, or why there is none.
    pub(crate) sampled: Option<SyncSender<Result<u64>>>,
    /// Names the kernels if they crash a thread of the driver.
    pub(crate) in_flight: Option<DriverWork>,
}

/// Commands to issue.
pub(crate) struct Work {
    /// The lane, in [`Core::lane_count`].
    pub(crate) lane: usize,
    /// Executable commands.
    pub(crate) commands: vk::CommandBuffer,
    /// Objects that they use, including the command buffer.
    pub(crate) uses: Uses,
}

/// Where a submission that is issued comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program, directly or when a wait was reached.
    Program,
    /// The submissions that were kept until others were complete: a device completes them before it is
    /// released.
    Backlog,
}

/// The semaphores of a device.
#[derive(Default)]
struct Timelines {
    all: Vec<Weak<Timeline>>,
    /// The number of them after dropped ones were last removed.
    live: usize,
}

/// Limit on the submissions that are collected in a batch.
const BATCH_LIMIT: usize = 128;
/// Batches in flight above which submissions are collected.
const BATCHES_IN_FLIGHT: usize = 2;
/// Limit on the kept submissions whose memory is reused.
const SPARE_LIMIT: usize = 64;
/// Limit on the bytes of each: data of updates may be large.
const SPARE_BYTES: usize = 64 << 10;
/// Limit on the submissions that have commands, each of which may have a command pool: further ones are kept
/// by the host until half of them are complete.
const OUTSTANDING_LIMIT: usize = 1024;

impl Core {
    /// The queues of a device.
    pub(crate) fn create(gpu: &Arc<Gpu>, timeout: Option<Duration>) -> Result<Arc<Self>> {
        let memory = Memory::new(gpu)?;
        let lanes: Vec<_> =
            gpu.families().iter().map(|family| Lane::create(gpu, *family)).collect::<Result<_>>()?;
        let waker = (lanes.len() > 1).then(|| Waker::create(gpu)).transpose()?;
        let staging = StagingMemory::create(&memory)?;
        Ok(Arc::new_cyclic(|core: &Weak<Self>| {
            let core = core.clone();
            let allocate = move |kinds: &[Kind], length| {
                let core: Arc<Self> = core.upgrade().ok_or_else(|| {
                    Error::new(StatusCode::Internal, "memory is staged for a device that was released")
                })?;
                core.pool().allocate_new(&core, kinds, length, 0)
            };
            Self {
                gpu: gpu.clone(),
                staging: staging(Box::new(allocate)),
                recorders: RecorderPool::new(gpu),
                pool: Pool::default(),
                counters: Arc::default(),
                lanes,
                waker,
                state: Mutex::default(),
                work: Condvar::new(),
                closed: Condvar::new(),
                settling: Mutex::default(),
                completed: Default::default(),
                spare: Mutex::default(),
                timelines: Mutex::default(),
                timeout,
                is_gone: AtomicBool::new(false),
                ticks: Ticks::new(gpu),
                late_sample: Mutex::default(),
                faults: Faults::default(),
                turnstile: Mutex::default(),
            }
        }))
    }

    /// The device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        self.staging.memory()
    }

    /// Whether a watchdog fails work that takes too long.
    pub(crate) fn has_watchdog(&self) -> bool {
        self.timeout.is_some()
    }

    /// Counts the memory of buffers.
    pub(crate) fn counters(&self) -> &Arc<MemoryCounters> {
        &self.counters
    }

    /// Memory that queues have deallocated.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Memory for what is staged.
    pub(crate) fn staging(&self) -> &StagingMemory {
        &self.staging
    }

    /// The recorders of commands.
    pub(crate) fn recorders(&self) -> &RecorderPool {
        &self.recorders
    }

    /// The timestamps of the device.
    pub(crate) fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// Whether a clock sample that was late still is not settled.
    pub(crate) fn has_late_sample(&self) -> bool {
        let mut late = self.late_sample.lock();
        let is_late = late.as_ref().is_some_and(|it| matches!(it.try_recv(), Err(TryRecvError::Empty)));
        if !is_late {
            *late = None;
        }
        is_late
    }

    /// Keeps what receives a clock sample that is late.
    pub(crate) fn keep_late_sample(&self, sample: Receiver<Result<u64>>) {
        *self.late_sample.lock() = Some(sample);
    }

    /// The number of lanes: the first is for all work, the second, if there is one, for transfers.
    pub(crate) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// The work that is known to be complete.
    pub(crate) fn completed(&self) -> Frontier {
        let mut completed = Frontier::default();
        for (lane, position) in self.completed.iter().enumerate() {
            completed.join(&Frontier::at(lane, position.load(Ordering::Acquire)));
        }
        completed
    }

    /// Memory for a submission, reused.
    pub(crate) fn take_spare(&self) -> Box<KeptSubmission> {
        self.spare.lock().pop().unwrap_or_else(|| Box::new(KeptSubmission::empty()))
    }

    /// Releases the memory that is kept for submissions.
    pub(crate) fn trim(&self) {
        let spare = std::mem::take(&mut *self.spare.lock());
        drop(spare);
    }

    /// Keeps the memory of a submission that is settled, unless it is large.
    fn give_spare(&self, mut kept: Box<KeptSubmission>) {
        kept.clear();
        if kept.store().capacity_bytes() > SPARE_BYTES {
            return;
        }
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_LIMIT {
            spare.push(kept);
        }
    }

    /// Issues a submission, which has no commands, or those of `work`, after the work of `after`. Its signals
    /// are settled when all of that is complete. Returns what signals them.
    ///
    /// If it fails, so do the signals.
    pub(crate) fn issue(
        &self,
        kept: Box<KeptSubmission>,
        after: Frontier,
        work: Option<Work>,
        origin: Origin,
    ) -> Result<Frontier> {
        if let Some(loss) = self.gpu.loss() {
            return Err(self.fail(kept, loss.clone()));
        }
        if work.is_none() && after.is_empty() {
            // Nothing of the device is involved.
            kept.promise().settle(&Ok(()));
            self.give_spare(kept);
            return Ok(after);
        }
        let mut state = self.state.lock();
        if state.is_closed && origin == Origin::Program {
            drop(state);
            // A wait was reached while the device was being released: no thread settles work any more.
            let message = "the device was released while the submission waited";
            return Err(self.fail(kept, Error::new(StatusCode::Aborted, message)));
        }
        let mut needs = after;
        let mut uses = Uses::default();
        let mut is_flushed = Ok(());
        if let Some(work) = work {
            let position = match self.add(&mut state, &after, work.lane, work.commands) {
                Ok(position) => position,
                Err(error) => {
                    drop(state);
                    self.lose(error.clone());
                    return Err(self.fail(kept, error));
                }
            };
            needs.join(&Frontier::at(work.lane, position));
            uses = work.uses;
            // A watchdog judges each submission by itself.
            let is_due = self.timeout.is_some()
                || state.tracks.batches_in_flight(work.lane) < BATCHES_IN_FLIGHT
                || state.tracks.open_count(work.lane) >= BATCH_LIMIT;
            if is_due {
                // On failure the device is lost, and settling fails what is outstanding, this submission too.
                is_flushed = self.flush_lane(&mut state, work.lane);
            }
        }
        state.is_demanded |= self.schedule(&kept, needs);
        state.insert(Entry { kept, needs, uses });
        self.wake(&mut state);
        drop(state);
        if let Err(error) = is_flushed {
            self.lose(error.clone());
            return Err(error);
        }
        if let Some(loss) = self.gpu.loss() {
            // It was lost meanwhile.
            self.settle_lost(&loss.clone());
        }
        if needs.is_included_in(&self.completed()) {
            self.settle();
        }
        Ok(needs)
    }

    /// Keeps a submission with commands that is to be issued after the work of `after`, if too many are
    /// outstanding. The thread that submits it does not wait: what executes may itself wait for that thread.
    /// Returns it if it can be issued.
    pub(crate) fn defer(&self, kept: Box<KeptSubmission>, after: Frontier) -> Option<Box<KeptSubmission>> {
        let mut state = self.state.lock();
        let is_full = state.executing >= OUTSTANDING_LIMIT || !state.backlog.is_empty() || state.is_issuing;
        if !is_full || state.is_closed || self.gpu.loss().is_some() {
            return Some(kept);
        }
        state.backlog.push_back((kept, after));
        // No thread that waits for it knows of work of the device yet.
        state.is_demanded = true;
        self.wake(&mut state);
        None
    }

    /// Whether submissions are kept until others are complete.
    pub(crate) fn has_backlog(&self) -> bool {
        let state = self.state.lock();
        !state.backlog.is_empty() || state.is_issuing
    }

    /// Issues submissions that were kept, if enough of the earlier ones are complete, unless another thread
    /// does.
    pub(crate) fn issue_backlog(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.is_issuing || state.backlog.is_empty() || state.executing > OUTSTANDING_LIMIT / 2 {
            return;
        }
        let count = (OUTSTANDING_LIMIT - state.executing).min(state.backlog.len());
        let next: Vec<_> = state.backlog.drain(..count).collect();
        state.is_issuing = true;
        drop(state);
        // Callbacks, which may block, run when others can issue.
        defer_callbacks(|| {
            let issued = catch_unwind(AssertUnwindSafe(|| {
                for (kept, after) in next {
                    // Waiters get a failure from the signals.
                    let _ = issue_now(self, kept, after, Origin::Backlog);
                }
            }));
            self.state.lock().is_issuing = false;
            if let Err(panic) = issued {
                resume_unwind(panic);
            }
        });
    }

    /// Fails the signals of a submission that cannot be issued.
    pub(crate) fn fail(&self, kept: Box<KeptSubmission>, error: Error) -> Error {
        kept.promise().settle(&Err(error.clone()));
        self.give_spare(kept);
        error
    }

    /// Notes in the semaphores that a submission signals what signals them. Returns whether a callback or
    /// another device waits for them, which does not watch the device.
    fn schedule(&self, kept: &KeptSubmission, needs: Frontier) -> bool {
        let store = kept.store();
        let signals = kept.submission().signals.of(&store.lists.timepoints);
        let mut is_watched = false;
        for signal in signals {
            is_watched |= match VulkanSemaphore::of(&store.semaphores[signal.semaphore as usize], self) {
                Some(semaphore) => semaphore.schedule(signal.value, needs),
                None => true,
            };
        }
        is_watched
    }

    /// A callback or another device waits, which does not watch the device.
    pub(crate) fn demand(&self) {
        let mut state = self.state.lock();
        if !state.entries.is_empty() {
            state.is_demanded = true;
            self.wake(&mut state);
        }
    }

    /// Wakes the thread of [`Progress`] if it has something to do.
    fn wake(&self, state: &mut MutexGuard<'_, State>) {
        if state.is_asleep || state.is_demanded {
            state.is_asleep = false;
            self.work.notify_one();
        }
    }

    /// Submits to Vulkan what is collected.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        let flushed = (0..self.lanes.len()).try_for_each(|lane| self.flush_lane(&mut state, lane));
        drop(state);
        if let Err(error) = &flushed {
            self.lose(error.clone());
        }
        flushed
    }

    /// The device is lost: fails everything that is outstanding, when nothing of it executes any more, and
    /// every semaphore.
    pub(crate) fn lose(&self, error: Error) {
        let error = self.gpu.lose(error).clone();
        defer_callbacks(|| {
            let settled = catch_unwind(AssertUnwindSafe(|| self.settle_lost(&error)));
            let timelines = std::mem::take(&mut self.timelines.lock().all);
            for timeline in timelines.iter().filter_map(Weak::upgrade) {
                timeline.fail(error.clone());
            }
            if let Err(panic) = settled {
                resume_unwind(panic);
            }
        });
    }

    /// Adds the timeline of a semaphore. If the device is lost, it fails.
    pub(crate) fn add_timeline(&self, timeline: &Arc<Timeline>) {
        let mut timelines = self.timelines.lock();
        if timelines.all.len() >= 2 * timelines.live.max(64) {
            timelines.all.retain(|timeline| timeline.strong_count() != 0);
            timelines.live = timelines.all.len();
        }
        timelines.all.push(Arc::downgrade(timeline));
        drop(timelines);
        if let Some(loss) = self.gpu.loss() {
            timeline.fail(loss.clone());
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Work in flight owns what it uses, and was completed, or failed, when the device was dropped.
        for lane in &self.lanes {
            lane.finish(&self.gpu);
        }
    }
}
