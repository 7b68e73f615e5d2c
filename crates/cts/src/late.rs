//! A test device over any other that completes work late, on threads of its own.
//!
//! A submission whose waits are reached is queued; a few workers take queued submissions in random order,
//! each after a random delay, and run them on the underlying device. Code that does not wait for what it
//! needs thus sees stale bytes, and code that relies on submission order sees a different one. A seed gives
//! the same delays in each run, as far as thread scheduling permits.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bumpalo::Bump;
use rehal_base::{Error, Result};
use rehal_hal::profile::{ProfileData, ProfileRequest};
use rehal_hal::{
    Buffer, BufferParams, CommandBuffer, CommandBufferParams, Device, DeviceBackend, DeviceInfo, Event,
    Executable, ExecutableParams, File, HostFile, HostMemory, KeptSubmission, Live, MemoryAccess,
    MemoryStatistics, PendingSubmissions, QUEUE_AFFINITY_ANY, QueueAffinity, QueueOp, Semaphore,
    SemaphoreFlags, StoredNames, Submission,
};

use crate::forward::forward;

/// Threads that run work.
const WORKERS: usize = 3;

/// The device.
pub struct LateDevice {
    base: Device,
    info: DeviceInfo,
    /// Submissions with unreached waits.
    pending: PendingSubmissions,
    queue: Arc<Queue>,
}

/// Submissions that are ready.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    max_delay: Duration,
    /// All timelines of the device, which a failed submission fails if that loses the device.
    timelines: Option<Mutex<Vec<Semaphore>>>,
}

struct State {
    ready: Vec<KeptSubmission>,
    random: fastrand::Rng,
    is_closed: bool,
}

impl LateDevice {
    /// A device that runs each submission on `base` up to `max_delay` after its waits are reached.
    pub fn over(base: Device, seed: u64, max_delay: Duration) -> Device {
        Self::create(base, seed, max_delay, None)
    }

    /// The same, which is lost when a submission fails: then all of its timelines fail, also at payloads that
    /// they had reached.
    pub fn losable(base: Device, seed: u64, max_delay: Duration) -> Device {
        Self::create(base, seed, max_delay, Some(Mutex::default()))
    }

    fn create(
        base: Device,
        seed: u64,
        max_delay: Duration,
        timelines: Option<Mutex<Vec<Semaphore>>>,
    ) -> Device {
        let random = fastrand::Rng::with_seed(seed);
        let state = Mutex::new(State { ready: Vec::new(), random, is_closed: false });
        let can_be_lost = timelines.is_some();
        let queue = Arc::new(Queue { state, changed: Condvar::new(), max_delay, timelines });
        for _ in 0..WORKERS {
            let (queue, base) = (queue.clone(), base.clone());
            std::thread::spawn(move || queue.work(&base));
        }
        let ready = {
            let queue = queue.clone();
            move |kept| queue.push(kept)
        };
        let info = DeviceInfo { is_synchronous: false, can_be_lost, ..base.info().clone() };
        Device::new(Self { base, info, pending: PendingSubmissions::new(ready), queue })
    }
}

impl Drop for LateDevice {
    fn drop(&mut self) {
        // Not joined: a worker may drop the last handle. It runs what is ready, and exits.
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn push(&self, kept: KeptSubmission) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ready.push(kept);
        self.changed.notify_one();
    }

    /// A random submission, with the time to wait before it runs.
    fn next(&self) -> Option<(KeptSubmission, Duration)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.ready.is_empty() {
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let State { ready, random, .. } = &mut *state;
        let kept = ready.swap_remove(random.usize(..ready.len()));
        // Half of them run without delay, so that they overtake others.
        let delay = if random.bool() { Duration::ZERO } else { self.max_delay.mul_f64(random.f64()) };
        Some((kept, delay))
    }

    fn work(&self, base: &Device) {
        while let Some((kept, delay)) = self.next() {
            if !delay.is_zero() {
                std::thread::sleep(delay);
            }
            let outcome = run(&kept, base);
            kept.promise().settle(&outcome);
            if let Err(error) = outcome {
                self.lose(&error);
            }
        }
    }

    fn lose(&self, error: &Error) {
        let Some(timelines) = &self.timelines else { return };
        let timelines = std::mem::take(&mut *timelines.lock().unwrap_or_else(PoisonError::into_inner));
        timelines.iter().for_each(|timeline| timeline.fail(error.clone()));
    }
}

fn run(kept: &KeptSubmission, base: &Device) -> Result<()> {
    // The memory was allocated when it was submitted.
    if let QueueOp::Alloca { .. } = kept.op() {
        return Ok(());
    }
    let scratch = Bump::new();
    let op = kept.op().rename(&mut StoredNames::new(kept.store(), &scratch))?;
    // The underlying device may complete it on threads of its own.
    let done = base.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::default())?;
    let signals = [done.at(1)];
    let submission =
        Submission { device: base, affinity: QUEUE_AFFINITY_ANY, waits: &[][..], signals: &signals[..], op };
    base.backend().submit(&submission)?;
    base.flush(QUEUE_AFFINITY_ANY)?;
    done.wait(1, None)
}

impl DeviceBackend for LateDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        self.base.backend().grant(params)
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        self.base.backend().allocate_buffer(params, size)
    }

    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer> {
        self.base.backend().import_buffer(params, memory)
    }

    fn create_semaphore(
        &self,
        affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        let semaphore = self.base.backend().create_semaphore(affinity, initial_value, flags)?;
        if let Some(timelines) = &self.queue.timelines {
            timelines.lock().unwrap_or_else(PoisonError::into_inner).push(semaphore.clone());
        }
        Ok(semaphore)
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        self.base.backend().create_command_buffer(params)
    }

    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let created = match &submission.op {
            QueueOp::Alloca { params, size, .. } => Some(self.allocate_buffer(*params, *size)?),
            _ => None,
        };
        self.pending.keep(submission, [0; 2], |_| true)?;
        Ok(created)
    }

    fn trim(&self) -> Result<()> {
        self.pending.fail_stranded();
        self.base.trim()
    }

    forward!();
}
