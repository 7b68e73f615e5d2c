//! Repetitions of a scope without what is outside of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode, fnv};
use rehal_cts::late::LateDevice;
use rehal_hal::{Device, DeviceGroup};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    FileWrites, Plan, PlanOptions, Replay, ReplayOptions, ReplayOrder, VariedBytes, VariedPiece,
};

use crate::captured::{RandomProgram, expected};
use crate::common::{CaptureBuilder, FileSpec, Observed, TestDevice, code, function, range, slot, whole};

const REPETITIONS: usize = 3;

/// Bytes that the repetitions of the scope `part` read, and the number of bytes that are restored.
struct Repeated {
    reads: Vec<Vec<crate::common::Read>>,
    restored_bytes: u64,
}

/// Repeats the scope `part`; `between` is called before each repetition.
fn repeat_with(bytes: &[u8], order: ReplayOrder, device: Device, between: &dyn Fn()) -> Result<Repeated> {
    repeat_by(bytes, &ReplayOptions::default().order(order), device, between)
}

fn repeat_by(bytes: &[u8], options: &ReplayOptions, device: Device, between: &dyn Fn()) -> Result<Repeated> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
    // Evictions change nothing.
    let cold_scope = Some(b"part".to_vec());
    let options = options.clone().cold_scope(cold_scope);
    let replay = Arc::new(Replay::new(plan, &DeviceGroup::new(vec![device])?, &options)?);
    let mut fast = replay.fast_forward(b"part", &mut [])?;
    let mut reads = Vec::new();
    for _ in 0..REPETITIONS {
        between();
        fast.restore()?;
        let mut observed = Observed::default();
        fast.repeat(&mut [&mut observed])?;
        assert_eq!(observed.scopes.first().map(String::as_str), Some("begin:part"));
        assert_eq!(observed.scopes.last().map(String::as_str), Some("end:part"));
        assert!(fast.is_reproduced()?);
        reads.push(observed.reads);
    }
    let restored_bytes = fast.restored_bytes();
    fast.finish()?;
    Ok(Repeated { reads, restored_bytes })
}

fn repeat(capture: &CaptureBuilder) -> Result<Repeated> {
    repeat_with(&capture.finish(), ReplayOrder::Serialized, TestDevice::create().0, &|| {})
}

fn synchronous() -> Device {
    LocalSync::create(Plugins::default())
}

/// Each repetition reads what the scope reads in a replay of the whole capture.
#[test]
fn repetitions_of_random_scopes_read_what_a_whole_replay_reads() {
    let (mut repeated, mut restored) = (0, 0);
    for program in 0..150 {
        let bytes = RandomProgram::capture(program);
        let of_part = |read: &crate::common::Read| read.scope.as_deref() == Some("part");
        let reads: Vec<_> = expected(&bytes).reads.into_iter().filter(of_part).collect();
        for (order, device) in [
            (ReplayOrder::Serialized, synchronous()),
            (ReplayOrder::Captured, LateDevice::over(synchronous(), program, Duration::from_micros(200))),
        ] {
            match repeat_with(&bytes, order, device, &|| {}) {
                Ok(found) => {
                    assert!(
                        found.reads.iter().all(|it| *it == reads),
                        "program {program}: {:?}",
                        found.reads
                    );
                    restored += u64::from(found.restored_bytes > 0);
                    repeated += usize::from(!reads.is_empty());
                }
                Err(error) => assert_refused(&error, "a submission is issued"),
            }
        }
    }
    assert!(repeated > 50 && restored > 50, "{repeated} {restored}");
}

#[track_caller]
fn assert_refused(error: &Error, why: &str) {
    assert_eq!(error.code(), StatusCode::Unimplemented, "{}", error.report());
    for part in ["the scope cannot be repeated by itself", why, "record #", "try: measure it without"] {
        assert!(error.report().contains(part), "{}", error.report());
    }
}

