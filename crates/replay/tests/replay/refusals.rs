//! Unsupported and inconsistent captures are rejected by the plan, with the record, its offset,
//! the operation, the objects and the reason.

use rehal_base::{Remedy, StatusCode};
use rehal_capture::{ObjectType, OperationCode as Op, PayloadType, RecordFields, RecordType};
use rehal_hal::DeviceGroup;
use rehal_replay::{Plan, PlanOptions, Replay, ReplayOptions};
use zerocopy::little_endian::{U32, U64};

use crate::common::{
    CaptureBuilder, FAKE_FORMAT, FileSpec, Id, Ran, TestDevice, code, function, range, refusal, run, slot,
    whole,
};

/// The error for the last record that `add` appends.
#[track_caller]
fn refused(code: StatusCode, words: &[&str], add: impl FnOnce(&mut CaptureBuilder)) {
    let mut capture = CaptureBuilder::new();
    add(&mut capture);
    let place = capture.place();
    execute_last_command(&mut capture);
    let error = refusal(&capture.finish(), place, words);
    assert_eq!(error.code(), code, "{error:?}");
}

/// Executes the command buffer of the last record, a command: commands are rejected on execution.
fn execute_last_command(capture: &mut CaptureBuilder) {
    let last = *capture.last();
    if last.operation.object_type() == Some(ObjectType::COMMAND_BUFFER) {
        capture.bare_call(Op::COMMAND_BUFFER_END, last.object_id);
        capture.execute(last.object_id, &[]);
    }
}

const UNIMPLEMENTED: StatusCode = StatusCode::Unimplemented;
const DATA_LOSS: StatusCode = StatusCode::DataLoss;
const PRECONDITION: StatusCode = StatusCode::FailedPrecondition;

#[test]
fn unsupported_records() {
    for operation in [Op::DEVICE_QUEUE_HOST_CALL, Op::BUFFER_MAP_RANGE, Op::ALLOCATOR_EXPORT_BUFFER] {
        let words = format!("unsupported(5) {operation}, device 1, object 1");
        refused(UNIMPLEMENTED, &[&words, "captures cannot represent"], |it| {
            it.bare_call(operation, it.device);
            it.last().record_type = RecordType::UNSUPPORTED;
        });
    }
}

#[test]
fn unsupported_operations() {
    for (operation, reason) in [
        (Op::DEVICE_QUEUE_HOST_CALL, "host calls cannot be replayed"),
        (Op::DEVICE_CREATE_CHANNEL, "channels"),
        (Op::COMMAND_BUFFER_COLLECTIVE, "collectives"),
        (Op::ALLOCATOR_EXPORT_BUFFER, "exported memory"),
        (Op::DEVICE_REFINE_TOPOLOGY_EDGE, "device.refine_topology_edge(4) cannot be replayed"),
        (Op::ALLOCATOR_VIRTUAL_MEMORY_MAP, "cannot be replayed"),
        (Op::ALLOCATOR_PHYSICAL_MEMORY_ALLOCATE, "cannot be replayed"),
        (Op::EXECUTABLE_CACHE_INFER_FORMAT, "cannot be replayed"),
        (Op(999), "unknown(999): the operation is from a newer release"),
    ] {
        let words = format!("operation(3) {operation}, device 1, object 7");
        refused(UNIMPLEMENTED, &[&words, reason], |it| it.bare_call(operation, 7));
    }
}

#[test]
fn unknown_payload_types() {
    refused(UNIMPLEMENTED, &["device.create_executable_cache(9)"], |it| {
        it.cache();
        *it.last() = RecordFields { payload_type: PayloadType(9000), ..*it.last() };
    });
}

#[test]
fn unsupported_external_memory() {
    for external_type in [0, 2, 3, 4, 99] {
        let words = format!("unsupported external memory type {external_type}");
        let place = "allocator.import_buffer(103), device 1, object 2, related object 4";
        refused(UNIMPLEMENTED, &[&words, place], |it| {
            it.import_buffer(external_type, 4, b"data");
        });
    }
    refused(DATA_LOSS, &["5 bytes were imported into a buffer of 4"], |it| {
        it.import_buffer(1, 4, b"datum");
    });
}

