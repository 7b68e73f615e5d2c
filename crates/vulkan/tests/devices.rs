//! The behaviour of a Vulkan device beyond the conformance suite: faults, profiles, and memory that runs out.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../formats/tests/vulkan/assembler.rs"]
mod assembler;
#[path = "validity/spinning.rs"]
mod spinning;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use assembler::Module;
use rehal_base::{Result, StatusCode};
use rehal_hal::profile::{
    ClockSample, DeviceQueueEvent, DispatchEvent, MemoryEvent, ProfileData, ProfileFilter, ProfileRequest,
    ProfileSink, ProfiledCommand, QueueOpKind, now_ns,
};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, BufferUsage, Command, CommandBufferParams, CommandCategories, Device,
    Dispatch, Driver, Executable, ExecutableParams, FunctionInfo, HostFile, Live, MemoryAccess, MemoryType,
    OptionSet, QUEUE_AFFINITY_ANY, Queue, Semaphore, SemaphoreFlags, WorkgroupCount,
};
use rehal_vulkan::emulation::{EmulatedMemory, Emulation, TestClock};
use rehal_vulkan::{DebugMessage, VulkanDriver, VulkanDriverOptions, VulkanOptions};
use spinning::{announced, spinning};
use spirv::{ExecutionMode, ExecutionModel, Op, StorageClass};

fn device(options: VulkanOptions) -> Device {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| Driver::new(VulkanDriver::default()));
    driver.create_device("", &OptionSet::default().with(options)).unwrap()
}

/// A device whose calls the validation layer checks, and the messages of the layer.
fn validated(emulation: Emulation, options: VulkanOptions) -> (Device, Arc<Mutex<Vec<String>>>) {
    let messages = Arc::<Mutex<Vec<String>>>::default();
    let sink = messages.clone();
    let mut of_driver = VulkanDriverOptions::default();
    of_driver.validation = true;
    of_driver.messages =
        Some(Arc::new(move |message: &DebugMessage| sink.lock().unwrap().push(message.text.clone())));
    let driver = Driver::new(VulkanDriver::emulating(of_driver, emulation));
    (driver.create_device("", &OptionSet::default().with(options)).unwrap(), messages)
}

fn semaphore(device: &Device) -> Semaphore {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
}

fn prepare(device: &Device, format: &str, data: &[u8]) -> Executable {
    try_prepare(device, format, data).unwrap()
}

fn try_prepare(device: &Device, format: &str, data: &[u8]) -> Result<Executable> {
    let params = ExecutableParams::new(format, data);
    #[allow(unsafe_code, reason = "kernels of this test, and fixtures")]
    // SAFETY: they access only their bindings.
    let prepared = unsafe { device.backend().prepare_executable(&params) };
    prepared
}

fn words(device: &Device, count: u64) -> Buffer {
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_PERSISTENT | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    let buffer = device.allocate_buffer(params, 4 * count).unwrap();
    buffer.write(0, &vec![0; 4 * count as usize]).unwrap();
    buffer
}

fn dispatch<'a>(executable: &'a Executable, bindings: &'a [BufferRef<&'a Buffer>]) -> Dispatch<Live<'a>> {
    Dispatch::new(executable, 0, [1; 3]).bindings(bindings)
}

/// Workgroups of a dispatch that outlasts its test unless the host ends it: about 500 s on two cores with
/// llvmpipe.
const ENDLESS: [u32; 3] = [60_000, 20, 1];

fn spin<'a>(
    executable: &'a Executable,
    bindings: &'a [BufferRef<&'a Buffer>],
    workgroups: [u32; 3],
) -> Dispatch<Live<'a>> {
    Dispatch::new(executable, 0, workgroups).bindings(bindings)
}

/// Options with a timeout.
fn with_timeout() -> VulkanOptions {
    let mut options = VulkanOptions::default();
    options.timeout = Some(Duration::from_secs(1));
    options
}

/// A device with a timeout and a clock that is stopped.
fn guarded(emulation: Emulation) -> (Device, TestClock) {
    let clock = TestClock::default();
    let emulation = Emulation { clock: Some(clock.clone()), ..emulation };
    let driver = Driver::new(VulkanDriver::emulating(VulkanDriverOptions::default(), emulation));
    (driver.create_device("", &OptionSet::default().with(with_timeout())).unwrap(), clock)
}

