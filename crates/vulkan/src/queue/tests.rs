//! Faults that software drivers do not have by themselves, and a device that is gone.

#[path = "../../tests/validity/spinning.rs"]
mod spinning;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ash::vk;
use rehal_base::{Error, StatusCode};
use rehal_crash::DriverWork;
use rehal_hal::{
    Buffer, BufferParams, BufferRef, Device, Dispatch, Driver, Executable, ExecutableParams, KeptSubmission,
    Live, OptionSet, QUEUE_AFFINITY_ANY, QueueAffinity, Semaphore, SemaphoreFlags, Timeline,
};

use super::faults::Call;
use super::{Core, Frontier, OUTSTANDING_LIMIT, Origin, SPARE_BYTES};
use crate::device::core_of;
use crate::emulation::Emulation;
use crate::profile::sample_clock;
use crate::submission::TRANSFER_QUEUE;
use crate::{VulkanDriver, VulkanDriverOptions, VulkanOptions};

const OUT_OF_MEMORY: vk::Result = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// A device with a kernel that takes a while.
struct Fixture {
    device: Device,
    core: Arc<Core>,
    executable: Executable,
    buffer: Buffer,
}

impl Fixture {
    fn new(options: VulkanOptions) -> Self {
        Self::emulating(Emulation::default(), options)
    }

    /// A device with a second lane.
    fn with_transfer_lane() -> Self {
        let emulation = Emulation { has_transfer_family: true, ..Emulation::default() };
        Self::emulating(emulation, VulkanOptions::default())
    }

    fn emulating(emulation: Emulation, options: VulkanOptions) -> Self {
        let driver = Driver::new(VulkanDriver::emulating(VulkanDriverOptions::default(), emulation));
        let device = driver.create_device("", &OptionSet::default().with(options)).unwrap();
        let module = spinning::spinning().bytes();
        let params = ExecutableParams::new("vulkan-spirv-raw", &module);
        #[allow(unsafe_code, reason = "the test's kernel")]
        // SAFETY: it accesses only its binding.
        let executable = unsafe { device.backend().prepare_executable(&params) }.unwrap();
        let buffer = device.allocate_buffer(BufferParams::default(), 1024).unwrap();
        let fixture = Self { core: core_of(&device), device, executable, buffer };
        let done = fixture.semaphore();
        let queue = fixture.device.queue(QUEUE_AFFINITY_ANY);
        queue.signal(&[done.at(1)]).fill(&fixture.buffer, &[0], 0).unwrap();
        done.wait(1, LONG).unwrap();
        fixture
    }

    fn semaphore(&self) -> Semaphore {
        self.device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
    }

    /// Submits work that takes some hundred milliseconds, or much longer on devices that do not end loops.
    fn spin(&self, signals: &[&Semaphore]) {
        let bindings = [BufferRef::whole(&self.buffer)];
        let signals: Vec<_> = signals.iter().map(|it| it.at(1)).collect();
        let dispatch: Dispatch<Live<'_>> =
            Dispatch::new(&self.executable, 0, [100, 1, 1]).bindings(&bindings[..]);
        self.device.queue(QUEUE_AFFINITY_ANY).signal(&signals).dispatch(&dispatch).unwrap();
    }

    /// Holds up the first lane until the device is lost: what is submitted to it executes until then.
    fn block_until_lost(&self) -> thread::JoinHandle<()> {
        let (blocker, core) = (self.core.block_queue(), self.core.clone());
        thread::spawn(move || {
            while core.gpu().loss().is_none() {
                thread::yield_now();
            }
            drop(blocker);
        })
    }

    fn fill(&self, signal: &Semaphore) -> Result<(), Error> {
        self.fill_on(QUEUE_AFFINITY_ANY, signal)
    }

    fn fill_on(&self, affinity: QueueAffinity, signal: &Semaphore) -> Result<(), Error> {
        self.device.queue(affinity).signal(&[signal.at(1)]).fill(&self.buffer, &[1], 0)
    }
}

fn assert_lost_by_memory(error: &Error) {
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
    assert!(error.message().starts_with("the device is lost: "), "{error}");
    assert!(error.message().ends_with("memory"), "{error}");
}

/// The report of a crash of the driver's threads names it.
#[test]
fn work_in_flight_is_named_until_it_is_complete() {
    let last = || DriverWork::with_last(|text| String::from_utf8_lossy(text).into_owned());
    let fixture = Fixture::new(VulkanOptions::default());
    assert_eq!(last(), None, "fills have no kernel");
    let done = fixture.semaphore();
    let blocker = fixture.core.block_queue();
    fixture.spin(&[&done]);
    assert_eq!(last().as_deref(), Some("dispatch of 'spin'"));
    drop(blocker);
    done.wait(1, LONG).unwrap();
    fixture.core.settle();
    drop(fixture);
    assert_eq!(last(), None);
}