#[test]
fn persistent_writable_mappings() {
    for access in [2, 3, 6] {
        refused(UNIMPLEMENTED, &["a persistent mapping for writing", "buffer.map_range(200)"], |it| {
            let buffer = it.buffer(16);
            it.range(Op::BUFFER_MAP_RANGE, buffer, 0, 16, 2, access);
        });
    }
}

#[test]
fn host_data_longer_than_its_range() {
    for operation in [Op::BUFFER_UNMAP_RANGE, Op::BUFFER_FLUSH_RANGE] {
        refused(DATA_LOSS, &["4 bytes were written to a range of 3"], |it| {
            let buffer = it.buffer(16);
            it.written(operation, buffer, 0, 3, b"data");
        });
    }
}

#[test]
fn unsupported_record_types() {
    refused(UNIMPLEMENTED, &["a record of type blob(4) cannot be replayed"], |it| {
        it.push(RecordFields { record_type: RecordType::BLOB, ..RecordFields::default() }, &[]);
    });
    // A required record of an unknown type is rejected by the reader; the error has the field's offset.
    let mut capture = CaptureBuilder::new();
    capture.push(RecordFields { record_type: RecordType(77), ..RecordFields::default() }, &[]);
    let bytes = capture.finish();
    let error = Plan::compile(bytes.clone(), PlanOptions::default()).err().unwrap();
    assert_eq!(error.code(), UNIMPLEMENTED);
    let place = capture.place();
    let report = error.report();
    assert!(report.contains(&format!("record #{}, offset {}", place.ordinal, place.offset + 60)), "{report}");
    assert!(report.contains("record_type") && report.contains("77"), "{report}");
}

#[test]
fn missing_objects() {
    type Add = fn(&mut CaptureBuilder);
    let uses: [(&str, Add); 12] = [
        ("buffer(4)", |it| it.fill(whole(90), &[1])),
        ("buffer(4)", |it| it.read(90, 0, 4)),
        ("semaphore(8)", |it| it.order(&[(90, 0)], &[]).execute(0, &[])),
        ("semaphore(8)", |it| it.order(&[], &[(90, 1)]).execute(0, &[])),
        ("command_buffer(5)", |it| it.execute(90, &[])),
        ("command_buffer(5)", |it| it.bare_call(Op::COMMAND_BUFFER_BEGIN, 90)),
        ("device(1)", |it| it.bare_call(Op::DEVICE_QUEUE_FLUSH, 90)),
        ("device(1)", |it| {
            it.allocator(90);
        }),
        ("allocator(2)", |it| {
            it.allocator = 90;
            it.buffer(1);
        }),
        ("executable_cache(6)", |it| {
            it.executable(90, &code("c", 1, &[]));
        }),
        ("executable(7)", |it| it.dispatch(&CaptureBuilder::kernel(90, 0, [1; 3]), &[], &[])),
        ("file(9)", |it| {
            let buffer = it.buffer(4);
            it.file_read(90, 0, whole(buffer), b"");
        }),
    ];
    for (kind, add) in uses {
        let mut capture = CaptureBuilder::new();
        add(&mut capture);
        // The map of a read is rejected, not the unmap after it.
        let used = capture.records.iter().position(|(fields, _)| fields.operation == Op::BUFFER_MAP_RANGE);
        if used.is_some() {
            capture.records.pop();
        }
        let reason = format!("object 90 is used as a {kind}, but no earlier record creates it");
        let error = refusal(&capture.finish(), capture.place(), &[&reason]);
        assert_eq!(error.code(), StatusCode::NotFound);
    }
}

