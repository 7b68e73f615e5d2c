//! Slices of hand-built captures: which bytes, operations and reads they contain.

use std::sync::Arc;

use rehal_base::{Range, Result};
use rehal_hal::{DeviceGroup, WatchAccesses, WatchedBuffer};
use rehal_replay::{
    CaptureBytes, Cut, Plan, PlanOptions, Replay, ReplayOptions, Slice, SliceCheck, SliceOptions, SliceSet,
};

use crate::common::{
    CaptureBuilder, FileSpec, Observed, Ran, TestDevice, code, function, range, run, slot, whole,
};
use crate::written::Memory;

/// Cuts a slice on a test device; returns it with its replay and its size.
fn slice_with(
    capture: &CaptureBuilder,
    cut: &Cut,
    options: &SliceOptions,
) -> Result<(Slice, Observed, usize)> {
    let plan = Plan::compile(capture.finish(), PlanOptions::default())?;
    let devices = DeviceGroup::new(vec![TestDevice::create().0])?;
    let memory = Memory::default();
    let slice = Replay::new(plan, &devices, &ReplayOptions::default())?.slice(
        cut,
        options,
        memory.clone(),
        &mut [],
    )?;
    let observed = run(&memory.bytes())?;
    let expected: Vec<_> = slice.reads.iter().map(|read| read.bytes.as_slice()).collect();
    assert_eq!(observed.bytes(), expected);
    Ok((slice, observed, memory.bytes().len()))
}

fn slice(capture: &CaptureBuilder, cut: &Cut) -> (Slice, Observed, usize) {
    slice_with(capture, cut, &SliceOptions::default()).unwrap()
}

fn scope(name: &str) -> Cut {
    Cut::Scope { name: name.into(), occurrence: 0 }
}

/// The buffer, offset and bytes of each read.
fn reads(slice: &Slice) -> Vec<(u64, u64, &[u8])> {
    slice.reads.iter().map(|read| (read.buffer_id, read.offset, read.bytes.as_slice())).collect()
}

