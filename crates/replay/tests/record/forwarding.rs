//! The recorder forwards every function of every backend trait; the functions are parsed from the traits'
//! source, so that none can be forgotten here.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rehal_base::{Error, Range, StatusCode};
use rehal_hal::profile::*;
use rehal_hal::*;
use rehal_replay::{RecordOptions, Recorder};

use crate::counting::{self, Calls};

/// Drivers find and create devices; a recorder wraps the devices that they created.
const NOT_WRAPPED: [&str; 1] = ["DriverBackend"];

/// Checks that each call through the recorder is one call of the base device.
struct Forwarding {
    calls: Calls,
    seen: BTreeSet<&'static str>,
}

impl Forwarding {
    fn check<R>(&mut self, function: &'static str, call: impl FnOnce() -> R) -> R {
        let before = self.calls.of(function);
        let result = call();
        assert_eq!(self.calls.of(function), before + 1, "the recorder forwards {function} once");
        assert!(self.seen.insert(function), "{function} is checked once");
        result
    }
}

#[test]
fn every_function_of_every_backend_is_forwarded() {
    let calls = Calls::default();
    let base = DeviceGroup::new(vec![counting::device(&calls)]).unwrap();
    let recorder = Recorder::to(std::io::Cursor::new(Vec::new()), RecordOptions::default()).unwrap();
    let recorded = recorder.wrap(&base).unwrap();
    let device = &recorded.devices()[0];
    let mut forwarding = Forwarding { calls, seen: BTreeSet::new() };
    on_device(&mut forwarding, device);
    on_executables(&mut forwarding, device);
    on_buffers(&mut forwarding, device);
    on_semaphores(&mut forwarding, device);
    on_command_buffers(&mut forwarding, device);
    on_files(&mut forwarding, device);

    let seen: BTreeSet<_> = forwarding.seen.iter().map(ToString::to_string).collect();
    let declared = declared();
    let unchecked: Vec<_> = declared.difference(&seen).collect();
    assert!(unchecked.is_empty(), "backends have functions that this test does not check: {unchecked:?}");
    assert_eq!(seen, declared);
    recorder.close().unwrap();
}

fn on_device(forwarding: &mut Forwarding, device: &Device) {
    let backend = device.backend();
    let info = forwarding.check("DeviceBackend::info", || backend.info().name.clone());
    assert_eq!(info, "counting");
    let value = forwarding.check("DeviceBackend::query_i64", || backend.query_i64("hal", "x"));
    assert_eq!(value.unwrap(), 42);
    let granted = forwarding.check("DeviceBackend::grant", || backend.grant(BufferParams::default()));
    assert_eq!(granted.unwrap().min_alignment, 64);
    let event = forwarding.check("DeviceBackend::create_event", || backend.create_event(1, 0));
    event.unwrap();
    let cache = || backend.create_executable_cache("cache");
    forwarding.check("DeviceBackend::create_executable_cache", cache).unwrap();
    let format = || backend.infer_executable_format(&[1]);
    assert_eq!(forwarding.check("DeviceBackend::infer_executable_format", format), Some("counting"));
    let can_prepare = || backend.can_prepare_executable("counting");
    assert!(forwarding.check("DeviceBackend::can_prepare_executable", can_prepare));
    let trimmed = forwarding.check("DeviceBackend::trim", || backend.trim());
    assert_eq!(trimmed.unwrap_err().code(), StatusCode::ResourceExhausted, "the base's status is returned");
    forwarding.check("DeviceBackend::flush", || backend.flush(1)).unwrap();
    let data = forwarding.check("DeviceBackend::profile_data", || backend.profile_data());
    assert_eq!(data, ProfileData::QUEUE_EVENTS);
    let statistics = forwarding.check("DeviceBackend::memory_statistics", || backend.memory_statistics());
    assert!(statistics.is_some());
    let request = ProfileRequest {
        data: ProfileData::QUEUE_EVENTS,
        filter: ProfileFilter::default(),
        counters: Vec::new(),
        sink: Arc::new(NoSink),
    };
    forwarding.check("DeviceBackend::begin_profiling", || backend.begin_profiling(&request)).unwrap();
    forwarding.check("DeviceBackend::flush_profiling", || backend.flush_profiling()).unwrap();
    forwarding.check("DeviceBackend::sample_profiling_clock", || backend.sample_profiling_clock()).unwrap();
    forwarding.check("DeviceBackend::end_profiling", || backend.end_profiling()).unwrap();
    let barrier = Submission {
        device,
        affinity: 1,
        waits: &[][..],
        signals: &[][..],
        op: QueueOp::Barrier { flags: 0 },
    };
    let submitted = forwarding.check("DeviceBackend::submit", || backend.submit(&barrier));
    assert!(submitted.unwrap().is_none());
    let error = Error::invalid_argument("refused");
    forwarding.check("DeviceBackend::refused", || backend.refused(&barrier, &error));
}

/// Ignores all events.
struct NoSink;

impl ProfileSink for NoSink {}

fn on_executables(forwarding: &mut Forwarding, device: &Device) {
    let prepared = forwarding.check("DeviceBackend::prepare_executable", || counting::prepare(device));
    let executable = prepared.unwrap();
    let backend = executable.backend();
    assert_eq!(forwarding.check("ExecutableBackend::name", || backend.name().to_string()), "counted");
    assert_eq!(forwarding.check("ExecutableBackend::functions", || backend.functions().len()), 1);
    assert_eq!(forwarding.check("ExecutableBackend::lookup", || backend.lookup("only")), Some(0));
}

