//! Command buffers: transfers, binding tables, dispatches, events, barriers.

use rehal_base::StatusCode;
use rehal_capture::OperationCode as Op;
use rehal_capture::layout::{BufferBarrier, MemoryBarrier};
use rehal_hal::{AccessScope, CommandBufferMode};
use zerocopy::little_endian::U32;

use crate::common::{Bound, CaptureBuilder, FLUSHED, Id, Ran, code, function, range, run, slot, whole};

#[test]
fn an_empty_slot_fails_on_use() {
    let mut capture = CaptureBuilder::new();
    let commands = capture.commands(1, |it, commands| it.command_fill(commands, slot(0, 0, 4), &[1]));
    capture.execute(commands, &[slot(0, 0, 0)]);
    let error = run(&capture.finish()).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert!(error.report().contains("device.queue_execute(22)"), "{error:?}");
    // The binding may be too short for the command.
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(16);
    let commands = capture.commands(1, |it, commands| it.command_fill(commands, slot(0, 2, 4), &[1]));
    capture.execute(commands, &[range(buffer, 0, 5)]);
    assert_eq!(run(&capture.finish()).unwrap_err().code(), StatusCode::OutOfRange);
}

#[test]
fn dispatches_take_direct_and_indirect_bindings() {
    let mut capture = CaptureBuilder::new();
    let (buffer, other, cache) = (capture.buffer(8), capture.buffer(12), capture.cache());
    capture.write(buffer, 0, b"01234567");
    let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 1, 2)]));
    let commands = capture.commands(2, |it, commands| {
        let header = CaptureBuilder::kernel(executable, 0, [3, 2, 1]);
        it.command_dispatch(commands, &header, b"four", &[slot(1, 2, 2), range(buffer, 0, 2)]);
        let mut indirect = CaptureBuilder::kernel(executable, 0, [0; 3]);
        indirect.flags = U32::new(1);
        indirect.workgroup_count_ref = slot(0, 0, 12);
        it.command_dispatch(commands, &indirect, b"more", &[slot(1, 2, 2), range(buffer, 2, 2)]);
    });
    let count = [9u32, 8, 7].map(U32::new);
    capture.update(whole(other), zerocopy::IntoBytes::as_bytes(&count));
    capture.execute(commands, &[whole(other), range(buffer, 4, 4)]);
    let ran = run(&capture.finish()).unwrap().ran;
    let dispatch = |constants: &[u8], count, [first, second]: [&[u8]; 2], offset| Ran::Dispatch {
        executable: "module".into(),
        function: "kernel".into(),
        constants: constants.to_vec(),
        bindings: vec![Bound { offset: 6, bytes: first.to_vec() }, Bound { offset, bytes: second.to_vec() }],
        workgroup_count: count,
        workgroup_size: [0; 3],
        local_memory: 0,
    };
    let dispatches: Vec<_> = ran.into_iter().filter(|it| matches!(it, Ran::Dispatch { .. })).collect();
    // The kernel adds one to each byte of its first binding, which the second dispatch reads.
    let expected =
        [dispatch(b"four", [3, 2, 1], [b"67", b"01"], 0), dispatch(b"more", [9, 8, 7], [b"78", b"23"], 2)];
    assert_eq!(dispatches, expected);
}

fn memory_barrier(source: AccessScope, target: AccessScope) -> MemoryBarrier {
    MemoryBarrier { source_scope: U32::new(source.bits()), target_scope: U32::new(target.bits()) }
}

#[test]
fn barriers_keep_their_scopes_and_ranges() {
    let mut capture = CaptureBuilder::new();
    let (buffer, bound) = (capture.buffer(16), capture.buffer(32));
    let scopes = [
        (AccessScope::DISPATCH_WRITE, AccessScope::DISPATCH_READ),
        (AccessScope::TRANSFER_WRITE, AccessScope::from_bits_retain(1 << 31)),
    ];
    let memory = scopes.map(|(source, target)| memory_barrier(source, target));
    let buffers = [range(buffer, 4, 8), slot(0, 2, 4)]
        .map(|buffer_ref| BufferBarrier { buffer_ref, ..BufferBarrier::default() });
    let event = capture.event();
    let commands = capture.commands(1, |it, commands| {
        it.command_barrier(commands, &memory, &buffers);
        it.command_barrier(commands, &[], &[]);
        it.command_event(Op::COMMAND_BUFFER_SIGNAL_EVENT, commands, event);
        it.command_wait_events(commands, &[event, event], &memory[1..], &buffers[..1]);
    });
    capture.execute(commands, &[range(bound, 8, 8)]);
    let ran = run(&capture.finish()).unwrap().ran;
    let live =
        scopes.map(|(source_scope, target_scope)| rehal_hal::MemoryBarrier { source_scope, target_scope });
    assert_eq!(
        ran,
        [
            Ran::Barrier { memory: live.to_vec(), buffers: vec![(4, 8), (10, 4)] },
            Ran::Barrier { memory: vec![], buffers: vec![] },
            Ran::Signalled,
            Ran::Waited { events: 2, memory: live[1..].to_vec(), buffers: vec![(4, 8)] },
            Ran::Queue("queue_execute"),
            FLUSHED,
        ]
    );
}