#[test]
fn a_kernel_that_does_not_end_fails_the_timelines() {
    // The device's clock is read by the queue.
    let missing_extensions = &["VK_EXT_calibrated_timestamps"];
    let (device, clock) = guarded(Emulation { missing_extensions, ..Emulation::default() });
    let executable = prepare(&device, "vulkan-spirv-raw", &spinning().bytes());
    let buffer = words(&device, 4);
    let mapping = buffer.map_persistent(MemoryAccess::WRITE, 0, 4).unwrap();
    let (done, after, idle) = (semaphore(&device), semaphore(&device), semaphore(&device));
    let bindings = [BufferRef::whole(&buffer)];
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[done.at(1)]).dispatch(&spin(&executable, &bindings, ENDLESS)).unwrap();
    queue.wait(&[done.at(1)]).signal(&[after.at(1)]).barrier(0).unwrap();
    clock.run();
    for semaphore in [&done, &after, &idle] {
        let error = semaphore.wait(1, Some(Duration::from_secs(60))).unwrap_err();
        assert_eq!(error.code(), StatusCode::DeadlineExceeded, "{error}");
        assert!(error.message().contains("dispatch of 'spin'"), "{error}");
    }
    assert_eq!(semaphore(&device).query().unwrap_err().code(), StatusCode::DeadlineExceeded);
    let error = queue.signal(&[after.at(2)]).fill(&buffer, &[1], 0).unwrap_err();
    assert!(error.message().contains("makes no progress"), "{error}");
    // The second time, the first session would still be open.
    for _ in 0..2 {
        let (data, filter) = (ProfileData::DEVICE_QUEUE_EVENTS, ProfileFilter::default());
        let request = ProfileRequest { data, filter, counters: Vec::new(), sink: Arc::new(Sink::default()) };
        let error = device.begin_profiling(&request).unwrap_err();
        assert!(error.message().contains("makes no progress"), "{error}");
    }
    // The kernel ends, so that the process can.
    mapping.write(0, &[1]).unwrap();
    mapping.flush(0, 4).unwrap();
}

/// Submits a command buffer of four dispatches of which the third takes too long, and returns the watchdog's
/// message.
fn message_of_the_watchdog(emulation: Emulation) -> String {
    let clock = TestClock::default();
    let emulation = Emulation { clock: Some(clock.clone()), ..emulation };
    let (device, messages) = validated(emulation, with_timeout());
    let executable = prepare(&device, "vulkan-spirv-raw", &announced().bytes());
    let flag = words(&device, 4);
    let mapping = flag.map_persistent(MemoryAccess::READ | MemoryAccess::WRITE, 0, 8).unwrap();
    let params = BufferParams {
        usage: BufferParams::default().usage
            | BufferUsage::DISPATCH_INDIRECT_PARAMETERS
            | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    let count = device.allocate_buffer(params, 12).unwrap();
    let set_count = |it: [u32; 3]| count.write(0, &it.map(u32::to_le_bytes).concat()).unwrap();
    let bindings = [BufferRef::whole(&flag)];
    let commands = device
        .create_command_buffer(CommandBufferParams {
            categories: CommandCategories::DISPATCH,
            ..CommandBufferParams::default()
        })
        .unwrap();
    commands.begin().unwrap();
    let indirect = WorkgroupCount::Indirect(BufferRef::whole(&count));
    for workgroup_count in [WorkgroupCount::Static([1; 3]), WorkgroupCount::Static([1; 3]), indirect] {
        let dispatch = Dispatch { workgroup_count, ..dispatch(&executable, &bindings) };
        commands.record(&Command::Dispatch(dispatch)).unwrap();
    }
    commands.record(&Command::Dispatch(spin(&executable, &bindings, [1; 3]))).unwrap();
    commands.end().unwrap();
    let (queue, first, second) = (device.queue(QUEUE_AFFINITY_ANY), semaphore(&device), semaphore(&device));
    // Executed before, so that there are marks of an earlier submission.
    set_count([1; 3]);
    queue.signal(&[first.at(1)]).execute(&commands, &[], 0).unwrap();
    first.wait(1, Some(Duration::from_secs(60))).unwrap();
    set_count(ENDLESS);
    queue.signal(&[second.at(1)]).execute(&commands, &[], 0).unwrap();
    // Six dispatches of one workgroup of 8 invocations precede the one that does not end.
    let begun = || u32::from_le_bytes(mapping.source().unwrap().load(4).unwrap());
    while begun() <= 6 * 8 {
        std::thread::yield_now();
        mapping.invalidate(4, 4).unwrap();
    }
    clock.run();
    let error = second.wait(1, Some(Duration::from_secs(60))).unwrap_err();
    assert_eq!(error.code(), StatusCode::DeadlineExceeded, "{error}");
    assert_eq!(*messages.lock().unwrap(), [""; 0], "of the validation layer");
    mapping.write(0, &[1]).unwrap();
    mapping.flush(0, 4).unwrap();
    error.message().to_string()
}

#[test]
fn a_watchdog_names_the_dispatch_that_does_not_end() {
    let message = message_of_the_watchdog(Emulation::default());
    assert!(message.ends_with(": dispatch of 'spin', dispatch 3 of 4 of a command buffer"), "{message}");
    // Devices without events do not tell.
    let message = message_of_the_watchdog(Emulation { has_no_events: true, ..Emulation::default() });
    assert!(
        message.ends_with(": a command buffer with one of dispatches of 'spin', 'spin', 'spin', 'spin'"),
        "{message}"
    );
}

#[test]
fn a_kernel_that_ends_in_time_is_not_late() {
    let (device, clock) = guarded(Emulation::default());
    let executable = prepare(&device, "vulkan-spirv-raw", &spinning().bytes());
    let buffer = words(&device, 4);
    let mapping = buffer.map_persistent(MemoryAccess::WRITE, 0, 4).unwrap();
    let done = semaphore(&device);
    let bindings = [BufferRef::whole(&buffer)];
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[done.at(1)]).dispatch(&spin(&executable, &bindings, ENDLESS)).unwrap();
    // Less than the timeout.
    clock.advance(900);
    let late = done.wait(1, Some(Duration::from_millis(1))).unwrap_err();
    assert_eq!(late.code(), StatusCode::DeadlineExceeded);
    assert!(late.message().contains("timed out waiting"), "the wait, not the device: {late}");
    mapping.write(0, &[1]).unwrap();
    mapping.flush(0, 4).unwrap();
    done.wait(1, Some(Duration::from_secs(60))).unwrap();
}