#[test]
fn missing_objects_in_lists() {
    let missing = |words: &[&str], record: &dyn Fn(&mut CaptureBuilder, Id)| {
        refused(StatusCode::NotFound, words, |it| {
            let commands = it.command_buffer(2);
            it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
            record(it, commands);
        });
    };
    missing(&["object 90 is used as a event(10)"], &|it, commands| {
        it.command_wait_events(commands, &[90], &[], &[]);
    });
    missing(&["object 90 is used as a event(10)"], &|it, commands| {
        it.command_event(Op::COMMAND_BUFFER_SIGNAL_EVENT, commands, 90);
    });
    let barrier = rehal_capture::layout::BufferBarrier { buffer_ref: whole(90), ..Default::default() };
    missing(&["object 90 is used as a buffer(4)"], &|it, commands| {
        it.command_barrier(commands, &[], &[barrier]);
    });
    missing(&["object 90 is used as a buffer(4)"], &|it, commands| {
        it.command_copy(commands, slot(0, 0, 4), range(90, 0, 4));
    });
}

#[test]
fn objects_of_the_wrong_type() {
    refused(PRECONDITION, &["object 3 is a semaphore(8), expected a buffer(4)"], |it| {
        it.fill(whole(it.timeline), &[1]);
    });
    refused(PRECONDITION, &["object 2 is a allocator(2), expected a device(1)"], |it| {
        it.device = it.allocator;
        it.event();
    });
    refused(PRECONDITION, &["object 1 is a device(1), expected a allocator(2)"], |it| {
        it.allocator = it.device;
        it.buffer(1);
    });
    refused(PRECONDITION, &["object 4 is a executable_cache(6), expected a command_buffer(5)"], |it| {
        let cache = it.cache();
        it.execute(cache, &[]);
    });
}

#[test]
fn duplicate_and_zero_ids() {
    refused(StatusCode::AlreadyExists, &["duplicate object id 3: it is already a semaphore(8)"], |it| {
        it.next_id = it.timeline;
        it.buffer(4);
    });
    refused(StatusCode::AlreadyExists, &["duplicate object id 1: it is already a device(1)"], |it| {
        it.next_id = it.device;
        it.device();
    });
    refused(DATA_LOSS, &["created without an id"], |it| {
        it.next_id = 0;
        it.semaphore(0);
    });
    // Sparse ids are valid, and checked for duplicates too.
    refused(StatusCode::AlreadyExists, &["duplicate object id 18446744073709551615"], |it| {
        for id in [1 << 40, u64::MAX, u64::MAX] {
            it.next_id = id - 1;
            it.next_id += 1;
            let kept = it.next_id;
            it.next_id = 10;
            it.event();
            it.last().related_object_id = kept;
        }
    });
}

#[test]
fn unsignalled_waits() {
    let words = ["waits for semaphore 3 to reach 1, which no record signals (current 0)"];
    refused(PRECONDITION, &words, |it| it.order(&[(it.timeline, 1)], &[]).execute(0, &[]));
    // Signalled only by itself: a deadlock.
    refused(PRECONDITION, &words, |it| it.order(&[(it.timeline, 1)], &[(it.timeline, 1)]).execute(0, &[]));
    // Two that wait for each other: a deadlock; the error names the first record.
    let mut capture = CaptureBuilder::new();
    let other = capture.semaphore(0);
    capture.order(&[(capture.timeline, 1)], &[(other, 1)]).execute(0, &[]);
    let waits = capture.place();
    capture.order(&[(other, 1)], &[(capture.timeline, 1)]).execute(0, &[]);
    refusal(&capture.finish(), waits, &words);
    // The signal of a failed call does not count.
    let mut capture = CaptureBuilder::new();
    capture.fill(whole(4), &[1]);
    capture.last().status_code = 3;
    capture.order(&[(capture.timeline, 1)], &[]).execute(0, &[]);
    refusal(&capture.finish(), capture.place(), &words);
}

#[test]
fn non_increasing_signals() {
    refused(DATA_LOSS, &["semaphore 4 must increase: current 5, signalled 5"], |it| {
        let semaphore = it.semaphore(5);
        it.order(&[], &[(semaphore, 5)]).execute(0, &[]);
    });
    refused(DATA_LOSS, &["semaphore 3 must increase: current 4, signalled 2"], |it| {
        it.order(&[], &[(it.timeline, 4)]).execute(0, &[]);
        it.order(&[], &[(it.timeline, 2)]).execute(0, &[]);
    });
    refused(DATA_LOSS, &["semaphore 3 must increase: current 7, signalled 7"], |it| {
        it.order(&[], &[(it.timeline, 7), (it.timeline, 7)]).execute(0, &[]);
    });
    // The maximum value denotes a failure, on every device.
    refused(DATA_LOSS, &["semaphore 3 must increase: current 0, signalled 18446744073709551615"], |it| {
        it.order(&[], &[(it.timeline, u64::MAX)]).execute(0, &[]);
    });
}