#[test]
fn events_are_signalled_waited_for_and_reset_across_command_buffers() {
    let mut capture = CaptureBuilder::new();
    let event = capture.event();
    let signals = capture.commands(0, |it, commands| {
        it.command_event(Op::COMMAND_BUFFER_SIGNAL_EVENT, commands, event);
    });
    let waits = capture.commands(0, |it, commands| {
        it.command_wait_events(commands, &[event], &[], &[]);
        it.command_event(Op::COMMAND_BUFFER_RESET_EVENT, commands, event);
    });
    for commands in [signals, waits, signals, waits] {
        capture.execute(commands, &[]);
    }
    let ran = run(&capture.finish()).unwrap().ran;
    let events: Vec<_> =
        ran.iter().filter(|it| !matches!(it, Ran::Queue(_) | Ran::Flushed(_))).cloned().collect();
    let waited = Ran::Waited { events: 1, memory: vec![], buffers: vec![] };
    let round = [Ran::Signalled, waited, Ran::Reset];
    assert_eq!(events, [round.clone(), round].concat());
    // Both command buffers use the same event: after the reset it is not signalled.
    capture.execute(waits, &[]);
    assert!(run(&capture.finish()).unwrap_err().message().contains("before its signal"));
}

#[test]
fn a_command_of_a_category_that_the_command_buffer_lacks_is_an_error() {
    let mut capture = CaptureBuilder::new();
    let (buffer, commands) = (capture.buffer(4), capture.command_buffer(0));
    capture.last_payload()[4] = 2;
    capture.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
    capture.command_fill(commands, whole(buffer), &[1]);
    capture.bare_call(Op::COMMAND_BUFFER_END, commands);
    capture.execute(commands, &[]);
    let error = run(&capture.finish()).unwrap_err();
    assert_eq!(error.code(), StatusCode::FailedPrecondition);
    assert!(error.report().contains("command_buffer.fill_buffer(309)"), "{error:?}");
}

/// Adds a command to a command buffer, on a buffer of 8 bytes.
type AddCommand = fn(&mut CaptureBuilder, Id, Id);

/// Commands that every device or the plan rejects, with part of the error.
const WRONG_COMMANDS: [(&str, AddCommand); 6] = [
    ("exceed a buffer of 8 bytes", |it, commands, buffer| {
        it.command_fill(commands, range(buffer, 6, 4), &[1]);
    }),
    ("exceed a buffer of 8 bytes", |it, commands, buffer| {
        it.command_copy(commands, range(buffer, 0, 4), range(buffer, 5, 4));
    }),
    ("not aligned to its pattern", |it, commands, buffer| {
        it.command_fill(commands, range(buffer, 0, 3), &[1, 2]);
    }),
    ("copy lengths differ", |it, commands, buffer| {
        it.command_copy(commands, range(buffer, 0, 4), range(buffer, 4, 3));
    }),
    ("has 1 slots", |it, commands, _| it.command_fill(commands, slot(1, 0, 4), &[1])),
    ("object 90 is used as a buffer", |it, commands, _| it.command_fill(commands, whole(90), &[1])),
];

#[test]
fn a_command_is_checked_on_execution() {
    for (reason, add) in WRONG_COMMANDS {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.buffer(8);
        let mut wrong = capture.place();
        let commands = capture.commands(1, |it, commands| {
            it.command_fill(commands, whole(buffer), &[7]);
            add(it, commands, buffer);
            wrong = it.place();
        });
        // The submission failed at capture, so it is skipped with its commands.
        let semaphore = capture.semaphore(0);
        capture.order(&[], &[(semaphore, 1)]).execute(commands, &[slot(0, 0, 0)]);
        capture.last().status_code = StatusCode::OutOfRange as u32;
        capture.read(buffer, 0, 8);
        assert_eq!(run(&capture.finish()).unwrap().bytes(), [[0; 8]], "{reason}");
        // One that succeeded is rejected; the error names the command and the execution.
        capture.execute(commands, &[slot(0, 0, 0)]);
        let error = run(&capture.finish()).unwrap_err().report();
        for place in [wrong, capture.place()] {
            assert!(
                error.contains(&format!("record #{}, offset {}: ", place.ordinal, place.offset)),
                "{error}"
            );
        }
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn an_inline_command_is_checked_when_recorded() {
    for (reason, add) in WRONG_COMMANDS {
        let mut capture = CaptureBuilder::new();
        let (buffer, commands) = (capture.buffer(8), capture.command_buffer(1));
        let mode = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
        capture.last_payload()[..4].copy_from_slice(&mode.bits().to_le_bytes());
        capture.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
        add(&mut capture, commands, buffer);
        let error = run(&capture.finish()).unwrap_err();
        assert!(error.message().contains(reason), "{error:?}");
    }
}

#[test]
fn objects_of_a_command_buffer_live_until_its_last_execution() {
    // The last record that refers to these objects is the command; the execution still needs them.
    let mut capture = CaptureBuilder::new();
    let (source, target) = (capture.buffer(4), capture.buffer(4));
    capture.write(source, 0, b"live");
    let commands = capture.commands(0, |it, commands| {
        it.command_copy(commands, whole(source), whole(target));
    });
    for _ in 0..3 {
        capture.buffer(1 << 12);
    }
    capture.execute(commands, &[]);
    capture.read(target, 0, 4);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"live"]);
}
