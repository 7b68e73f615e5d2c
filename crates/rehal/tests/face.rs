//! The face by itself: threads, records, started calls, and tensors without copies.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use rehal::StatusCode;
use rehal::capture::{CaptureFile, CaptureOptions, RecordFilter, Records};
use rehal::device::{Device, DeviceOptions, DeviceSpec, HostMemory};
use rehal::profile::ProfileFile;
use rehal::program::{
    Function, MappedValue, ModuleSource, PendingCall, Program, ProgramOptions, TensorType, Value, ValueText,
};
use rehal::record::Recorder;
use rehal::replay::{FastForward, Plan, Replay, ReplayOptions};

fn capture(name: &str) -> CaptureFile {
    let path = format!("{}/../../fixtures/captures/{name}.ireereplay", env!("CARGO_MANIFEST_DIR"));
    CaptureFile::open(path.as_ref(), &CaptureOptions::default()).unwrap()
}

fn program(name: &str, device: &str) -> Program {
    let path = format!("{}/../../fixtures/modules/{name}.vmfb", env!("CARGO_MANIFEST_DIR"));
    let mut options = ProgramOptions::default();
    options.modules.push(ModuleSource::File(path.into()));
    options.devices = DeviceOptions::for_devices(vec![DeviceSpec::find(device).unwrap()]);
    Program::load(&options).unwrap()
}

/// An f32 in memory that a device can use where it is.
fn number(value: f32) -> Arc<HostMemory> {
    let memory = HostMemory::allocate(4).unwrap();
    memory.write(0, &value.to_le_bytes()).unwrap();
    Arc::new(memory)
}

fn f32_of(value: &Value) -> f32 {
    f32::from_le_bytes(MappedValue::map(value).unwrap().memory().unwrap().load(0).unwrap())
}

#[test]
fn objects_may_be_sent_and_some_shared() {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    shared::<CaptureFile>();
    shared::<Plan>();
    shared::<Replay>();
    shared::<ProfileFile>();
    shared::<Recorder>();
    shared::<Program>();
    shared::<Function>();
    shared::<Device>();
    sent::<FastForward>();
    sent::<PendingCall>();
    sent::<Records<'_>>();
}

/// A part that a program keeps in its own structs has a name: `cargo xtask api` checks that all types have.
#[test]
fn parts_of_results_are_kept() {
    struct ProgramParts {
        kernel: rehal::kernel::Kernel,
        verdict: rehal::capture::Verdict,
        functions: Vec<rehal::device::FunctionInfo>,
    }
    fn row(records: &mut Records<'_>) -> rehal::Result<Option<rehal::capture::RecordKind>> {
        let row: Option<rehal::capture::RecordRow<'_>> = records.next().transpose()?;
        assert!(row.is_some());
        Ok(None)
    }
    let capture = capture("add4.add.local-sync");
    let devices = DeviceOptions::default().open().unwrap();
    let plan = capture.plan().unwrap();
    let kernels = rehal::kernel::Kernels::from_plan(&plan, &rehal::kernel::KernelOptions::default()).unwrap();
    let kept = ProgramParts {
        kernel: kernels.kernels[0].clone(),
        verdict: capture.verdict(&devices, &[]),
        functions: Vec::new(),
    };
    assert!(kept.verdict.is_replayable() && kept.functions.is_empty() && !kept.kernel.name.is_empty());
    assert!(row(&mut capture.records(&RecordFilter::default()).unwrap()).unwrap().is_none());
    let mut params = rehal::device::BufferParams::default().mappable();
    params.usage |= rehal::device::BufferUsage::TRANSFER;
    let semaphore: rehal::device::SemaphoreFlags = rehal::device::SemaphoreFlags::default();
    let device = &devices.devices()[0];
    assert!(device.allocate_buffer(params, 4).unwrap().params().usage.contains(params.usage));
    assert_eq!(device.create_semaphore(0b1, 7, semaphore).unwrap().query().unwrap(), 7);
}

#[test]
fn columns_have_what_rows_have() {
    /// The text of a row in a column.
    macro_rules! text {
        ($column:expr, $index:expr) => {
            $column.values[$column.codes[$index] as usize].as_bytes()
        };
    }
    for name in ["add4.add.local-sync", "bench.mlp.5.local-sync"] {
        let capture = capture(name);
        let all = RecordFilter::default();
        let columns = capture.table(&all).unwrap();
        assert_eq!(columns.row_count() as u64, capture.survey().unwrap().record_count);
        let mut dispatches = 0;
        for (index, row) in capture.records(&all).unwrap().enumerate() {
            let row = row.unwrap();
            assert_eq!((row.ordinal, columns.ordinal[index]), (index as u64, index as u64));
            assert_eq!((row.offset, row.size_bytes), (columns.offset[index], columns.size_bytes[index]));
            assert_eq!(row.record_type.as_bytes(), text!(columns.record_type, index));
            assert_eq!(row.kind.as_bytes(), text!(columns.kind, index));
            assert_eq!(row.object_id, columns.object_id[index]);
            assert_eq!(row.related_id, columns.related_id[index]);
            assert_eq!(row.binding_count, columns.binding_count[index]);
            assert_eq!(row.scope.unwrap_or_default(), text!(columns.scope, index));
            let (mut executable_id, mut function, mut workgroups) = (0, &b""[..], [0; 3]);
            if let Some(dispatch) = row.dispatch {
                dispatches += 1;
                (executable_id, function) = (dispatch.executable_id, dispatch.function_name);
                workgroups = dispatch.workgroup_count.unwrap();
            }
            assert_eq!(executable_id, columns.executable_id[index]);
            assert_eq!(function, text!(columns.function, index));
            let (x, y, z) =
                (&columns.workgroups_x[index], &columns.workgroups_y[index], &columns.workgroups_z[index]);
            assert_eq!(workgroups, [*x, *y, *z]);
        }
        assert!(dispatches > 0);
        assert!(columns.scope.values.iter().any(|scope| scope == "execute"));
        let mut filter = RecordFilter::default();
        filter.function = Some("*".into());
        assert_eq!(capture.table(&filter).unwrap().row_count(), dispatches);
        assert_eq!(capture.records(&filter).unwrap().count(), dispatches);
    }
}