#[test]
fn semaphores_with_the_failure_value() {
    refused(DATA_LOSS, &["the initial payload of a semaphore is the failure value"], |it| {
        it.semaphore(u64::MAX);
    });
}

#[test]
fn command_buffers_in_the_wrong_state() {
    let not = |reason: &str, add: fn(&mut CaptureBuilder)| refused(PRECONDITION, &[reason, "object"], add);
    not("cannot execute command buffer 4: recording has not begun", |it| {
        let commands = it.command_buffer(0);
        it.execute(commands, &[]);
    });
    not("cannot execute command buffer 4: it is being recorded", |it| {
        let commands = it.command_buffer(0);
        it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
        it.execute(commands, &[]);
    });
    not("cannot record into command buffer 5: recording has not begun", |it| {
        let (buffer, commands) = (it.buffer(4), it.command_buffer(0));
        it.command_fill(commands, whole(buffer), &[1]);
    });
    not("cannot record into command buffer 5: recording has already ended", |it| {
        let (buffer, commands) = (it.buffer(4), it.commands(0, |_, _| {}));
        it.command_fill(commands, whole(buffer), &[1]);
    });
    not("cannot begin command buffer 4: recording has already ended", |it| {
        let commands = it.commands(0, |_, _| {});
        it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
    });
    not("cannot begin command buffer 4: it is being recorded", |it| {
        let commands = it.command_buffer(0);
        it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
        it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
    });
    not("cannot end command buffer 4: recording has not begun", |it| {
        let commands = it.command_buffer(0);
        it.bare_call(Op::COMMAND_BUFFER_END, commands);
    });
    not("cannot end command buffer 4: recording has already ended", |it| {
        let commands = it.commands(0, |_, _| {});
        it.bare_call(Op::COMMAND_BUFFER_END, commands);
    });
}

#[test]
fn slots_out_of_bounds() {
    refused(
        StatusCode::OutOfRange,
        &["binding slot 2 is out of bounds: the command buffer has 2 slots"],
        |it| {
            let (buffer, commands) = (it.buffer(4), it.command_buffer(2));
            it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
            it.command_copy(commands, range(buffer, 0, 4), slot(2, 0, 4));
        },
    );
    refused(DATA_LOSS, &["command buffer 5 needs 2 bindings, found 1"], |it| {
        let (buffer, commands) = (it.buffer(4), it.commands(2, |_, _| {}));
        it.execute(commands, &[whole(buffer)]);
    });
    let direct = ["refers to a binding slot, but has no binding table"];
    refused(DATA_LOSS, &direct, |it| it.fill(slot(0, 0, 4), &[1]));
    refused(DATA_LOSS, &direct, |it| it.update(slot(0, 0, 4), b"data"));
    refused(DATA_LOSS, &direct, |it| it.dealloca_ref(slot(0, 0, 4)));
    refused(DATA_LOSS, &direct, |it| {
        let buffer = it.buffer(4);
        it.copy(range(buffer, 0, 2), slot(0, 2, 2));
    });
    refused(DATA_LOSS, &direct, |it| {
        let buffer = it.buffer(4);
        it.copy(slot(0, 2, 2), range(buffer, 0, 2));
    });
    refused(DATA_LOSS, &direct, |it| {
        let file = it.file(&FileSpec::inline(b"file"));
        it.file_read(file, 0, slot(0, 0, 4), b"");
    });
    refused(DATA_LOSS, &direct, |it| {
        let file = it.file(&FileSpec::inline(b"file").writable());
        it.file_write(slot(0, 0, 4), file, 0);
    });
    refused(DATA_LOSS, &direct, |it| {
        let cache = it.cache();
        let executable = it.executable(cache, &code("c", 1, &[function("f", 0, 1)]));
        it.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), &[], &[slot(0, 0, 4)]);
    });
    refused(DATA_LOSS, &["a queue barrier has bindings"], |it| {
        let buffer = it.buffer(4);
        it.execute(0, &[whole(buffer)]);
    });
}

