use rehal_base::StatusCode;
use rehal_vm::Value;
use rehal_vm::Value::{I32, I64};

use crate::program::{ANY_QUEUE, Program, bytes, is_reached, words_of};

const TRANSFER_AND_DISPATCH: i32 = 3;

pub fn create(program: &Program, capacity: i32) -> Value {
    program.one(
        "command_buffer.create",
        &[program.device.clone(), I32(0), I32(TRANSFER_AND_DISPATCH), I64(ANY_QUEUE), I32(capacity)],
    )
}

/// Ends the recording and executes it with these buffers as the binding table.
pub fn run(program: &Program, command_buffer: &Value, table: &[&Value]) {
    program.call("command_buffer.finalize", std::slice::from_ref(command_buffer)).unwrap();
    let signal = program.fence();
    let mut arguments = vec![
        program.device.clone(),
        I64(ANY_QUEUE),
        Value::NULL,
        signal.clone(),
        command_buffer.clone(),
        I64(0),
    ];
    if table.is_empty() {
        program.call("device.queue.execute", &arguments).unwrap();
    } else {
        for buffer in table {
            arguments.extend([(*buffer).clone(), I64(0), I64(-1)]);
        }
        program.call_with_spans("device.queue.execute.indirect", &arguments, &[table.len()]).unwrap();
    }
    assert!(is_reached(&signal));
}

#[test]
fn transfers_are_recorded_and_run() {
    let program = Program::new();
    let (source, target) = (program.words(&[1, 2, 3, 4]), program.buffer(16));
    let commands = create(&program, 0);
    let call = |name: &str, rest: &[Value]| {
        let arguments = [std::slice::from_ref(&commands), rest].concat();
        program.call(&format!("command_buffer.{name}"), &arguments).unwrap();
    };
    call("begin_debug_group", &[bytes("transfers")]);
    call("fill_buffer", &[target.clone(), I64(4), I64(8), I32(0), I64(0xaabb), I32(2), I64(0)]);
    call("execution_barrier", &[I32(0x1c), I32(0x0d), I64(0)]);
    call(
        "update_buffer",
        &[bytes([0, 0, 9, 8, 7, 6, 0]), I64(2), target.clone(), I64(0), I64(4), I32(0), I64(0)],
    );
    call("copy_buffer", &[I32(0), I32(0), source.clone(), I64(8), target.clone(), I64(12), I64(4), I64(0)]);
    call("advise_buffer", &[target.clone(), I64(0), I64(0), I64(0), I32(0)]);
    call("end_debug_group", &[]);
    assert_eq!(words_of(&target), [0; 4], "nothing executes before submission");
    run(&program, &commands, &[]);
    assert_eq!(words_of(&target), [0x0607_0809, 0xaabb_aabb, 0xaabb_aabb, 3]);
}

#[test]
fn slots_resolve_through_the_binding_table() {
    let program = Program::new();
    let (source, target) = (program.words(&[1, 2, 3, 4]), program.buffer(16));
    let commands = create(&program, 2);
    let slot = Value::NULL;
    let fill = [commands.clone(), slot.clone(), I64(0), I64(8), I32(1), I64(5), I32(4), I64(0)];
    program.call("command_buffer.fill_buffer", &fill).unwrap();
    let copy = [commands.clone(), I32(0), I32(1), slot.clone(), I64(4), slot.clone(), I64(8), I64(8), I64(0)];
    program.call("command_buffer.copy_buffer", &copy).unwrap();
    let beyond = [commands.clone(), slot, I64(0), I64(8), I32(2), I64(5), I32(4), I64(0)];
    assert_eq!(program.refused("command_buffer.fill_buffer", &beyond).code(), StatusCode::OutOfRange);
    run(&program, &commands, &[&source, &target]);
    assert_eq!(words_of(&target), [5, 5, 2, 3]);
}

#[test]
fn invalid_commands_are_rejected() {
    let program = Program::new();
    let target = program.buffer(16);
    let commands = create(&program, 0);
    let fill = |length, pattern_length| {
        [commands.clone(), target.clone(), I64(0), I64(length), I32(0), I64(0), I32(pattern_length), I64(0)]
    };
    for (length, pattern_length) in [(16, 3), (16, 9), (16, -1), (15, 2)] {
        let error = program.refused("command_buffer.fill_buffer", &fill(length, pattern_length));
        assert_eq!(error.code(), StatusCode::InvalidArgument);
    }
    assert_eq!(program.refused("command_buffer.fill_buffer", &fill(20, 4)).code(), StatusCode::OutOfRange);
    let update = [commands.clone(), bytes([0; 4]), I64(2), target.clone(), I64(0), I64(4), I32(0), I64(0)];
    assert_eq!(program.refused("command_buffer.update_buffer", &update).code(), StatusCode::OutOfRange);
    let wrong = [target.clone(), I32(0), I32(0), I64(0)];
    let error = program.refused("command_buffer.execution_barrier", &wrong);
    assert_eq!(error.message(), "expected a reference to hal.command_buffer, found hal.buffer");
    program.call("command_buffer.finalize", std::slice::from_ref(&commands)).unwrap();
    let again = program.refused("command_buffer.finalize", std::slice::from_ref(&commands));
    assert_eq!(again.code(), StatusCode::FailedPrecondition);
    let late = program.refused("command_buffer.fill_buffer", &fill(16, 4));
    assert_eq!(late.code(), StatusCode::FailedPrecondition);
}

#[test]
fn a_cpu_has_no_channels() {
    let program = Program::new();
    let arguments = [program.device.clone(), I64(-1), I64(0), Value::NULL, bytes("group"), I32(-1), I32(-1)];
    let error = program.refused("channel.create", &arguments);
    assert_eq!(error.code(), StatusCode::Unimplemented);
    assert_eq!(error.message(), "device 'local-sync' does not support channels");
    let mut collective = vec![create(&program, 0), Value::NULL, I32(0), I32(0), I32(0), I32(0)];
    collective.extend([program.buffer(16), program.buffer(16), I64(0), I64(16), I64(0), I64(16), I64(4)]);
    for (name, arguments) in [
        ("channel.split", vec![Value::NULL, I32(0), I32(0), I64(0)]),
        ("channel.rank_and_count", vec![Value::NULL]),
        ("command_buffer.collective", collective),
    ] {
        let error = program.refused(name, &arguments);
        assert_eq!(error.message(), "expected a reference to hal.channel, found null");
    }
}
