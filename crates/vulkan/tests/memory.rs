//! The memory of buffers: of the program, of queues, and of commands that are submitted many times.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../formats/tests/vulkan/assembler.rs"]
mod assembler;
#[path = "validity/spinning.rs"]
mod spinning;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use assembler::Module;
use rehal_base::{HostMemory, Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, BufferUsage, Command, CommandBufferMode, CommandBufferParams,
    CommandCategories, Device, Dispatch, Driver, Executable, ExecutableParams, HostFile, Live, MemoryAccess,
    MemoryType, OptionSet, QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags, WHOLE_BUFFER, transfer,
};
use rehal_vulkan::emulation::{EmulatedMemory, Emulation};
use rehal_vulkan::{DebugMessage, VulkanDriver, VulkanDriverOptions, VulkanOptions};
use spinning::spinning;
use spirv::{Decoration, Op, StorageClass};

fn device() -> Device {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| Driver::new(VulkanDriver::default()));
    driver.create_device("", &OptionSet::default().with(VulkanOptions::default())).unwrap()
}

/// A device whose calls the validation layer checks, and the messages of the layer.
fn validated() -> (Device, Arc<Mutex<Vec<String>>>) {
    let messages = Arc::<Mutex<Vec<String>>>::default();
    let mut options = VulkanDriverOptions::default();
    options.validation = true;
    let sink = messages.clone();
    options.messages =
        Some(Arc::new(move |message: &DebugMessage| sink.lock().unwrap().push(message.text.clone())));
    let driver = Driver::new(VulkanDriver::new(options));
    (driver.create_device("", &OptionSet::default()).unwrap(), messages)
}

fn semaphore(device: &Device) -> Semaphore {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
}

fn mappable() -> BufferParams {
    BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    }
}

/// A buffer of zeros.
fn zeros(device: &Device, length: u64) -> Buffer {
    let buffer = device.allocate_buffer(mappable(), length).unwrap();
    buffer.write(0, &vec![0; length as usize]).unwrap();
    buffer
}

fn prepare(device: &Device, module: &Module) -> Executable {
    try_prepare(device, module, &[]).unwrap()
}

fn try_prepare(device: &Device, module: &Module, constants: &[u32]) -> Result<Executable> {
    let data = module.bytes();
    let params = ExecutableParams { constants, ..ExecutableParams::new("vulkan-spirv-raw", &data) };
    #[allow(unsafe_code, reason = "kernels of this test")]
    // SAFETY: they access only their bindings.
    unsafe {
        device.backend().prepare_executable(&params)
    }
}

fn dispatch<'a>(
    executable: &'a Executable,
    bindings: &'a [BufferRef<&'a Buffer>],
    workgroups: u32,
) -> Dispatch<Live<'a>> {
    Dispatch::new(executable, 0, [workgroups, 1, 1]).bindings(bindings)
}

#[test]
fn constant_memory_of_the_program_is_never_written() {
    let device = device();
    let executable = prepare(&device, &spinning());
    let memory = Arc::new(HostMemory::constant(&[7; 4096]).unwrap());
    // The device cannot know of the borrow, which lasts until the end.
    let before = memory.constant_bytes().unwrap();
    let params =
        BufferParams { usage: BufferUsage::TRANSFER_SOURCE, access: MemoryAccess::READ, ..mappable() };
    let constants = device.import_buffer(params, &memory, memory.whole()).unwrap();
    let mapping = constants.map(MemoryAccess::READ, 0, 16).unwrap();
    let error = mapping.source().unwrap().write(0, &[9; 4]).unwrap_err();
    assert_eq!(error.code(), StatusCode::PermissionDenied, "{error}");
    drop(mapping);
    let other = zeros(&device, 4096);
    let (target, source) = (BufferRef::whole(&constants), BufferRef::whole(&other));
    let bindings = [target];
    let commands: [Command<Live<'_>>; 5] = [
        Command::Fill { target, pattern: &[3], flags: 0 },
        Command::Update { source: &[3; 4096], target, flags: 0 },
        Command::Update { source: &[3; 4095], target: BufferRef::range(&constants, 1, 4095), flags: 0 },
        Command::Copy { source, target, flags: 0 },
        Command::Dispatch(dispatch(&executable, &bindings, 1)),
    ];
    for command in commands {
        let recorded = device
            .create_command_buffer(CommandBufferParams {
                mode: CommandBufferMode::UNVALIDATED,
                ..CommandBufferParams::default()
            })
            .unwrap();
        recorded.begin().unwrap();
        recorded.record(&command).unwrap();
        recorded.end().unwrap();
        let done = semaphore(&device);
        let queue = device.queue(QUEUE_AFFINITY_ANY);
        let error = queue.signal(&[done.at(1)]).execute(&recorded, &[], 0).unwrap_err();
        assert_eq!(error.code(), StatusCode::PermissionDenied, "{error}");
        assert_eq!(done.query().unwrap_err().code(), StatusCode::PermissionDenied);
    }
    // It is still a source.
    let done = semaphore(&device);
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).copy(&constants, &other, 0).unwrap();
    done.wait(1, Some(Duration::from_secs(60))).unwrap();
    let mut copied = [0; 4096];
    other.read(0, &mut copied).unwrap();
    assert_eq!(copied, [7; 4096]);
    assert_eq!(before, [7; 4096]);
}