#[test]
fn data_that_does_not_match_its_range() {
    refused(DATA_LOSS, &["an update of 5 bytes carries 4"], |it| {
        let buffer = it.buffer(8);
        it.update(range(buffer, 0, 5), b"data");
    });
    refused(DATA_LOSS, &["an update of 5 bytes carries 4"], |it| {
        let (buffer, commands) = (it.buffer(8), it.command_buffer(0));
        it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
        it.command_update(commands, range(buffer, 0, 5), b"data");
    });
    refused(DATA_LOSS, &["an update of 8 bytes carries 4"], |it| {
        let (buffer, file) = (it.buffer(8), it.file(&FileSpec::ranges("/gone", 100)));
        it.file_read(file, 0, range(buffer, 0, 8), b"data");
    });
    refused(DATA_LOSS, &["copy lengths differ: source 4 bytes, target 3 bytes"], |it| {
        let buffer = it.buffer(8);
        it.copy(range(buffer, 0, 4), range(buffer, 4, 3));
    });
    refused(DATA_LOSS, &["copy lengths differ: source 4 bytes, target 3 bytes"], |it| {
        let (buffer, commands) = (it.buffer(8), it.command_buffer(0));
        it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
        it.command_copy(commands, range(buffer, 0, 4), range(buffer, 4, 3));
    });
    for pattern in [&b""[..], b"abc", b"abcdefgh"] {
        let words = format!("a fill pattern has 1, 2 or 4 bytes, not {}", pattern.len());
        refused(DATA_LOSS, &[&words], |it| {
            let buffer = it.buffer(24);
            it.fill(whole(buffer), pattern);
        });
        refused(DATA_LOSS, &[&words], |it| {
            let (buffer, commands) = (it.buffer(24), it.command_buffer(0));
            it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
            it.command_fill(commands, whole(buffer), pattern);
        });
    }
}

#[test]
fn dispatches_of_missing_functions() {
    refused(
        StatusCode::OutOfRange,
        &["function ordinal 1 is out of bounds: executable 5 has 1 functions"],
        |it| {
            let cache = it.cache();
            let executable = it.executable(cache, &code("c", 1, &[function("f", 0, 0)]));
            it.dispatch(&CaptureBuilder::kernel(executable, 1, [1; 3]), &[], &[]);
        },
    );
    refused(UNIMPLEMENTED, &["a dispatch in a command buffer has semaphores"], |it| {
        let cache = it.cache();
        let executable = it.executable(cache, &code("c", 1, &[function("f", 0, 0)]));
        let commands = it.command_buffer(0);
        it.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
        it.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), &[], &[]);
        *it.last() = RecordFields {
            operation: Op::COMMAND_BUFFER_DISPATCH,
            object_id: commands,
            object_type: ObjectType::COMMAND_BUFFER,
            ..*it.last()
        };
    });
    refused(DATA_LOSS, &["has no metadata"], |it| {
        let (cache, id) = (it.cache(), it.new_id());
        it.prepare(cache, id, FAKE_FORMAT, b"code", &[]);
    });
}

#[test]
fn unsupported_files() {
    let file = |code: StatusCode, words: &str, spec: FileSpec| {
        refused(code, &[words, "device.import_file(10)"], |it| {
            it.file(&spec);
        });
    };
    file(UNIMPLEMENTED, "unsupported file reference type none(0)", FileSpec::new(0, b"", 9));
    file(UNIMPLEMENTED, "unsupported file reference type unknown(7)", FileSpec::new(7, b"", 9));
    file(DATA_LOSS, "the file has 9 bytes, but the capture has 4", FileSpec::new(2, b"file", 9));
    let mut spec = FileSpec::new(1, b"/file", 9);
    spec.header.validation_type = U32::new(3);
    file(UNIMPLEMENTED, "unsupported file validation type unknown(3)", spec);
    let mut spec = FileSpec::new(1, b"/file", 9).digest(1);
    spec.header.digest_type = 0.into();
    file(UNIMPLEMENTED, "unsupported file digest type none(0)", spec);

    refused(PRECONDITION, &["the capture has only the bytes that were read from '/gone'"], |it| {
        let (buffer, file) = (it.buffer(8), it.file(&FileSpec::ranges("/gone", 100)));
        it.file_read(file, 0, whole(buffer), b"");
    });
    refused(PRECONDITION, &["the capture has only the bytes that were read from '/gone'"], |it| {
        let (buffer, file) = (it.buffer(8), it.file(&FileSpec::ranges("/gone", 100).writable()));
        it.file_write(whole(buffer), file, 0);
    });
}

