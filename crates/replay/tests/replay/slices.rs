//! Slices of hand-built captures: which bytes, operations and reads they contain.

use rehal_base::Result;
use rehal_hal::DeviceGroup;
use rehal_replay::{Cut, Plan, PlanOptions, Replay, ReplayOptions, Slice, SliceOptions};

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
    let slice =
        Replay::new(plan, &devices, &ReplayOptions::default())?.slice(cut, options, memory.clone())?;
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
    assert_eq!(reads(&first), [(buffer, 1001, &b"cdeffgh"[..])]);
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
    assert_eq!((second.occurrence, reads(&second)), (1, vec![(buffer, 1001, &b"defgfgh"[..])]));
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