/// A GPU with memory of its own.
fn separate() -> Device {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        let emulation = Emulation { memory: Some(EmulatedMemory::Separate), ..Emulation::default() };
        Driver::new(VulkanDriver::emulating(VulkanDriverOptions::default(), emulation))
    });
    driver.create_device("", &OptionSet::default()).unwrap()
}

#[test]
fn what_belongs_into_the_devices_memory_is_not_imported() {
    let memory = Arc::new(HostMemory::constant(&[7; 4096]).unwrap());
    let usage = BufferUsage::DISPATCH_STORAGE_READ | BufferUsage::SHARING_IMMUTABLE;
    let local = BufferParams { usage, access: MemoryAccess::READ, ..BufferParams::default() };
    let import = |device: &Device, params| device.import_buffer(params, &memory, memory.whole());
    let error = import(&separate(), local).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented, "{error}");
    assert!(error.message().contains("the device's own memory"), "{error}");
    for memory_type in [
        MemoryType::OPTIMAL | MemoryType::DEVICE_LOCAL,
        MemoryType::DEVICE_VISIBLE,
        MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
    ] {
        let imported = import(&separate(), BufferParams { memory_type, ..local }).unwrap();
        let granted = imported.params().memory_type;
        assert!(!granted.contains(MemoryType::DEVICE_LOCAL), "{memory_type:?}: {granted:?}");
    }
    // Where host and device share their memory, it is the device's own.
    import(&device(), local).unwrap();
}

/// Memory of the device that the host sees.
fn window() -> BufferParams {
    BufferParams { memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE, ..mappable() }
}

const IN_THE_WINDOW: MemoryType = MemoryType::DEVICE_LOCAL.union(MemoryType::HOST_VISIBLE);

#[test]
fn what_the_window_of_a_device_does_not_hold_is_memory_of_the_host() {
    let device = separate();
    let small = device.allocate_buffer(window(), 1 << 20).unwrap();
    assert!(small.params().memory_type.contains(IN_THE_WINDOW), "{:?}", small.params());
    for (size, count) in [(96 << 20, 2), (16 << 20, 8), (64 << 10, 2000)] {
        let buffers: Vec<_> = (0..count).map(|_| device.allocate_buffer(window(), size).unwrap()).collect();
        let last = buffers.last().unwrap();
        let granted = last.params().memory_type;
        assert!(granted.contains(MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED), "{granted:?}");
        assert!(!granted.contains(MemoryType::DEVICE_LOCAL), "{granted:?}");
        for buffer in &buffers {
            buffer.write(size - 4, &[5; 4]).unwrap();
            let mut bytes = [0; 4];
            buffer.read(size - 4, &mut bytes).unwrap();
            assert_eq!(bytes, [5; 4]);
        }
    }
    // What is released makes room.
    drop(small);
    device.backend().trim().unwrap();
    let again = device.allocate_buffer(window(), 32 << 20).unwrap();
    assert!(again.params().memory_type.contains(IN_THE_WINDOW), "{:?}", again.params());
}

/// Bytes that `read` allocates for staging.
fn staged(device: &Device, read: impl FnOnce()) -> u64 {
    let allocated = || device.backend().memory_statistics().unwrap().host.allocated_bytes;
    let before = allocated();
    read();
    allocated() - before
}