#[test]
fn a_kernel_sees_what_the_host_writes_while_it_executes() {
    let device = device(VulkanOptions::default());
    let executable = prepare(&device, "vulkan-spirv-raw", &spinning().bytes());
    let buffer = words(&device, 4);
    let mapping = buffer.map_persistent(MemoryAccess::WRITE, 0, 4).unwrap();
    let done = semaphore(&device);
    let bindings = [BufferRef::whole(&buffer)];
    // If it does not see the word, these take many minutes.
    let endless = spin(&executable, &bindings, ENDLESS);
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).dispatch(&endless).unwrap();
    let late = done.wait(1, Some(Duration::from_millis(1))).unwrap_err();
    assert_eq!(late.code(), StatusCode::DeadlineExceeded);
    mapping.write(0, &[1]).unwrap();
    mapping.flush(0, 4).unwrap();
    done.wait(1, Some(Duration::from_secs(120))).unwrap();
}

/// Submits a fill that signals `blocked`, and blocks the thread that runs its callback, until the result is
/// used or dropped.
fn block_callbacks(queue: &Queue<'_>, blocked: &Semaphore, buffer: &Buffer) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (enter, entered) = mpsc::channel();
    let block = move |_| {
        enter.send(()).unwrap();
        let _ = released.recv_timeout(Duration::from_secs(60));
    };
    blocked.on_reached(1, Box::new(block)).detach();
    queue.signal(&[blocked.at(1)]).fill(buffer, &[0], 0).unwrap();
    entered.recv_timeout(Duration::from_secs(60)).unwrap();
    release
}

#[test]
fn a_callback_that_blocks_does_not_stop_the_watchdog() {
    let (device, clock) = guarded(Emulation::default());
    let executable = prepare(&device, "vulkan-spirv-raw", &spinning().bytes());
    let buffer = words(&device, 4);
    let mapping = buffer.map_persistent(MemoryAccess::WRITE, 0, 4).unwrap();
    let (blocked, hangs) = (semaphore(&device), semaphore(&device));
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let release = block_callbacks(&queue, &blocked, &buffer);
    let (sender, receiver) = mpsc::channel();
    hangs.on_reached(1, Box::new(move |outcome| sender.send(outcome).unwrap())).detach();
    let bindings = [BufferRef::whole(&buffer)];
    queue.signal(&[hangs.at(1)]).dispatch(&spin(&executable, &bindings, ENDLESS)).unwrap();
    clock.run();
    let error = receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap_err();
    assert!(error.message().ends_with("dispatch of 'spin'"), "{error}");
    release.send(()).unwrap();
    mapping.write(0, &[1]).unwrap();
    mapping.flush(0, 4).unwrap();
}

#[test]
fn a_callback_that_panics_affects_no_other() {
    let device = device(VulkanOptions::default());
    let executable = prepare(&device, "vulkan-spirv-raw", &spinning().bytes());
    let buffer = words(&device, 4);
    let bindings = [BufferRef::whole(&buffer)];
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let (sender, receiver) = mpsc::channel();
    // No thread waits, so that the device's own runs the callbacks.
    for _ in 0..2 {
        let (panics, other) = (semaphore(&device), semaphore(&device));
        panics.on_reached(1, Box::new(|_| panic!("a callback of the test"))).detach();
        let sender = sender.clone();
        other.on_reached(1, Box::new(move |outcome| sender.send(outcome).unwrap())).detach();
        queue
            .signal(&[panics.at(1), other.at(1)])
            .dispatch(&spin(&executable, &bindings, [20, 1, 1]))
            .unwrap();
        receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    }
}

