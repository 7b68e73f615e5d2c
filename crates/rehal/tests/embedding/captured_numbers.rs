//! The numbers of surveys and activities of two captures: `chain`, and a program that does what it does not.
//!
//! The files of `testdata` were read against the records of the captures. Without them, a survey may count
//! other operations, bytes or dispatches, and an activity may have other events, buffers or times of life.

use std::fmt::Write;
use std::sync::Arc;

use rehal::capture::{CaptureActivity, CaptureFile, CaptureOptions, Survey};
use rehal::record::{RecordOptions, Recorder};
use rehal_base::{Range, Result};
use rehal_hal::{
    BufferParams, BufferRef, BufferUsage, Command, CommandBufferParams, CommandCategories, DeviceGroup,
    HostFile, HostMemory, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY, SemaphoreFlags,
};
use rehal_local::LocalSync;

use crate::capture;

#[track_caller]
fn assert_numbers(file: &CaptureFile, expected: &str) {
    let mut text = String::new();
    survey(&file.survey().unwrap(), &mut text);
    activity(&file.activity(1000, &mut |_| {}).unwrap(), &mut text);
    for (number, (found, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of\n{text}", number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count(), "{text}");
}

fn survey(it: &Survey, out: &mut String) {
    let counts = (it.record_count, it.operation_count, it.object_count, it.device_count);
    writeln!(out, "records, operations, objects, devices: {counts:?}").unwrap();
    let counts = (it.submission_count, it.dispatch_count, it.failed_count, it.unsupported_count);
    writeln!(out, "submissions, dispatches, failed, unsupported: {counts:?}").unwrap();
    for kind in &it.record_kinds {
        // Paths may have any length.
        let bytes = if kind.name.contains("file") { 0 } else { kind.bytes };
        writeln!(out, "{} {}: {}, {bytes} bytes", kind.record_type, kind.name, kind.count).unwrap();
    }
    for failed in &it.failed {
        writeln!(out, "failed #{}: {} {}", failed.ordinal, failed.operation, failed.status).unwrap();
    }
    for scope in &it.scopes {
        writeln!(out, "scope {}: {}", scope.name.escape_ascii(), scope.count).unwrap();
    }
    for executable in &it.executables {
        let format = executable.format.escape_ascii();
        writeln!(out, "executable {}: {format}, {} bytes", executable.id, executable.code_bytes).unwrap();
        for function in &executable.functions {
            let (name, counts) = (function.name.escape_ascii(), &function.workgroup_counts);
            let signature = (function.constant_count, function.binding_count, function.dispatch_count);
            writeln!(out, "function {} {name}: {signature:?} {counts:?}", function.ordinal).unwrap();
        }
    }
    for file in &it.external_files {
        let (id, length) = (file.id, file.length_bytes);
        writeln!(out, "file {id}: {length} bytes, {}, written {}", file.validation, file.is_written).unwrap();
    }
    writeln!(out, "{:?}, in all {}", it.bytes.rows(), it.bytes.total()).unwrap();
}

fn activity(it: &CaptureActivity, out: &mut String) {
    let (all, text) = (&it.activity, |name: u32| it.activity.names[name as usize].escape_ascii());
    writeln!(out, "omitted: {} and {}", it.omitted_count, all.omitted_count).unwrap();
    for (number, track) in all.tracks.iter().enumerate() {
        let place = (track.device as i32, track.queue as i32, track.stream as i64);
        writeln!(out, "track {number}: {:?} {place:?}, {} lanes", track.kind, track.lane_count).unwrap();
    }
    for function in &all.functions {
        writeln!(out, "{} {}: {}", function.executable, function.ordinal, text(function.name)).unwrap();
    }
    for it in &all.events {
        let (start, end) = (it.start, it.start + it.duration);
        write!(out, "#{} {start}..{end} on {}: {}", it.id, it.track, text(it.name)).unwrap();
        for (what, value) in [
            ("lane", it.lane.into()),
            ("buffer", it.command_buffer),
            ("command", it.command.into()),
            ("bytes", it.bytes),
            ("waits", it.wait_count.into()),
            ("signals", it.signal_count.into()),
            ("operations", it.operation_count.into()),
            ("status", it.status.into()),
        ] {
            if value != 0 && value != u64::from(u32::MAX) {
                write!(out, ", {what} {value}").unwrap();
            }
        }
        if it.workgroup_count != [0; 3] {
            write!(out, ", {:?} of {:?}", it.workgroup_count, it.workgroup_size).unwrap();
        }
        writeln!(out).unwrap();
    }
    for it in &all.submissions {
        let (device, waits, signals) = (it.device, &it.waits, &it.signals);
        writeln!(out, "submission {} on {device}: {} {waits:?} {signals:?}", it.id, it.operation).unwrap();
    }
    for it in &it.buffers {
        let (bytes, deallocated) = (it.bytes, it.deallocated);
        writeln!(out, "buffer {} #{}: {} {bytes} {deallocated:?}", it.id, it.ordinal, it.operation).unwrap();
    }
    for it in &all.series {
        writeln!(out, "{} of {}: {:?}", it.name.escape_ascii(), it.device, it.points).unwrap();
    }
}

#[test]
fn a_chain_of_kernels_has_these_numbers() {
    let file = CaptureFile::open(&capture("chain.chain.local-task"), &CaptureOptions::default()).unwrap();
    assert_numbers(&file, include_str!("../testdata/chain.txt"));
    let code = file.executable_code(4).unwrap();
    assert_eq!((code.len(), &code[..4]), (6608, &b"\x7fELF"[..]));
    assert_eq!(file.executable_code(5).unwrap_err().message(), "the capture has no executable 5");
    // Neither of the two captures contains what is read from files.
    let path = capture("params.capture-ranges.digest.local-sync");
    let file = CaptureFile::open(&path, &CaptureOptions::default()).unwrap();
    assert_eq!(file.survey().unwrap().bytes.captured_reads, 12288 + 3072 + 64);
}

/// Scopes within scopes, files, data of all kinds, an error, and command buffers that are executed again.
fn program(recorder: &Recorder, directory: &std::path::Path) -> Result<()> {
    let devices = recorder.wrap(&DeviceGroup::new(vec![LocalSync::create(Default::default())])?)?;
    let device = &devices.devices()[0];
    let queue = || device.queue(QUEUE_AFFINITY_ANY);
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    let order = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
    let kept = device.allocate_buffer(params, 64)?;
    let memory = Arc::new(HostMemory::allocate(128)?);
    let imported = device.import_buffer(params, &memory, Range { offset: 64, length: 24 })?;
    let path = directory.join("file");
    std::fs::write(&path, [7; 50]).unwrap();
    let disk = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    let files = [
        device.import_file(QUEUE_AFFINITY_ANY, access, disk)?,
        device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, HostFile::from_bytes(&[8; 40])?)?,
    ];
    let outer = recorder.scope("outer")?;
    let mut at = 0;
    for file in &files {
        let _scope = recorder.scope("inner")?;
        let transient =
            queue().wait(&[order.at(at)]).signal(&[order.at(at + 1)]).alloca(params, 16 + at, 0)?;
        queue().wait(&[order.at(at + 1)]).update(&[1; 12], BufferRef::range(&transient, 0, 12), 0)?;
        queue().read(file, 10, BufferRef::range(&kept, 0, 20), 0)?;
        queue().wait(&[order.at(at + 1)]).signal(&[order.at(at + 2)]).dealloca(&transient, 0)?;
        at += 2;
    }
    queue().write(BufferRef::range(&kept, 0, 6), &files[0], 2, 0)?;
    kept.write(60, &[3; 4])?;
    assert!(kept.write(63, &[3; 4]).is_err());
    assert!(queue().fill(BufferRef::range(&kept, 60, 8), &[1], 0).is_err());
    for one_shot in [true, false] {
        let params = CommandBufferParams {
            categories: CommandCategories::TRANSFER,
            ..CommandBufferParams::default().one_shot(one_shot)
        };
        let commands = device.create_command_buffer(params)?;
        commands.begin()?;
        commands.record(&Command::Fill { target: BufferRef::range(&kept, 8, 8), pattern: &[2], flags: 0 })?;
        let target = BufferRef::range(&imported, 0, 5);
        commands.record(&Command::Update { source: &[4; 5], target, flags: 0 })?;
        commands.end()?;
        for _ in 0..2 - usize::from(one_shot) {
            queue().execute(&commands, &[], 0)?;
        }
    }
    queue().copy(BufferRef::range(&kept, 0, 8), BufferRef::range(&imported, 8, 8), 0)?;
    // It stays open.
    std::mem::forget(outer);
    Ok(())
}

#[test]
fn a_program_without_kernels_has_these_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.ireereplay");
    let recorder = Recorder::create(&path, RecordOptions::default().renumber_threads(true)).unwrap();
    program(&recorder, directory.path()).unwrap();
    recorder.close().unwrap();
    let file = CaptureFile::open(&path, &CaptureOptions::default()).unwrap();
    assert_numbers(&file, include_str!("../testdata/program.txt"));
    // What exceeds the limit is left out, and counted.
    let activity = file.activity(3, &mut |_| {}).unwrap();
    let kept = (activity.buffers.len(), activity.activity.submissions.len(), activity.activity.events.len());
    assert_eq!((kept, activity.omitted_count), ((3, 3, 3), 11));
}
