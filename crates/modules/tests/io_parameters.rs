//! Programs load parameter files in every supported way.

use std::path::PathBuf;

use rehal_base::{Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, Device, DeviceGroup, Fence, MemoryAccess, QUEUE_AFFINITY_ANY,
    SemaphoreFlags,
};
use rehal_local::LocalSync;
use rehal_modules::hal::{HalModule, Handle};
use rehal_modules::io_parameters::{IoParameters, Provider, Request, Span};
use rehal_params::irpa::Archive;
use rehal_params::{FileMode, Pattern, Scopes};
use rehal_vm::{Buffer as Bytes, Context, List, Module, Ref, Value};

const MODES: [FileMode; 4] = [FileMode::Map, FileMode::File, FileMode::Mmap, FileMode::Preload];

fn device() -> Device {
    LocalSync::create(Default::default())
}

fn fence(device: &Device) -> Fence {
    Fence::at(device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap(), 1)
}

fn request<'a>(device: &'a Device, signals: &'a Fence) -> Request<'a> {
    Request { device, affinity: QUEUE_AFFINITY_ANY, waits: None, signals: Some(signals), scope: "model" }
}

/// Random bytes; the seed selects them.
fn data(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

const WIDE: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const WIDE_BYTES: usize = 300_000;

/// A directory with an archive that has every kind of entry, and the file that one of them refers to.
struct Sample(tempfile::TempDir);

impl Sample {
    fn new() -> Self {
        let sample = Self(tempfile::tempdir().unwrap());
        let mut archive = Archive::new();
        let pattern = |bytes: &[u8]| Pattern::new(bytes).unwrap();
        archive.add_splat("splat1", b"", pattern(&[7]), 100).unwrap();
        archive.add_splat("splat4", b"", pattern(&[1, 2, 3, 4]), 400).unwrap();
        archive.add_splat("splat8", b"", pattern(&WIDE[..8]), 24).unwrap();
        archive.add_splat("splat16", b"", pattern(&WIDE), WIDE_BYTES as u64).unwrap();
        archive.add_external("far", b"", "other.bin", 3, 500).unwrap();
        let a = archive.add_data("a", b"", 64, 1000).unwrap();
        let b = archive.add_data("b", b"", 8, 77).unwrap();
        let mut bytes = Vec::new();
        archive.write_header(&mut bytes).unwrap();
        bytes.resize(archive.file_bytes() as usize, 0);
        bytes[archive.data_offset(a) as usize..][..1000].copy_from_slice(&data(1, 1000));
        bytes[archive.data_offset(b) as usize..][..77].copy_from_slice(&data(2, 77));
        std::fs::write(sample.path("a.irpa"), bytes).unwrap();
        std::fs::write(sample.path("other.bin"), data(3, 600)).unwrap();
        sample
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn scopes(&self, mode: FileMode) -> Scopes {
        let mut scopes = Scopes::new();
        scopes.add(&format!("model={}", self.path("a.irpa").display()), mode).unwrap();
        scopes
    }

    fn provider(&self, mode: FileMode) -> Provider {
        Provider::new(self.scopes(mode))
    }
}

/// A parameter's bytes.
fn expected(name: &str) -> Vec<u8> {
    match name {
        "a" => data(1, 1000),
        "b" => data(2, 77),
        "far" => data(3, 600)[3..503].to_vec(),
        "splat1" => vec![7; 100],
        "splat4" => [1, 2, 3, 4].repeat(100),
        "splat8" => WIDE[..8].repeat(3),
        "splat16" => WIDE.repeat(WIDE_BYTES / 16),
        other => panic!("{other}"),
    }
}

const NAMES: [&str; 7] = ["a", "splat1", "b", "splat4", "far", "splat8", "splat16"];

fn span(name: &str, parameter_offset: u64, buffer_offset: u64, length: u64) -> Span {
    Span { name: name.into(), parameter_offset, buffer_offset, length }
}

fn contents(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.size() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

fn params() -> BufferParams {
    BufferParams::default().mappable()
}

#[test]
fn loads_return_a_buffer_per_parameter() {
    let sample = Sample::new();
    for mode in MODES {
        let (device, provider) = (device(), sample.provider(mode));
        let done = fence(&device);
        let spans = NAMES.map(|name| span(name, 0, 0, expected(name).len() as u64));
        let buffers = provider.load(&request(&device, &done), params(), &spans).unwrap();
        done.wait(None).unwrap();
        for (name, buffer) in NAMES.iter().zip(&buffers) {
            assert!(contents(buffer) == expected(name), "{name} in {mode:?}");
        }
        let constants =
            provider.load(&Request { signals: None, ..request(&device, &done) }, constants(), &spans);
        for (name, buffer) in NAMES.iter().zip(&constants.unwrap()) {
            assert!(contents(buffer) == expected(name), "constant {name} in {mode:?}");
        }
        // Subranges, and an empty range.
        let done = fence(&device);
        let spans = [span("a", 64, 0, 100), span("splat4", 4, 0, 8), span("a", 0, 0, 0), span("b", 3, 0, 70)];
        let buffers = provider.load(&request(&device, &done), params(), &spans).unwrap();
        done.wait(None).unwrap();
        assert_eq!(contents(&buffers[0]), data(1, 1000)[64..164]);
        assert_eq!(contents(&buffers[1]), [1, 2, 3, 4, 1, 2, 3, 4]);
        assert!(contents(&buffers[2]).is_empty());
        assert_eq!(contents(&buffers[3]), data(2, 77)[3..73]);
    }
}

#[test]
fn gathers_wait_and_concatenate_parameters() {
    let sample = Sample::new();
    for mode in MODES {
        let (device, provider) = (device(), sample.provider(mode));
        let (ready, done) = (fence(&device), fence(&device));
        let (mut spans, mut whole) = (Vec::new(), Vec::new());
        for name in NAMES {
            let bytes = expected(name);
            whole.resize(whole.len().next_multiple_of(16), 0);
            spans.push(span(name, 0, whole.len() as u64, bytes.len() as u64));
            whole.extend(bytes);
        }
        let target = device.allocate_buffer(params(), whole.len() as u64).unwrap();
        target.write(0, &vec![0; whole.len()]).unwrap();
        let request = Request { waits: Some(&ready), ..request(&device, &done) };
        provider.gather(&request, &target, &spans).unwrap();
        assert!(!done.query().unwrap(), "the waits are not reached");
        assert!(contents(&target).iter().all(|byte| *byte == 0));
        ready.signal().unwrap();
        done.wait(None).unwrap();
        assert!(contents(&target) == whole, "{mode:?}");
    }
}

#[test]
fn an_empty_request_signals() {
    let device = device();
    let done = fence(&device);
    let provider = Sample::new().provider(FileMode::File);
    assert!(provider.load(&request(&device, &done), params(), &[]).unwrap().is_empty());
    assert!(done.query().unwrap());
}

#[test]
fn parameters_are_not_written_to() {
    let (device, sample) = (device(), Sample::new());
    let provider = sample.provider(FileMode::File);
    for name in ["a", "splat1", "far"] {
        let done = fence(&device);
        let refused = provider.scatter(&request(&device, &done), &[span(name, 0, 0, 4)]).unwrap_err();
        assert_eq!(refused.code(), StatusCode::PermissionDenied, "{name}");
        assert_eq!(done.wait(None).unwrap_err().code(), refused.code());
    }
}

/// Requests an invalid span; returns the error, which also fails the fence.
fn refusal(scope: &str, span: Span) -> rehal_base::Error {
    let (device, sample) = (device(), Sample::new());
    let provider = sample.provider(FileMode::File);
    let spans = std::slice::from_ref(&span);
    let done = fence(&device);
    let error = provider.load(&Request { scope, ..request(&device, &done) }, params(), spans).unwrap_err();
    assert_eq!(done.wait(None).unwrap_err().code(), error.code());
    let target = device.allocate_buffer(params(), 16).unwrap();
    let done = fence(&device);
    let gathered = provider.gather(&Request { scope, ..request(&device, &done) }, &target, spans);
    assert_eq!(gathered.unwrap_err().code(), error.code());
    assert_eq!(done.wait(None).unwrap_err().code(), error.code());
    error
}

#[test]
fn missing_parameters_fail_and_suggest_others() {
    let error = refusal("modell", span("a", 0, 0, 4));
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.report().contains("'model'"), "{error:?}");
    let error = refusal("model", span("splat", 0, 0, 4));
    assert!(error.report().contains("'splat1', 'splat4'"), "{error:?}");
    for (offset, length) in [(0, 1001), (1001, 0), (1, 1000), (u64::MAX, 2), (2, u64::MAX)] {
        let error = refusal("model", span("a", offset, 0, length));
        assert_eq!(error.code(), StatusCode::OutOfRange, "{offset} {length}");
        assert!(error.report().contains("`a` range out of bounds"), "{error:?}");
    }
}

#[test]
fn a_pattern_may_start_anywhere_in_a_repetition() {
    let (device, provider) = (device(), Sample::new().provider(FileMode::File));
    let done = fence(&device);
    let spans = [span("splat4", 2, 0, 8), span("splat16", 21, 0, 32), span("splat4", 0, 0, 6)];
    let buffers = provider.load(&request(&device, &done), params(), &spans).unwrap();
    done.wait(None).unwrap();
    assert_eq!(contents(&buffers[0]), expected("splat4")[2..10]);
    assert_eq!(contents(&buffers[1]), expected("splat16")[21..53]);
    assert_eq!(contents(&buffers[2]), expected("splat4")[..6]);
}

#[test]
fn a_truncated_file_fails_the_fence() {
    let (device, sample) = (device(), Sample::new());
    let provider = sample.provider(FileMode::File);
    std::fs::File::options().write(true).open(sample.path("a.irpa")).unwrap().set_len(500).unwrap();
    let done = fence(&device);
    let loaded = provider.load(&request(&device, &done), params(), &[span("a", 0, 0, 1000)]);
    let error = loaded.map(drop).and(done.wait(None)).unwrap_err();
    assert!([StatusCode::DataLoss, StatusCode::OutOfRange].contains(&error.code()), "{error:?}");
}

fn constants() -> BufferParams {
    let params = params();
    BufferParams { usage: params.usage | BufferUsage::SHARING_IMMUTABLE, ..params }
}

#[test]
fn writable_buffers_are_private_copies() {
    let sample = Sample::new();
    for mode in [FileMode::Mmap, FileMode::Preload] {
        let (device, provider) = (device(), sample.provider(mode));
        let done = fence(&device);
        let load = || provider.load(&request(&device, &done), params(), &[span("a", 0, 0, 1000)]).unwrap();
        let first = load();
        first[0].write(0, &[0; 1000]).unwrap();
        let second = Provider::load(
            &provider,
            &Request { signals: None, ..request(&device, &done) },
            constants(),
            &[span("a", 0, 0, 1000)],
        );
        assert_eq!(contents(&second.unwrap()[0]), expected("a"), "{mode:?}");
    }
}

#[test]
fn only_the_span_is_imported_zero_copy() {
    let sample = Sample::new();
    for mode in [FileMode::Mmap, FileMode::Preload] {
        let (device, provider) = (device(), sample.provider(mode));
        let done = fence(&device);
        let spans = [span("a", 0, 0, 1000), span("b", 1, 0, 9)];
        let buffers = provider.load(&request(&device, &done), constants(), &spans).unwrap();
        assert_eq!(buffers[0].allocation_size(), 1000, "{mode:?}");
        assert_eq!(buffers[0].params().access, MemoryAccess::READ);
        assert!(buffers[0].write(0, &[1]).is_err(), "a parameter file is read-only");
        // An unaligned span is copied.
        assert_ne!(buffers[1].params().access, MemoryAccess::READ);
        assert_eq!(contents(&buffers[1]), data(2, 77)[1..10]);
    }
}

/// A context with both modules, and arguments as compiled programs build them.
struct Program {
    context: Context,
    device: Device,
    done: Fence,
}

impl Program {
    fn new(scopes: Scopes) -> Self {
        let device = device();
        let devices = DeviceGroup::new(vec![device.clone()]).unwrap();
        let modules = [
            Module::native(HalModule::new(devices)).unwrap(),
            Module::native(IoParameters::new(scopes)).unwrap(),
        ];
        Self { context: Context::new(&modules).unwrap(), done: fence(&device), device }
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Result<Vec<Value>> {
        self.context.function(name)?.call(arguments)
    }

    /// Device, affinity, no wait fence, and the signal fence.
    fn head(&self) -> Vec<Value> {
        let done = Handle::reference(self.done.clone()).into();
        vec![Handle::reference(self.device.clone()).into(), Value::I64(-1), Value::NULL, done]
    }

    fn load_arguments(&self, keys: [Value; 3]) -> Vec<Value> {
        let mut arguments = self.head();
        let flags = [Value::I64(-1), Value::I32(0x32), Value::I32(0x0308_0c03)];
        arguments.push(bytes(b"model"));
        arguments.extend(flags.into_iter().chain(keys));
        arguments
    }
}

fn bytes(bytes: &[u8]) -> Value {
    Ref::new(Bytes::from_bytes(bytes).unwrap()).into()
}

/// Key table, key data and spans.
fn keys(spans: &[Span]) -> [Value; 3] {
    let (mut table, mut text, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    for span in spans {
        table.extend((text.len() as u32).to_le_bytes());
        table.extend((span.name.len() as u32).to_le_bytes());
        text.extend(span.name.as_bytes());
        for word in [span.parameter_offset, span.buffer_offset, span.length] {
            ranges.extend(word.to_le_bytes());
        }
    }
    [bytes(&table), bytes(&text), bytes(&ranges)]
}

#[test]
fn the_module_loads_and_gathers() {
    let program = Program::new(Sample::new().scopes(FileMode::Preload));
    let spans = [span("a", 0, 0, 1000), span("splat4", 0, 0, 400)];
    let results = program.call("io_parameters.load", &program.load_arguments(keys(&spans))).unwrap();
    program.done.wait(None).unwrap();
    let [Value::Ref(list)] = &results[..] else { panic!("{results:?}") };
    let list: &List = list.object().unwrap();
    assert_eq!(list.len(), 2);
    let buffer = |index| Handle::<Buffer>::of(&list.get_ref(index).unwrap()).unwrap().clone();
    assert_eq!(contents(&buffer(0)), expected("a"));
    assert_eq!(contents(&buffer(1)), expected("splat4"));

    let target = program.device.allocate_buffer(params(), 100).unwrap();
    let program = Program { done: fence(&program.device), ..program };
    let mut arguments = program.head();
    arguments.extend([bytes(b"model"), Handle::reference(target.clone()).into()]);
    arguments.extend(keys(&[span("b", 0, 23, 77)]));
    assert!(program.call("io_parameters.gather", &arguments).unwrap().is_empty());
    program.done.wait(None).unwrap();
    assert_eq!(contents(&target)[23..], expected("b"));

    let mut arguments = program.head();
    arguments.extend([Handle::reference(target).into(), bytes(b"model")]);
    arguments.extend(keys(&[span("b", 0, 0, 4)]));
    let error = program.call("io_parameters.scatter", &arguments).unwrap_err();
    assert_eq!(error.code(), StatusCode::PermissionDenied, "{error:?}");
}

#[test]
fn a_null_scope_is_the_unnamed_one() {
    let sample = Sample::new();
    let mut scopes = Scopes::new();
    scopes.add(&sample.path("a.irpa").display().to_string(), FileMode::Mmap).unwrap();
    let program = Program::new(scopes);
    for scope in [Value::NULL, bytes(b"")] {
        let program =
            Program { done: fence(&program.device), context: program.context.clone(), device: device() };
        let mut arguments = program.load_arguments(keys(&[span("a", 0, 0, 1000)]));
        arguments[4] = scope;
        assert_eq!(program.call("io_parameters.load", &arguments).unwrap().len(), 1);
    }
}

#[test]
fn mismatched_tables_are_rejected() {
    let program = Program::new(Sample::new().scopes(FileMode::File));
    let good = keys(&[span("a", 0, 0, 8), span("b", 0, 0, 8)]);
    let with = |index: usize, value: Value| {
        let mut keys = good.clone();
        keys[index] = value;
        program.call("io_parameters.load", &program.load_arguments(keys)).unwrap_err()
    };
    assert!(with(0, bytes(&[0; 15])).message().contains("does not match 2 spans"));
    assert!(with(2, bytes(&[0; 47])).message().contains("a multiple of 24"));
    assert_eq!(with(0, bytes(&[0xff; 16])).code(), StatusCode::OutOfRange);
    assert!(with(1, bytes(&[0xff; 2])).message().contains("UTF-8"));
    assert!(with(1, Value::NULL).message().contains("vm.buffer"));
    let mut arguments = program.load_arguments(good.clone());
    arguments[0] = Value::NULL;
    let error = program.call("io_parameters.load", &arguments).unwrap_err();
    assert!(error.message().contains("hal.device"), "{error:?}");
}