fn on_buffers(forwarding: &mut Forwarding, device: &Device) {
    let params = BufferParams {
        usage: BufferUsage::MAPPING_SCOPED | BufferUsage::TRANSFER_TARGET,
        memory_type: MemoryType::HOST_LOCAL,
        ..BufferParams::default()
    };
    let allocate = || device.backend().allocate_buffer(params, 64);
    let buffer = forwarding.check("DeviceBackend::allocate_buffer", allocate).unwrap();
    let import = || device.backend().import_buffer(params, HostMemory::allocate(64).unwrap());
    forwarding.check("DeviceBackend::import_buffer", import).unwrap();

    let backend = buffer.backend();
    let range = Range { offset: 16, length: 8 };
    let mapped = MappedRange { range, mode: MappingMode::SCOPED, access: MemoryAccess::READ };
    let memory = forwarding.check("BufferBackend::map", || backend.map(&mapped)).unwrap();
    let part = Range { offset: 2, length: 3 };
    forwarding.check("BufferBackend::flush", || backend.flush(&mapped, &memory, part)).unwrap();
    forwarding.check("BufferBackend::invalidate", || backend.invalidate(&mapped, &memory, part)).unwrap();
    forwarding.check("BufferBackend::unmap", || backend.unmap(&mapped, &memory)).unwrap();
    assert!(forwarding.check("BufferBackend::is_queue_ordered", || backend.is_queue_ordered()));
    forwarding.check("BufferBackend::deallocate", || backend.deallocate()).unwrap();
}

fn on_semaphores(forwarding: &mut Forwarding, device: &Device) {
    let create = || device.backend().create_semaphore(1, 3, SemaphoreFlags::empty());
    let semaphore = forwarding.check("DeviceBackend::create_semaphore", create).unwrap();
    let backend = semaphore.backend();
    assert_eq!(forwarding.check("SemaphoreBackend::query", || backend.query()).unwrap(), 3);
    forwarding.check("SemaphoreBackend::signal", || backend.signal(5)).unwrap();
    forwarding.check("SemaphoreBackend::wait", || backend.wait(5, None)).unwrap();
    let reached = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let tell = {
        let reached = reached.clone();
        move |outcome: rehal_base::Result<()>| {
            reached.store(outcome.is_ok(), std::sync::atomic::Ordering::Relaxed);
        }
    };
    let on_reached = || backend.on_reached(4, Box::new(tell));
    drop(forwarding.check("SemaphoreBackend::on_reached", on_reached));
    assert!(reached.load(std::sync::atomic::Ordering::Relaxed));
    forwarding.check("SemaphoreBackend::fail", || backend.fail(Error::data_loss("gone")));
    assert_eq!(backend.query().unwrap_err().message(), "gone");
}

fn on_command_buffers(forwarding: &mut Forwarding, device: &Device) {
    let params = CommandBufferParams {
        mode: CommandBufferMode::ONE_SHOT,
        categories: CommandCategories::TRANSFER,
        affinity: 1,
        binding_capacity: 0,
    };
    let create = || device.backend().create_command_buffer(params);
    let commands = forwarding.check("DeviceBackend::create_command_buffer", create).unwrap();
    let backend = commands.backend();
    let label = Command::BeginDebugGroup { label: &b"group"[..], color: 0 };
    forwarding.check("CommandBufferBackend::begin", || backend.begin()).unwrap();
    forwarding.check("CommandBufferBackend::record", || backend.record(&label)).unwrap();
    let error = Error::invalid_argument("refused");
    forwarding.check("CommandBufferBackend::refused", || backend.refused(&label, &error));
    forwarding.check("CommandBufferBackend::end", || backend.end()).unwrap();
}

fn on_files(forwarding: &mut Forwarding, device: &Device) {
    let contents = HostFile::from_bytes(&[7; 16]).unwrap();
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    let import = || device.backend().import_file(1, access, contents);
    let file = forwarding.check("DeviceBackend::import_file", import).unwrap();
    let backend = file.backend();
    let memory = HostMemory::allocate(2).unwrap();
    memory.store(0, [9]).unwrap();
    let [first, second] = [0, 1].map(|offset| Range { offset, length: 1 });
    forwarding.check("FileBackend::write_at", || backend.write_at(3, &memory, first)).unwrap();
    forwarding.check("FileBackend::read_at", || backend.read_at(3, &memory, second)).unwrap();
    assert_eq!(memory.load(0).unwrap(), [9, 9]);
    forwarding.check("FileBackend::check_unchanged", || backend.check_unchanged()).unwrap();
}

/// The functions of the backend traits as `hal` declares them, by `Trait::function`.
fn declared() -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hal/src");
    let mut declared = BTreeSet::new();
    let mut traits = BTreeSet::new();
    let mut paths = vec![sources.clone()];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut inside = None;
        for line in text.lines() {
            let starts = line.strip_prefix("pub trait ").and_then(|rest| rest.split([':', ' ', '<']).next());
            if let Some(name) = starts.filter(|name| name.ends_with("Backend")) {
                traits.insert(name.to_string());
                inside = Some(name);
            } else if line == "}" {
                inside = None;
            }
            let line = line.trim_start();
            let function = line.strip_prefix("unsafe ").unwrap_or(line).strip_prefix("fn ");
            if let (Some(name), Some(function)) = (inside, function) {
                let function = function.split(['(', '<']).next().unwrap();
                if !NOT_WRAPPED.contains(&name) {
                    declared.insert(format!("{name}::{function}"));
                }
            }
        }
    }
    // Guards against a parser that finds nothing.
    for name in ["DeviceBackend", "BufferBackend", "SemaphoreBackend", "EventBackend", "DriverBackend"] {
        assert!(traits.contains(name), "{name} was not found in {}", sources.display());
    }
    declared
}
