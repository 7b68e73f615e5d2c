//! Captures that differ in one thing: each change is named, and nothing else is.

use std::io::Cursor;

use rehal_capture::layout::{Dispatch, FileHeader, RecordHeader};
use rehal_capture::{
    Capture, CaptureBytes, OpenOptions, OperationCode, Payload, RecordFields, Writer, payload,
};
use rehal_edit::{
    CaptureDiff, ChangeKind, DiffOptions, FieldValue, FunctionChange, OperationChange, ScopeChange,
    diff_captures,
};
use rehal_hal::{BufferParams, BufferRef, DeviceGroup, QUEUE_AFFINITY_ANY, SemaphoreFlags};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{RecordOptions, Recorder};

/// A capture as its header and its records.
#[derive(Clone)]
struct Records {
    header: Vec<u8>,
    records: Vec<Vec<u8>>,
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(testing::fixtures().join(format!("captures/{name}.ireereplay"))).unwrap()
}

impl Records {
    fn from_bytes(bytes: &[u8]) -> Self {
        let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
        let header = bytes[..capture.first_record_offset() as usize].to_vec();
        let records = capture.records().map(|record| {
            let record = record.unwrap();
            let length = record.header.record_length.get() as usize;
            bytes[record.offset as usize..][..length].to_vec()
        });
        Self { header, records: records.collect() }
    }

    /// The capture, with the ordinals that the records have now.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.clone();
        for (ordinal, record) in (0u64..).zip(&self.records) {
            let at = bytes.len() + std::mem::offset_of!(RecordHeader, sequence_ordinal);
            bytes.extend_from_slice(record);
            bytes[at..at + 8].copy_from_slice(&ordinal.to_le_bytes());
        }
        let (at, length) = (std::mem::offset_of!(FileHeader, file_length), bytes.len() as u64);
        bytes[at..at + 8].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// The indices of the records of an operation.
    fn all(&self, operation: OperationCode) -> Vec<usize> {
        let code = |record: &[u8]| {
            let at = std::mem::offset_of!(RecordHeader, operation_code);
            u32::from_le_bytes(record[at..at + 4].try_into().unwrap())
        };
        (0..self.records.len()).filter(|index| code(&self.records[*index]) == operation.0).collect()
    }