#[test]
fn malformed_payloads() {
    // A payload error has the field and its offset; its context has the record and the operation.
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.fill(whole(buffer), &[1]);
    capture.last_payload()[64] = 200;
    let error = refusal(&capture.finish(), capture.place(), &["pattern_length", "device.queue_fill(15)"]);
    assert_eq!(error.code(), DATA_LOSS);
    // Also for an object that the replay does not use.
    let mut capture = CaptureBuilder::new();
    capture.semaphore(0);
    *capture.last() = RecordFields {
        record_type: RecordType::OBJECT,
        object_type: ObjectType::SEMAPHORE,
        object_id: 9,
        operation: Op::NONE,
        ..*capture.last()
    };
    capture.last_payload()[24] = 1;
    refusal(&capture.finish(), capture.place(), &["reserved0", "object(2), device 1, object 9"]);
}

#[test]
fn device_count_mismatches() {
    for (captured, given) in [(1, 2), (2, 1), (3, 4)] {
        let mut capture = CaptureBuilder::empty();
        for _ in 0..captured {
            capture.device();
        }
        let bytes = capture.finish();
        let plan = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
        assert_eq!(plan.device_count(), captured);
        let group = DeviceGroup::new((0..given).map(|_| TestDevice::create().0).collect()).unwrap();
        let error = Replay::new(plan, &group, &ReplayOptions::default()).err().unwrap();
        assert_eq!(error.code(), PRECONDITION);
        assert_eq!(error.message(), format!("the capture uses {captured} device(s), found {given}"));
        assert_eq!(error.advice(), Some(&Remedy::GiveDevices.into()));
    }
    // A capture without a device cannot run, and device groups are not empty.
    let bytes = CaptureBuilder::empty().finish();
    let plan = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    assert!(Replay::new(plan, &group, &ReplayOptions::default()).is_err());
}

#[test]
fn failed_calls_are_skipped() {
    let mut capture = CaptureBuilder::new();
    // Without payloads, on missing objects, including unsupported operations.
    for operation in Op::ALL.iter().copied().filter(|it| *it != Op::NONE) {
        for record_type in [RecordType::OPERATION, RecordType::UNSUPPORTED] {
            capture.bare_call(operation, 70);
            *capture.last() = RecordFields { record_type, status_code: 5, ..*capture.last() };
        }
    }
    // With a payload that would be rejected if the call had succeeded; the id stays free.
    capture.import_buffer(9, 16, b"");
    capture.last().status_code = 14;
    capture.next_id -= 1;
    let buffer = capture.buffer(4);
    capture.fill(whole(buffer), &[7]);
    capture.read(buffer, 0, 4);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [[7; 4]]);
}

#[test]
fn a_trim_is_replayed_on_its_device() {
    let mut capture = CaptureBuilder::new();
    capture.bare_call(Op::DEVICE_TRIM, capture.device);
    capture.bare_call(Op::ALLOCATOR_TRIM, capture.allocator);
    assert_eq!(run(&capture.finish()).unwrap().ran, [Ran::Trimmed, Ran::Trimmed]);
    refused(StatusCode::NotFound, &["device.trim", "77"], |it| it.bare_call(Op::DEVICE_TRIM, 77));
    refused(PRECONDITION, &["allocator.trim"], |it| it.bare_call(Op::ALLOCATOR_TRIM, it.device));
}