#[test]
fn callbacks_see_all_signals_in_order() {
    let device = device(VulkanOptions::default());
    let buffer = words(&device, 4);
    let (first, second) = (semaphore(&device), semaphore(&device));
    let (sender, receiver) = mpsc::channel();
    let other = second.clone();
    let see = move |_| {
        let waited = other.wait(1, Some(Duration::from_secs(60)));
        sender.send(waited.and_then(|()| other.query())).unwrap();
    };
    first.on_reached(1, Box::new(see)).detach();
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[first.at(1), second.at(1)]).fill(&buffer, &[1], 0).unwrap();
    queue.wait(&[second.at(1)]).signal(&[second.at(2)]).barrier(0).unwrap();
    second.wait(2, Some(Duration::from_secs(60))).unwrap();
    assert!(receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap() >= 1);
    assert_eq!(second.query().unwrap(), 2);
}

#[test]
fn a_callback_that_blocks_delays_no_thread_that_waits() {
    let device = device(VulkanOptions::default());
    let buffer = words(&device, 4);
    let (blocked, other) = (semaphore(&device), semaphore(&device));
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let release = block_callbacks(&queue, &blocked, &buffer);
    queue.signal(&[other.at(1)]).fill(&buffer, &[1], 0).unwrap();
    other.wait(1, Some(Duration::from_secs(20))).unwrap();
    release.send(()).unwrap();
}

#[test]
fn exhausted_memory_is_an_error_and_is_returned() {
    let device = device(VulkanOptions::default());
    const SIZE: u64 = 512 << 20;
    // No heap of a device that runs tests has more.
    let mut held = Vec::new();
    let error = loop {
        match device.allocate_buffer(BufferParams::default(), SIZE) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error,
        }
        assert!(held.len() < 1 << 12);
    };
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
    let done = semaphore(&device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let allocated = queue.signal(&[done.at(1)]).alloca(BufferParams::default(), SIZE, 0);
    assert_eq!(allocated.unwrap_err().code(), StatusCode::ResourceExhausted);
    assert_eq!(done.query().unwrap_err().code(), StatusCode::ResourceExhausted);
    let count = held.len();
    drop(held);
    let again: Vec<_> =
        (0..count).map(|_| device.allocate_buffer(BufferParams::default(), SIZE).unwrap()).collect();
    assert_eq!(again.len(), count);
}

/// Programs use more than Mesa says that its heap has, and the reference lets them.
#[test]
fn a_software_driver_allocates_memory_of_the_machine() {
    let device = device(VulkanOptions::default());
    let held: Vec<_> =
        (0..5).map(|_| device.allocate_buffer(BufferParams::default(), 512 << 20).unwrap()).collect();
    assert!(held.iter().map(Buffer::size).sum::<u64>() > 2 << 30);
}

#[test]
fn freed_transient_memory_is_reused_in_queue_order() {
    let device = device(VulkanOptions::default());
    let timeline = semaphore(&device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    // Hundreds are outstanding at a time; together they would exceed any heap.
    for cycle in 0..4096 {
        let points: Vec<_> = (3 * cycle..3 * cycle + 4).map(|value| timeline.at(value)).collect();
        let buffer = queue
            .wait(&points[..1])
            .signal(&points[1..2])
            .alloca(BufferParams::default(), 64 << 20, 0)
            .unwrap();
        let start = BufferRef::range(&buffer, 0, 64);
        queue.wait(&points[1..2]).signal(&points[2..3]).fill(start, &[1], 0).unwrap();
        queue.wait(&points[2..3]).signal(&points[3..4]).dealloca(&buffer, 0).unwrap();
    }
    timeline.wait(3 * 4096, Some(Duration::from_secs(100))).unwrap();
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn outstanding_reads_of_files_share_few_threads() {
    let mut options = VulkanOptions::default();
    // So that files are staged.
    options.maps_device_memory = false;
    let device = device(options);
    let executable = prepare(&device, "vulkan-spirv-raw", &spinning().bytes());
    let (flag, size) = (words(&device, 4), 1 << 20);
    let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    let file = HostFile::from_bytes(&bytes).unwrap();
    let file = device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, file).unwrap();
    let target = device.allocate_buffer(BufferParams::default(), size).unwrap();
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    // The device is busy meanwhile.
    let (before, busy) = (threads(), semaphore(&device));
    let bindings = [BufferRef::whole(&flag)];
    queue.signal(&[busy.at(1)]).dispatch(&spin(&executable, &bindings, [100, 1, 1])).unwrap();
    let done: Vec<_> = (0..200).map(|_| semaphore(&device)).collect();
    let mut most = 0;
    for done in &done {
        queue.signal(&[done.at(1)]).read(&file, 0, &target, 0).unwrap();
        most = most.max(threads());
    }
    // llvmpipe has threads of its own.
    assert!(most <= before + 32, "{most} threads, {before} before");
    for done in &done {
        done.wait(1, Some(Duration::from_secs(120))).unwrap();
    }
    let (readable, copied) = (words(&device, size / 4), semaphore(&device));
    queue.signal(&[copied.at(1)]).copy(&target, &readable, 0).unwrap();
    copied.wait(1, Some(Duration::from_secs(60))).unwrap();
    let mut read = vec![0; size as usize];
    readable.read(0, &mut read).unwrap();
    assert!(read == bytes);
}

#[test]
fn kernels_and_commands_of_another_device_are_refused() {
    let [mine, other] = [(); 2].map(|()| device(VulkanOptions::default()));
    let executable = prepare(&other, "vulkan-spirv-raw", &spinning().bytes());
    let (here, there) = (words(&mine, 4), words(&other, 4));
    let queue = mine.queue(QUEUE_AFFINITY_ANY);
    let params =
        CommandBufferParams { categories: CommandCategories::TRANSFER, ..CommandBufferParams::default() };
    let commands = other.create_command_buffer(params).unwrap();
    commands.begin().unwrap();
    let target = BufferRef::whole(&there);
    commands.record(&Command::Fill { target, pattern: &[1], flags: 0 }).unwrap();
    commands.end().unwrap();
    for outcome in
        [queue.dispatch(&dispatch(&executable, &[BufferRef::whole(&here)])), queue.execute(&commands, &[], 0)]
    {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument, "{error}");
        assert!(error.message().contains("another"), "{error}");
    }
}