#[test]
fn the_host_reads_through_memory_that_it_caches() {
    let device = separate();
    let (length, done) = (5 << 20, semaphore(&device));
    let buffer = device.allocate_buffer(window(), length).unwrap();
    assert!(buffer.params().memory_type.contains(IN_THE_WINDOW), "{:?}", buffer.params());
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    queue.signal(&[done.at(1)]).fill(&buffer, &[1, 2, 3, 4], 0).unwrap();
    done.wait(1, Some(Duration::from_secs(60))).unwrap();
    let all = [1, 2, 3, 4].repeat(length as usize / 4);
    let bytes = staged(&device, || {
        assert!(transfer::to_vec(&buffer, 0, WHOLE_BUFFER).unwrap() == all);
    });
    assert_eq!(bytes, 4 << 20, "a piece");
    let part = buffer.subspan(4096, 1 << 20).unwrap();
    let bytes = staged(&device, || {
        let equal = |memory: &HostMemory| {
            memory.bytes(memory.whole()).map(|bytes| *bytes == all[1..][..(1 << 20) - 1])
        };
        assert!(transfer::view(&part, 1, WHOLE_BUFFER, equal).unwrap());
    });
    assert_eq!(bytes, (1 << 20) - 1);
    // A few bytes are read at once, and writes are not staged.
    let bytes = staged(&device, || {
        assert_eq!(transfer::to_vec(&buffer, 1, 4096).unwrap(), all[1..4097]);
        transfer::write(&buffer, 0, &all).unwrap();
    });
    assert_eq!(bytes, 0);
    // Memory of the host is mapped.
    let cached = device.allocate_buffer(mappable(), length).unwrap();
    assert!(cached.params().memory_type.contains(MemoryType::HOST_CACHED));
    assert_eq!(staged(&device, || drop(transfer::to_vec(&cached, 0, WHOLE_BUFFER).unwrap())), 0);
}

#[test]
fn files_are_read_from_and_written_to_the_window() {
    let device = separate();
    let length = 9 << 20;
    let all: Vec<u8> = (0..length as u32).map(|index| (index / 7 % 251) as u8).collect();
    let source = device.allocate_buffer(window(), length).unwrap();
    let target = device.allocate_buffer(window(), length).unwrap();
    for buffer in [&source, &target] {
        assert!(buffer.params().memory_type.contains(IN_THE_WINDOW), "{:?}", buffer.params());
    }
    source.write(0, &all).unwrap();
    let import =
        |file| device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ | MemoryAccess::WRITE, file);
    let file = import(HostFile::Memory(HostMemory::allocate(length).unwrap())).unwrap();
    let (done, queue) = (semaphore(&device), device.queue(QUEUE_AFFINITY_ANY));
    queue.signal(&[done.at(1)]).write(&source, &file, 0, 0).unwrap();
    queue.wait(&[done.at(1)]).signal(&[done.at(2)]).read(&file, 0, &target, 0).unwrap();
    done.wait(2, Some(Duration::from_secs(60))).unwrap();
    assert!(transfer::to_vec(&target, 0, WHOLE_BUFFER).unwrap() == all);
}

#[test]
fn queues_allocate_what_the_window_of_a_device_does_not_hold() {
    let device = separate();
    let (timeline, queue) = (semaphore(&device), device.queue(QUEUE_AFFINITY_ANY));
    let mut buffers = Vec::new();
    for (index, size) in (0..).zip([96 << 20, 40 << 20, 40 << 20, 40 << 20]) {
        let (after, done) = ([timeline.at(2 * index)], [timeline.at(2 * index + 1)]);
        let buffer = queue.wait(&after).signal(&done).alloca(window(), size, 0).unwrap();
        let end = BufferRef::range(&buffer, size - 16, 16);
        queue.wait(&done).signal(&[timeline.at(2 * index + 2)]).fill(end, &[7], 0).unwrap();
        buffers.push(buffer);
    }
    timeline.wait(8, Some(Duration::from_secs(60))).unwrap();
    // It is known to be too large.
    assert!(!buffers[0].params().memory_type.contains(MemoryType::DEVICE_LOCAL));
    for buffer in &buffers {
        let mut bytes = [0; 16];
        buffer.read(buffer.size() - 16, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 16]);
    }
}