#[test]
fn queries_and_hints_are_not_steps() {
    let mut capture = CaptureBuilder::new();
    for operation in [
        Op::DEVICE_QUERY_I64,
        Op::DEVICE_QUERY_CAPABILITIES,
        Op::DEVICE_ASSIGN_TOPOLOGY_INFO,
        Op::DEVICE_QUERY_QUEUE_POOL_BACKEND,
        Op::DEVICE_PROFILING_BEGIN,
        Op::DEVICE_PROFILING_FLUSH,
        Op::DEVICE_PROFILING_END,
        Op::DEVICE_EXTERNAL_CAPTURE_BEGIN,
        Op::DEVICE_EXTERNAL_CAPTURE_END,
        Op::ALLOCATOR_QUERY_MEMORY_HEAPS,
        Op::EXECUTABLE_FUNCTION_COUNT,
        Op::EXECUTABLE_FUNCTION_INFO,
        Op::EXECUTABLE_FUNCTION_PARAMETERS,
        Op::EXECUTABLE_LOOKUP_FUNCTION_BY_NAME,
    ] {
        capture.bare_call(operation, 1);
    }
    let commands = capture.command_buffer(0);
    capture.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
    for operation in [
        Op::COMMAND_BUFFER_ADVISE_BUFFER,
        Op::COMMAND_BUFFER_BEGIN_DEBUG_GROUP,
        Op::COMMAND_BUFFER_END_DEBUG_GROUP,
    ] {
        capture.bare_call(operation, commands);
    }
    capture.bare_call(Op::COMMAND_BUFFER_END, commands);
    // Optional records of unknown types, a second session, object records.
    let optional = RecordFields { record_type: RecordType(900), optional: true, ..RecordFields::default() };
    capture.push(optional, b"");
    capture.push(RecordFields { record_type: RecordType::SESSION, ..RecordFields::default() }, b"");
    capture.object(ObjectType::EXECUTABLE, 4, 1);
    let observed = run(&capture.finish()).unwrap();
    // The remaining steps: the semaphore, the command buffer, its begin and its end.
    assert_eq!(observed.steps.len(), 4);
    assert_eq!(observed.ran, []);
}

#[test]
fn a_plan_describes_its_contents() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("c", 1, &[function("f", 0, 0), function("g", 1, 2)]));
    let prepared = capture.place();
    let file = capture.file(&FileSpec::external(std::path::Path::new("/f"), 30).writable());
    for name in ["b", "a", "b"] {
        capture.scope_begin(name);
        capture.scope_end(name);
    }
    let bytes = capture.finish();
    let plan = Plan::compile(bytes.clone(), PlanOptions::default()).unwrap();
    assert_eq!((plan.device_count(), plan.version().major, plan.step_count()), (1, 2, 9));
    let [record] = plan.executables().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((record.id, record.location), (executable, prepared));
    assert_eq!(record.function_names().collect::<Vec<_>>(), [b"f", b"g"]);
    let [record] = plan.files().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((record.id, record.length, record.access.bits()), (file, 30, 3));
    assert_eq!(plan.scopes().collect::<Vec<_>>(), [(&b"b"[..], 2), (&b"a"[..], 1)]);
}

#[test]
fn progress_is_reported_every_few_megabytes() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(3 << 20);
    let data = vec![1; 3 << 20];
    for _ in 0..4 {
        capture.update(whole(buffer), &data);
    }
    let bytes = capture.finish();
    let mut told = Vec::new();
    let mut tell = |done: u64, total: u64| told.push((done, total));
    Plan::compile(bytes.clone(), PlanOptions { progress: Some(&mut tell), ..PlanOptions::default() })
        .unwrap();
    assert!((1..=3).contains(&told.len()) && told.is_sorted(), "{told:?}");
    assert!(told.iter().all(|(done, total)| done <= total && *total == bytes.len() as u64));
}

#[test]
fn a_count_buffer_is_checked_for_static_counts_too() {
    for flags in [0, 1, 2] {
        refused(StatusCode::NotFound, &["object 90 is used as a buffer(4)"], |it| {
            let cache = it.cache();
            let executable = it.executable(cache, &code("c", 1, &[function("f", 0, 0)]));
            let mut header = CaptureBuilder::kernel(executable, 0, [0; 3]);
            header.flags = U32::new(flags);
            header.workgroup_count_ref.buffer_id = U64::new(90);
            it.dispatch(&header, &[], &[]);
        });
    }
}