#[test]
fn a_device_of_several_drivers_has_a_path_for_each() {
    let emulation = Emulation { other_drivers: 1, ..Emulation::default() };
    let driver = Driver::new(VulkanDriver::emulating(VulkanDriverOptions::default(), emulation));
    let devices = driver.enumerate().unwrap();
    let [first, second, ..] = devices.as_slice() else { panic!("{} devices", devices.len()) };
    assert_eq!(first.identifier, second.identifier);
    for (index, device) in devices.iter().enumerate() {
        let by_index = driver.resolve(&index.to_string()).unwrap();
        assert_eq!(by_index, device.path);
        // It is the path of no other.
        assert_eq!(devices.iter().filter(|other| other.path == by_index).count(), 1, "{by_index}");
        assert!(by_index.starts_with(first.identifier.as_deref().unwrap()), "{by_index}");
        driver.create_device(&by_index, &OptionSet::default()).unwrap();
    }
    // The UUID alone is that of the first.
    assert_eq!(driver.resolve(first.identifier.as_deref().unwrap()).unwrap(), first.path);
}

/// Two devices use a buffer of the second.
fn share([mine, other]: &[Device; 2]) {
    let (here, there) = (words(mine, 4), words(other, 4));
    let done = semaphore(mine);
    let (mine, other) = (mine.queue(QUEUE_AFFINITY_ANY), other.queue(QUEUE_AFFINITY_ANY));
    mine.signal(&[done.at(1)]).fill(&there, &[7], 0).unwrap();
    // The other device waits for a timeline of the first.
    other.wait(&[done.at(1)]).signal(&[done.at(2)]).copy(&there, &here, 0).unwrap();
    mine.wait(&[done.at(2)])
        .signal(&[done.at(3)])
        .update(&[9; 4], BufferRef::range(&there, 4, 4), 0)
        .unwrap();
    done.wait(3, Some(Duration::from_secs(60))).unwrap();
    let bytes = |buffer| rehal_hal::transfer::to_vec(buffer, 0, 16).unwrap();
    assert_eq!(bytes(&here), [7; 16]);
    assert_eq!(bytes(&there), [[7; 4], [9; 4], [7; 4], [7; 4]].concat());
    mine.signal(&[done.at(4)]).dealloca(&there, 0).unwrap();
    done.wait(4, Some(Duration::from_secs(60))).unwrap();
    assert_eq!(mine.fill(&there, &[1], 0).unwrap_err().code(), StatusCode::FailedPrecondition);
}

#[test]
fn buffers_of_another_device_are_shared_if_the_host_can_map_them() {
    share(&[(); 2].map(|()| device(VulkanOptions::default())));
}

/// Devices that import pages of the host, but not what is a mapping of another device's memory.
fn importing_pages(memory: Option<EmulatedMemory>) -> [Device; 2] {
    let emulation = Emulation { memory, refuses_mappings: true, ..Emulation::default() };
    let driver = Driver::new(VulkanDriver::emulating(VulkanDriverOptions::default(), emulation));
    [(); 2].map(|()| driver.create_device("", &OptionSet::default()).unwrap())
}

#[test]
fn devices_that_import_no_mappings_share_pages_of_the_host() {
    for memory in [None, Some(EmulatedMemory::Separate)] {
        let devices = importing_pages(memory);
        share(&devices);
        let [mine, other] = &devices;
        // Buffers of queues, too.
        let params = BufferParams {
            usage: BufferParams::default().usage | BufferUsage::MAPPING_PERSISTENT,
            memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_LOCAL,
            ..BufferParams::default()
        };
        let (done, result) = (semaphore(mine), words(mine, 4));
        let (mine, other) = (mine.queue(QUEUE_AFFINITY_ANY), other.queue(QUEUE_AFFINITY_ANY));
        let buffer = other.signal(&[done.at(1)]).alloca(params, 16, 0).unwrap();
        other.wait(&[done.at(1)]).signal(&[done.at(2)]).fill(&buffer, &[5], 0).unwrap();
        mine.wait(&[done.at(2)]).signal(&[done.at(3)]).copy(&buffer, &result, 0).unwrap();
        other.wait(&[done.at(3)]).signal(&[done.at(4)]).dealloca(&buffer, 0).unwrap();
        done.wait(4, Some(Duration::from_secs(60))).unwrap();
        assert_eq!(rehal_hal::transfer::to_vec(&result, 0, 16).unwrap(), [5; 16]);
    }
}

