//! VM executables: their arguments, isolation and errors.

#![allow(unsafe_code, reason = "prepares fixtures; VM programs are untrusted")]

use std::path::PathBuf;

use rehal_base::{Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, CachingMode, Device, Dispatch, Executable, ExecutableParams,
    QUEUE_AFFINITY_ANY,
};
use rehal_local::LocalSync;
use rehal_vm::ModuleFile;

const FORMAT: &str = "vmvx-bytecode-fb";

fn fixture(path: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("'{}': {error}", path.display()))
}

fn prepare(device: &Device, data: &[u8], constants: &[u32]) -> Result<Executable> {
    let params = ExecutableParams {
        caching_mode: CachingMode::ALLOW_OPTIMIZATION,
        constants,
        ..ExecutableParams::new(FORMAT, data)
    };
    // SAFETY: verified VM programs access only their arguments.
    unsafe { device.backend().prepare_executable(&params) }
}

/// A dispatch; `local_memory` is in addition to the function's own requirement.
struct Call<'a> {
    function: &'a str,
    count: [u32; 3],
    size: [u32; 3],
    local_memory: u32,
    constants: &'a [u32],
    bindings: &'a [&'a Buffer],
}

impl Call<'_> {
    fn for_function(function: &str) -> Call<'_> {
        Call { function, count: [1; 3], size: [0; 3], local_memory: 0, constants: &[], bindings: &[] }
    }

    fn run(&self, device: &Device, executable: &Executable) -> Result<()> {
        let constants: Vec<u8> = self.constants.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bindings: Vec<_> = self.bindings.iter().map(|buffer| BufferRef::whole(*buffer)).collect();
        let dispatch = Dispatch::new(executable, executable.lookup(self.function)?, self.count)
            .workgroup_size(self.size)
            .dynamic_local_memory(self.local_memory)
            .constants(&constants[..])
            .bindings(&bindings[..]);
        device.queue(QUEUE_AFFINITY_ANY).dispatch(&dispatch)
    }
}

fn assembled(device: &Device) -> Executable {
    prepare(device, &fixture("cts/assembled.vmfb"), &[71, 72]).unwrap()
}

fn report(error: &rehal_base::Error) -> String {
    error.report().to_string()
}

#[test]
fn workgroups_receive_their_ids_counts_and_sizes() {
    let device = LocalSync::create(Default::default());
    let executable = assembled(&device);
    let call =
        Call { count: [2, 3, 1], size: [4, 2, 1], local_memory: 100, ..Call::for_function("surroundings") };
    call.run(&device, &executable).unwrap();
    // The program checks each of them.
    for wrong in [
        Call { count: [2, 2, 1], ..call },
        Call { size: [4, 2, 2], ..call },
        Call { size: [4, 0, 1], ..call },
        Call { local_memory: 99, ..call },
    ] {
        assert!(wrong.run(&device, &executable).is_err());
    }
    let other = prepare(&device, &fixture("cts/assembled.vmfb"), &[71, 73]).unwrap();
    let error = call.run(&device, &other).unwrap_err();
    assert!(report(&error).contains("executable constant 1"), "{}", report(&error));
}

#[test]
fn local_memory_has_the_requested_size_and_belongs_to_one_workgroup() {
    let device = LocalSync::create(Default::default());
    let executable = assembled(&device);
    for local_memory in [0, 4, 1000, 1 << 16] {
        Call { count: [5, 1, 1], local_memory, ..Call::for_function("local_memory") }
            .run(&device, &executable)
            .unwrap();
    }
}

#[test]
fn failures_name_executable_function_and_workgroup() {
    let device = LocalSync::create(Default::default());
    let executable = assembled(&device);
    Call { count: [3, 1, 1], ..Call::for_function("fails") }.run(&device, &executable).unwrap();
    let error =
        Call { count: [5, 2, 1], ..Call::for_function("fails") }.run(&device, &executable).unwrap_err();
    let said = report(&error);
    for part in ["three is too many", "function 'fails' of executable 'assembled' in workgroup [3, 0, 0]"] {
        assert!(said.contains(part), "{said}");
    }
    let error = Call::for_function("yields").run(&device, &executable).unwrap_err();
    assert!(report(&error).contains("must run to completion"), "{}", report(&error));
    // A failed call does not affect the next.
    Call { count: [3, 1, 1], ..Call::for_function("fails") }.run(&device, &executable).unwrap();
}

#[test]
fn memory_that_a_program_keeps_stays_valid_after_the_call() {
    let device = LocalSync::create(Default::default());
    let executable = assembled(&device);
    let keeps = Call { count: [3, 1, 1], local_memory: 64, ..Call::for_function("keeps") };
    keeps.run(&device, &executable).unwrap();
    keeps.run(&device, &executable).unwrap();
    Call { count: [4, 1, 1], local_memory: 64, ..Call::for_function("local_memory") }
        .run(&device, &executable)
        .unwrap();
}

#[test]
fn accesses_out_of_bounds_of_a_binding_are_errors() {
    let device = LocalSync::create(Default::default());
    let executable = prepare(&device, &fixture("cts/crash.vmvx.vmfb"), &[]).unwrap();
    let buffer = device.allocate_buffer(BufferParams::default(), 64).unwrap();
    let write = |low: u32, high: u32| {
        let call = Call { constants: &[low, high], bindings: &[&buffer], ..Call::for_function("write_at") };
        call.run(&device, &executable)
    };
    write(15, 0).unwrap();
    for (low, high) in [(16, 0), (1 << 20, 0), (u32::MAX, 0), (0, 1 << 30), (15, 0xC000_0000), (0, u32::MAX)]
    {
        let error = write(low, high).unwrap_err();
        assert_eq!(error.code(), StatusCode::OutOfRange, "{}", report(&error));
        assert!(report(&error).contains("function 'write_at' of executable"), "{}", report(&error));
    }
    let divide = |by: u32| {
        let call = Call { constants: &[84, by], bindings: &[&buffer], ..Call::for_function("divide") };
        call.run(&device, &executable)
    };
    divide(2).unwrap();
    assert!(divide(0).is_err());
}

