//! Reductions find planted minimal cases, in fixtures and with checks that need no process.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_base::{Error, Result};
use rehal_capture::layout::SemaphoreTimepoint;
use rehal_capture::{
    CaptureBytes, ObjectType, OpenOptions, OperationCode, PayloadType, Record, RecordFields, RecordType,
    Writer,
};
use rehal_edit::{ReduceHost, ReduceOptions, ReduceProgress, ReduceStop, Reduction, SlicedDispatch, reduce};
use rehal_hal::{
    AccessScope, BufferBarrier, BufferParams, BufferRef, Command, CommandBufferParams, DeviceGroup,
    ExecutionStage, HostOp, MemoryBarrier, Op, QUEUE_AFFINITY_ANY, QueueOp, SemaphoreFlags, Submission,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{Ids, Plan, PlanOptions, RecordOptions, Recorder, decode, encode_payload};

const CHAIN: &str = "chain.chain.local-sync";

/// Checks captures by a function.
struct Host<F> {
    check: F,
    check_count: AtomicU64,
    /// Interrupts after as many checks.
    interrupt_after: u64,
}

impl<F: Fn(&Capture) -> bool + Sync> Host<F> {
    fn new(check: F) -> Self {
        Self { check, check_count: AtomicU64::new(0), interrupt_after: u64::MAX }
    }
}

impl<F: Fn(&Capture) -> bool + Sync> ReduceHost for Host<F> {
    fn is_interesting(&self, capture: &Path) -> Result<bool> {
        self.check_count.fetch_add(1, Ordering::Relaxed);
        Ok((self.check)(&Capture::open(&fs::read(capture).unwrap())?))
    }

    fn slice(&self, _: &Path, _: SlicedDispatch, _: &Path) -> Result<bool> {
        Ok(false)
    }

    fn is_interrupted(&self) -> bool {
        self.check_count.load(Ordering::Relaxed) >= self.interrupt_after
    }

    fn progress(&self, _: &ReduceProgress) {}
}

/// The parts of a capture that checks look at.
struct Capture {
    plan: Plan,
    /// The functions that are dispatched, in order.
    dispatches: Vec<String>,
    /// The writes of the host: buffer, offset and bytes.
    writes: Vec<(u64, u64, Vec<u8>)>,
    scopes: Vec<String>,
    /// The first semaphore that each execution of a command buffer signals.
    executions: Vec<u64>,
    /// The events of each command that waits for some, and the buffers of each barrier.
    event_waits: Vec<Vec<u64>>,
    barriers: Vec<Vec<u64>>,
}

impl Capture {
    fn open(bytes: &[u8]) -> Result<Self> {
        let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
        let mut dispatches = Vec::new();
        plan.dispatches(|it| {
            dispatches.push(String::from_utf8_lossy(it.name).into_owned());
            Ok(())
        })?;
        let mut writes = Vec::new();
        let mut executions = Vec::new();
        let (mut event_waits, mut barriers) = (Vec::new(), Vec::new());
        for record in records(&CaptureBytes::from(bytes.to_vec())) {
            match decode(&record)? {
                Some(Op::Host(HostOp::Unmap(range, Some(data)))) => {
                    writes.push((range.buffer, range.offset, data.to_vec()));
                }
                Some(Op::Queue(Submission { op: QueueOp::Execute { .. }, signals, .. })) => {
                    executions.extend(signals.first().map(|it| it.semaphore_id.get()));
                }
                Some(Op::Command { command: Command::WaitEvents { events, .. }, .. }) => {
                    event_waits.push(events.iter().map(|it| it.get()).collect());
                }
                Some(Op::Command { command: Command::ExecutionBarrier { buffer_barriers, .. }, .. }) => {
                    let buffers = buffer_barriers.iter().map(|it| it.buffer_ref.buffer_id.get());
                    barriers.push(buffers.collect());
                }
                _ => {}
            }
        }
        let scopes = plan.scopes().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
        Ok(Self { plan, dispatches, writes, scopes, executions, event_waits, barriers })
    }
}

fn records(bytes: &CaptureBytes) -> Vec<Record<'_>> {
    bytes.open(OpenOptions::default()).unwrap().records().map(|it| it.unwrap()).collect()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/captures/{name}.ireereplay"))
}