#[test]
fn a_failed_submission_waits_for_what_executes() {
    let fixture = Fixture::new(VulkanOptions::default());
    let (first, second) = (fixture.semaphore(), fixture.semaphore());
    let on_host = Semaphore::new(Timeline::new(0));
    let releaser = fixture.block_until_lost();
    fixture.spin(&[&first, &on_host]);
    assert_eq!(fixture.core.completed(), Frontier::at(0, 1), "the kernel executes");
    fixture.core.faults.inject(Call::Submit, OUT_OF_MEMORY);
    assert_lost_by_memory(&fixture.fill(&second).unwrap_err());
    releaser.join().unwrap();
    // The kernel's commands and memory are released now.
    assert_eq!(fixture.core.completed(), Frontier::at(0, 2));
    // What was complete has not failed.
    on_host.wait(1, LONG).unwrap();
    for semaphore in [&first, &second, &fixture.semaphore()] {
        assert_lost_by_memory(&semaphore.wait(2, LONG).unwrap_err());
    }
    assert_lost_by_memory(&fixture.fill(&second).unwrap_err());
}

#[test]
fn a_failed_transfer_waits_for_what_executes_on_the_other_lane() {
    let fixture = Fixture::with_transfer_lane();
    let (first, copied, second) = (fixture.semaphore(), fixture.semaphore(), fixture.semaphore());
    fixture.fill_on(TRANSFER_QUEUE, &copied).unwrap();
    copied.wait(1, LONG).unwrap();
    assert_eq!(fixture.core.completed().on(1), 1, "it executes on the second lane");
    let releaser = fixture.block_until_lost();
    fixture.spin(&[&first]);
    fixture.core.faults.inject(Call::Submit, OUT_OF_MEMORY);
    assert_lost_by_memory(&fixture.fill_on(TRANSFER_QUEUE, &second).unwrap_err());
    releaser.join().unwrap();
    assert_eq!((fixture.core.completed().on(0), fixture.core.completed().on(1)), (2, 1));
    for semaphore in [&first, &copied, &second] {
        assert_lost_by_memory(&semaphore.wait(2, LONG).unwrap_err());
    }
}

#[test]
fn a_thread_that_waits_for_collected_work_gets_its_failure() {
    let fixture = Fixture::new(VulkanOptions::default());
    let semaphores = [(); 3].map(|()| fixture.semaphore());
    let releaser = fixture.block_until_lost();
    // The third is collected, while two batches are in flight.
    semaphores.iter().for_each(|it| fixture.spin(&[it]));
    fixture.core.faults.inject(Call::Submit, OUT_OF_MEMORY);
    assert_lost_by_memory(&semaphores[2].wait(1, LONG).unwrap_err());
    releaser.join().unwrap();
    assert_eq!(fixture.core.completed(), Frontier::at(0, 3));
    assert!(fixture.core.wait(&Frontier::at(0, 4), None), "what is never submitted is not waited for");
}

/// A thread may have passed the check for a lost device before the other lane failed.
#[test]
fn work_that_needs_what_another_lane_has_rejected_fails() {
    let fixture = Fixture::with_transfer_lane();
    let releaser = fixture.block_until_lost();
    let semaphores = [(); 3].map(|()| fixture.semaphore());
    fixture.fill_on(TRANSFER_QUEUE, &semaphores[0]).unwrap();
    fixture.fill_on(TRANSFER_QUEUE, &semaphores[1]).unwrap();
    fixture.core.faults.inject(Call::Submit, OUT_OF_MEMORY);
    // It is collected. The device's own thread may submit it first.
    let _ = fixture.fill_on(TRANSFER_QUEUE, &semaphores[2]);
    let _ = fixture.core.flush();
    releaser.join().unwrap();
    let (sender, receiver) = mpsc::channel();
    let core = fixture.core.clone();
    thread::spawn(move || {
        let mut state = core.state.lock();
        let added = core.add(&mut state, &Frontier::at(1, 3), 0, vk::CommandBuffer::null());
        drop(state);
        sender.send(added).unwrap();
    });
    let Ok(added) = receiver.recv_timeout(Duration::from_secs(20)) else {
        // Releasing the device needs the lock that the thread holds.
        std::mem::forget(fixture);
        panic!("the thread waits for what is never submitted");
    };
    assert_lost_by_memory(&added.unwrap_err());
}