#[test]
fn a_dispatch_has_its_bindings_constants_and_count() {
    let mut capture = CaptureBuilder::new();
    let (buffer, counts, cache) = (capture.buffer(1 << 20), capture.buffer(16), capture.cache());
    capture.write(buffer, 1000, b"abcdefgh");
    capture.write(counts, 4, &[3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
    let executable =
        capture.executable(cache, &code("module", 1, &[function("other", 0, 0), function("kernel", 1, 2)]));
    let mut record = 0;
    let commands = capture.commands(1, |it, commands| {
        let mut header = CaptureBuilder::kernel(executable, 1, [0; 3]);
        header.flags.set(1);
        header.workgroup_count_ref = range(counts, 4, 12);
        it.command_dispatch(commands, &header, b"four", &[slot(0, 1, 4), slot(0, 2, 6)]);
        record = it.place().ordinal;
    });
    capture.execute(commands, &[range(buffer, 1000, 8)]);
    capture.execute(commands, &[range(buffer, 1000, 8)]);
    let (first, observed, size) = slice(&capture, &Cut::Dispatch { record, occurrence: 0 });
    assert_eq!((first.name.as_str(), first.location.ordinal, first.occurrence), ("kernel", record, 0));
    // What changes, of the bindings.
    assert_eq!(reads(&first), [(buffer, 1001, &b"cdef"[..])]);
    // Only what is bound, not the megabyte around it.
    assert!(first.content_bytes == 7 + 12 && size < 16 << 10, "{first:?} {size}");
    let [Ran::Dispatch { function, constants, bindings, workgroup_count, .. }] = &observed.dispatches()[..]
    else {
        panic!("{:?}", observed.ran)
    };
    assert_eq!(
        (function.as_str(), constants.as_slice(), *workgroup_count),
        ("kernel", &b"four"[..], [3, 2, 1])
    );
    let bound: Vec<_> = bindings.iter().map(|it| (it.offset, it.bytes.as_slice())).collect();
    assert_eq!(bound, [(1001, &b"bcde"[..]), (1002, &b"cdefgh"[..])]);
    // The second execution begins with what the first wrote.
    let (second, ..) = slice(&capture, &Cut::Function { pattern: "k*".into(), occurrence: 1 });
    assert_eq!((second.occurrence, reads(&second)), (1, vec![(buffer, 1001, &b"defg"[..])]));
}

/// A capture in which command buffers of several dispatches are executed in turns, between dispatches on a
/// queue.
fn many_executions(executions: usize, dispatches: usize) -> CaptureBuilder {
    let mut capture = CaptureBuilder::new();
    let (buffer, other, cache) = (capture.buffer(8), capture.buffer(8), capture.cache());
    let functions = [function("even", 0, 1), function("odd", 0, 1), function("late", 0, 1)];
    let executable = capture.executable(cache, &code("module", 1, &functions));
    let [first, second] = [1, 2].map(|step| {
        capture.commands(1, |it, commands| {
            it.command_barrier(commands, &[], &[]);
            for at in 0..dispatches {
                let header = CaptureBuilder::kernel(executable, (at * step % 2) as u32, [1; 3]);
                it.command_dispatch(commands, &header, &[], &[slot(0, 0, 8)]);
            }
        })
    });
    for at in 0..executions {
        let table = [whole(if at % 5 == 0 { other } else { buffer })];
        capture.execute(if at % 3 == 0 { second } else { first }, &table);
    }
    capture.dispatch(&CaptureBuilder::kernel(executable, 2, [1; 3]), &[], &[whole(buffer)]);
    capture
}

#[test]
fn dispatches_of_command_buffers_that_are_executed_often_are_found() {
    let capture = many_executions(12, 4);
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let mut performed: Vec<(String, u32, u64)> = Vec::new();
    plan.dispatches(|it| {
        performed.push((String::from_utf8_lossy(it.name).into(), it.location.ordinal, it.occurrence));
        Ok(())
    })
    .unwrap();
    assert_eq!(performed.len(), 12 * 4 + 1);
    let devices = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
    let find = |cut: &Cut| {
        let slice = replay.slice(cut, &SliceOptions::default(), Memory::default(), &mut [])?;
        Ok::<_, rehal_base::Error>((slice.name, slice.location.ordinal, slice.occurrence))
    };
    for pattern in ["even", "odd", "*e*", "*"] {
        let matching = performed.iter().filter(|it| rehal_base::glob::matches(pattern, &it.0));
        let expected: Vec<_> = matching.cloned().collect();
        assert!(expected.len() > 12, "{pattern}");
        for (occurrence, expected) in (0..).zip(&expected).step_by(5).chain((0..).zip(&expected).last()) {
            let cut = Cut::Function { pattern: pattern.into(), occurrence };
            assert_eq!(find(&cut).unwrap(), *expected, "{pattern} {occurrence}");
        }
        let cut = Cut::Function { pattern: pattern.into(), occurrence: expected.len() as u64 };
        assert!(find(&cut).unwrap_err().report().contains(&format!("{} time(s)", expected.len())));
    }
    for (name, record, occurrence) in performed.iter().step_by(7).chain(performed.last()) {
        let found = find(&Cut::Dispatch { record: *record, occurrence: *occurrence }).unwrap();
        assert_eq!(found, (name.clone(), *record, *occurrence));
        let error = find(&Cut::Dispatch { record: *record, occurrence: 1000 }).unwrap_err();
        let count = performed.iter().filter(|it| it.1 == *record).count();
        assert!(error.report().contains(&format!("is performed {count} time(s)")), "{error:?}");
    }
}

/// Executions with equal binding tables cost nothing: what differs is visited once.
#[test]
fn distinct_dispatches_do_not_grow_with_executions() {
    let plan = Plan::compile(many_executions(3000, 100).finish(), PlanOptions::default()).unwrap();
    let (mut visits, mut performed) = (0, 0);
    plan.distinct_dispatches(|_, count| {
        visits += 1;
        performed += count;
        Ok(())
    })
    .unwrap();
    // Two command buffers with two tables each.
    assert_eq!((visits, performed), (2 * 2 * 100 + 1, 3000 * 100 + 1));
    assert_eq!(plan.dispatch_count(), performed);
    let mut count = 0;
    let visited = plan.distinct_dispatches(|_, _| {
        count += 1;
        if count == 3 { Err(rehal_base::Error::not_found("enough")) } else { Ok(()) }
    });
    assert!(visited.is_err() && count == 3);
}

#[test]
fn bytes_that_are_written_first_are_not_stored() {
    let mut capture = CaptureBuilder::new();
    let (source, target) = (capture.buffer(256), capture.buffer(256));
    capture.write(source, 0, &[5; 256]);
    capture.write(target, 0, &[6; 256]);
    capture.scope_begin("scope");
    capture.fill(range(target, 0, 64), &[7]);
    // Of these, the scope reads 16 that it did not write.
    capture.copy(range(target, 32, 48), range(source, 0, 48));
    capture.scope_end("scope");
    capture.fill(whole(target), &[9]);
    let (slice, _, _) = slice(&capture, &scope("scope"));
    assert_eq!(slice.content_bytes, 16);
    let copied = [[7; 32].as_slice(), &[6; 16]].concat();
    assert_eq!(reads(&slice), [(source, 0, copied.as_slice()), (target, 0, &[7; 64])]);
}

/// A kernel that tells zeros, which new memory has, from everything else.
#[test]
fn bytes_that_matter_only_if_they_are_zero_are_stored() {
    for size in [8, 6000] {
        let mut capture = CaptureBuilder::new();
        let (buffer, cache) = (capture.buffer(size), capture.cache());
        capture.write(buffer, 0, &vec![1; size as usize]);
        let executable = capture.executable(cache, &code("module", 0, &[function("resumes", 0, 1)]));
        capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), b"", &[whole(buffer)]);
        let record = capture.place().ordinal;
        let (slice, ..) = slice(&capture, &Cut::Dispatch { record, occurrence: 0 });
        let [read] = &slice.reads[..] else { panic!("{slice:?}") };
        assert!(slice.is_checked && slice.content_bytes > 0 && read.bytes.ends_with(&[5; 7]), "{size}");
    }
}