/// Kernels may write all that is bound to them, and the capture does not say what they write.
#[test]
fn only_bytes_that_the_scope_changes_are_restored() {
    const STATE_BYTES: u64 = 12;
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("counts", 1, &[function("counts", 0, 2)]));
    let kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
    let (state, weights) = (capture.buffer(16), capture.buffer(1 << 20));
    capture.fill(whole(weights), &[9]);
    capture.fill(whole(state), &[3]);
    capture.scope_begin("part");
    capture.dispatch(&kernel, &[], &[range(state, 2, STATE_BYTES), whole(weights)]);
    capture.read(state, 0, 4);
    capture.scope_end("part");
    capture.fill(whole(state), &[5]);
    capture.read(state, 0, 4);
    let found = repeat(&capture).unwrap();
    assert_eq!(found.restored_bytes, STATE_BYTES);
    for reads in &found.reads {
        let bytes: Vec<_> = reads.iter().map(|read| read.bytes.clone()).collect();
        assert_eq!(bytes, [[3, 3, 4, 4]], "the read after the scope is not repeated");
    }
}

/// Work between two entries is part of their computation.
#[test]
fn a_scope_that_is_entered_twice_is_repeated_from_its_first_begin_to_its_last_end() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.fill(whole(buffer), &[1]);
    capture.scope_begin("part");
    capture.read(buffer, 0, 1);
    capture.scope_end("part");
    capture.fill(whole(buffer), &[2]);
    capture.scope_begin("part");
    capture.read(buffer, 0, 1);
    capture.scope_end("part");
    let found = repeat(&capture).unwrap();
    for reads in &found.reads {
        assert_eq!(reads.iter().map(|read| read.bytes[0]).collect::<Vec<_>>(), [1, 2]);
    }
    assert_eq!(found.restored_bytes, 1, "only that byte is read");
}

/// The scope writes the file that it has read.
#[test]
fn bytes_of_files_are_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.bin");
    let external = FileSpec::external(&path, 8).digest(fnv::fnv1a64(b"12345678")).writable();
    for (spec, file_writes, after) in [
        (&external, FileWrites::Copy, b"12345678"),
        (&external, FileWrites::InPlace, b"123xxxx8"),
        (&FileSpec::inline(b"12345678").writable(), FileWrites::Copy, b"12345678"),
    ] {
        std::fs::write(&path, b"12345678").unwrap();
        let mut capture = CaptureBuilder::new();
        let (old, new) = (capture.buffer(4), capture.buffer(4));
        let file = capture.file(spec);
        capture.fill(whole(new), b"x");
        capture.scope_begin("part");
        capture.file_read(file, 2, whole(old), b"");
        capture.file_write(whole(new), file, 3);
        capture.read(old, 0, 4);
        capture.scope_end("part");
        let options = ReplayOptions::default().file_writes(file_writes);
        let found = repeat_by(&capture.finish(), &options, TestDevice::create().0, &|| {}).unwrap();
        assert_eq!(found.restored_bytes, 4 + 3, "of the buffer that is read, and of the file");
        assert!(found.reads.iter().all(|reads| reads[0].bytes == b"3456"));
        assert_eq!(std::fs::read(&path).unwrap(), after);
    }
}

/// A scope that reads a file, which may change between repetitions, and copies it.
fn file_reader(path: &Path, reads_on_host: bool) -> CaptureBuilder {
    let mut capture = CaptureBuilder::new();
    let (read, copied) = (capture.buffer(4), capture.buffer(4));
    let file = capture.file(&FileSpec::external(path, 4));
    capture.fill(whole(read), b"a");
    capture.scope_begin("part");
    capture.file_read(file, 0, whole(read), b"");
    capture.copy(whole(read), whole(copied));
    if reads_on_host {
        capture.read(copied, 0, 4);
    }
    capture.scope_end("part");
    capture
}