#[test]
fn memory_of_the_device_alone_is_not_replaced_by_memory_of_the_host() {
    let device = separate();
    let mut held = Vec::new();
    let error = loop {
        match device.allocate_buffer(BufferParams::default(), 512 << 20) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
    assert!(error.message().contains("heap 0"), "{error}");
    assert!(held.iter().all(|it| it.params().memory_type.contains(MemoryType::DEVICE_LOCAL)));
}

#[test]
fn what_the_host_allocated_outlives_its_dealloca_while_work_uses_it() {
    let device = device();
    let executable = prepare(&device, &spinning());
    let flag = zeros(&device, 16);
    let first = zeros(&device, 4096);
    let timeline = semaphore(&device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let bindings = [BufferRef::whole(&flag)];
    let points: Vec<_> = (0..4).map(|value| timeline.at(value)).collect();
    queue.signal(&points[1..2]).dispatch(&dispatch(&executable, &bindings, 200)).unwrap();
    queue.wait(&points[1..2]).signal(&points[2..3]).fill(&first, &[0xAA], 0).unwrap();
    queue.wait(&points[2..3]).signal(&points[3..4]).dealloca(&first, 0).unwrap();
    let others: Vec<_> = (0..4).map(|_| zeros(&device, 4096)).collect();
    timeline.wait(3, Some(Duration::from_secs(60))).unwrap();
    for other in &others {
        let mut bytes = [0; 4096];
        other.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4096], "the fill of another buffer");
    }
    let error = first.read(0, &mut [0]).unwrap_err();
    assert!(error.message().contains("after its dealloca"), "{error}");
    let error = queue.dealloca(&first, 0).unwrap_err();
    assert_eq!(error.code(), StatusCode::FailedPrecondition, "{error}");
}