/// Reduces a fixture; returns the result, and the bytes of the reduced capture.
fn reduced<F: Fn(&Capture) -> bool + Sync>(
    name: &str,
    options: &ReduceOptions,
    host: &Host<F>,
) -> Result<(Reduction, Vec<u8>)> {
    reduced_file(&fixture(name), options, host)
}

fn reduced_file<F: Fn(&Capture) -> bool + Sync>(
    path: &Path,
    options: &ReduceOptions,
    host: &Host<F>,
) -> Result<(Reduction, Vec<u8>)> {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let reduction = reduce(&CaptureBytes::map(path)?, options, host, directory.path(), &output)?;
    let bytes = fs::read(&output).unwrap();
    fs::remove_file(&output).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "candidates remain");
    assert_eq!(reduction.after.bytes, bytes.len() as u64);
    Ok((reduction, bytes))
}

/// Reduces a fixture to a minimal capture, which is the same with several jobs, and checks that no record of
/// it can be left out.
fn minimal(name: &str, check: impl Fn(&Capture) -> bool + Sync + Copy) -> (Reduction, Capture) {
    let (reduction, bytes) = reduced(name, &ReduceOptions::default(), &Host::new(check)).unwrap();
    assert_eq!(reduction.stop, None, "{reduction:?}");
    let mut options = ReduceOptions::default();
    options.jobs = 3;
    let (_, parallel) = reduced(name, &options, &Host::new(check)).unwrap();
    assert_eq!(bytes, parallel, "{name}");
    let capture = Capture::open(&bytes).unwrap();
    assert!(check(&capture), "{name}");
    let whole = CaptureBytes::from(bytes);
    let records = records(&whole);
    let own = [PayloadType::CHECKSUMMED, PayloadType::CHECKSUMS];
    // An object is described where it is created; devices and allocators only are.
    let describes = |it: &Record<'_>| {
        it.record_type() == RecordType::OBJECT
            && !matches!(it.object_type(), ObjectType::DEVICE | ObjectType::ALLOCATOR)
    };
    for (index, record) in records.iter().enumerate() {
        if own.contains(&record.payload_type()) || describes(record) {
            continue;
        }
        // With the description of the object that it creates, or the end of what it begins.
        let partner = partner(index, &records);
        let is_kept = |other: usize| other != index && Some(other) != partner;
        let without: Vec<_> = (0..)
            .zip(&records)
            .filter(|(other, it)| is_kept(*other) && !own.contains(&it.payload_type()))
            .map(|(_, it)| it)
            .collect();
        let passes =
            Capture::open(&written(&without)).is_ok_and(|it| it.plan.device_count() != 0 && check(&it));
        assert!(!passes, "{name}: record #{index} ({}) can be left out", record.operation());
    }
    needs_each_submission(name, &records, check);
    (reduction, capture)
}

/// Checks that no submission can be left out if those that waited for it wait for what it waited for, nor an
/// allocation with its deallocation.
fn needs_each_submission(name: &str, records: &[Record<'_>], check: impl Fn(&Capture) -> bool) {
    let own = [PayloadType::CHECKSUMMED, PayloadType::CHECKSUMS];
    let submissions = submissions(records);
    for (index, _) in &submissions {
        let removed = removed_with(*index, &submissions);
        let mut edited: Vec<(&Record<'_>, Option<Vec<u8>>)> = Vec::new();
        for (other, record) in records.iter().enumerate() {
            let describes = record.record_type() == RecordType::OBJECT
                && removed.iter().any(|it| created(*it, records) == Some(record.header.object_id.get()));
            if removed.contains(&other) || describes || own.contains(&record.payload_type()) {
                continue;
            }
            let payload = submissions.iter().find(|it| it.0 == other).and_then(|(_, submission)| {
                let waits = waits_without(submission.waits, &removed, &submissions);
                (waits != submission.waits).then(|| with_waits(record, &waits))
            });
            edited.push((record, payload));
        }
        let bytes = written_with(&edited);
        let passes = Capture::open(&bytes).is_ok_and(|it| it.plan.device_count() != 0 && check(&it));
        assert!(!passes, "{name}: submission #{index} can be left out, with {removed:?}");
    }
}

/// The records of submissions.
fn submissions<'a>(records: &[Record<'a>]) -> Vec<(usize, Submission<Ids<'a>>)> {
    let submission = |(index, record)| match decode(record) {
        Ok(Some(Op::Queue(submission))) => Some((index, submission)),
        _ => None,
    };
    records.iter().enumerate().filter_map(submission).collect()
}