#[test]
fn transient_memory_that_no_device_shares_is_reused_beside_other_devices() {
    // The host can map it, and other devices are there.
    let devices = importing_pages(None);
    let sink = Arc::new(Sink::default());
    let (data, filter) = (ProfileData::MEMORY_EVENTS, ProfileFilter::default());
    let request = ProfileRequest { data, filter, counters: Vec::new(), sink: sink.clone() };
    devices[0].begin_profiling(&request).unwrap();
    let (timeline, queue) = (semaphore(&devices[0]), devices[0].queue(QUEUE_AFFINITY_ANY));
    for cycle in 0..8 {
        let points: Vec<_> = (3 * cycle..3 * cycle + 4).map(|value| timeline.at(value)).collect();
        let buffer = queue
            .wait(&points[..1])
            .signal(&points[1..2])
            .alloca(BufferParams::default(), 1 << 20, 0)
            .unwrap();
        queue.wait(&points[1..2]).signal(&points[2..3]).fill(&buffer, &[1], 0).unwrap();
        queue.wait(&points[2..3]).signal(&points[3..4]).dealloca(&buffer, 0).unwrap();
    }
    timeline.wait(24, Some(Duration::from_secs(60))).unwrap();
    devices[0].end_profiling().unwrap();
    let blocks: std::collections::HashSet<_> = sink.backings.lock().unwrap().iter().copied().collect();
    assert_eq!(blocks.len(), 1, "blocks of memory: {blocks:?}");
}

#[test]
fn mappings_that_a_device_does_not_import_are_refused() {
    let [mine, other] = importing_pages(None);
    // The program does not say that devices share it.
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    let there = other.allocate_buffer(params, 16).unwrap();
    let done = semaphore(&mine);
    let error = mine.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).fill(&there, &[1], 0).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument, "{error}");
    assert!(error.report().contains("VK_EXT_external_memory_host"), "{}", error.report());
    assert_eq!(done.query().unwrap_err().code(), StatusCode::InvalidArgument);
    // The other device still uses it.
    let done = semaphore(&other);
    other.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).fill(&there, &[1], 0).unwrap();
    done.wait(1, Some(Duration::from_secs(60))).unwrap();
}

#[test]
fn buffers_of_another_device_that_are_hidden_from_the_host_are_refused() {
    let mut options = VulkanOptions::default();
    options.maps_device_memory = false;
    let [mine, other] = [(); 2].map(|()| device(options.clone()));
    let there = other.allocate_buffer(BufferParams::default(), 16).unwrap();
    let error = mine.queue(QUEUE_AFFINITY_ANY).fill(&there, &[1], 0).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument, "{error}");
    assert!(error.message().contains("not shared between devices"), "{error}");
}

/// Keeps what a profile has.
#[derive(Default)]
struct Sink {
    queues: Mutex<Vec<DeviceQueueEvent>>,
    dispatches: Mutex<Vec<DispatchEvent>>,
    clocks: Mutex<Vec<ClockSample>>,
    functions: Mutex<Vec<String>>,
    commands: Mutex<usize>,
    allocations: Mutex<usize>,
    /// The blocks of memory that allocas got.
    backings: Mutex<Vec<u64>>,
}

impl ProfileSink for Sink {
    fn executable(&self, _id: u64, functions: &[FunctionInfo]) {
        self.functions.lock().unwrap().extend(functions.iter().map(|function| function.name.clone()));
    }
    fn command_buffer(
        &self,
        _id: u64,
        _params: &CommandBufferParams,
        commands: &[ProfiledCommand],
        _records: &[(u32, u64)],
    ) {
        *self.commands.lock().unwrap() += commands.len();
    }
    fn memory_event(&self, event: &MemoryEvent) {
        let backing = event.reservation.map(|it| it.backing_id);
        self.backings.lock().unwrap().extend(backing);
        *self.allocations.lock().unwrap() += 1;
    }
    fn device_queue_event(&self, event: &DeviceQueueEvent) {
        self.queues.lock().unwrap().push(*event);
    }
    fn dispatch_event(&self, event: &DispatchEvent) {
        self.dispatches.lock().unwrap().push(*event);
    }
    fn clock_sample(&self, sample: &ClockSample) {
        self.clocks.lock().unwrap().push(*sample);
    }
}

