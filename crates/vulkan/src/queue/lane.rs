#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ash::vk;
use rehal_base::Result;

use super::{Core, Frontier, LANES, State};
use crate::command::Recorder;
use crate::error::failure;
use crate::gpu::Gpu;

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

/// What is issued to a lane.
#[derive(Default)]
pub(super) struct Track {
    /// The position of the last work.
    last: u64,
    /// The position up to which it is submitted to Vulkan.
    submitted: u64,
    /// The position up to which work is ordered before all that is issued from now on.
    ordered: u64,
    /// The commands that are collected.
    open: Vec<vk::CommandBuffer>,
    open_count: usize,
    /// What they wait for on other lanes; its work is submitted.
    waits: Frontier,
    /// The last positions of the batches in flight, and when they were submitted.
    in_flight: VecDeque<(u64, Instant)>,
}

impl Track {
    /// The number of batches that are not known to be complete.
    pub(super) fn batches_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The number of submissions that are collected.
    pub(super) fn open_count(&self) -> usize {
        self.open_count
    }

    /// Drops what is complete.
    pub(super) fn complete(&mut self, position: u64) {
        while self.in_flight.front().is_some_and(|(last, _)| *last <= position) {
            self.in_flight.pop_front();
        }
    }

    /// When the oldest batch in flight was submitted.
    pub(super) fn oldest(&self) -> Option<(u64, Instant)> {
        self.in_flight.front().copied()
    }

    /// Forgets everything: the device is lost.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.in_flight.clear();
        (self.open_count, self.submitted) = (0, self.last);
    }
}