#[test]
fn a_repeated_scope_keeps_its_replay() {
    let plan = capture("add4.add.local-sync").plan().unwrap();
    let devices = DeviceOptions::default().open().unwrap();
    let replay = Arc::new(Replay::new(plan, &devices, &ReplayOptions::default()).unwrap());
    let mut scope = replay.fast_forward(b"execute", &mut []).unwrap();
    drop((replay, devices));
    let repeated = thread::spawn(move || {
        scope.restore()?;
        scope.repeat(&mut [])?;
        scope.finish()
    });
    repeated.join().unwrap().unwrap();
}

#[test]
fn started_calls_have_the_results_of_calls() {
    for (module, device) in [("simple_abs", "local-sync"), ("simple_abs", "local-task")] {
        let program = program(module, device);
        let function = program.function("abs").unwrap();
        let input = program.tensor_over(&TensorType::parse("f32").unwrap(), &number(-3.0)).unwrap();
        let mut call = program.start(&function, vec![input.clone()]).unwrap();
        assert_eq!(program.function_count(), 2);
        assert!(call.wait(None).unwrap() && call.is_done().unwrap());
        let mut results = call.results().unwrap();
        program.to_host(&mut results).unwrap();
        assert_eq!(f32_of(&results[0]), 3.0);
        // A call that is cancelled leaves the program as it is.
        program.start(&function, vec![input.clone()]).unwrap().cancel();
        assert_eq!(f32_of(&program.call(&function, vec![input]).unwrap()[0]), 3.0);
        let error = program.start(&function, vec![]).err().unwrap();
        assert_eq!(error.code(), StatusCode::InvalidArgument);
        drop((function, results));
        program.close().unwrap();
    }
}

/// Wakes a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ready) => return ready,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn calls_are_awaited() {
    for (module, device) in [("mlp", "local-task"), ("mlp.async", "local-task"), ("mlp.async", "local-sync")]
    {
        let program = program(module, device);
        let name = program.main_module().runnable_functions().next().unwrap().to_owned();
        let function = program.function(&name).unwrap();
        let input = program.inputs(&function, &mlp_inputs()).unwrap();
        let waited = program.call(&function, input.clone()).unwrap();
        let awaited = block_on(program.start(&function, input).unwrap()).unwrap();
        let bytes = |results: &[Value]| {
            let mapped = MappedValue::map(&results[0]).unwrap();
            let memory = mapped.memory().unwrap();
            let mut bytes = vec![0; memory.length() as usize];
            memory.read(0, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(bytes(&awaited), bytes(&waited));
        assert!(!bytes(&awaited).is_empty());
    }
}

/// The inputs of the function of `mlp`.
fn mlp_inputs() -> Vec<ValueText> {
    let file = |name| format!("@{}/../../fixtures/inputs/mlp_{name}.npy", env!("CARGO_MANIFEST_DIR"));
    ["x", "w0", "w1", "w2"].map(|name| ValueText::new(file(name)).unwrap()).into()
}

#[test]
fn a_timeout_is_not_an_error() {
    let program = program("simple_abs", "local-task");
    let function = program.function("abs").unwrap();
    let input = program.tensor(&TensorType::parse("f32").unwrap(), &(-1.0_f32).to_le_bytes()).unwrap();
    let mut call = program.start(&function, vec![input]).unwrap();
    // Whether it is done by now depends on the machine; the answer is not an error.
    let _is_done: bool = call.wait(Some(Duration::ZERO)).unwrap();
    assert_eq!(call.results().unwrap().len(), 1);
}

#[test]
fn tensors_are_not_copied() {
    let program = program("simple_abs", "local-sync");
    let memory = number(-1.0);
    let tensor_type = TensorType::parse("f32").unwrap();
    let input = program.tensor_over(&tensor_type, &memory).unwrap();
    let mapped = MappedValue::map(&input).unwrap();
    assert_eq!(mapped.memory().unwrap().as_ptr(), memory.as_ptr());
    // Written behind its back, and seen by the kernel.
    memory.write(0, &(-8.0_f32).to_le_bytes()).unwrap();
    let function = program.function("abs").unwrap();
    assert_eq!(f32_of(&program.call(&function, vec![input]).unwrap()[0]), 8.0);
    // Another size, and an alignment that CPU kernels do not take.
    let long = Arc::new(HostMemory::allocate(8).unwrap());
    assert!(program.tensor_over(&tensor_type, &long).is_err());
    let part = HostMemory::part(&long, rehal::device::Range { offset: 4, length: 4 }).unwrap();
    let error = program.tensor_over(&tensor_type, &Arc::new(part)).err().unwrap();
    assert_eq!(error.code(), StatusCode::OutOfRange);
}
