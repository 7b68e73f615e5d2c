//! `rehal redact` on captures of dispatches that read their workgroup counts from a buffer.

use std::path::Path;

use rehal_devices::DeviceOptions;
use rehal_hal::{
    AccessScope, BufferParams, BufferRef, BufferUsage, Command, CommandBufferParams, Device, Dispatch,
    DispatchFlags, Executable, ExecutableParams, ExecutionStage, Live, MemoryBarrier, MemoryType,
    QUEUE_AFFINITY_ANY, SemaphoreFlags, WorkgroupCount,
};
use rehal_replay::{RecordOptions, Recorder};
use serde_json::Value;

use crate::common::{Scratch, fail, fixture, print, run};

/// Where the counts come from.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// A kernel computes them from what the host writes.
    Kernel,
    /// So do two kernels, the second from what the first writes.
    Kernels,
    /// They are copied twice from what the host writes.
    Copies,
    /// An update of a slot.
    Update,
    /// A fill of more bytes than the count.
    Fill,
}

/// The numbers that the host writes: the first three are a count, which stays in the 64 workgroups of
/// `write_ids` whichever three they are.
const NUMBERS: [u32; 16] = [4, 3, 2, 1, 4, 2, 3, 1, 2, 4, 1, 3, 3, 1, 4, 2];

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[allow(unsafe_code, reason = "the suite's kernels are fixtures of ours")]
fn executable(device: &Device, name: &str) -> Executable {
    let data = std::fs::read(fixture(&format!("cts/{name}.embedded.elf"))).unwrap();
    let params = ExecutableParams { label: name, ..ExecutableParams::new("embedded-elf-x86_64", &data) };
    device.create_executable_cache("").unwrap();
    // SAFETY: a kernel of `fixtures/cts`, which accesses only its bindings.
    unsafe { device.backend().prepare_executable(&params) }.unwrap()
}

fn dispatch<'a>(
    executable: &'a Executable,
    count: WorkgroupCount<&'a rehal_hal::Buffer>,
    constants: &'a [u8],
    bindings: &'a [BufferRef<&'a rehal_hal::Buffer>],
) -> Command<Live<'a>> {
    let flags = match count {
        WorkgroupCount::Static(_) => DispatchFlags::empty(),
        WorkgroupCount::Indirect(_) => DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS,
    };
    Command::Dispatch(Dispatch {
        executable,
        function: 0,
        workgroup_size: [0; 3],
        workgroup_count: count,
        dynamic_local_memory: 0,
        constants,
        bindings,
        flags,
    })
}