/// Without it, a slice may have more records than bytes that they save.
#[test]
fn reads_with_less_than_256_bytes_between_them_are_one() {
    for (gap, expected) in [(240, &[(16, 272)][..]), (256, &[(16, 16), (288, 16)])] {
        let mut capture = CaptureBuilder::new();
        let (buffer, cache) = (capture.buffer(400), capture.cache());
        // The kernel changes what is not 5.
        let mut bytes = [5; 400];
        bytes[0] = 1;
        bytes[16..32].fill(7);
        bytes[32 + gap..][..16].fill(7);
        capture.write(buffer, 0, &bytes);
        let executable = capture.executable(cache, &code("module", 0, &[function("resumes", 0, 1)]));
        capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), b"", &[whole(buffer)]);
        let (slice, ..) = slice(&capture, &Cut::Dispatch { record: capture.place().ordinal, occurrence: 0 });
        let found: Vec<_> = slice.reads.iter().map(|it| (it.offset, it.bytes.len())).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_scope_keeps_host_writes_files_and_deallocated_buffers() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let file = capture.file(&FileSpec::inline(b"contents"));
    capture.scope_begin("scope");
    let transient = capture.alloca(8);
    capture.file_read(file, 0, range(transient, 0, 4), b"");
    capture.write(buffer, 0, b"host");
    capture.copy(range(buffer, 0, 4), range(transient, 4, 4));
    capture.copy(range(transient, 0, 4), range(buffer, 4, 4));
    capture.dealloca(transient);
    capture.scope_end("scope");
    let (slice, observed, _) = slice(&capture, &scope("scope"));
    assert_eq!(slice.content_bytes, 0);
    let mut reads = reads(&slice);
    reads.sort_unstable();
    assert_eq!(reads, [(buffer, 4, &b"cont"[..]), (transient, 0, b"conthost")]);
    assert!(observed.scopes == ["begin:scope", "end:scope"]);
}

#[test]
fn work_that_fails_has_no_slice() {
    let mut capture = CaptureBuilder::new();
    let (buffer, cache) = (capture.buffer(4), capture.cache());
    let executable = capture.executable(cache, &code("module", 1, &[function("fails", 0, 1)]));
    capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), b"", &[whole(buffer)]);
    let record = capture.place().ordinal;
    let error = slice_with(&capture, &Cut::Dispatch { record, occurrence: 0 }, &SliceOptions::default());
    assert!(error.unwrap_err().report().contains("the kernel failed"));
}