#[test]
fn a_failure_to_read_progress_waits_for_what_executes() {
    for call in [Call::Poll, Call::Wait] {
        let fixture = Fixture::new(VulkanOptions::default());
        let semaphore = fixture.semaphore();
        fixture.core.faults.inject(call, vk::Result::ERROR_OUT_OF_HOST_MEMORY);
        fixture.spin(&[&semaphore]);
        // The kernel is complete before the semaphore fails, which may be seen in between.
        assert_lost_by_memory(&semaphore.wait(2, LONG).unwrap_err());
        assert_eq!(fixture.core.completed(), Frontier::at(0, 2), "{call:?}");
        assert!(!fixture.core.gpu().is_stuck());
    }
}

#[test]
fn nothing_is_destroyed_if_the_device_cannot_be_waited_for() {
    let fixture = Fixture::new(VulkanOptions::default());
    let (first, second) = (fixture.semaphore(), fixture.semaphore());
    fixture.spin(&[&first]);
    for _ in 0..200 {
        fixture.core.faults.inject(Call::Wait, OUT_OF_MEMORY);
    }
    fixture.core.faults.inject(Call::Submit, OUT_OF_MEMORY);
    assert_lost_by_memory(&fixture.fill(&second).unwrap_err());
    // The device's own thread may have lost it first, and still tries.
    assert_lost_by_memory(&first.wait(2, LONG).unwrap_err());
    assert!(fixture.core.gpu().is_stuck());
}

#[test]
fn a_device_that_vulkan_lost_is_not_waited_for() {
    let fixture = Fixture::new(VulkanOptions::default());
    let semaphore = fixture.semaphore();
    fixture.core.faults.inject(Call::Submit, vk::Result::ERROR_DEVICE_LOST);
    let error = fixture.fill(&semaphore).unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (StatusCode::Internal, "submitting to a queue: the device is lost")
    );
    assert_eq!(semaphore.wait(1, LONG).unwrap_err().message(), error.message());
}

#[test]
fn progress_beyond_what_was_submitted_is_a_lost_device() {
    for value in [2, u64::MAX] {
        let fixture = Fixture::new(VulkanOptions::default());
        let semaphore = fixture.semaphore();
        assert_eq!(fixture.core.completed(), Frontier::at(0, 1));
        fixture.core.faults.inject_counter(value);
        fixture.core.settle();
        let error = fixture.core.gpu().loss().expect("the device is lost");
        assert_eq!(error.message(), "reading the progress of a queue: the device is lost");
        assert_eq!(fixture.core.completed(), Frontier::at(0, 1));
        assert!(fixture.fill(&semaphore).is_err() && semaphore.wait(1, LONG).is_err());
    }
}

#[test]
fn a_released_device_takes_no_work() {
    let Fixture { device, core, executable, buffer } = Fixture::new(VulkanOptions::default());
    drop((device, executable, buffer));
    let error =
        core.issue(Box::new(KeptSubmission::empty()), Frontier::at(0, 1), None, Origin::Program).unwrap_err();
    assert_eq!(error.code(), StatusCode::Aborted, "{error}");
    assert!(core.state.lock().entries.is_empty());
}

#[test]
fn outstanding_submissions_are_limited() {
    let fixture = Fixture::new(VulkanOptions::default());
    let timeline = fixture.semaphore();
    let blocker = fixture.core.block_queue();
    let queue = fixture.device.queue(QUEUE_AFFINITY_ANY);
    let mut most = 0;
    for value in 0..3000 {
        let (waits, signals) = ([timeline.at(value)], [timeline.at(value + 1)]);
        queue.wait(&waits).signal(&signals).fill(&fixture.buffer, &[1], 0).unwrap();
        most = most.max(fixture.core.state.lock().executing);
    }
    assert!((OUTSTANDING_LIMIT / 2..=OUTSTANDING_LIMIT).contains(&most), "{most}");
    drop(blocker);
    timeline.wait(3000, LONG).unwrap();
}