#[test]
fn profiles_have_the_times_of_dispatches_on_the_hosts_clock() {
    let device = device(VulkanOptions::default());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/vulkan/executables/workgroups.descriptors.vk1");
    let file = std::fs::read(&path).unwrap();
    let executable = prepare(&device, "vulkan-spirv-fb", &file);
    let sink = Arc::new(Sink::default());
    let data = ProfileData::DISPATCH_EVENTS | ProfileData::DEVICE_QUEUE_EVENTS | ProfileData::MEMORY_EVENTS;
    let request =
        ProfileRequest { data, filter: ProfileFilter::default(), counters: Vec::new(), sink: sink.clone() };
    let begin = now_ns();
    device.begin_profiling(&request).unwrap();
    let output = words(&device, 64 * 6);
    let commands = device
        .create_command_buffer(CommandBufferParams {
            categories: CommandCategories::DISPATCH,
            ..CommandBufferParams::default()
        })
        .unwrap();
    let bindings = [BufferRef::whole(&output)];
    commands.begin().unwrap();
    for _ in 0..3 {
        commands.record(&Command::Dispatch(dispatch(&executable, &bindings))).unwrap();
    }
    commands.end().unwrap();
    let done = semaphore(&device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[done.at(1)]).execute(&commands, &[], 0).unwrap();
    queue.wait(&[done.at(1)]).signal(&[done.at(2)]).dispatch(&dispatch(&executable, &bindings)).unwrap();
    done.wait(2, Some(Duration::from_secs(60))).unwrap();
    device.end_profiling().unwrap();
    let end = now_ns();
    let (queues, dispatches) = (sink.queues.lock().unwrap(), sink.dispatches.lock().unwrap());
    assert_eq!(
        queues.iter().map(|it| it.operation.kind).collect::<Vec<_>>(),
        [QueueOpKind::Execute, QueueOpKind::Dispatch]
    );
    let indices: Vec<_> = dispatches.iter().map(|it| it.command_index).collect();
    assert_eq!(indices, [Some(0), Some(1), Some(2), None]);
    assert!(
        dispatches.iter().all(|it| it.start_tick <= it.end_tick && it.dispatch.workgroup_count == [1; 3])
    );
    assert_eq!(*sink.functions.lock().unwrap(), ["write_ids"]);
    assert_eq!(*sink.commands.lock().unwrap(), 3);
    assert_eq!(*sink.allocations.lock().unwrap(), 1);
    let clocks = sink.clocks.lock().unwrap();
    assert_eq!(clocks.len(), 2);
    assert!(clocks.iter().all(|it| begin <= it.host_before_ns && it.host_after_ns <= end));
    // The submissions were executed between the two samples of the clock.
    assert!(clocks[0].device_tick <= queues[0].start_tick && queues[1].end_tick <= clocks[1].device_tick);
}

#[test]
fn profiles_have_the_times_of_transfers_on_their_queue() {
    let emulation = Emulation { has_transfer_family: true, ..Emulation::default() };
    let (device, messages) = validated(emulation, VulkanOptions::default());
    let (from, to) = (words(&device, 16), words(&device, 16));
    let sink = Arc::new(Sink::default());
    let data = ProfileData::DEVICE_QUEUE_EVENTS;
    let request =
        ProfileRequest { data, filter: ProfileFilter::default(), counters: Vec::new(), sink: sink.clone() };
    device.begin_profiling(&request).unwrap();
    let (queue, done) = (device.queue(1 << 1), semaphore(&device));
    // Several rounds, so that queries are used again.
    for round in 0..3 {
        let points: Vec<_> = (3 * round..3 * round + 4).map(|value| done.at(value)).collect();
        queue.wait(&points[..1]).signal(&points[1..2]).fill(&from, &[7], 0).unwrap();
        let target = BufferRef::range(&from, 0, 4);
        queue.wait(&points[1..2]).signal(&points[2..3]).update(&[1, 2, 3, 4], target, 0).unwrap();
        queue.wait(&points[2..3]).signal(&points[3..]).copy(&from, &to, 0).unwrap();
        done.wait(3 * round + 3, Some(Duration::from_secs(60))).unwrap();
    }
    device.end_profiling().unwrap();
    let events = sink.queues.lock().unwrap();
    let kinds = [QueueOpKind::Fill, QueueOpKind::Update, QueueOpKind::Copy];
    assert_eq!(events.iter().map(|it| it.operation.kind).collect::<Vec<_>>(), kinds.repeat(3));
    let ticks: Vec<_> = events.iter().flat_map(|it| [it.start_tick, it.end_tick]).collect();
    assert!(ticks[0] > 0 && ticks.is_sorted(), "{ticks:?}");
    let clocks = sink.clocks.lock().unwrap();
    assert!(clocks[0].device_tick <= ticks[0] && ticks[ticks.len() - 1] <= clocks[1].device_tick);
    let mut bytes = [0; 64];
    to.read(0, &mut bytes).unwrap();
    assert_eq!(bytes[..8], [1, 2, 3, 4, 7, 7, 7, 7]);
    assert_eq!(*messages.lock().unwrap(), [""; 0], "of the validation layer");
}