#[test]
fn more_workgroups_than_their_numbers_are_rejected() {
    let device = LocalSync::create(Default::default());
    let executable = prepare(&device, &fixture("cts/affine.vmvx.vmfb"), &[]).unwrap();
    let buffer = device.allocate_buffer(BufferParams::default(), 64).unwrap();
    let call = Call { constants: &[1, 2], bindings: &[&buffer, &buffer], ..Call::for_function("affine") };
    call.run(&device, &executable).unwrap();
    assert!(Call { count: [1, 1, 1 << 16], ..call }.run(&device, &executable).is_err());
    // With 0 in x, plain loops would iterate 2^48 times over y and z.
    Call { count: [0, u32::MAX, 0xFFFF], ..call }.run(&device, &executable).unwrap();
}

#[test]
fn executable_constants_must_match_the_executable() {
    let device = LocalSync::create(Default::default());
    for (path, constants, why) in [
        ("cts/affine.vmvx.vmfb", &[1][..], "takes no constants"),
        ("cts/assembled.vmfb", &[], "requires constants"),
        ("cts/assembled.vmfb", &[1], "constants of executable"),
    ] {
        let error = prepare(&device, &fixture(path), constants).err().unwrap();
        assert!(report(&error).contains(why), "{}", report(&error));
    }
}

#[test]
fn the_format_is_detected_with_and_without_an_archive() {
    for path in ["cts/assembled.vmfb", "cts/affine.vmvx.vmfb"] {
        assert_eq!(rehal_local::executable::infer_format(&fixture(path)), Some(FORMAT), "{path}");
    }
}

#[test]
fn a_compiled_module_is_rejected_as_an_executable() {
    let device = LocalSync::create(Default::default());
    let error = prepare(&device, &fixture("modules/simple_abs.vmfb"), &[]).err().unwrap();
    let said = report(&error);
    for part in [
        "function 'abs'",
        "it is a compiled module (.vmfb), not an executable",
        "entry points have '0rrr",
        "it can be run and dumped as a module",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

/// The executables in a compiled program's constants.
fn executables_of(path: &str) -> Vec<Vec<u8>> {
    let file = ModuleFile::copy(&fixture(path)).unwrap();
    let segments = file.rodata_segments().map(|segment| file.bytes()[segment.range].to_vec());
    segments.filter(|bytes| rehal_local::executable::infer_format(bytes) == Some(FORMAT)).collect()
}

/// Runs the function of the program at `path` whose name starts with `name` on buffers of 128 floats each,
/// and returns their contents.
fn run_on<const N: usize>(path: &str, name: &str, values: [f32; N]) -> [Vec<f32>; N] {
    let device = LocalSync::create(Default::default());
    for executable in executables_of(path) {
        let executable = prepare(&device, &executable, &[]).unwrap();
        let function = executable.functions().iter().find(|function| function.name.starts_with(name));
        let Some(function) = function else { continue };
        assert_eq!(usize::from(function.binding_count), N);
        let buffers = values.map(|value| {
            let buffer = device.allocate_buffer(BufferParams::default(), 512).unwrap();
            let values: Vec<u8> = (0..128).flat_map(|_| value.to_le_bytes()).collect();
            buffer.write(0, &values).unwrap();
            buffer
        });
        let bindings = buffers.each_ref();
        Call { bindings: &bindings, ..Call::for_function(&function.name) }.run(&device, &executable).unwrap();
        return buffers.map(|buffer| {
            let mut out = [0; 512];
            buffer.read(0, &mut out).unwrap();
            out.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        });
    }
    panic!("'{path}' has no function '{name}'");
}

const MICROKERNELS: &str = "modules/microkernels.vmvx.vmfb";

#[test]
fn microkernels_are_called_from_bytecode() {
    // Two inputs, three results of 24 elements.
    let buffers = run_on(MICROKERNELS, "numbers", [6.0, 2.0, 0.0, 0.0, 0.0]);
    let is_somewhere = |value: f32| {
        buffers.iter().any(|buffer| buffer.iter().filter(|found| **found == value).count() == 24)
    };
    // 8 * 4 / 2 is 16: up from -16, down from 16, and the difference.
    assert_eq!([-16.0, 16.0, 4.0].map(is_somewhere), [true; 3]);
}

#[test]
fn denormals_are_flushed_to_zero() {
    // VM instructions: denormal inputs, and a denormal sum of normal ones.
    let sums = |a, b| run_on("modules/add4.vmvx.vmfb", "add", [a, b, 9.0])[2][..4].to_vec();
    assert_eq!(sums(1.0, 2.0), [3.0; 4]);
    assert_eq!(sums(6e-39, 6e-39), [0.0; 4]);
    assert_eq!(sums(2e-38, -1.5e-38), [0.0; 4]);
    // Microkernels: a denormal difference, and with it all results, also of ceil and floor.
    let buffers = run_on(MICROKERNELS, "numbers", [2e-38, 1.5e-38, 9.0, 9.0, 9.0]);
    let zeros = |buffer: &Vec<f32>| buffer.iter().filter(|found| **found == 0.0).count();
    assert_eq!(buffers.each_ref().map(zeros), [0, 0, 24, 24, 24]);
    // The thread's mode is restored.
    assert!(std::hint::black_box(2e-38_f32) - std::hint::black_box(1.5e-38) > 0.0);
}