impl Lane {
    /// The first queue of a family.
    pub(super) fn create(gpu: &Arc<Gpu>, family: u32) -> Result<Self> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let (barrier, tail) = (Recorder::of_barrier(gpu, family)?, Recorder::of_tail(gpu, family)?);
        // SAFETY: the structures live until the call returns; every device that is created has timeline semaphores.
        let progress = unsafe { gpu.functions().create_semaphore(&info, None) }
            .map_err(|error| failure("creating a timeline semaphore", error))?;
        Ok(Self { gpu: gpu.clone(), queue: gpu.queue(family), progress, barrier, tail })
    }

    /// Waits until nothing uses the lane, unless it is stuck.
    pub(super) fn finish(&self, gpu: &Gpu) {
        if !gpu.is_stuck() {
            // SAFETY: no other thread uses the queue: this is called when its last owner is dropped. If the wait fails, the device
            // is lost, and nothing executes.
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
        let completed = self.completed();
        for other in (0..self.lanes.len()).filter(|other| *other != lane) {
            let needed = after.on(other);
            if needed <= completed.on(other) {
                continue;
            }
            // A batch waits only for what is submitted, so that no two batches wait for one another.
            if needed > state.tracks[other].submitted {
                self.flush_lane(state, other)?;
            }
            state.tracks[lane].waits.join(&Frontier::at(other, needed));
        }
        let track = &mut state.tracks[lane];
        if after.on(lane) > completed.on(lane).max(track.ordered) {
            track.open.push(self.lanes[lane].barrier.commands());
            track.ordered = track.last;
        }
        track.open.push(commands);
        track.open_count += 1;
        track.last += 1;
        Ok(track.last)
    }

    /// Submits what is collected for a lane. If that fails, the device is lost.
    pub(super) fn flush_lane(&self, state: &mut State, lane: usize) -> Result<()> {
        let track = &mut state.tracks[lane];
        if track.open_count == 0 {
            return Ok(());
        }
        let handles = &self.lanes[lane];
        track.open.push(handles.tail.commands());
        // What the host has seen complete is visible to this batch, too; such waits are over.
        let mut waits = track.waits;
        waits.join(&self.completed());
        let mut semaphores = [vk::Semaphore::null(); LANES];
        let mut values = [0; LANES];
        let mut count = 0;
        for (other, it) in self.lanes.iter().enumerate().filter(|(other, _)| waits.on(*other) != 0) {
            (semaphores[count], values[count]) = (it.progress, waits.on(other));
            count += 1;
        }
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS; LANES];
        let signal_values = [track.last];
        let signal_semaphores = [handles.progress];
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&values[..count])
            .signal_semaphore_values(&signal_values);
        let info = vk::SubmitInfo::default()
            .command_buffers(&track.open)
            .wait_semaphores(&semaphores[..count])
            .wait_dst_stage_mask(&stages[..count])
            .signal_semaphores(&signal_semaphores)
            .push_next(&mut timeline);
        // SAFETY: the lock of the state is held, so that no other thread uses the queue. The commands are executable, and they and
        // what they use are owned by entries until the progress reaches their position. Positions increase.
        let submitted =
            unsafe { self.gpu.functions().queue_submit(handles.queue, &[info], vk::Fence::null()) };
        track.open.clear();
        (track.open_count, track.submitted, track.waits) = (0, track.last, Frontier::default());
        submitted.map_err(|error| failure("submitting to a queue", error))?;
        track.in_flight.push_back((track.last, Instant::now()));
        Ok(())
    }

    /// Reads the progress of all lanes.
    pub(super) fn poll(&self) -> Result<()> {
        let _turn = self.gpu.physical().instance.is_validated().then(|| self.turnstile.lock());
        for (lane, it) in self.lanes.iter().enumerate() {
            // SAFETY: the semaphore lives as long as the lane.
            let position = unsafe { self.gpu.functions().get_semaphore_counter_value(it.progress) }
                .map_err(|error| failure("reading the progress of a queue", error))?;
            self.completed[lane].fetch_max(position, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Waits until the work of a frontier is complete, for at most `timeout`. Returns whether it is: also if the device is lost,
    /// since its work has then failed.
    pub(crate) fn wait(&self, work: &Frontier, timeout: Option<Duration>) -> bool {
        if work.is_reached(&self.completed()) {
            return true;
        }
        if self.flush_for(work).is_err() {
            return true;
        }
        // A watchdog fails work that does not end; a thread that waits for it has to notice.
        let longest = if self.timeout.is_some() { Duration::from_millis(20) } else { Duration::MAX };
        let slice = timeout.unwrap_or(Duration::MAX).min(longest);
        let waited = self.wait_on_device(work, slice, vk::SemaphoreWaitFlags::empty());
        match waited {
            Ok(()) => true,
            Err(vk::Result::TIMEOUT) => self.gpu.loss().is_some(),
            Err(error) => {
                self.lose(failure("waiting for a queue", error));
                true
            }
        }
    }

    /// Submits what is collected of the work of a frontier.
    fn flush_for(&self, work: &Frontier) -> Result<()> {
        let state = self.state.lock();
        let is_open = (0..self.lanes.len()).any(|lane| work.on(lane) > state.tracks[lane].submitted);
        if !is_open {
            return Ok(());
        }
        drop(state);
        self.flush()
    }

    /// As [`Core::wait_on_device`], for the validation layer: some of its releases report an error of their own if several threads
    /// wait in `vkWaitSemaphores`.
    fn wait_by_polling(
        &self,
        work: &Frontier,
        timeout: Duration,
        flags: vk::SemaphoreWaitFlags,
    ) -> Result<(), vk::Result> {
        let start = Instant::now();
        loop {
            if self.poll().is_err() {
                return Err(vk::Result::ERROR_DEVICE_LOST);
            }
            let completed = self.completed();
            let is_reached = |lane: usize| work.on(lane) <= completed.on(lane);
            let mut lanes = (0..self.lanes.len()).filter(|lane| work.on(*lane) != 0);
            let is_complete = match flags.contains(vk::SemaphoreWaitFlags::ANY) {
                true => lanes.any(is_reached),
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

    /// Waits for all, or any, of the positions of a frontier.
    pub(super) fn wait_on_device(
        &self,
        work: &Frontier,
        timeout: Duration,
        flags: vk::SemaphoreWaitFlags,
    ) -> Result<(), vk::Result> {
        let mut semaphores = [vk::Semaphore::null(); LANES];
        let mut values = [0; LANES];
        let mut count = 0;
        for (lane, it) in self.lanes.iter().enumerate().filter(|(lane, _)| work.on(*lane) != 0) {
            (semaphores[count], values[count]) = (it.progress, work.on(lane));
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        let info = vk::SemaphoreWaitInfo::default()
            .flags(flags)
            .semaphores(&semaphores[..count])
            .values(&values[..count]);
        if self.gpu.physical().instance.is_validated() {
            return self.wait_by_polling(work, timeout, flags);
        }
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphores live as long as the lanes.
        unsafe { self.gpu.functions().wait_semaphores(&info, timeout) }
    }
}
