#![cfg(target_arch = "x86_64")]

use rehal_base::StatusCode;
use rehal_hal::DeviceGroup;
use rehal_vm::Value::{I32, I64};
use rehal_vm::{Signal, Value};

use crate::commands::{create, run};
use crate::program::{ANY_QUEUE, Program, bytes, devices, i64_of, value, words_of};

const FORMAT: &str = "embedded-elf-x86_64";

fn code(name: &str) -> Value {
    let path = format!("{}/../../fixtures/cts/{name}.embedded.elf", env!("CARGO_MANIFEST_DIR"));
    bytes(std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

fn prepare(program: &Program, format: &str, data: Value, constants: Value) -> rehal_base::Result<Value> {
    let arguments = [program.device.clone(), I64(ANY_QUEUE), bytes(format), data, constants];
    Ok(program.call("executable.create", &arguments)?[0].clone())
}

fn executable(program: &Program, name: &str) -> Value {
    prepare(program, FORMAT, code(name), Value::NULL).unwrap()
}

fn function(program: &Program, executable: &Value, name: &str) -> Value {
    program.one("executable.lookup.function", &[executable.clone(), bytes(name)])
}

/// A binding of a whole buffer, or of a slot.
fn binding(buffer: &Value, slot: i32) -> [Value; 5] {
    [I32(0), I32(slot), buffer.clone(), I64(0), I64(-1)]
}

fn dispatch(
    program: &Program,
    head: [Value; 7],
    constants: &[i32],
    bindings: &[[Value; 5]],
) -> rehal_base::Result<()> {
    let mut arguments = head.to_vec();
    arguments.extend(constants.iter().map(|constant| I32(*constant)));
    arguments.extend(bindings.iter().flatten().cloned());
    let spans = [constants.len(), bindings.len()];
    let name = if matches!(arguments[4], Value::Ref(_)) { "dispatch.indirect" } else { "dispatch" };
    program.call_with_spans(&format!("command_buffer.{name}"), &arguments, &spans).map(drop)
}

#[test]
fn a_kernel_runs_with_constants_and_bindings() {
    let program = Program::new();
    let affine = executable(&program, "affine");
    let function = function(&program, &affine, "affine");
    let input: Vec<u32> = (0..16).collect();
    let (input, output) = (program.words(&input), program.buffer(64));
    let commands = create(&program, 1);
    let head = [commands.clone(), affine, function, I32(1), I32(1), I32(1), I64(0)];
    dispatch(&program, head, &[3, 10], &[binding(&Value::NULL, 0), binding(&output, 0)]).unwrap();
    run(&program, &commands, &[&input]);
    let expected: Vec<u32> = (0..16).map(|x| x * 3 + 10).collect();
    assert_eq!(words_of(&output), expected);
}

#[test]
fn an_indirect_workgroup_count_is_read_at_execution() {
    let program = Program::new();
    let affine = executable(&program, "affine");
    let function = function(&program, &affine, "affine");
    let (input, output, count) = (program.words(&[1; 16]), program.buffer(64), program.words(&[9, 0, 0, 0]));
    let commands = create(&program, 0);
    let fill = [commands.clone(), count.clone(), I64(0), I64(16), I32(0), I64(1), I32(4), I64(0)];
    program.call("command_buffer.fill_buffer", &fill).unwrap();
    let head = [commands.clone(), affine, function, I32(0), count, I64(4), I64(0)];
    dispatch(&program, head, &[1, 1], &[binding(&input, 0), binding(&output, 0)]).unwrap();
    assert_eq!(words_of(&output), [0; 16]);
    run(&program, &commands, &[]);
    assert_eq!(words_of(&output), [2; 16]);
}

#[test]
fn invalid_dispatches_are_rejected() {
    let program = Program::new();
    let affine = executable(&program, "affine");
    let buffer = program.buffer(64);
    let commands = create(&program, 0);
    let record = |function, constants: &[i32], bindings: usize| {
        let head = [commands.clone(), affine.clone(), I64(function), I32(1), I32(1), I32(1), I64(0)];
        let bindings = vec![binding(&buffer, 0); bindings];
        dispatch(&program, head, constants, &bindings)
    };
    record(0, &[1, 2], 2).unwrap();
    assert_eq!(record(0, &[1], 2).unwrap_err().code(), StatusCode::InvalidArgument);
    assert_eq!(record(0, &[1, 2], 1).unwrap_err().code(), StatusCode::InvalidArgument);
    assert_eq!(record(1, &[1, 2], 2).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(record(-1, &[1, 2], 2).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(record(1 << 32, &[1, 2], 2).unwrap_err().code(), StatusCode::OutOfRange);
    let many = record(0, &[1, 2], 33).unwrap_err();
    assert_eq!(many.message(), "binding count 33 > 32");
}

/// Caches of the device are dropped; objects in use stay valid.
#[test]
fn executables_survive_a_low_memory_signal() {
    let program = Program::new();
    let affine = executable(&program, "affine");
    for signal in [Signal::Suspend, Signal::Resume, Signal::LowMemory] {
        program.notify(signal);
    }
    let function = function(&program, &affine, "affine");
    let (input, output) = (program.words(&[2; 16]), program.buffer(64));
    let commands = create(&program, 0);
    let head = [commands.clone(), affine, function, I32(1), I32(1), I32(1), I64(0)];
    dispatch(&program, head, &[5, 1], &[binding(&input, 0), binding(&output, 0)]).unwrap();
    run(&program, &commands, &[]);
    assert_eq!(words_of(&output), [11; 16]);
}

#[test]
fn functions_are_found_by_name() {
    let program = Program::new();
    let affine = executable(&program, "affine");
    assert_eq!(i64_of(&function(&program, &affine, "affine")), 0);
    let error = program.refused("executable.lookup.function", &[affine, bytes("nope")]);
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("nope") && error.message().contains("affine"), "{error:?}");
}

#[test]
fn invalid_executables_are_rejected() {
    let program = Program::new();
    assert!(prepare(&program, "no-such-format", code("affine"), Value::NULL).is_err());
    assert!(prepare(&program, FORMAT, bytes("not an image"), Value::NULL).is_err());
    let odd = prepare(&program, FORMAT, code("affine"), bytes([0; 5])).unwrap_err();
    assert_eq!(odd.message(), "constant buffer data must contain 4-byte elements but data length is 5");
    let foreign: DeviceGroup = devices(1);
    let mut stranger = Program::new();
    stranger.device = value(foreign.devices()[0].clone());
    let error = prepare(&stranger, FORMAT, code("affine"), Value::NULL).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
}