/// Executing work may wait for the thread that submits: that thread never waits for executing work.
#[test]
fn a_thread_that_submits_is_not_blocked_by_what_executes() {
    let fixture = Fixture::new(VulkanOptions::default());
    let (busy, timeline, rest) = (fixture.semaphore(), fixture.semaphore(), fixture.semaphore());
    let blocker = fixture.core.block_queue();
    fixture.fill(&busy).unwrap();
    let queue = fixture.device.queue(QUEUE_AFFINITY_ANY);
    let count = 2 * OUTSTANDING_LIMIT as u64 + 100;
    for value in 0..count {
        let (waits, signals) = ([timeline.at(value)], [timeline.at(value + 1)]);
        queue.wait(&waits).signal(&signals).fill(&fixture.buffer, &[1], 0).unwrap();
        // Without waits, too.
        queue.signal(&[rest.at(value + 1)]).fill(&fixture.buffer, &[2], 0).unwrap();
    }
    let state = fixture.core.state.lock();
    let (executing, kept) = (state.executing, state.backlog.len());
    drop(state);
    assert!(busy.query().unwrap() == 0, "nothing has executed");
    assert!(executing <= OUTSTANDING_LIMIT && kept > 0, "{executing} {kept}");
    // The host is never held up by barriers that wait for nothing.
    let free = fixture.semaphore();
    queue.signal(&[free.at(1)]).barrier(0).unwrap();
    free.wait(1, LONG).unwrap();
    drop(blocker);
    timeline.wait(count, LONG).unwrap();
    rest.wait(count, LONG).unwrap();
    let state = fixture.core.state.lock();
    assert!(state.backlog.is_empty());
}

#[test]
fn what_is_kept_fails_with_the_device_and_completes_when_it_is_released() {
    for is_lost in [true, false] {
        let fixture = Fixture::new(VulkanOptions::default());
        let done = fixture.semaphore();
        let (blocker, core) = (fixture.core.block_queue(), fixture.core.clone());
        let queue = fixture.device.queue(QUEUE_AFFINITY_ANY);
        let count = OUTSTANDING_LIMIT as u64 + 10;
        for value in 0..count {
            queue.signal(&[done.at(value + 1)]).fill(&fixture.buffer, &[2], 0).unwrap();
        }
        assert!(fixture.core.has_backlog());
        let releaser = thread::spawn(move || {
            while core.gpu().loss().is_none() && !core.state.lock().is_closed {
                thread::yield_now();
            }
            drop(blocker);
        });
        if is_lost {
            fixture.core.lose(Error::new(StatusCode::Aborted, "a test"));
            assert_eq!(done.wait(count, LONG).unwrap_err().code(), StatusCode::Aborted);
        } else {
            drop(fixture);
            done.wait(count, LONG).unwrap();
        }
        releaser.join().unwrap();
    }
}

/// Entries may all be settled while those that were kept are still to be issued: these have a timeout, too.
#[test]
fn the_watchdog_outlives_what_is_kept_when_the_device_is_released() {
    let fixture = Fixture::new(VulkanOptions::default());
    let mut state = fixture.core.state.lock();
    assert!(state.is_done());
    (state.is_issuing, state.is_closed) = (true, true);
    drop(state);
    let core = fixture.core.clone();
    let watchdog = thread::spawn(move || core.guard(Duration::from_secs(60)));
    // It waits, so that it has looked.
    while !fixture.core.closed.notify_one() {
        assert!(!watchdog.is_finished());
        thread::yield_now();
    }
    fixture.core.state.lock().is_issuing = false;
    watchdog.join().unwrap();
}

#[test]
fn a_callback_may_release_a_device_with_a_watchdog_while_it_executes() {
    let timeout = Some(Duration::from_secs(60));
    let fixture = Fixture::new(VulkanOptions { timeout, ..VulkanOptions::default() });
    let (released, busy) = (fixture.semaphore(), fixture.semaphore());
    let (sender, receiver) = mpsc::channel::<Device>();
    let queue = fixture.device.queue(QUEUE_AFFINITY_ANY);
    // No thread waits for it, so that the device's own runs it.
    let release = move |_| drop(receiver.recv_timeout(Duration::from_secs(60)).unwrap());
    released.on_reached(1, Box::new(release)).detach();
    queue.signal(&[released.at(1)]).fill(&fixture.buffer, &[0], 0).unwrap();
    fixture.spin(&[&busy]);
    let Fixture { device, core, executable, buffer } = fixture;
    drop((core, executable, buffer));
    sender.send(device).unwrap();
    // Its own thread settles it, and no other.
    let (done, outcome) = mpsc::channel();
    busy.on_reached(1, Box::new(move |reached| done.send(reached).unwrap())).detach();
    outcome.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
}

/// A device whose clock is read by a timestamp of its queue.
fn without_calibrated_clock(has_no_features: bool) -> Fixture {
    let missing_extensions = &["VK_EXT_calibrated_timestamps"];
    let emulation = Emulation { missing_extensions, has_no_features, ..Emulation::default() };
    Fixture::emulating(emulation, VulkanOptions::default())
}