#[test]
fn a_repetition_that_does_something_else_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("input.bin");
    for (reads_on_host, why) in
        [(true, "4 bytes at offset 0 of buffer 5 differ"), (false, "changed bytes 0 to 4 of buffer 4")]
    {
        std::fs::write(&path, b"aaaa").unwrap();
        let bytes = file_reader(&path, reads_on_host).finish();
        let order = ReplayOrder::Serialized;
        repeat_with(&bytes, order, synchronous(), &|| {}).unwrap();
        let change = || std::fs::write(&path, b"bbbb").unwrap();
        let error = repeat_with(&bytes, order, synchronous(), &change).err().unwrap();
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        assert!(error.report().contains(why), "{}", error.report());
    }
}

#[test]
fn a_repetition_that_writes_other_bytes_is_not_reproduced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("input.bin");
    std::fs::write(&path, b"bbbb").unwrap();
    let plan = Plan::compile(file_reader(&path, false).finish(), PlanOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![synchronous()]).unwrap();
    let replay = Arc::new(Replay::new(plan, &devices, &ReplayOptions::default()).unwrap());
    let mut fast = replay.fast_forward(b"part", &mut []).unwrap();
    for (bytes, is_reproduced) in [(b"bbbb", true), (b"cccc", false), (b"bbbb", true)] {
        std::fs::write(&path, bytes).unwrap();
        fast.restore().unwrap();
        fast.repeat(&mut []).unwrap();
        assert_eq!(fast.is_reproduced().unwrap(), is_reproduced);
    }
    fast.restore().unwrap();
    assert!(!fast.is_reproduced().unwrap(), "it has not been repeated");
}

#[test]
fn a_repetition_needs_a_restored_scope() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.scope_begin("part");
    capture.fill(whole(buffer), &[1]);
    capture.scope_end("part");
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![synchronous()]).unwrap();
    let replay = Arc::new(Replay::new(plan, &devices, &ReplayOptions::default()).unwrap());
    let mut fast = replay.fast_forward(b"part", &mut []).unwrap();
    let refused = |error: Error| {
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        assert!(error.message().contains("has not been restored"), "{error}");
    };
    refused(fast.repeat(&mut []).unwrap_err());
    refused(fast.repeat_varied(&mut []).unwrap_err());
    fast.restore().unwrap();
    fast.repeat(&mut []).unwrap();
    refused(fast.repeat(&mut []).unwrap_err());
    fast.restore().unwrap();
    fast.repeat(&mut []).unwrap();
    fast.finish().unwrap();
}

#[test]
fn a_scope_is_repeated_with_other_inputs() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("counts", 1, &[function("counts", 0, 2)]));
    let kernel = CaptureBuilder::kernel(executable, 0, [1, 1, 1]);
    let (state, weights) = (capture.buffer(16), capture.buffer(8192));
    capture.fill(whole(weights), &[9]);
    capture.fill(whole(state), &[3]);
    capture.scope_begin("part");
    capture.dispatch(&kernel, &[], &[whole(state), whole(weights)]);
    capture.read(state, 0, 4);
    capture.scope_end("part");
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    let replay = Arc::new(Replay::new(plan, &devices, &ReplayOptions::default()).unwrap());
    let mut fast = replay.fast_forward(b"part", &mut []).unwrap();
    fast.restore().unwrap();
    fast.vary(VariedBytes::Restored, &mut |_, bytes| {
        bytes.iter_mut().for_each(|byte| *byte ^= 0xf0);
        true
    })
    .unwrap();
    fast.repeat_varied(&mut []).unwrap();
    assert!(!fast.is_reproduced().unwrap());

    // Changes of what is not restored stay until they are undone.
    let mut pieces = Vec::new();
    let mut vary = |piece: VariedPiece, bytes: &mut [u8]| {
        pieces.push((piece.offset, piece.is_restored, bytes.len(), bytes[0]));
        bytes.iter_mut().for_each(|byte| *byte ^= 0xf0);
        !piece.is_restored
    };
    fast.restore().unwrap();
    fast.vary(VariedBytes::All, &mut vary).unwrap();
    fast.repeat_varied(&mut []).unwrap();
    fast.restore().unwrap();
    fast.vary(VariedBytes::Restored, &mut vary).unwrap();
    assert!(fast.check_unchanged().is_err());
    fast.restore().unwrap();
    fast.vary(VariedBytes::All, &mut vary).unwrap();
    pieces.sort_unstable();
    let restored = (0, true, 16, 3);
    assert_eq!(pieces, [(0, false, 8192, 9), (0, false, 8192, 9 ^ 0xf0), restored, restored, restored]);
    fast.repeat(&mut []).unwrap();
    assert!(fast.is_reproduced().unwrap());
    fast.finish().unwrap();
}

