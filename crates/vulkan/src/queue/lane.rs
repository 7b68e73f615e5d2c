#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ash::vk;
use rehal_base::{Error, Result};
use smallvec::SmallVec;

use super::faults::Call;
use super::tracks::Batch;
use super::{Core, Frontier, LANES, State};
use crate::command::Recorder;
use crate::error::{failure, lost_by};
use crate::gpu::Gpu;

/// How long a thread waits before it looks whether the device is lost, or work takes too long.
pub(super) const WATCH: Duration = Duration::from_millis(20);
/// Failed attempts to wait for a lost device, [`WATCH`] apart.
const QUIESCE_ATTEMPTS: usize = 50;

/// A queue of Vulkan.
pub(super) struct Lane {
    gpu: Arc<Gpu>,
    queue: vk::Queue,
    /// The position up to which its work is complete.
    progress: vk::Semaphore,
    /// A barrier between submissions of one batch: what is after it sees all that is before.
    barrier: Box<Recorder>,
    /// The end of a batch: the host sees what is before.
    tail: Box<Recorder>,
}

impl Lane {
    /// The first queue of a family.
    pub(super) fn create(gpu: &Arc<Gpu>, family: u32) -> Result<Self> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let (barrier, tail) = (Recorder::for_barrier(gpu, family)?, Recorder::for_tail(gpu, family)?);
        // SAFETY: the structures live until the call returns; every device that is created has timeline
        // semaphores.
        let progress = unsafe { gpu.functions().create_semaphore(&info, None) }
            .map_err(|error| failure("creating a timeline semaphore", error))?;
        Ok(Self { gpu: gpu.clone(), queue: gpu.queue(family), progress, barrier, tail })
    }

    /// Waits until nothing uses the lane, unless it is stuck.
    pub(super) fn finish(&self, gpu: &Gpu) {
        if !gpu.is_stuck() {
            // SAFETY: no other thread uses the queue: this is called when its last owner is dropped. All that
            // was submitted was complete when the device was dropped, or the device is lost, or stuck: this
            // waits for the driver's own work.
            let _ = unsafe { gpu.functions().queue_wait_idle(self.queue) };
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.gpu.is_stuck() {
            // SAFETY: `finish` has waited for the work that signals and waits for it.
            unsafe { self.gpu.functions().destroy_semaphore(self.progress, None) };
        }
    }
}

impl Core {
    /// Adds commands to the batch of a lane, after the work of `after`; returns their position.
    pub(super) fn add(
        &self,
        state: &mut State,
        after: &Frontier,
        lane: usize,
        commands: vk::CommandBuffer,
    ) -> Result<u64> {
        // At most one other lane: its flush leaves nothing of it unsubmitted.
        while let Some(other) = state.tracks.unsubmitted(lane, after) {
            self.flush_lane(state, other)?;
            // Unless the device was lost before: what was rejected then stays unsubmitted.
            if let Some(loss) = self.gpu.loss() {
                return Err(loss.clone());
            }
        }
        let barrier = self.lanes[lane].barrier.commands();
        Ok(state.tracks.add(lane, commands, barrier, after, &self.completed()))
    }

    /// Submits what is collected for a lane. If that fails, the device is lost for the program, although what
    /// was submitted before may still execute: see [`Core::lose`], which the caller calls when the lock is
    /// released.
    pub(super) fn flush_lane(&self, state: &mut State, lane: usize) -> Result<()> {
        let handles = &self.lanes[lane];
        let Some(batch) = state.tracks.close(lane, handles.tail.commands(), &self.completed()) else {
            return Ok(());
        };
        let submitted = match self.gpu.loss() {
            Some(loss) => Err(loss.clone()),
            // Under the lock, so that no other thread waits for what is never submitted.
            None => self
                .submit(handles, &batch)
                .map_err(|error| self.gpu.lose(self.lost_by("submitting to a queue", error)).clone()),
        };
        match submitted {
            Ok(()) => {
                state.tracks.submit(lane, self.now());
                self.wake_for(state, lane)
            }
            Err(error) => {
                state.tracks.reject(lane);
                Err(error)
            }
        }
    }