/// Records a program that executes a command buffer twice: `write_ids` with a count from a buffer in slot 0.
fn record(path: &Path, from: Origin) {
    let recorder = Recorder::create(path, RecordOptions::default()).unwrap();
    let devices = recorder.wrap(&DeviceOptions::default().open().unwrap()).unwrap();
    let device = &devices.devices()[0];
    let params = BufferParams {
        usage: BufferParams::default().usage
            | BufferUsage::DISPATCH_INDIRECT_PARAMETERS
            | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    let [input, between, counts] = [64; 3].map(|size| device.allocate_buffer(params, size).unwrap());
    let output = device.allocate_buffer(params, 64 * 24).unwrap();
    input.write(0, &bytes_of(&NUMBERS)).unwrap();
    let (affine, workgroups) = (executable(device, "affine"), executable(device, "workgroups"));
    let negate = executable(device, "entry_points");
    let (constants, minus_one) = (bytes_of(&[1, 0]), bytes_of(&[u32::MAX, 0]));
    let to_counts = [BufferRef::whole(&input), BufferRef::slot(0, 0, 64)];
    let to_between = [BufferRef::whole(&input), BufferRef::whole(&between)];
    let on = [BufferRef::whole(&between), BufferRef::slot(0, 0, 64)];
    let out = [BufferRef::whole(&output)];
    let one = WorkgroupCount::Static([1; 3]);
    let data = bytes_of(&NUMBERS);
    let pattern = bytes_of(&[3]);
    let copy = |source, target| Command::Copy { source, target, flags: 0 };
    let before = match from {
        Origin::Kernel => vec![dispatch(&affine, one, &constants, &to_counts)],
        Origin::Kernels => {
            vec![dispatch(&negate, one, &[], &to_between), dispatch(&affine, one, &minus_one, &on)]
        }
        Origin::Copies => vec![
            copy(BufferRef::whole(&input), BufferRef::whole(&between)),
            copy(BufferRef::range(&between, 0, 32), BufferRef::slot(0, 0, 32)),
        ],
        Origin::Update => {
            vec![Command::Update { source: &data[..], target: BufferRef::slot(0, 0, 64), flags: 0 }]
        }
        Origin::Fill => {
            vec![Command::Fill { target: BufferRef::slot(0, 0, 64), pattern: &pattern[..], flags: 0 }]
        }
    };
    // Of which 12 bytes are read.
    let count = WorkgroupCount::Indirect(BufferRef::slot(0, 0, 64));
    let commands = device.create_command_buffer(CommandBufferParams::default().slots(1)).unwrap();
    commands.begin().unwrap();
    for command in before.iter().chain([&dispatch(&workgroups, count, &[], &out)]) {
        commands.record(command).unwrap();
        let writes = AccessScope::DISPATCH_WRITE | AccessScope::TRANSFER_WRITE;
        let reads = AccessScope::DISPATCH_READ | AccessScope::TRANSFER_READ;
        let barrier = MemoryBarrier {
            source_scope: writes,
            target_scope: reads | writes | AccessScope::INDIRECT_COMMAND_READ,
        };
        let stages = ExecutionStage::DISPATCH | ExecutionStage::TRANSFER | ExecutionStage::COMMAND_PROCESS;
        commands
            .record(&Command::ExecutionBarrier {
                source_stages: stages,
                target_stages: stages,
                flags: 0,
                memory_barriers: &[barrier],
                buffer_barriers: &[],
            })
            .unwrap();
    }
    commands.end().unwrap();
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
    for value in 1..=2 {
        let table = [BufferRef::whole(&counts)];
        device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(value)]).execute(&commands, &table, 0).unwrap();
        done.wait(value, None).unwrap();
    }
    recorder.close().unwrap();
}

/// The workgroup counts of `write_ids` in a replay.
fn replayed(path: &str) -> Vec<String> {
    let report = print(&["rehal", "kernels", "--device=local-sync", "--format=csv", path]);
    let mut lines = report.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let titles = lines.next().unwrap();
    let column = |name: &str| titles.iter().position(|it| *it == name).unwrap();
    let (function, count) = (column("function"), column("workgroup_count"));
    lines.filter(|it| it[function] == "write_ids").map(|it| it[count].to_owned()).collect()
}

fn redact<'a>(words: &[&'a str], path: &'a str, output: &'a str) -> Vec<&'a str> {
    [&["rehal", "redact", "--device=local-sync", "--element_type=ui32"], words, &[path, "-o", output]]
        .concat()
}