#[test]
fn errors_name_the_capture_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("capture");
    let mut capture = CaptureBuilder::new();
    let (buffer, cache) = (capture.buffer(4), capture.cache());
    let executable = capture.executable(cache, &code("module", 1, &[function("fails", 0, 1)]));
    capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), b"", &[whole(buffer)]);
    std::fs::write(&path, capture.finish()).unwrap();
    let plan = Plan::compile(CaptureBytes::map(&path).unwrap(), PlanOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
    for (pattern, reason) in [("fails", "the kernel failed"), ("missing", "no dispatch of a function")] {
        let cut = Cut::Function { pattern: pattern.into(), occurrence: 0 };
        let error = replay.slice(&cut, &SliceOptions::default(), Memory::default(), &mut []).unwrap_err();
        let report = error.report();
        assert!(report.contains(reason), "{report}");
        assert_eq!(report.matches(path.to_str().unwrap()).count(), 1, "{report}");
    }
}

/// A capture whose command buffer has two dispatches and is executed twice; with the records of the
/// dispatches.
fn four_dispatches() -> (CaptureBuilder, [u32; 2]) {
    let mut capture = CaptureBuilder::new();
    let (buffer, cache) = (capture.buffer(8), capture.cache());
    capture.write(buffer, 0, b"abcdefgh");
    let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 0, 1)]));
    let header = CaptureBuilder::kernel(executable, 0, [1; 3]);
    let mut records = [0; 2];
    let commands = capture.commands(1, |it, commands| {
        for (record, offset) in records.iter_mut().zip([0, 4]) {
            it.command_dispatch(commands, &header, b"", &[slot(0, offset, 4)]);
            *record = it.place().ordinal;
            it.command_barrier(commands, &[], &[]);
        }
    });
    capture.execute(commands, &[whole(buffer)]);
    capture.execute(commands, &[whole(buffer)]);
    (capture, records)
}

/// The slices of a replay, and how many dispatches it took.
#[derive(Default)]
struct Set {
    names: Vec<(usize, String)>,
    slices: Vec<(usize, Slice)>,
    files: Vec<Memory>,
}

impl SliceSet for Set {
    type Sink = Memory;

    fn sink(&mut self, index: usize, name: &str) -> Result<Memory> {
        self.names.push((index, name.to_string()));
        self.files.push(Memory::default());
        Ok(self.files.last().unwrap().clone())
    }

    fn finished(&mut self, index: usize, slice: Slice) -> Result<()> {
        self.slices.push((index, slice));
        Ok(())
    }
}

fn options(check: SliceCheck) -> SliceOptions {
    let mut options = SliceOptions::default();
    options.keep_outputs = true;
    options.check = check;
    options
}

#[test]
fn several_dispatches_are_cut_in_one_replay() {
    let (capture, [first, second]) = four_dispatches();
    for (check, performed) in [(SliceCheck::Never, 3), (SliceCheck::Always, 5)] {
        let (device, log) = TestDevice::create();
        let devices = DeviceGroup::new(vec![device]).unwrap();
        let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
        let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
        let mut set = Set::default();
        replay.slices(&[(first, 1), (second, 0)], &options(check), &mut set, &mut []).unwrap();
        let dispatches = log.lock().unwrap().iter().filter(|it| matches!(it, Ran::Dispatch { .. })).count();
        assert_eq!(dispatches, performed, "{check:?}");
        assert_eq!(set.names, [(1, "kernel".to_string()), (0, "kernel".to_string())]);
        for ((index, slice), file) in set.slices.iter().zip(&set.files) {
            let (record, occurrence) = [(first, 1), (second, 0)][*index];
            let alone =
                slice_with(&capture, &Cut::Dispatch { record, occurrence }, &options(check)).unwrap().0;
            assert_eq!((slice, slice.is_checked), (&alone, check == SliceCheck::Always));
            let expected: Vec<_> = slice.reads.iter().map(|read| read.bytes.as_slice()).collect();
            assert_eq!(run(&file.bytes()).unwrap().bytes(), expected);
        }
        let missing = replay.slices(&[(first, 0), (second, 2)], &options(check), &mut set, &mut []);
        assert!(missing.unwrap_err().report().contains("has no dispatch of occurrence 2"));
    }
}