#[test]
fn scopes_that_cannot_be_repeated_are_refused_for_their_reason() {
    let build = |build: &dyn Fn(&mut CaptureBuilder)| {
        let mut capture = CaptureBuilder::new();
        build(&mut capture);
        repeat(&capture).err().unwrap()
    };
    let error = build(&|it| {
        let (buffer, gate, done) = (it.buffer(4), it.semaphore(0), it.semaphore(0));
        it.order(&[(gate, 1)], &[(done, 1)]).fill(whole(buffer), &[1]);
        it.scope_begin("part");
        it.order(&[], &[(gate, 1)]).execute(0, &[]);
        it.scope_end("part");
    });
    assert_refused(&error, "a submission is issued before it, and can run only within it");
    let error = build(&|it| {
        let (buffer, gate, done) = (it.buffer(4), it.semaphore(0), it.semaphore(0));
        it.scope_begin("part");
        it.order(&[(gate, 1)], &[(done, 1)]).fill(whole(buffer), &[1]);
        it.scope_end("part");
        it.order(&[], &[(gate, 1)]).execute(0, &[]);
    });
    assert_refused(&error, "a submission is issued within it, and can run only after it");
    let error = build(&|it| {
        let buffer = it.buffer(4);
        it.commands(0, |it, into| {
            it.command_fill(into, whole(buffer), &[1]);
            it.scope_begin("part");
            it.command_fill(into, whole(buffer), &[2]);
        });
        it.scope_end("part");
    });
    assert_refused(&error, "a command buffer is created before it, and recorded within it");
    let error = build(&|it| {
        let buffer = it.alloca(4);
        let commands = it.commands(0, |it, into| it.command_fill(into, whole(buffer), &[1]));
        it.scope_begin("part");
        it.execute(commands, &[]);
        it.dealloca(buffer);
        it.scope_end("part");
    });
    assert_refused(&error, "a command buffer is recorded before it with a buffer that it deallocates");
}

/// The same command buffer as in the last refusal, with the buffer in its binding table.
#[test]
fn deallocated_buffers_are_allocated_again_with_their_bytes() {
    let mut capture = CaptureBuilder::new();
    let (buffer, result) = (capture.alloca(8), capture.buffer(8));
    let commands = capture.commands(1, |it, into| it.command_copy(into, slot(0, 1, 4), range(result, 2, 4)));
    capture.fill(whole(buffer), &[7]);
    capture.scope_begin("part");
    capture.execute(commands, &[range(buffer, 2, 6)]);
    capture.dealloca(buffer);
    capture.read(result, 0, 8);
    capture.scope_end("part");
    let found = repeat(&capture).unwrap();
    assert!(found.reads.iter().all(|reads| reads[0].bytes == [0, 0, 7, 7, 7, 7, 0, 0]));
    assert_eq!(found.restored_bytes, 4 + 4, "of that buffer and of the result, which is read");
}

#[test]
fn malformed_and_unknown_scopes_are_errors() {
    for (begins, ends, why) in [
        (1, 0, "scope 'part' does not end"),
        (0, 1, "ends before it begins"),
        (0, 0, "no scope of that name"),
    ] {
        let mut capture = CaptureBuilder::new();
        (0..begins).for_each(|_| capture.scope_begin("part"));
        (0..ends).for_each(|_| capture.scope_end("part"));
        let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
        let group = DeviceGroup::new(vec![synchronous()]).unwrap();
        let replay = Arc::new(Replay::new(plan, &group, &ReplayOptions::default()).unwrap());
        let error = replay.fast_forward(b"part", &mut []).err().unwrap();
        assert!(error.report().contains(why), "{}", error.report());
    }
}