    /// Wakes the thread of [`super::Progress`] if it waits for other lanes only: their work may take longer.
    fn wake_for(&self, state: &mut State, lane: usize) -> Result<()> {
        let (Some(waker), Some(watched)) = (&self.waker, &mut state.watched) else { return Ok(()) };
        if watched.on(lane) != 0 {
            return Ok(());
        }
        // Once for each wait.
        *watched = watched.joined(&state.tracks.next());
        waker.wake().map_err(|error| self.gpu.lose(self.lost_by("waking a thread", error)).clone())
    }

    fn submit(&self, handles: &Lane, batch: &Batch<'_>) -> Result<(), vk::Result> {
        self.faults.check(Call::Submit)?;
        let (mut semaphores, mut values) = ([vk::Semaphore::null(); LANES], [0; LANES]);
        let mut count = 0;
        for (other, it) in self.lanes.iter().enumerate().filter(|(other, _)| batch.waits.on(*other) != 0) {
            (semaphores[count], values[count]) = (it.progress, batch.waits.on(other));
            count += 1;
        }
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS; LANES];
        let (signal_values, signal_semaphores) = ([batch.position], [handles.progress]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&values[..count])
            .signal_semaphore_values(&signal_values);
        let info = vk::SubmitInfo::default()
            .command_buffers(batch.commands)
            .wait_semaphores(&semaphores[..count])
            .wait_dst_stage_mask(&stages[..count])
            .signal_semaphores(&signal_semaphores)
            .push_next(&mut timeline);
        // SAFETY: the lock of the state is held, so that no other thread uses the queue. The commands are
        // executable, and they and what they use are owned by entries until the progress reaches their
        // position. Positions increase.
        unsafe { self.gpu.functions().queue_submit(handles.queue, &[info], vk::Fence::null()) }
    }

    /// Submits a wait that only the host ends, behind which the work of the first lane waits.
    #[cfg(test)]
    pub(super) fn block_queue(self: &Arc<Self>) -> Blocker {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the structures live until the call returns.
        let semaphore = unsafe { self.gpu.functions().create_semaphore(&info, None) }.unwrap();
        let (semaphores, values) = ([semaphore], [1]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
            .push_next(&mut timeline);
        let _state = self.state.lock();
        // SAFETY: the lock is held, so that no other thread uses the queue; the blocker owns the semaphore.
        unsafe { self.gpu.functions().queue_submit(self.lanes[0].queue, &[info], vk::Fence::null()) }
            .unwrap();
        Blocker { core: self.clone(), semaphore }
    }

    /// As [`Core::block_queue`], but of one lane whichever queue it has: work is in flight that only the host
    /// completes.
    #[cfg(test)]
    pub(super) fn block_lane(self: &Arc<Self>, lane: usize) -> LaneBlocker {
        let (mut state, none) = (self.state.lock(), vk::CommandBuffer::null());
        let position = state.tracks.add(lane, none, none, &Frontier::default(), &self.completed());
        state.tracks.submit(lane, self.now());
        LaneBlocker { core: self.clone(), lane, position }
    }

    /// Reads the progress of all lanes. Fails with `ERROR_DEVICE_LOST` also if it is beyond what was
    /// submitted, as drivers may report for a device that is gone.
    pub(super) fn poll(&self) -> Result<(), vk::Result> {
        self.faults.check(Call::Poll)?;
        let _turn = self.gpu.physical().instance.is_validated().then(|| self.turnstile.lock());
        for (lane, it) in self.lanes.iter().enumerate() {
            // SAFETY: the semaphore lives as long as the lane.
            let position = unsafe { self.gpu.functions().get_semaphore_counter_value(it.progress) }?;
            let position = self.faults.counter(position);
            if position <= self.completed[lane].load(Ordering::Acquire) {
                continue;
            }
            // The lock is held from before work is submitted until its position is noted.
            if position > self.state.lock().tracks.submitted().on(lane) {
                return Err(vk::Result::ERROR_DEVICE_LOST);
            }
            self.completed[lane].fetch_max(position, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The time by which the watchdog measures work.
    pub(super) fn now(&self) -> Instant {
        self.gpu.physical().emulation.now()
    }

    /// Waits until the work of a frontier is complete, for at most `timeout`. Returns whether it is: also if
    /// the device is lost, since its work has then failed, although it may still execute (see
    /// [`Core::quiesce`]).
    pub(crate) fn wait(&self, work: &Frontier, timeout: Option<Duration>) -> bool {
        if work.is_included_in(&self.completed()) {
            return true;
        }
        // What is not submitted now never is: the device is lost then.
        if self.flush_for(work).is_err() || self.gpu.loss().is_some() {
            return true;
        }
        // A watchdog fails work that does not end; a thread that waits for it has to notice.
        let longest = if self.timeout.is_some() { WATCH } else { Duration::MAX };
        let slice = timeout.unwrap_or(Duration::MAX).min(longest);
        let waited = self.wait_for_all(work, slice);
        match waited {
            Ok(()) => true,
            Err(vk::Result::TIMEOUT) => self.gpu.loss().is_some(),
            Err(error) => {
                self.lose(self.lost_by("waiting for a queue", error));
                true
            }
        }
    }

    /// Waits until the device executes nothing of what was submitted, after it was lost. A call that fails,
    /// because memory is exhausted for instance, does not end the work of earlier ones. If the work does not
    /// end before the watchdog's time, or whether it does cannot be known, the device is stuck.
    pub(crate) fn quiesce(&self) {
        let submitted = self.state.lock().tracks.submitted();
        let start = self.now();
        let mut failures = 0;
        while !self.gpu.is_stuck() && !self.is_gone.load(Ordering::Acquire) {
            match self.wait_for_all(&submitted, WATCH) {
                Ok(()) => {
                    // What is complete now has not failed.
                    let _ = self.poll();
                    return;
                }
                Err(vk::Result::ERROR_DEVICE_LOST) => return,
                Err(vk::Result::TIMEOUT) => {
                    if self.timeout.is_some_and(|timeout| self.now().duration_since(start) >= timeout) {
                        self.gpu.set_stuck();
                    }
                }
                Err(_) => {
                    failures += 1;
                    if failures == QUIESCE_ATTEMPTS {
                        self.gpu.set_stuck();
                    }
                    std::thread::sleep(WATCH);
                }
            }
        }
    }

    /// The error of all work of the device after a call of Vulkan has failed.
    pub(super) fn lost_by(&self, what: &str, error: vk::Result) -> Error {
        if error == vk::Result::ERROR_DEVICE_LOST {
            self.is_gone.store(true, Ordering::Release);
        }
        lost_by(what, error)
    }

    /// Submits what is collected of the work of a frontier.
    fn flush_for(&self, work: &Frontier) -> Result<()> {
        let state = self.state.lock();
        let is_open = !work.is_included_in(&state.tracks.submitted());
        if !is_open {
            return Ok(());
        }
        drop(state);
        self.flush()
    }

    /// As [`Core::wait_on_device`], for the validation layer: some of its releases report an error of their
    /// own if several threads wait in `vkWaitSemaphores`.
    fn wait_by_polling(
        &self,
        work: &Frontier,
        wakes: Option<u64>,
        timeout: Duration,
        flags: vk::SemaphoreWaitFlags,
    ) -> Result<(), vk::Result> {
        let is_woken = || self.waker.as_ref().zip(wakes).is_some_and(|(waker, wakes)| waker.value() >= wakes);
        let start = Instant::now();
        loop {
            self.poll()?;
            let completed = self.completed();
            let is_reached = |lane: usize| work.on(lane) <= completed.on(lane);
            let mut lanes = (0..self.lanes.len()).filter(|lane| work.on(*lane) != 0);
            let is_complete = match flags.contains(vk::SemaphoreWaitFlags::ANY) {
                true => lanes.any(is_reached) || is_woken(),
                false => lanes.all(is_reached),
            };
            if is_complete {
                return Ok(());
            }
            if start.elapsed() >= timeout {
                return Err(vk::Result::TIMEOUT);
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Waits for all positions of a frontier.
    fn wait_for_all(&self, work: &Frontier, timeout: Duration) -> Result<(), vk::Result> {
        self.wait_on_device(work, None, timeout, vk::SemaphoreWaitFlags::empty())
    }

    /// Waits for any of the positions of a frontier, or until the waker has this value.
    pub(super) fn wait_for_any(
        &self,
        work: &Frontier,
        wakes: Option<u64>,
        timeout: Duration,
    ) -> Result<(), vk::Result> {
        self.wait_on_device(work, wakes, timeout, vk::SemaphoreWaitFlags::ANY)
    }

    fn wait_on_device(
        &self,
        work: &Frontier,
        wakes: Option<u64>,
        timeout: Duration,
        flags: vk::SemaphoreWaitFlags,
    ) -> Result<(), vk::Result> {
        let (mut semaphores, mut values) = (Semaphores::new(), Values::new());
        for (lane, it) in self.lanes.iter().enumerate().filter(|(lane, _)| work.on(*lane) != 0) {
            semaphores.push(it.progress);
            values.push(work.on(lane));
        }
        if semaphores.is_empty() {
            return Ok(());
        }
        if let (Some(waker), Some(wakes)) = (&self.waker, wakes) {
            semaphores.push(waker.semaphore());
            values.push(wakes);
        }
        self.faults.check(Call::Wait)?;
        if self.gpu.physical().instance.is_validated() {
            return self.wait_by_polling(work, wakes, timeout, flags);
        }
        let info = vk::SemaphoreWaitInfo::default().flags(flags).semaphores(&semaphores).values(&values);
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphores live as long as the lanes and the waker, which `self` owns.
        unsafe { self.gpu.functions().wait_semaphores(&info, timeout) }
    }
}

/// The semaphores that are waited for: the progress of each lane, and the waker.
type Semaphores = SmallVec<[vk::Semaphore; LANES + 1]>;
type Values = SmallVec<[u64; LANES + 1]>;

/// Holds up the first lane until it is dropped.
#[cfg(test)]
pub(super) struct Blocker {
    core: Arc<Core>,
    semaphore: vk::Semaphore,
}

#[cfg(test)]
impl Drop for Blocker {
    /// Releases the lane, and waits until it is idle.
    fn drop(&mut self) {
        let functions = self.core.gpu.functions();
        let info = vk::SemaphoreSignalInfo::default().semaphore(self.semaphore).value(1);
        // SAFETY: nothing else signals the semaphore.
        unsafe { functions.signal_semaphore(&info) }.unwrap();
        let _state = self.core.state.lock();
        // SAFETY: the lock is held, so that no other thread uses the queue. Nothing uses the semaphore after
        // the wait.
        unsafe {
            functions.queue_wait_idle(self.core.lanes[0].queue).unwrap();
            functions.destroy_semaphore(self.semaphore, None);
        }
    }
}

/// Holds up a lane, to which nothing else is submitted meanwhile, until it is dropped.
#[cfg(test)]
pub(super) struct LaneBlocker {
    core: Arc<Core>,
    lane: usize,
    pub(super) position: u64,
}

#[cfg(test)]
impl Drop for LaneBlocker {
    fn drop(&mut self) {
        let progress = self.core.lanes[self.lane].progress;
        let info = vk::SemaphoreSignalInfo::default().semaphore(progress).value(self.position);
        // SAFETY: nothing else is in flight that signals the semaphore.
        unsafe { self.core.gpu.functions().signal_semaphore(&info) }.unwrap();
    }
}