#[test]
fn references_are_kept_to_bytes_that_have_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("parameters");
    std::fs::write(&path, b"0123456789abcdef").unwrap();
    let cut = |spec: FileSpec, keep_references| {
        let mut capture = CaptureBuilder::new();
        let (buffer, cache) = (capture.buffer(24), capture.cache());
        let file = capture.file(&spec);
        capture.write(buffer, 0, &[b'.'; 24]);
        capture.file_read(file, 4, range(buffer, 8, 4), b"");
        capture.file_read(file, 8, range(buffer, 12, 4), b"");
        capture.fill(range(buffer, 13, 1), b"!");
        let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 0, 1)]));
        let header = CaptureBuilder::kernel(executable, 0, [1; 3]);
        capture.dispatch(&header, b"", &[range(buffer, 6, 12)]);
        let mut options = options(SliceCheck::Always);
        options.keep_references = keep_references;
        let record = capture.place().ordinal;
        slice_with(&capture, &Cut::Dispatch { record, occurrence: 0 }, &options).unwrap()
    };
    let external = || FileSpec::external(&path, 16);
    let (stored, kept) = (cut(external(), false).0, cut(external(), true).0);
    assert_eq!((stored.content_bytes, kept.content_bytes), (12, 8));
    assert_eq!(reads(&stored), reads(&kept));
    assert_eq!(stored.reads[0].bytes, b"//56789\"bc//");
    // What the program may have changed since, and what the capture contains, is stored.
    for spec in [external().writable(), FileSpec::inline(b"0123456789abcdef")] {
        assert_eq!(cut(spec, true).0.content_bytes, 12);
    }
}

#[test]
fn a_slice_with_references_needs_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("parameters");
    std::fs::write(&path, b"0123").unwrap();
    let mut capture = CaptureBuilder::new();
    let file = capture.file(&FileSpec::external(&path, 4));
    let buffer = capture.buffer(4);
    capture.scope_begin("scope");
    capture.file_read(file, 0, whole(buffer), b"");
    capture.scope_end("scope");
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
    let mut options = SliceOptions::default();
    options.keep_references = true;
    let memory = Memory::default();
    let slice = replay.slice(&scope("scope"), &options, memory.clone(), &mut []).unwrap();
    assert_eq!((slice.content_bytes, reads(&slice)), (0, vec![(buffer, 0, &b"0123"[..])]));
    assert_eq!(run(&memory.bytes()).unwrap().bytes(), [b"0123"]);
    std::fs::remove_file(&path).unwrap();
    let gone = run(&memory.bytes()).unwrap_err().report().to_string();
    assert!(gone.contains("No such file") && gone.contains("external file"), "{gone}");
    let error = replay.slice(&scope("scope"), &options, Memory::default(), &mut []).unwrap_err().report();
    assert!(error.to_string().contains("external file"), "{error}");
}

/// Claims that nothing of a buffer was accessed.
struct Nothing;

impl WatchAccesses for Nothing {
    fn watch(&self) -> Result<()> {
        Ok(())
    }

    fn accessed(&self) -> Result<Vec<Range>> {
        Ok(Vec::new())
    }
}

#[test]
fn what_is_left_out_as_not_accessed_is_checked() {
    let mut capture = CaptureBuilder::new();
    let (buffer, cache) = (capture.buffer(10_000), capture.cache());
    capture.write(buffer, 0, &[b'.'; 10_000]);
    let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 0, 1)]));
    let header = CaptureBuilder::kernel(executable, 0, [1; 3]);
    capture.dispatch(&header, b"", &[range(buffer, 0, 10_000)]);
    let cut = Cut::Dispatch { record: capture.place().ordinal, occurrence: 0 };
    let mut options = options(SliceCheck::Always);
    let whole = slice_with(&capture, &cut, &options).unwrap().0;
    options.watch = Some(Arc::new(|device, params, size| {
        Ok(Some(WatchedBuffer { buffer: device.allocate_buffer(params, size)?, accesses: Box::new(Nothing) }))
    }));
    // The kernel computes other bytes without what it reads.
    let watched = slice_with(&capture, &cut, &options).unwrap().0;
    assert_eq!((watched.content_bytes, reads(&watched)), (10_000, reads(&whole)));
    // Nothing is left out without a check.
    options.check = SliceCheck::Never;
    assert_eq!(slice_with(&capture, &cut, &options).unwrap().0.content_bytes, 10_000);
}