#[test]
fn what_a_device_cannot_report_is_refused_by_name() {
    let device = device(VulkanOptions::default());
    let sink = Arc::new(Sink::default());
    let (data, filter) = (ProfileData::COUNTERS, ProfileFilter::default());
    let request = ProfileRequest { data, filter, counters: Vec::new(), sink };
    let error = device.begin_profiling(&request).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented);
    assert!(error.message().contains("counters"), "{error}");
}

#[test]
fn local_sizes_by_id_need_maintenance4() {
    let module = Module::for_descriptors()
        .op_text(Op::EntryPoint, &[ExecutionModel::GLCompute as u32, 100], "sized")
        .op(Op::ExecutionModeId, &[100, ExecutionMode::LocalSizeId as u32, 9, 9, 9])
        .place(20, 0, 0)
        .types()
        .op(Op::Constant, &[3, 9, 1])
        .op(Op::Variable, &[6, 20, StorageClass::StorageBuffer as u32])
        .function(100, |body| body.store(300, 20))
        .bytes();
    let (device, messages) = validated(Emulation::default(), VulkanOptions::default());
    prepare(&device, "vulkan-spirv-raw", &module);
    let emulation = Emulation { has_no_features: true, ..Emulation::default() };
    let (lacking, more) = validated(emulation, VulkanOptions::default());
    let error = try_prepare(&lacking, "vulkan-spirv-raw", &module).err().unwrap();
    assert_eq!(error.code(), StatusCode::Unavailable);
    assert!(error.message().contains("the device lacks maintenance4"), "{error}");
    for messages in [messages, more] {
        assert_eq!(*messages.lock().unwrap(), [""; 0], "of the validation layer");
    }
}

/// Code for subgroups of 32: of a device with others, the results are wrong.
#[test]
fn code_for_other_subgroups_is_reported_or_refused() {
    let module = std::fs::read(testing::fixtures().join("vulkan/modules/subgroups.vmfb")).unwrap();
    let run = |function: &str, refuses: bool| {
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let sink = messages.clone();
        let mut of_driver = VulkanDriverOptions::default();
        of_driver.messages =
            Some(Arc::new(move |message: &DebugMessage| sink.lock().unwrap().push(message.text.clone())));
        let mut options = VulkanOptions::default();
        options.refuses_subgroup_mismatches = refuses;
        let driver = Driver::new(VulkanDriver::new(of_driver));
        let device = driver.create_device("", &OptionSet::default().with(options)).unwrap();
        let executable = prepare(&device, "vulkan-spirv-fb", &executable_of(&module, function));
        let (input, output) = (words(&device, 4096), words(&device, 512));
        let bindings = [BufferRef::whole(&input), BufferRef::whole(&output)];
        let done = semaphore(&device);
        let queue = device.queue(QUEUE_AFFINITY_ANY);
        let mut submit = Ok(());
        for value in 1..3 {
            submit = submit
                .and_then(|()| queue.signal(&[done.at(value)]).dispatch(&dispatch(&executable, &bindings)));
        }
        let outcome = submit.and_then(|()| done.wait(2, None));
        let size = device.query_i64("vulkan.device", "subgroup_size").unwrap();
        let messages = messages.lock().unwrap().clone();
        (outcome, messages, size)
    };
    for (function, is_made_for) in [("softmax", Some("at least 32")), ("sums", Some("32")), ("double", None)]
    {
        let (outcome, messages, size) = run(function, false);
        outcome.unwrap();
        let is_wrong = is_made_for.filter(|it| if it.starts_with("at") { size < 32 } else { size != 32 });
        let Some(sizes) = is_wrong else {
            assert_eq!(messages, [""; 0], "{function}");
            run(function, true).0.unwrap();
            continue;
        };
        let [message] = &messages[..] else { panic!("one message for two dispatches: {messages:?}") };
        let expected =
            format!("was compiled for subgroups of {sizes} invocations, and its results are wrong on '");
        assert!(
            message.starts_with(&format!("function '{function}_dispatch_0")) && message.contains(&expected),
            "{message}"
        );
        assert!(message.contains(&format!("whose subgroups have {size}: compile it for")), "{message}");
        let error = run(function, true).0.unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition, "{error}");
        assert!(error.message().contains(&expected) && run(function, true).1.is_empty(), "{error}");
    }
}

/// The executable in a module whose function's name begins like this.
fn executable_of(module: &[u8], function: &str) -> Vec<u8> {
    let starts = (0..module.len()).filter(|at| module[*at..].starts_with(b"VKE1") && module.len() - at > 64);
    let executables = starts.map(|at| {
        let size = u64::from_le_bytes(module[at + 8..at + 16].try_into().unwrap()) as usize;
        module[at..].get(..64 + size).unwrap_or_default()
    });
    let name = format!("{function}_dispatch_0");
    let is_it = |bytes: &&[u8]| bytes.windows(name.len()).any(|it| it == name.as_bytes());
    executables.filter(|it| it.len() > 64).find(is_it).unwrap().to_vec()
}
