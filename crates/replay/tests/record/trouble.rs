//! Failures: full sinks, killed programs, foreign objects, and calls after the close.

use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rehal_base::StatusCode;
use rehal_capture::{Capture, OpenOptions, OperationCode as Code};
use rehal_hal::{BufferRef, DeviceGroup, HostCallFlags, QUEUE_AFFINITY_ANY};
use rehal_replay::{RecordOptions, Recorder};

use crate::program::{Program, Reads, host_call, local_sync, mappable, operations, replay};

/// A sink that is full after this many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

#[test]
fn a_full_disk_does_not_disturb_the_program_and_closing_reports_it() {
    let recorder = Recorder::to(Full(1000), RecordOptions::default()).unwrap();
    let group = recorder.wrap(&DeviceGroup::new(vec![local_sync()]).unwrap()).unwrap();
    let device = &group.devices()[0];
    let buffer = device.allocate_buffer(mappable(), 1 << 20).unwrap();
    for round in 0..4 {
        buffer.write(0, &vec![round; 1 << 20]).unwrap();
    }
    let mut last = [0; 4];
    buffer.read(0, &mut last).unwrap();
    assert_eq!(last, [3; 4]);
    let error = recorder.close().unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.to_string().contains("writing the capture"), "{error}");
}

/// A sink that panics at the third write, on whichever thread writes.
struct Panics(u32);

impl Write for Panics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += 1;
        assert!(self.0 < 3, "the disk is on fire");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Panics {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

#[test]
fn a_sink_that_panics_does_not_disturb_the_program_and_closing_reports_it() {
    // Large payloads are written by the calling thread, small ones by the recorder's.
    for length in [1 << 20, 200 << 10] {
        let recorder = Recorder::to(Panics(0), RecordOptions::default()).unwrap();
        let group = recorder.wrap(&DeviceGroup::new(vec![local_sync()]).unwrap()).unwrap();
        let device = &group.devices()[0];
        let buffer = device.allocate_buffer(mappable(), length).unwrap();
        for round in 0..4 {
            buffer.write(0, &vec![round; length as usize]).unwrap();
        }
        let mut last = [0; 4];
        buffer.read(0, &mut last).unwrap();
        assert_eq!(last, [3; 4]);
        let error = recorder.close().unwrap_err().to_string();
        assert!(error.contains("writing the capture: the sink panicked: the disk is on fire"), "{error}");
    }
}

/// A panic of the program's own code propagates to the program, and recording continues.
#[test]
fn a_host_call_that_panics_leaves_the_recorder_working() {
    let program = Program::new(RecordOptions::default());
    let buffer = program.buffer(&[1; 4]);
    let panics = host_call(|| panic!("the program's own"));
    for wait_count in [0, 1] {
        let (go, done) = (program.semaphore(), program.semaphore());
        let waits = vec![go.at(1); wait_count];
        let signals = [done.at(1)];
        let run = || {
            let queue = program.device().queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals);
            queue.host_call(&panics, [0; 4], HostCallFlags::empty()).unwrap();
            go.signal(1).unwrap();
        };
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the program's own"));
        assert_eq!(done.wait(1, None).unwrap_err().code(), StatusCode::Internal);
    }
    program.device().queue(QUEUE_AFFINITY_ANY).fill(&buffer, &[5], 0).unwrap();
    let codes: Vec<_> = operations(&program.capture()).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Code::DEVICE_QUEUE_HOST_CALL).count(), 2);
    assert_eq!(codes.last(), Some(&Code::DEVICE_QUEUE_FILL));
}

/// Records reach the file without further calls, so the capture of a program that is killed later is
/// recoverable.
#[test]
fn records_of_an_idle_program_reach_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let recorder = Recorder::create(file.path(), RecordOptions::default()).unwrap();
    let group = recorder.wrap(&DeviceGroup::new(vec![local_sync()]).unwrap()).unwrap();
    let device = &group.devices()[0];
    let buffer = device.allocate_buffer(mappable(), 4).unwrap();
    buffer.write(0, &[1, 2, 3, 4]).unwrap();
    recorder.scope_begin("quiet").unwrap();
    // Within 100 ms on an idle machine; the test only requires that they arrive.
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let bytes = std::fs::read(file.path()).unwrap();
        let capture = Capture::open(&bytes, OpenOptions { recover: true }).unwrap();
        if capture.records().any(|record| record.unwrap().operation() == Code::REPLAY_SCOPE_BEGIN) {
            assert!(!capture.is_closed());
            break;
        }
        assert!(Instant::now() < patience, "no record has reached the file");
        std::thread::sleep(Duration::from_millis(5));
    }
    recorder.close().unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    assert!(Capture::open(&bytes, OpenOptions::default()).unwrap().is_closed());
}

#[test]
fn calls_after_the_close_are_forwarded_and_not_recorded() {
    let program = Program::new(RecordOptions::default());
    let buffer = program.buffer(&[1; 4]);
    let before = program.capture();
    buffer.write(0, &[2; 4]).unwrap();
    let another = program.buffer(&[3; 4]);
    program.device().queue(QUEUE_AFFINITY_ANY).copy(&another, &buffer, 0).unwrap();
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [3; 4]);
    assert_eq!(program.capture(), before, "closing twice does nothing");
}

#[test]
fn objects_of_other_recorders_are_rejected() {
    let program = Program::new(RecordOptions::default());
    let others = [
        local_sync().allocate_buffer(mappable(), 4).unwrap(),
        Program::new(RecordOptions::default()).buffer(&[0; 4]),
    ];
    for other in &others {
        let refused = program.device().queue(QUEUE_AFFINITY_ANY).fill(other, &[1], 0).unwrap_err();
        assert_eq!(refused.code(), StatusCode::FailedPrecondition);
        assert!(
            refused.message().starts_with("cannot record a buffer that this recorder did not create"),
            "{refused}"
        );
    }
    assert_eq!(operations(&program.capture()), []);
}

#[test]
fn scopes_need_a_name_and_end_with_their_guard() {
    let program = Program::new(RecordOptions::default());
    assert_eq!(program.recorder.scope_begin("").unwrap_err().code(), StatusCode::InvalidArgument);
    {
        let _outer = program.recorder.scope("outer").unwrap();
        let _inner = program.recorder.scope("inner").unwrap();
    }
    let capture = program.capture();
    let codes: Vec<_> = operations(&capture).into_iter().map(|(code, _)| code).collect();
    let (begin, end) = (Code::REPLAY_SCOPE_BEGIN, Code::REPLAY_SCOPE_END);
    assert_eq!(codes, [begin, begin, end, end]);
    replay(&capture, &mut Reads::default()).unwrap();
}

/// Recorders nest: the captures of both must be equal.
#[test]
fn a_recorded_device_can_be_recorded() {
    let inner = Program::new(RecordOptions::default());
    let outer = Program::on(inner.devices.clone(), RecordOptions::default());
    let buffer = outer.buffer(&[1, 2, 3, 4]);
    outer.device().queue(QUEUE_AFFINITY_ANY).fill(BufferRef::range(&buffer, 0, 2), &[9], 0).unwrap();
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [9, 9, 3, 4]);
    assert_eq!(operations(&inner.capture()), operations(&outer.capture()));
}