#[test]
fn a_static_count_must_not_have_a_range() {
    type Change = fn(&mut rehal_capture::layout::BufferRef);
    let changes: [(Change, &str); 3] = [
        (|it| it.buffer_slot = U32::new(1), "slot 1, offset 0, length 0"),
        (|it| it.offset = U64::new(4), "slot 0, offset 4, length 0"),
        (|it| it.length = U64::new(1 << 40), "slot 0, offset 0, length 1099511627776"),
    ];
    for (change, words) in changes {
        refused(DATA_LOSS, &["the workgroup count is static", words], |it| {
            let cache = it.cache();
            let executable = it.executable(cache, &code("c", 1, &[function("f", 0, 0)]));
            let mut header = CaptureBuilder::kernel(executable, 0, [1; 3]);
            change(&mut header.workgroup_count_ref);
            it.dispatch(&header, &[], &[]);
        });
    }
}

/// Otherwise the operation would be skipped as failed.
#[test]
fn undefined_status_codes() {
    for status_code in [19, 65536, u32::MAX] {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.buffer(4);
        capture.fill(whole(buffer), &[7]);
        capture.last().status_code = status_code;
        let error = run(&capture.finish()).err().unwrap();
        assert_eq!(error.code(), DATA_LOSS, "{error}");
        assert!(
            error
                .message()
                .contains(&format!("status_code: expected a status code, 0 to 18, found {status_code}")),
            "{error}"
        );
    }
}

#[test]
fn host_data_of_a_read_mapping() {
    for access in [0u16, 1, 4] {
        refused(DATA_LOSS, &["4 bytes were written to a range that was mapped for "], |it| {
            let buffer = it.buffer(16);
            it.written(Op::BUFFER_UNMAP_RANGE, buffer, 0, 4, b"data");
            // The access field, which follows the offset, the lengths and the mode.
            let at = std::mem::offset_of!(rehal_capture::layout::BufferRangeData, memory_access);
            it.last_payload()[at..at + 2].copy_from_slice(&access.to_le_bytes());
        });
    }
}

/// The device grants a buffer's properties, so the run rejects it, like the reference's.
#[test]
fn disallowed_buffer_usage() {
    use rehal_hal::{MemoryAccess, MemoryType};
    let denied = |allocation, uses: &dyn Fn(&mut CaptureBuilder, Id)| {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.buffer_with(allocation);
        uses(&mut capture, buffer);
        let error = run(&capture.finish()).expect_err("refused");
        assert_eq!(error.code(), StatusCode::PermissionDenied, "{error}");
        error.to_string()
    };
    let host_only = crate::common::allocation(16);
    let host_only = rehal_capture::layout::AllocateBuffer {
        memory_type: U32::new(MemoryType::HOST_LOCAL.bits()),
        ..host_only
    };
    let error = denied(host_only, &|it, buffer| it.fill(whole(buffer), &[1]));
    assert!(error.contains("the device cannot see memory of type "), "{error}");
    denied(host_only, &|it, buffer| {
        let commands = it.commands(0, |it, into| it.command_fill(into, whole(buffer), &[1]));
        it.execute(commands, &[]);
    });
    // The host may use it.
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer_with(host_only);
    capture.write(buffer, 0, b"data");
    run(&capture.finish()).unwrap();

    // All access bits of a mapping must be allowed: the builder writes with DISCARD.
    for access in [MemoryAccess::READ, MemoryAccess::READ | MemoryAccess::WRITE] {
        let allocation = crate::common::allocation(16);
        let allocation = rehal_capture::layout::AllocateBuffer {
            access: zerocopy::little_endian::U16::new(access.bits()),
            ..allocation
        };
        let error = denied(allocation, &|it, buffer| it.write(buffer, 0, b"data"));
        assert!(error.contains("buffer access does not allow"), "{error}");
    }
}