#[test]
fn clocks_are_read_by_timestamps_that_host_or_commands_reset() {
    for has_no_features in [false, true] {
        let fixture = without_calibrated_clock(has_no_features);
        assert_eq!(fixture.core.gpu().resets_queries(), !has_no_features);
        let [first, second] = [(); 2].map(|()| sample_clock(&fixture.core, None).unwrap().unwrap());
        assert!(0 < first.device_tick && first.device_tick < second.device_tick, "{first:?} {second:?}");
        assert!(first.host_before_ns < first.host_after_ns && first.host_after_ns < second.host_before_ns);
    }
}

#[test]
fn a_calibrated_clock_is_never_exact() {
    let fixture = Fixture::emulating(Emulation::default(), VulkanOptions::default());
    assert!(fixture.core.gpu().clock().is_some(), "the software driver has the extension");
    let sample = sample_clock(&fixture.core, None).unwrap().unwrap();
    assert!(sample.host_before_ns < sample.host_after_ns, "{sample:?}");
}

/// Nor does the thread that samples clocks of a running program wait for what executes.
#[test]
fn a_timestamp_that_waits_for_work_is_not_a_sample() {
    let fixture = without_calibrated_clock(false);
    let sample = |longest| sample_clock(&fixture.core, Some(longest)).unwrap();
    let blocker = fixture.core.block_queue();
    assert_eq!(sample(Duration::from_millis(1)), None);
    // Another is not issued behind it.
    let issued = || fixture.core.state.lock().entries.len();
    let before = issued();
    (0..10).for_each(|_| assert_eq!(sample(Duration::from_millis(1)), None));
    assert!(issued() <= before, "{} after {before}", issued());
    drop(blocker);
    // The late one is complete, and the next may be taken.
    let found = std::iter::repeat_with(|| sample(Duration::from_secs(60))).flatten().next().unwrap();
    assert!(found.device_tick > 0 && found.host_before_ns < found.host_after_ns, "{found:?}");
}

#[test]
fn a_clock_that_another_thread_settles_is_waited_for() {
    let fixture = without_calibrated_clock(false);
    let (core, (sender, receiver)) = (fixture.core.clone(), mpsc::channel());
    let other = thread::spawn(move || {
        core.settling.lock().owner = Some(thread::current().id());
        sender.send(()).unwrap();
        while core.state.lock().tracks.submitted().on(0) < 2 {
            thread::yield_now();
        }
        assert!(core.wait(&Frontier::at(0, 2), LONG));
        core.settle();
        core.settling.lock().owner = None;
        core.settle();
    });
    receiver.recv().unwrap();
    let sample = sample_clock(&fixture.core, None).unwrap().unwrap();
    assert_ne!(sample.device_tick, 0);
    other.join().unwrap();
}

/// The device's own thread may be waiting for a lane that is busy for long when another gets work.
#[test]
fn callbacks_of_a_lane_do_not_wait_for_another() {
    let fixture = Fixture::with_transfer_lane();
    let core = &fixture.core;
    let blocker = core.block_lane(0);
    let needs = Frontier::at(0, blocker.position);
    core.issue(Box::new(KeptSubmission::empty()), needs, None, Origin::Program).unwrap();
    core.demand();
    while core.state.lock().watched != Some(needs) {
        thread::yield_now();
    }
    // Several times: it waits for both lanes then, and again for the first.
    for _ in 0..3 {
        let (filled, (sender, receiver)) = (fixture.semaphore(), mpsc::channel());
        filled.on_reached(1, Box::new(move |reached| sender.send(reached).unwrap())).detach();
        fixture.fill_on(TRANSFER_QUEUE, &filled).unwrap();
        receiver.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
    }
    assert_eq!(core.completed().on(0), blocker.position - 1);
}

#[test]
fn the_memory_of_large_submissions_is_not_kept() {
    let fixture = Fixture::new(VulkanOptions::default());
    let buffer = fixture.device.allocate_buffer(BufferParams::default(), 8 << 20).unwrap();
    let (queue, done) = (fixture.device.queue(QUEUE_AFFINITY_ANY), fixture.semaphore());
    for (value, size) in (0..).zip([16, 8 << 20, 64, 8 << 20]) {
        queue
            .signal(&[done.at(value + 1)])
            .update(&vec![1; size], BufferRef::range(&buffer, 0, size as u64), 0)
            .unwrap();
        done.wait(value + 1, LONG).unwrap();
    }
    let spare = || fixture.core.spare.lock().iter().map(|it| it.store().capacity_bytes()).collect::<Vec<_>>();
    assert!(spare().iter().all(|bytes| *bytes <= SPARE_BYTES), "{:?}", spare());
    fixture.device.trim().unwrap();
    assert!(spare().is_empty());
}