    /// Writes to a field of the payload of a record.
    fn patch(&mut self, index: usize, offset: usize, bytes: &[u8]) {
        let at = size_of::<RecordHeader>() + offset;
        self.records[index][at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn diff(before: &[u8], after: &[u8]) -> CaptureDiff {
    diff_with(before, after, &DiffOptions::default())
}

fn diff_with(before: &[u8], after: &[u8], options: &DiffOptions) -> CaptureDiff {
    let open = |bytes: &[u8]| CaptureBytes::from(bytes.to_vec());
    diff_captures(&open(before), &open(after), options, &mut |_| {}).unwrap()
}

/// The kinds of changes, with operation, subject, count, and fields.
fn summary(diff: &CaptureDiff) -> Vec<(ChangeKind, &'static str, String, u64, Vec<String>)> {
    let of = |it: &OperationChange| {
        let fields = it.fields.iter().map(ToString::to_string).collect();
        (it.kind, it.operation, String::from_utf8_lossy(&it.subject).into_owned(), it.count, fields)
    };
    diff.operations.iter().map(of).collect()
}

/// The only change of the only operation that differs.
fn only_value(diff: &CaptureDiff, field: &str) -> (Option<FieldValue>, Option<FieldValue>) {
    let [group] = &diff.operations[..] else { panic!("{:?}", summary(diff)) };
    assert_eq!((group.kind, group.count), (ChangeKind::Changed, 1), "{:?}", summary(diff));
    let [change] = &group.occurrences[0].changes[..] else { panic!("{:?}", summary(diff)) };
    assert_eq!(change.name.to_string(), field);
    (change.before.clone(), change.after.clone())
}

fn number(value: u64) -> Option<FieldValue> {
    Some(FieldValue::Number(value))
}

#[test]
fn every_capture_is_the_same_as_itself() {
    let sets = [Some(testing::fixtures()), testing::corpus()];
    for path in sets.iter().flatten().flat_map(|set| testing::captures(set)) {
        let bytes = std::fs::read(&path).unwrap();
        let found = diff(&bytes, &bytes);
        assert!(found.is_same(), "{}: {:?}", path.display(), summary(&found));
        assert_eq!(found.same_count, found.before.operation_count, "{}", path.display());
        assert!(found.undetermined.is_empty(), "{}", path.display());
    }
}

#[test]
fn threads_and_times_do_not_count() {
    let bytes = fixture("mlp.mlp.local-sync");
    let mut other = Records::from_bytes(&bytes);
    for record in &mut other.records {
        let at = std::mem::offset_of!(RecordHeader, thread_id);
        record[at..at + 8].copy_from_slice(&77_u64.to_le_bytes());
    }
    assert!(diff(&bytes, &other.bytes()).is_same());
}

#[test]
fn a_changed_dispatch_is_named() {
    let bytes = fixture("dynamic.rows-wide.local-sync");
    let original = Records::from_bytes(&bytes);
    let dispatches = original.all(OperationCode::COMMAND_BUFFER_DISPATCH);
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let records: Vec<_> = capture.records().map(|it| it.unwrap()).collect();
    let view = |index: usize| match records[index].payload().unwrap() {
        Payload::Dispatch(view) => view,
        _ => panic!("it is a dispatch"),
    };
    let ends = Dispatch::default();
    assert_eq!(size_of_val(&ends), 120, "lists follow");
    let index = dispatches[dispatches.len() / 2];

    let mut changed = original.clone();
    changed.patch(index, std::mem::offset_of!(Dispatch, workgroup_count), &9_u32.to_le_bytes());
    let found = diff(&bytes, &changed.bytes());
    let count = view(index).workgroup_count.map(|count| count.get());
    let triple = |triple| Some(FieldValue::Triple(triple));
    let values = only_value(&found, "workgroup count");
    assert_eq!(values, (triple(count), triple([9, count[1], count[2]])));
    assert_eq!(found.operations[0].occurrences[0].before, Some(index as u64));

    // A constant, and the offset of a binding.
    let with_constants = dispatches.iter().copied().find(|index| !view(*index).constants.is_empty());
    let index = with_constants.expect("a dispatch of the fixture has constants");
    let constant = u32::from_le_bytes(view(index).constants[..4].try_into().unwrap());
    let mut changed = original.clone();
    changed.patch(index, 120, &(constant + 1).to_le_bytes());
    let values = only_value(&diff(&bytes, &changed.bytes()), "constant 0");
    assert_eq!(values, (number(constant.into()), number(u64::from(constant) + 1)));

    let offset = view(index).bindings[0].offset.get();
    let mut changed = original.clone();
    changed.patch(index, 120 + view(index).constants.len() + 8, &(offset + 64).to_le_bytes());
    let values = only_value(&diff(&bytes, &changed.bytes()), "binding 0 offset");
    assert_eq!(values, (number(offset), number(offset + 64)));
}

#[test]
fn equal_changes_of_many_operations_are_one() {
    let bytes = fixture("bench.abs.20.local-sync");
    let mut changed = Records::from_bytes(&bytes);
    let allocations = changed.all(OperationCode::DEVICE_QUEUE_ALLOCA);
    assert!(allocations.len() >= 20);
    for index in &allocations {
        changed.patch(*index, 0, &8_u64.to_le_bytes());
    }
    let found = diff(&bytes, &changed.bytes());
    let total: u64 = found.operations.iter().map(|it| it.count).sum();
    assert_eq!(total, allocations.len() as u64);
    assert!(found.operations.len() <= 3, "by scope: {:?}", summary(&found));
    for it in &found.operations {
        let fields: Vec<_> = it.fields.iter().map(ToString::to_string).collect();
        assert_eq!((it.kind, fields), (ChangeKind::Changed, vec!["size".to_owned()]));
        assert_eq!(it.occurrences.len() as u64, it.count);
    }
}

#[test]
fn one_byte_of_a_weight_is_found() {
    let mut bytes = fixture("mlp.mlp.local-sync");
    let original = bytes.clone();
    let capture = Capture::open(&original, OpenOptions::default()).unwrap();
    let largest = capture
        .records()
        .map(|record| record.unwrap())
        .filter(|record| record.operation() != OperationCode::EXECUTABLE_CACHE_PREPARE_EXECUTABLE)
        .max_by_key(|record| record.payload().unwrap().data().len())
        .unwrap();
    let data = largest.payload().unwrap().data();
    let at = data.as_ptr() as usize - original.as_ptr() as usize + 101;
    bytes[at] ^= 1;
    let found = diff(&original, &bytes);
    let [group] = &found.operations[..] else { panic!("{:?}", summary(&found)) };
    let [change] = &group.occurrences[0].changes[..] else { panic!("{:?}", summary(&found)) };
    let difference = change.data.as_ref().unwrap();
    assert_eq!((difference.different_bytes, difference.range_count), (1, 1));
    assert_eq!((difference.ranges[0].offset, difference.ranges[0].length), (101, 1));
    assert_eq!(group.occurrences[0].before, Some(largest.ordinal()));
}

#[test]
fn a_scope_that_was_dropped_is_one_change() {
    let bytes = fixture("bench.abs.20.local-sync");
    let mut other = Records::from_bytes(&bytes);
    let (begins, ends) =
        (other.all(OperationCode::REPLAY_SCOPE_BEGIN), other.all(OperationCode::REPLAY_SCOPE_END));
    let middle = begins.len() / 2;
    let (begin, end) = (begins[middle], ends[middle]);
    other.records.drain(begin..=end);
    for (before, after, kind) in [
        (bytes.clone(), other.bytes(), ChangeKind::Removed),
        (other.bytes(), bytes.clone(), ChangeKind::Inserted),
    ] {
        let found = diff(&before, &after);
        let scope: Vec<_> = summary(&found);
        let [(changed, "scope", name, 1, fields)] = &scope[..] else { panic!("{scope:?}") };
        assert_eq!((*changed, fields.is_empty()), (kind, true));
        let operations = found.before.operation_count.abs_diff(found.after.operation_count);
        assert_eq!(found.operations[0].occurrences[0].operation_count, operations);
        let occurrence = &found.operations[0].occurrences[0];
        let record = occurrence.before.or(occurrence.after).unwrap();
        assert!(begins.contains(&(record as usize)), "it is one change: {record}");
        let [ScopeChange { path, before, after, .. }] = &found.scopes[..] else {
            panic!("{:?}", found.scopes)
        };
        assert_eq!(
            path.names().last().map(|name| String::from_utf8_lossy(name).into_owned()).as_ref(),
            Some(name)
        );
        assert_eq!(before.abs_diff(*after), 1);
    }
}

#[test]
fn an_inserted_dispatch_is_found() {
    let bytes = fixture("mlp.mlp.local-sync");
    let mut other = Records::from_bytes(&bytes);
    let dispatches = other.all(OperationCode::COMMAND_BUFFER_DISPATCH);
    let copy = other.records[dispatches[0]].clone();
    other.records.insert(dispatches[1] + 1, copy);
    let found = diff(&bytes, &other.bytes());
    let [(ChangeKind::Inserted, "command_buffer.dispatch", name, 1, _)] = &summary(&found)[..] else {
        panic!("{:?}", summary(&found))
    };
    assert!(!name.is_empty());
    assert_eq!(found.operations[0].occurrences[0].after, Some(dispatches[1] as u64 + 1));
}

/// Where the code of the first executable is in a capture.
fn code_of(bytes: &[u8]) -> std::ops::Range<usize> {
    let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
    let mut records = capture.records().map(|record| record.unwrap());
    let prepares =
        |it: &rehal_capture::Record<'_>| it.operation() == OperationCode::EXECUTABLE_CACHE_PREPARE_EXECUTABLE;
    let record = records.find(prepares).unwrap();
    let Payload::ExecutablePrepare(view) = record.payload().unwrap() else { panic!("it prepares code") };
    let start = view.data.as_ptr() as usize - bytes.as_ptr() as usize;
    start..start + view.data.len()
}

#[test]
fn a_replaced_executable_is_named_with_its_functions() {
    let bytes = fixture("mlp.mlp.local-sync");
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let record = capture
        .records()
        .map(|record| record.unwrap())
        .find(|record| record.operation() == OperationCode::EXECUTABLE_CACHE_PREPARE_EXECUTABLE)
        .unwrap();
    let Payload::ExecutablePrepare(view) = record.payload().unwrap() else { panic!("it prepares code") };
    let at = |part: &[u8]| part.as_ptr() as usize - bytes.as_ptr() as usize;
    let mut other = bytes.clone();
    other[at(view.data) + view.data.len() - 1] ^= 1;
    // The constants of the first function.
    other[at(view.metadata_bytes) + 32 + 20] += 1;
    let found = diff(&bytes, &other);
    let [executable] = &found.executables[..] else { panic!("{:?}", found.executables) };
    assert!(found.operations.is_empty(), "{:?}", summary(&found));
    let (before, after) = (executable.before.as_ref().unwrap(), executable.after.as_ref().unwrap());
    assert_eq!((before.code_bytes, before.record), (after.code_bytes, record.ordinal()));
    assert_ne!(before.digest, after.digest);
    let [function] = &executable.functions[..] else { panic!("{:?}", executable.functions) };
    assert_eq!((function.changes.len(), function.changes[0].name.to_string()), (1, "constants".into()));
    assert_eq!(function.is_same_code, None);
    assert_eq!(executable.undetermined, Some("the code has no symbols of them"));
}

#[test]
fn functions_with_other_code_are_named_by_their_symbols() {
    let bytes = fixture("mlp.syslib.local-sync");
    let code = code_of(&bytes);
    let mut named = std::collections::BTreeSet::new();
    // Headers, constants and instructions.
    for at in code.step_by(61) {
        let mut other = bytes.clone();
        other[at] ^= 1;
        let found = diff(&bytes, &other);
        let [executable] = &found.executables[..] else { panic!("{:?}", found.executables) };
        let changed = |it: &&FunctionChange| it.is_same_code == Some(false);
        let functions: Vec<_> = executable.functions.iter().filter(changed).map(|it| it.ordinal).collect();
        assert!(functions.len() == 1 || executable.undetermined.is_some(), "{at:#x}: {executable:?}");
        named.extend(functions);
    }
    assert_eq!(named, (0..5).collect());
}

#[test]
fn functions_of_the_same_program_for_other_targets_correspond() {
    let (before, after) = (fixture("add4.add.local-sync"), fixture("add4.vmvx.local-sync"));
    let found = diff(&before, &after);
    assert!(!found.executables.is_empty());
    assert!(found.executables.iter().all(|it| it.kind == ChangeKind::Changed), "{:?}", found.executables);
}

#[test]
fn reordered_dispatches_are_moved() {
    let bytes = fixture("mlp.mlp.local-sync");
    let mut other = Records::from_bytes(&bytes);
    let dispatches = other.all(OperationCode::COMMAND_BUFFER_DISPATCH);
    let record = other.records.remove(dispatches[1]);
    other.records.insert(dispatches[0], record);
    let found = diff(&bytes, &other.bytes());
    let [(ChangeKind::Moved, "command_buffer.dispatch", name, 1, fields)] = &summary(&found)[..] else {
        panic!("{:?}", summary(&found))
    };
    assert!(!name.is_empty() && fields.is_empty());
}

/// A program that fills a buffer with these patterns, one after the other; other programs have other ids.
fn fills(patterns: &[u32], other_buffers: usize) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let recorder = Recorder::create(file.path(), RecordOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let group = recorder.wrap(&group).unwrap();
    let device = &group.devices()[0];
    let _others: Vec<_> =
        (0..other_buffers).map(|_| device.allocate_buffer(BufferParams::default(), 16).unwrap()).collect();
    let buffer = device.allocate_buffer(BufferParams::default(), 64).unwrap();
    let semaphore = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
    for (value, pattern) in (1..).zip(patterns) {
        let (waits, signals) = ([semaphore.at(value - 1)], [semaphore.at(value)]);
        let target = BufferRef::range(&buffer, 0, 64);
        let queue = device.queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals);
        queue.fill(target, &pattern.to_le_bytes(), 0).unwrap();
    }
    drop((buffer, semaphore, group));
    recorder.close().unwrap();
    std::fs::read(file.path()).unwrap()
}

#[test]
fn reordered_submissions_are_moved() {
    let found = diff(&fills(&[1, 2, 3, 4], 0), &fills(&[1, 3, 2, 4], 0));
    let kinds = summary(&found);
    let moved = kinds.iter().filter(|it| it.0 == ChangeKind::Moved).collect::<Vec<_>>();
    assert!(matches!(moved[..], [(_, "device.queue_fill", _, 1, _)]), "{kinds:?}");
    // The others wait for other submissions now.
    let rest = kinds.iter().filter(|it| it.0 != ChangeKind::Moved);
    assert!(
        rest.clone().all(|it| (it.0, &it.4[..]) == (ChangeKind::Changed, &["waits".to_owned()])),
        "{kinds:?}"
    );
    assert_ne!(rest.count(), 0);
}

#[test]
fn ids_and_payloads_of_semaphores_do_not_count() {
    // Without a submission, those after it wait for those before it.
    let found = diff(&fills(&[1, 2, 3, 4], 0), &fills(&[1, 2, 4], 0));
    let [(ChangeKind::Removed, "device.queue_fill", _, 1, _)] = &summary(&found)[..] else {
        panic!("{:?}", summary(&found))
    };
    // Other buffers come first, so that all ids are others.
    let found = diff(&fills(&[1, 2], 0), &fills(&[1, 2], 3));
    let [(ChangeKind::Inserted, "allocator.allocate_buffer", _, 3, _)] = &summary(&found)[..] else {
        panic!("{:?}", summary(&found))
    };
    // Another pattern is a change, not a removal.
    let found = diff(&fills(&[1, 2, 3], 0), &fills(&[1, 7, 3], 2));
    let expected = [
        (ChangeKind::Inserted, "allocator.allocate_buffer", 2, vec![]),
        (ChangeKind::Changed, "device.queue_fill", 1, vec!["pattern".to_owned()]),
    ];
    let found: Vec<_> = summary(&found).into_iter().map(|it| (it.0, it.1, it.3, it.4)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_truncated_capture_is_compared_up_to_its_end() {
    let bytes = fixture("bench.abs.20.local-sync");
    let torn = &bytes[..bytes.len() / 2];
    let found = diff(&bytes, torn);
    assert!(found.after.tear.is_some() && found.before.tear.is_none());
    assert_eq!(found.same_count, found.after.operation_count);
    assert_eq!(found.count(ChangeKind::Removed), found.before.operation_count - found.after.operation_count);
    assert!(diff(torn, torn).is_same());
}

/// A capture whose dispatch has this many constants of this value.
fn constants(count: usize, value: u8) -> Vec<u8> {
    let bytes = fixture("add4.direct.local-sync");
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let mut sink = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut sink).unwrap();
    for record in capture.records().map(|record| record.unwrap()) {
        let fields = RecordFields::from(record.header);
        match record.payload().unwrap() {
            Payload::Dispatch(it) => {
                let constants = vec![value; 4 * count];
                let header = Dispatch { constants_length: (constants.len() as u64).into(), ..*it.header };
                let view = payload::Dispatch { header: &header, constants: &constants, ..it };
                writer.append_view(&fields, &view).unwrap();
            }
            _ => writer.append(&fields, &[record.payload]).unwrap(),
        }
    }
    writer.close().unwrap();
    sink.into_inner()
}

/// Without this test, a call that cannot be replayed may refuse the whole comparison.
#[test]
fn calls_that_cannot_be_replayed_are_compared_by_name() {
    let bytes = fixture("mlp.mlp.local-sync");
    let mut other = Records::from_bytes(&bytes);
    let dispatches = other.all(OperationCode::COMMAND_BUFFER_DISPATCH);
    let at = std::mem::offset_of!(RecordHeader, operation_code);
    other.records[dispatches[0]][at..at + 4].copy_from_slice(&999_u32.to_le_bytes());
    let found = diff(&bytes, &other.bytes());
    assert_eq!((found.before.opaque_count, found.after.opaque_count), (0, 1));
    assert_eq!((found.count(ChangeKind::Removed), found.count(ChangeKind::Inserted)), (1, 1));
}

/// Without this test, a comparison may take more memory than both captures, or leave out changes that fit.
#[test]
fn changes_beyond_the_memory_of_both_captures_are_counted() {
    const FITTING: usize = 4721;
    for (count, omitted) in [(FITTING, 0), (FITTING + 1, 1)] {
        let (before, after) = (constants(count, 1), constants(count, 2));
        let limit = (before.len() + after.len()) / 96 + 4096;
        assert_eq!(count + 1 > limit, omitted == 1, "{count} constants and an operation, at most {limit}");
        let found = diff(&before, &after);
        let changed = found.operations.iter().map(|it| it.count).sum::<u64>();
        assert_eq!((found.omitted_count, changed), (omitted, 1 - omitted), "{count}");
    }
}

#[test]
fn mutated_captures_are_compared_or_refused() {
    let bytes = fixture("control.collatz.local-sync");
    let original = CaptureBytes::from(bytes.clone());
    let mut random = fastrand::Rng::with_seed(5);
    let (mut compared, mut refused) = (0, 0);
    for _ in 0..600 {
        let mut mutated = bytes.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(24..mutated.len());
            mutated[at] = random.u8(..);
        }
        let mutated = CaptureBytes::from(mutated);
        let result = match random.bool() {
            true => diff_captures(&original, &mutated, &DiffOptions::default(), &mut |_| {}),
            false => diff_captures(&mutated, &original, &DiffOptions::default(), &mut |_| {}),
        };
        match result {
            Ok(_) => compared += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(compared > 50 && refused > 10, "{compared} {refused}");
}

#[test]
fn the_fuzzed_comparison_reads_every_fixture() {
    for path in testing::captures(&testing::fixtures()) {
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 1 << 15 {
            continue;
        }
        // What follows a capture is ignored.
        bytes.push(0);
        for last in [90, 200] {
            *bytes.last_mut().unwrap() = last;
            assert!(rehal_edit::fuzzing::exercise_diff(&bytes) >= 2, "{}", path.display());
        }
    }
}