/// All of the device's memory but one unit is allocated by a queue, used, and deallocated behind work that is
/// still in flight.
fn exhaust(device: &Device, unit: u64) {
    let mut held = Vec::new();
    while let Ok(buffer) = device.allocate_buffer(BufferParams::default(), unit) {
        held.push(buffer);
    }
    let count = held.len() as u64 - 1;
    assert!(count > 1, "the device has {} bytes", held.len() as u64 * unit);
    drop(held);
    let executable = prepare(device, &spinning());
    let flag = zeros(device, 16);
    let bindings = [BufferRef::whole(&flag)];
    let timeline = semaphore(device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let point = |value| [timeline.at(value)];
    let allocate = |index| {
        let (after, done) = (point(2 * index), point(2 * index + 1));
        let buffer = queue.wait(&after).signal(&done).alloca(BufferParams::default(), unit, 0).unwrap();
        let start = BufferRef::range(&buffer, 0, 16);
        queue.wait(&done).signal(&point(2 * index + 2)).fill(start, &[1], 0).unwrap();
        buffer
    };
    let buffers: Vec<_> = (0..count).map(allocate).collect();
    let spinning = dispatch(&executable, &bindings, 200);
    queue.wait(&point(2 * count)).signal(&point(2 * count + 1)).dispatch(&spinning).unwrap();
    for (index, buffer) in (2 * count + 1..).zip(&buffers) {
        queue.wait(&point(index)).signal(&point(index + 1)).dealloca(buffer, 0).unwrap();
    }
    assert!(timeline.query().unwrap() <= 2 * count, "the work is in flight");
}

const UNIT: u64 = 512 << 20;

#[test]
fn alloca_waits_for_memory_that_earlier_work_uses() {
    let device = device();
    exhaust(&device, UNIT);
    let done = semaphore(&device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let allocated = queue.signal(&[done.at(1)]).alloca(BufferParams::default(), 2 * UNIT, 0);
    assert_eq!(allocated.unwrap().size(), 2 * UNIT);
    done.wait(1, Some(Duration::from_secs(60))).unwrap();
}

#[test]
fn the_host_waits_for_memory_that_queues_deallocate() {
    let device = device();
    exhaust(&device, UNIT);
    assert_eq!(device.allocate_buffer(BufferParams::default(), 2 * UNIT).unwrap().size(), 2 * UNIT);
}

/// Buffers of the program that leave no memory of the host, once those of a queue, which this deallocates
/// again, are free.
fn exhaust_host(device: &Device) -> Vec<Buffer> {
    let (timeline, queue) = (semaphore(device), device.queue(QUEUE_AFFINITY_ANY));
    let transient = queue.signal(&[timeline.at(1)]).alloca(mappable(), 128 << 20, 0).unwrap();
    let mut held = Vec::new();
    // The window of the device is part of what the host sees.
    for size in [1 << 30, 64 << 20, 1 << 20, 64 << 10, 4096, 64] {
        while let Ok(buffer) = device.allocate_buffer(mappable(), size) {
            held.push(buffer);
        }
    }
    queue.wait(&[timeline.at(1)]).signal(&[timeline.at(2)]).dealloca(&transient, 0).unwrap();
    timeline.wait(2, Some(Duration::from_secs(60))).unwrap();
    held
}

#[test]
fn staging_uses_memory_that_queues_have_deallocated() {
    let device = separate();
    // Too long to be inline, and staged in a new chunk.
    let bytes = vec![3; 1 << 20];
    let target = device.allocate_buffer(BufferParams::default(), 1 << 20).unwrap();
    let held = exhaust_host(&device);
    let (timeline, queue) = (semaphore(&device), device.queue(QUEUE_AFFINITY_ANY));
    queue.signal(&[timeline.at(1)]).update(&bytes, &target, 0).unwrap();
    timeline.wait(1, Some(Duration::from_secs(60))).unwrap();
    drop(held);
    assert!(transfer::to_vec(&target, 0, WHOLE_BUFFER).unwrap() == bytes);
}

#[test]
fn kernels_with_too_much_shared_memory_are_refused() {
    let device = device();
    let workgroup = StorageClass::Workgroup as u32;
    let module = Module::for_descriptors()
        .entry(100, "shares")
        .place(20, 0, 0)
        .op(Op::Decorate, &[50, Decoration::SpecId as u32, 0])
        .types()
        .op(Op::SpecConstant, &[3, 50, 16])
        .op(Op::TypeArray, &[51, 3, 50])
        .op(Op::TypePointer, &[52, workgroup, 51])
        .op(Op::TypePointer, &[53, workgroup, 3])
        .op(Op::Variable, &[52, 54, workgroup])
        .op(Op::Variable, &[6, 20, StorageClass::StorageBuffer as u32])
        .function(100, |body| {
            let load = body.op(Op::AccessChain, &[53, 300, 54, 8]).op(Op::Load, &[3, 301, 300]);
            load.op(Op::AccessChain, &[7, 302, 20, 8, 8]).op(Op::Store, &[302, 301])
        });
    try_prepare(&device, &module, &[]).unwrap();
    // A gigabyte.
    let error = try_prepare(&device, &module, &[1 << 28]).err().unwrap();
    assert_eq!(error.code(), StatusCode::Unavailable, "{error}");
    assert!(error.message().contains("maxComputeSharedMemorySize"), "{error}");
    assert!(error.message().contains("1073741824 bytes of shared memory"), "{error}");
}

#[test]
fn commands_of_large_bindings_are_valid_as_long_as_they_are_submitted() {
    let (device, messages) = validated();
    let commands = device
        .create_command_buffer(CommandBufferParams {
            categories: CommandCategories::TRANSFER,
            ..CommandBufferParams::default().slots(1)
        })
        .unwrap();
    commands.begin().unwrap();
    commands.record(&Command::Fill { target: BufferRef::slot(0, 0, 64), pattern: &[7], flags: 0 }).unwrap();
    commands.end().unwrap();
    let timeline = semaphore(&device);
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    for round in 0..12_u64 {
        let buffer = zeros(&device, 32 << 20);
        for submission in 2 * round..2 * round + 2 {
            let (after, done) = ([timeline.at(submission)], [timeline.at(submission + 1)]);
            let table = [BufferRef::whole(&buffer)];
            queue.wait(&after).signal(&done).execute(&commands, &table, 0).unwrap();
        }
        // Some are dropped while the device uses them.
        if round % 3 != 0 {
            timeline.wait(2 * round + 2, Some(Duration::from_secs(60))).unwrap();
            let mut bytes = [0; 65];
            buffer.read(0, &mut bytes).unwrap();
            assert_eq!((bytes[63], bytes[64]), (7, 0));
        }
    }
    timeline.wait(24, Some(Duration::from_secs(60))).unwrap();
    drop((commands, timeline, device));
    assert_eq!(*messages.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn what_no_device_has_is_refused_before_vulkan_is_asked() {
    let (device, messages) = validated();
    for shift in [20, 26, 40, 62, 63] {
        let params = BufferParams { min_alignment: 1 << shift, ..BufferParams::default() };
        match device.allocate_buffer(params, 16) {
            Ok(_) => assert!(shift < 40, "an alignment of 2^{shift}"),
            Err(error) => assert!(error.message().contains("the device allocates at most"), "{error}"),
        }
    }
    for size in [1 << 45, 1 << 62, u64::MAX - 15, u64::MAX] {
        let error = device.allocate_buffer(BufferParams::default(), size).unwrap_err();
        assert_eq!(error.code(), StatusCode::ResourceExhausted, "{size}: {error}");
    }
    drop(device);
    assert_eq!(*messages.lock().unwrap(), Vec::<String>::new());
}
