use std::path::Path;

use rehal_capture::layout::{BufferBarrier, MemoryBarrier};
use rehal_capture::{OperationCode as Op, RecordFields, RecordType};
use zerocopy::little_endian::U32;

use super::{CaptureBuilder, FileSpec, Id, code, function, range, slot, whole};

/// A replayable capture with every operation that replays support: a seed for mutations.
pub fn everything() -> CaptureBuilder {
    let mut capture = CaptureBuilder::new();
    capture.scope_begin("everything");
    let buffer = capture.buffer(64);
    host(&mut capture, buffer);
    files(&mut capture, buffer);
    let cache = capture.cache();
    let functions = [function("first", 0, 1), function("second", 2, 2)];
    let executable = capture.executable(cache, &code("module", 1, &functions));
    commands(&mut capture, buffer, executable);
    queue(&mut capture, buffer, executable);
    capture.read(buffer, 0, 64);
    capture.scope_end("everything");
    capture.fill(whole(99), &[1]);
    capture.last().status_code = 5;
    let optional = RecordFields { record_type: RecordType(900), optional: true, ..RecordFields::default() };
    capture.push(optional, b"");
    capture
}

fn host(capture: &mut CaptureBuilder, buffer: Id) {
    capture.write(buffer, 8, b"host bytes");
    capture.written(Op::BUFFER_FLUSH_RANGE, buffer, 0, 4, b"data");
    capture.range(Op::BUFFER_INVALIDATE_RANGE, buffer, 0, 4, 0, 1);
    let imported = capture.import_buffer(1, 16, b"imported");
    capture.copy(range(imported, 0, 8), range(buffer, 16, 8));
    capture.bare_call(Op::DEVICE_QUERY_I64, capture.device);
    capture.bare_call(Op::DEVICE_QUEUE_FLUSH, capture.device);
}

fn files(capture: &mut CaptureBuilder, buffer: Id) {
    let inline = capture.file(&FileSpec::inline(b"the bytes of a file").writable());
    capture.file_read(inline, 4, range(buffer, 0, 8), b"");
    capture.file_write(range(buffer, 0, 4), inline, 2);
    let ranges = capture.file(&FileSpec::ranges("/gone", 1 << 30));
    capture.file_read(ranges, 1 << 20, range(buffer, 0, 5), b"range");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let length = std::fs::metadata(&here).unwrap().len();
    capture.file(&FileSpec::external(&here, length));
}

fn commands(capture: &mut CaptureBuilder, buffer: Id, executable: Id) {
    let event = capture.event();
    let memory = [MemoryBarrier { source_scope: U32::new(8), target_scope: U32::new(4) }];
    let buffers = [range(buffer, 0, 8), slot(1, 0, 4)]
        .map(|buffer_ref| BufferBarrier { buffer_ref, ..BufferBarrier::default() });
    let commands = capture.commands(2, |it, commands| {
        it.bare_call(Op::COMMAND_BUFFER_BEGIN_DEBUG_GROUP, commands);
        it.command_fill(commands, slot(0, 0, 8), &[1, 2, 3, 4]);
        it.command_update(commands, range(buffer, 0, 4), b"data");
        it.command_barrier(commands, &memory, &buffers);
        it.command_copy(commands, range(buffer, 0, 4), slot(1, 4, 4));
        it.command_event(Op::COMMAND_BUFFER_SIGNAL_EVENT, commands, event);
        it.command_wait_events(commands, &[event], &memory, &buffers);
        it.command_event(Op::COMMAND_BUFFER_RESET_EVENT, commands, event);
        let kernel = CaptureBuilder::kernel(executable, 1, [2, 3, 4]);
        it.command_dispatch(commands, &kernel, b"8 bytes!", &[slot(0, 0, 8), range(buffer, 8, 8)]);
        it.bare_call(Op::COMMAND_BUFFER_END_DEBUG_GROUP, commands);
    });
    capture.execute(commands, &[range(buffer, 32, 16), range(buffer, 48, 16)]);
}

fn queue(capture: &mut CaptureBuilder, buffer: Id, executable: Id) {
    let transient = capture.alloca(32);
    capture.fill(whole(transient), &[7]);
    capture.update(range(transient, 4, 6), b"update");
    capture.copy(range(transient, 0, 12), range(buffer, 20, 12));
    let count = [2u32, 1, 1].map(U32::new);
    capture.update(range(transient, 0, 12), zerocopy::IntoBytes::as_bytes(&count));
    let mut kernel = CaptureBuilder::kernel(executable, 0, [1; 3]);
    capture.dispatch(&kernel, &[], &[range(buffer, 0, 4)]);
    kernel.flags = U32::new(1);
    kernel.workgroup_count_ref = range(transient, 0, 12);
    capture.dispatch(&kernel, &[], &[range(buffer, 4, 4)]);
    capture.dealloca(transient);
    capture.execute(0, &[]);
}