#[test]
fn counts_that_a_kernel_computes_from_replaced_data_are_refused() {
    let scratch = Scratch::new();
    let (path, output) = (scratch.path("computed.ireereplay"), scratch.path("redacted.ireereplay"));
    record(&path, Origin::Kernel);
    let (path, output) = (path.to_str().unwrap(), output.to_str().unwrap());
    assert_eq!(replayed(path), ["4x3x2"]);
    let stderr = fail(&redact(&[], path, output));
    for part in ["'write_ids' is dispatched with ", " instead of 4x3x2", "--keep='affine'", "--no_run"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!Path::new(output).exists());
    // Unchecked, as the report says.
    let report = print(&redact(&["--no_run"], path, output));
    let counts = "(2 such dispatches; some may be computed from what was replaced, which only a run tells: see record #";
    assert!(
        report.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ").contains(counts),
        "{report}"
    );
    let report = print(&redact(&["--no_run", "--format=json"], path, output));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["workgroup_counts"]["same"], Value::Null);
    assert_eq!(report["workgroup_counts"]["indirect_dispatches"], 2);
    assert_ne!(replayed(output), ["4x3x2"]);
    // With the inputs of the kernel.
    let report = print(&redact(&["--keep=aff*"], path, output));
    assert!(report.contains("replaced: 0 of 64 bytes"), "{report}");
    assert!(report.contains("data that --keep names: 64 bytes"), "{report}");
    assert!(report.contains("a replay of the original has the same"), "{report}");
    assert_eq!(replayed(output), ["4x3x2"]);
    let report: Value =
        serde_json::from_str(&print(&redact(&["--keep=affine", "--format=json"], path, output))).unwrap();
    assert_eq!(report["workgroup_counts"]["compared_by_replay"], true);
    assert_eq!(report["kept"]["stated_bytes"], 64);
    assert!(fail(&redact(&["--keep=nothing*"], path, output)).contains("'nothing*'"));
}

#[test]
fn the_first_kernel_whose_data_is_not_kept_is_named() {
    let scratch = Scratch::new();
    let (path, output) = (scratch.path("computed.ireereplay"), scratch.path("redacted.ireereplay"));
    record(&path, Origin::Kernels);
    let (path, output) = (path.to_str().unwrap(), output.to_str().unwrap());
    let stderr = fail(&redact(&[], path, output));
    assert!(stderr.contains("--keep='affine'"), "{stderr}");
    let stderr = fail(&redact(&["--keep=affine"], path, output));
    assert!(stderr.contains("--keep='negate'"), "{stderr}");
    print(&redact(&["--keep=affine", "--keep=negate"], path, output));
    assert_eq!(replayed(output), ["4x3x2"]);
}

#[test]
fn counts_that_the_capture_has_stay() {
    let scratch = Scratch::new();
    for (from, bytes, total) in [(Origin::Copies, 12, 64), (Origin::Update, 12, 128), (Origin::Fill, 4, 68)] {
        let (path, output) = (scratch.path("data.ireereplay"), scratch.path("redacted.ireereplay"));
        record(&path, from);
        let (path, output) = (path.to_str().unwrap(), output.to_str().unwrap());
        let report = print(&redact(&["--format=json"], path, output));
        let report: Value = serde_json::from_str(&report).unwrap();
        let kept = ["workgroup_count_bytes", "pattern_bytes"].map(|it| report["kept"][it].as_u64().unwrap());
        assert_eq!(kept.iter().sum::<u64>(), bytes, "{report}");
        let types: u64 = report["types"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(types + bytes, total);
        assert_eq!(report["workgroup_counts"]["same"], true);
        assert_eq!(replayed(output), replayed(path));
    }
}

#[test]
fn an_original_that_does_not_replay_is_an_error() {
    let scratch = Scratch::new();
    let (path, output) = (scratch.path("computed.ireereplay"), scratch.path("redacted.ireereplay"));
    record(&path, Origin::Kernel);
    // The original names a format that no device here has.
    let mut bytes = std::fs::read(&path).unwrap();
    let format = b"embedded-elf-x86_64";
    let at = bytes.windows(format.len()).position(|it| it == format).unwrap();
    bytes[at..at + format.len()].copy_from_slice(b"embedded-elf-riscv0");
    let path = scratch.file("other.ireereplay", bytes);
    let ran = run(&redact(&["--recover"], &path, output.to_str().unwrap()));
    assert!(ran.status == Some(1) && !output.exists(), "{ran:?}");
    assert!(
        ran.stderr.contains("embedded-elf-riscv0") && ran.stderr.contains("the original, replayed to"),
        "{ran:?}"
    );
}