/// The buffer that a record of a submission allocates.
fn created(index: usize, records: &[Record<'_>]) -> Option<u64> {
    match decode(&records[index]) {
        Ok(Some(Op::Queue(Submission { op: QueueOp::Alloca { created, .. }, .. }))) => Some(created),
        _ => None,
    }
}

/// A submission, and the other of an allocation and its deallocation.
fn removed_with(index: usize, submissions: &[(usize, Submission<Ids<'_>>)]) -> Vec<usize> {
    let buffer = |it: &Submission<Ids<'_>>| match it.op {
        QueueOp::Alloca { created, .. } => Some(created),
        QueueOp::Dealloca { buffer, .. } => Some(buffer),
        _ => None,
    };
    let of = |wanted: u64| submissions.iter().filter(move |it| buffer(&it.1) == Some(wanted)).map(|it| it.0);
    match submissions.iter().find(|it| it.0 == index).and_then(|it| buffer(&it.1)) {
        Some(id) => of(id).collect(),
        None => vec![index],
    }
}

/// Waits for what removed submissions waited for, and for the signals before theirs.
fn waits_without(
    waits: &[SemaphoreTimepoint],
    removed: &[usize],
    submissions: &[(usize, Submission<Ids<'_>>)],
) -> Vec<SemaphoreTimepoint> {
    let mut open = waits.to_vec();
    let mut kept: Vec<SemaphoreTimepoint> = Vec::new();
    while let Some(wait) = open.pop() {
        let signals =
            submissions.iter().flat_map(|(index, it)| it.signals.iter().map(move |at| (*index, it, at)));
        let same = signals.filter(|(_, _, at)| at.semaphore_id == wait.semaphore_id);
        let mut same: Vec<_> = same.map(|(index, it, at)| (at.value.get(), index, it)).collect();
        same.sort_by_key(|it| it.0);
        let at = same.partition_point(|it| it.0 < wait.value.get());
        match same.get(at) {
            Some((_, index, submission)) if removed.contains(index) => {
                open.extend_from_slice(submission.waits);
                let before = at.checked_sub(1).map(|it| same[it].0);
                open.extend(before.map(|value| SemaphoreTimepoint { value: value.into(), ..wait }));
            }
            _ if !kept.contains(&wait) => kept.push(wait),
            _ => {}
        }
    }
    kept.sort_by_key(|it| waits.iter().position(|wait| wait == it));
    kept
}

/// The payload of a submission with other waits.
fn with_waits<'b>(record: &Record<'b>, waits: &'b [SemaphoreTimepoint]) -> Vec<u8> {
    let Ok(Some(Op::Queue(submission))) = decode(record) else { panic!("{record:?}") };
    let mut payload = Vec::new();
    encode_payload(&Op::Queue(Submission { waits, ..submission }), &mut |_, parts| payload = parts.concat());
    payload
}

/// The record that belongs to another.
fn partner(index: usize, records: &[Record<'_>]) -> Option<usize> {
    let record = &records[index];
    let pairs = [
        (OperationCode::REPLAY_SCOPE_BEGIN, OperationCode::REPLAY_SCOPE_END),
        (OperationCode::BUFFER_MAP_RANGE, OperationCode::BUFFER_UNMAP_RANGE),
    ];
    let find = |operation: OperationCode, mut among: std::ops::Range<usize>| {
        among.find(|it| {
            records[*it].operation() == operation && records[*it].header.object_id == record.header.object_id
        })
    };
    for (begin, end) in pairs {
        if record.operation() == begin {
            return find(end, index + 1..records.len());
        }
        if record.operation() == end {
            return find(begin, 0..index);
        }
    }
    let next = index + 1;
    let describes = |it: &Record<'_>| {
        it.record_type() == RecordType::OBJECT && it.header.object_id == record.header.related_object_id
    };
    records.get(next).filter(|it| describes(it)).map(|_| next)
}

/// A capture of these records.
fn written(records: &[&Record<'_>]) -> Vec<u8> {
    let records: Vec<_> = records.iter().map(|it| (*it, None)).collect();
    written_with(&records)
}

/// A capture of these records, some of them with another payload.
fn written_with(records: &[(&Record<'_>, Option<Vec<u8>>)]) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut bytes).unwrap();
    writer.begin_checksummed(&RecordFields::default()).unwrap();
    for (record, payload) in records {
        let fields = RecordFields {
            record_type: record.record_type(),
            thread_id: record.header.thread_id.get(),
            device_id: record.header.device_id.get(),
            object_id: record.header.object_id.get(),
            related_object_id: record.header.related_object_id.get(),
            payload_type: record.payload_type(),
            object_type: record.object_type(),
            operation: record.operation(),
            status_code: record.header.status_code.get(),
            optional: !record.record_type().is_known(),
        };
        writer.append(&fields, &[payload.as_deref().unwrap_or(record.payload)]).unwrap();
    }
    writer.close().unwrap();
    bytes.into_inner()
}

#[test]
fn two_dispatches_that_are_needed_together_remain() {
    let whole = Capture::open(&fs::read(fixture(CHAIN)).unwrap()).unwrap();
    assert!(whole.dispatches.len() > 10);
    let distinct: BTreeSet<_> = whole.dispatches.iter().collect();
    for (first, second) in [(0, distinct.len() - 1), (0, 1)] {
        let of = |at: usize| distinct.iter().nth(at).unwrap().as_str();
        let (first, second) = (of(first), of(second));
        let has = |it: &Capture, name: &str| it.dispatches.iter().any(|dispatch| dispatch == name);
        let (reduction, capture) = minimal(CHAIN, |it| has(it, first) && has(it, second));
        assert_eq!(capture.dispatches.len(), 2, "{:?}", capture.dispatches);
        assert!(has(&capture, first) && has(&capture, second));
        assert_eq!((reduction.after.dispatches, reduction.after.data_bytes), (2, 0));
        assert!(capture.scopes.is_empty() && capture.writes.is_empty());
    }
}

#[test]
fn one_byte_that_is_needed_remains() {
    let whole = Capture::open(&fs::read(fixture(CHAIN)).unwrap()).unwrap();
    let (buffer, offset, bytes) = whole.writes.iter().max_by_key(|it| it.2.len()).unwrap();
    let at = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let (at, byte) = (offset + at, bytes[at as usize]);
    let has = |it: &Capture| {
        it.writes.iter().any(|(id, offset, bytes)| {
            let index = at.checked_sub(*offset).and_then(|it| usize::try_from(it).ok());
            id == buffer && index.and_then(|index| bytes.get(index)) == Some(&byte)
        })
    };
    let (reduction, capture) = minimal(CHAIN, has);
    assert_eq!((reduction.after.data_bytes, reduction.byte_range), (1, 1));
    assert_eq!((reduction.after.dispatches, reduction.after.submissions), (0, 0));
    // The zeros around it are left out.
    let [(_, _, bytes)] = &capture.writes[..] else { panic!("{:?}", capture.writes) };
    assert_eq!(bytes, &[byte]);
}

#[test]
fn a_scope_is_left_out_with_what_is_in_it() {
    let (reduction, capture) =
        minimal("mlp.mlp.local-sync", |it| it.scopes.iter().any(|name| name == "execute"));
    assert_eq!(capture.scopes, ["execute"]);
    assert_eq!((reduction.after.submissions, reduction.after.records), (0, 3));
    assert!(reduction.check_count < 40, "{reduction:?}");
}

/// Waits for signals that are left out become waits for what those followed.
#[test]
fn what_remains_can_be_replayed_in_every_fixture() {
    let mut reduced_count = 0;
    for entry in fs::read_dir(fixture(CHAIN).parent().unwrap()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".ireereplay") else { continue };
        let Ok(whole) = Capture::open(&fs::read(fixture(name)).unwrap()) else { continue };
        if whole.plan.step_count() > 400 || whole.plan.device_count() == 0 {
            continue;
        }
        let count = whole.dispatches.len().min(2);
        let (reduction, capture) = minimal(name, |it| it.dispatches.len() >= count);
        assert_eq!((capture.dispatches.len(), reduction.after.data_bytes), (count, 0), "{name}");
        reduced_count += 1;
    }
    assert!(reduced_count > 30, "{reduced_count}");
}

/// Allocations wait for work of the loop's iterations between the two dispatches, which is left out.
#[test]
fn two_submissions_that_are_far_apart_remain() {
    for name in ["control.collatz.local-sync", "control.collatz.local-task"] {
        let whole = Capture::open(&fs::read(fixture(name)).unwrap()).unwrap();
        let count = whole.executions.len();
        for (first, second) in [(0, count - 1), (count / 3, count / 2)] {
            let both = [whole.executions[first], whole.executions[second]];
            let (reduction, capture) =
                minimal(name, |it| both.iter().all(|execution| it.executions.contains(execution)));
            assert_eq!(capture.executions, both);
            assert_eq!(reduction.rejected_count, 0, "{reduction:?}");
        }
    }
}

/// Records a command buffer that waits for two events, and has a barrier of two buffers, each of which is
/// then filled.
fn with_lists(path: &Path) -> Result<()> {
    let recorder = Recorder::create(path, RecordOptions::default())?;
    let group = recorder.wrap(&DeviceGroup::new(vec![LocalSync::create(Plugins::default())])?)?;
    let device = &group.devices()[0];
    let buffers = [(); 2].map(|()| device.allocate_buffer(BufferParams::default(), 64).unwrap());
    let events = [(); 2].map(|()| device.create_event(QUEUE_AFFINITY_ANY, 0).unwrap());
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
    let commands = device.create_command_buffer(CommandBufferParams::default())?;
    let barrier = MemoryBarrier { source_scope: AccessScope::empty(), target_scope: AccessScope::empty() };
    let buffer_barrier = |buffer| BufferBarrier { barrier, buffer: BufferRef::range(buffer, 0, 64) };
    commands.begin()?;
    commands.signal_event(&events[0])?;
    commands.signal_event(&events[1])?;
    commands.wait_events(&[&events[0], &events[1]])?;
    commands.record(&Command::ExecutionBarrier {
        source_stages: ExecutionStage::TRANSFER,
        target_stages: ExecutionStage::TRANSFER,
        flags: 0,
        memory_barriers: &[],
        buffer_barriers: &[buffer_barrier(&buffers[0]), buffer_barrier(&buffers[1])],
    })?;
    for buffer in &buffers {
        commands.fill(BufferRef::range(buffer, 0, 64), &[7])?;
    }
    commands.end()?;
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&commands, &[], 0)?;
    drop((buffers, events, done, commands, group));
    recorder.close()
}

/// Without this test, what nothing signals or accesses may stay in lists of events and buffers, with its
/// object.
#[test]
fn lists_of_events_and_buffers_keep_what_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lists.ireereplay");
    with_lists(&path).unwrap();
    let whole = Capture::open(&fs::read(&path).unwrap()).unwrap();
    let ([events], [buffers]) = (&whole.event_waits[..], &whole.barriers[..]) else { panic!() };
    assert_eq!((events.len(), buffers.len()), (2, 2));
    let has = |lists: &[Vec<u64>], id: u64| lists.iter().any(|list| list.contains(&id));
    for (event, buffer) in events.iter().zip(buffers) {
        let check = |it: &Capture| has(&it.event_waits, *event);
        let (reduction, bytes) = reduced_file(&path, &ReduceOptions::default(), &Host::new(check)).unwrap();
        let capture = Capture::open(&bytes).unwrap();
        assert_eq!((capture.event_waits, capture.barriers.len()), (vec![vec![*event]], 0));
        // Its signal is kept, and of objects the device, the event, the semaphore and the command buffer.
        assert_eq!((reduction.after.commands, reduction.after.objects), (2, 4));
        let check = |it: &Capture| has(&it.barriers, *buffer);
        let (reduction, bytes) = reduced_file(&path, &ReduceOptions::default(), &Host::new(check)).unwrap();
        let capture = Capture::open(&bytes).unwrap();
        assert_eq!((capture.barriers, capture.event_waits.len()), (vec![vec![*buffer]], 0));
        assert_eq!((reduction.after.commands, reduction.rejected_count), (2, 0));
    }
}

#[test]
fn a_check_that_always_passes_leaves_a_device() {
    let (reduction, _) = minimal(CHAIN, |_| true);
    assert_eq!((reduction.after.objects, reduction.after.records), (1, 1));
}

#[test]
fn a_check_that_fails_for_the_capture_is_an_error() {
    let error = reduced(CHAIN, &ReduceOptions::default(), &Host::new(|_| false)).unwrap_err();
    assert_eq!(error.message(), "the check fails for the capture itself");
    let count = AtomicU64::new(0);
    // Only for the capture itself.
    let host = Host::new(|_: &Capture| count.fetch_add(1, Ordering::Relaxed) == 0);
    let error = reduced(CHAIN, &ReduceOptions::default(), &host).unwrap_err();
    assert!(error.message().contains("the same operations"), "{error}");
}

#[test]
fn a_check_that_is_not_deterministic_is_reported() {
    let host = Host::new(|it: &Capture| !it.dispatches.is_empty());
    let mut options = ReduceOptions::default();
    let (reduction, _) = reduced(CHAIN, &options, &host).unwrap();
    let last = reduction.check_count;
    let count = AtomicU64::new(0);
    let host = Host::new(|it: &Capture| {
        count.fetch_add(1, Ordering::Relaxed) + 1 < last && !it.dispatches.is_empty()
    });
    options.jobs = 1;
    let (reduction, _) = reduced(CHAIN, &options, &host).unwrap();
    assert_eq!(reduction.stop, Some(ReduceStop::Unstable));
}

#[test]
fn limits_and_interrupts_keep_the_best_so_far() {
    let check = |it: &Capture| it.dispatches.len() >= 2;
    let whole = reduced(CHAIN, &ReduceOptions::default(), &Host::new(check)).unwrap().0;
    for limit in [1, 2, 3, 7, 12] {
        for jobs in [1, 4] {
            let mut options = ReduceOptions::default();
            (options.max_checks, options.jobs) = (Some(limit), jobs);
            let (reduction, bytes) = reduced(CHAIN, &options, &Host::new(check)).unwrap();
            assert_eq!((reduction.stop, reduction.check_count), (Some(ReduceStop::Checks), limit));
            assert!(check(&Capture::open(&bytes).unwrap()));
        }
        let mut host = Host::new(check);
        host.interrupt_after = limit;
        let (reduction, bytes) = reduced(CHAIN, &ReduceOptions::default(), &host).unwrap();
        assert_eq!(reduction.stop, Some(ReduceStop::Interrupted));
        assert!(check(&Capture::open(&bytes).unwrap()));
        assert!(bytes.len() as u64 >= whole.after.bytes);
    }
}

#[test]
fn an_error_of_the_host_ends_the_reduction() {
    struct Failing;
    impl ReduceHost for Failing {
        fn is_interesting(&self, _: &Path) -> Result<bool> {
            Err(Error::not_found("the reason"))
        }
        fn slice(&self, _: &Path, _: SlicedDispatch, _: &Path) -> Result<bool> {
            Ok(false)
        }
        fn is_interrupted(&self) -> bool {
            false
        }
        fn progress(&self, _: &ReduceProgress) {}
    }
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let capture = CaptureBytes::map(&fixture(CHAIN)).unwrap();
    let outcome = reduce(&capture, &ReduceOptions::default(), &Failing, directory.path(), &output);
    assert_eq!(outcome.unwrap_err().message(), "the reason");
    assert!(!output.exists());
}

/// Captures that lack any one record are refused by the plan, or reduced like others.
#[test]
fn malformed_captures_are_errors() {
    let whole = CaptureBytes::map(&fixture(CHAIN)).unwrap();
    let records = records(&whole);
    let directory = tempfile::tempdir().unwrap();
    let (path, output) = (directory.path().join("input"), directory.path().join("output"));
    for without in 0..records.len() {
        let kept = (0..).zip(&records).filter(|it| it.0 != without).map(|it| it.1);
        let kept: Vec<_> = kept.filter(|it| it.record_type() != RecordType::SESSION).collect();
        fs::write(&path, written(&kept)).unwrap();
        let mut options = ReduceOptions::default();
        options.max_checks = Some(10);
        let host = Host::new(|it: &Capture| !it.dispatches.is_empty());
        let capture = CaptureBytes::map(&path).unwrap();
        match reduce(&capture, &options, &host, directory.path(), &output) {
            Ok(_) => assert!(!Capture::open(&fs::read(&output).unwrap()).unwrap().dispatches.is_empty()),
            Err(error) => assert!(!error.message().is_empty() && !output.exists()),
        }
        let _ = fs::remove_file(&output);
    }
}
