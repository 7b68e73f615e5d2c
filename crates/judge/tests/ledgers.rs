//! Ledgers as files: what they contain, and malformed ones.

use std::sync::Arc;

use rehal_base::StatusCode;
use rehal_capture::{Capture, OpenOptions, PayloadType, RecordFields, Writer};
use rehal_cts::discrete::DiscreteDevice;
use rehal_hal::{BufferParams, BufferRef, Device, DeviceGroup, QUEUE_AFFINITY_ANY, SemaphoreFlags, transfer};
use rehal_judge::{
    DispatchDigests, ElementTypeRule, EntryKind, Ledger, LedgerContents, LedgerOptions, LedgerWriter,
    Outcome, Verification, VerifyOptions, VerifySides, fuzzing, verify_against, verify_elements,
    verify_lockstep,
};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions};
use rehal_replay::{
    HostReadLog, LedgerRecording, Plan, PlanOptions, RecordOptions, Recorder, Replacement, Replay,
    ReplayOptions, ReplayOrder, Selector, Substitution,
};

fn plan(name: &str) -> Arc<Plan> {
    let path = testing::fixtures().join(format!("captures/{name}.ireereplay"));
    Arc::new(Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap())
}

fn replay(plan: &Arc<Plan>) -> Replay {
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    Replay::new(plan.clone(), &devices, &ReplayOptions::default()).unwrap()
}

fn ledger(name: &str) -> Vec<u8> {
    let mut options = LedgerOptions::default();
    options.kept_bytes = 40;
    options.element_types = vec![ElementTypeRule::parse("f32").unwrap()];
    let plan = plan(name);
    let mut writer = LedgerWriter::new(Vec::new(), &plan, options).unwrap();
    replay(&plan).run(&mut [&mut writer]).unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_ledger_has_what_was_written_and_read() {
    let bytes = ledger("add4.add.local-sync");
    assert_eq!(fuzzing::exercise(&bytes).unwrap(), 3);
    let ledger = Ledger::from_bytes(bytes).unwrap();
    let mut entries = ledger.entries();
    let dispatch = entries.next().unwrap().unwrap();
    assert_eq!((dispatch.kind, dispatch.occurrence, dispatch.ranges.len()), (EntryKind::Dispatch, 0, 1));
    let written = &dispatch.ranges[0];
    assert_eq!((written.binding, written.range.length, written.pieces.len()), (Some(2), 16, 1));
    let read = entries.next().unwrap().unwrap();
    assert_eq!((read.kind, read.ranges[0].binding), (EntryKind::Read, None));
    // The result of the program is what the dispatch wrote.
    let (kept, digest) = (written.pieces[0].kept, written.pieces[0].digest);
    assert_eq!((read.ranges[0].pieces[0].kept, read.ranges[0].pieces[0].digest), (kept, digest));
    let numbers: Vec<f32> = kept.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let summary = read.ranges[0].summary.unwrap();
    assert_eq!(numbers.len(), 4);
    assert_eq!(summary.finite_count, 4);
    assert_eq!(summary.mean, numbers.iter().map(|it| f64::from(*it)).sum::<f64>() / 4.0);
    assert_eq!(summary.maximum, numbers.iter().map(|it| f64::from(*it)).fold(f64::MIN, f64::max));
    assert_eq!(entries.next().unwrap().unwrap().ranges[0].summary.unwrap(), summary);
    assert!(entries.next().is_none() && entries.is_complete());
}

#[test]
fn a_truncated_ledger_is_read_up_to_there() {
    let whole = ledger("chain.chain.local-sync");
    let count = fuzzing::exercise(&whole).unwrap();
    let mut last = 0;
    for length in (0..whole.len()).step_by(3) {
        match fuzzing::exercise(&whole[..length]) {
            Ok(read) => {
                assert!(read >= last && read <= count);
                last = read;
                let ledger = Ledger::from_bytes(&whole[..length]).unwrap();
                let mut entries = ledger.entries();
                assert!(entries.by_ref().all(|entry| entry.is_ok()) && !entries.is_complete());
            }
            Err(error) => assert!(length < 72, "{length}: {error:?}"),
        }
    }
    assert_eq!(last, count);
    let ledger = Ledger::from_bytes(&whole[..whole.len() * 3 / 4]).unwrap();
    let found =
        verify_against(&replay(&plan("chain.chain.local-sync")), &ledger, &VerifyOptions::default(), &mut [])
            .unwrap();
    assert_eq!(found.outcome(), Outcome::Inconclusive);
    assert!(found.dispatch_count > 5 && found.inconclusive[0].contains("incomplete"), "{found:?}");
}

#[test]
fn every_changed_byte_is_noticed() {
    let whole = ledger("add4.add.local-sync");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        match fuzzing::exercise(&bytes) {
            Ok(_) => {
                // An entry that claims to be longer than the file looks like a truncated one.
                let ledger = Ledger::from_bytes(bytes).unwrap();
                let mut entries = ledger.entries();
                let _ = entries.by_ref().count();
                assert!(!entries.is_complete(), "byte {at}");
            }
            Err(error) => assert!(
                matches!(error.code(), StatusCode::DataLoss | StatusCode::Unimplemented),
                "byte {at}: {error:?}"
            ),
        }
    }
}

#[test]
fn reserved_and_superfluous_bytes_are_rejected() {
    let whole = ledger("add4.add.local-sync");
    let entry = 72;
    let range = entry + 40;
    // Flags and reserved fields of the header, an entry and a range.
    for at in [12, 15, 68, 71, entry + 36, range + 36, range + 96, range + 103] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x80;
        fuzzing::seal(&mut bytes);
        let error = fuzzing::exercise(&bytes).unwrap_err();
        assert!(error.message().contains("flags") || error.message().contains("reserved"), "{at}: {error:?}");
    }
    let longer = [&whole[..], b"more"].concat();
    assert!(fuzzing::exercise(&longer).unwrap_err().message().contains("end"));
}

/// Otherwise an expected element could have bytes of before and after the dispatch.
#[test]
fn pieces_that_split_elements_are_rejected() {
    let whole = ledger("add4.add.local-sync");
    let piece = 72 + 40 + 104;
    for (offset, length) in [(4, 12), (0, 12), (8, 4)] {
        let mut bytes = whole.clone();
        assert_eq!((bytes[piece], bytes[piece + 8]), (0, 16));
        (bytes[piece], bytes[piece + 8]) = (offset, length);
        fuzzing::seal(&mut bytes);
        let error = fuzzing::exercise(&bytes).unwrap_err();
        assert!(error.message().contains("units of 16 bytes"), "{}", error.report());
    }
}

#[test]
fn arbitrary_changes_with_valid_checksums_do_not_panic() {
    let whole = ledger("add4.add.local-sync");
    let mut sealed = whole.clone();
    fuzzing::seal(&mut sealed);
    assert_eq!(sealed, whole);
    let mut random = fastrand::Rng::with_seed(11);
    let (mut valid, mut invalid) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(8..bytes.len());
            bytes[at] = [0, 1, 0x7f, 0xff, random.u8(..)][random.usize(..5)];
        }
        fuzzing::seal(&mut bytes);
        match fuzzing::exercise(&bytes) {
            Ok(_) => valid += 1,
            Err(_) => invalid += 1,
        }
    }
    assert!(valid > 1000 && invalid > 1000, "{valid} {invalid}");
}

#[test]
fn a_ledger_of_another_capture_is_refused() {
    let ledger = Ledger::from_bytes(ledger("add4.add.local-sync")).unwrap();
    let error =
        verify_against(&replay(&plan("add4.mul.local-sync")), &ledger, &VerifyOptions::default(), &mut []);
    let error = error.unwrap_err();
    assert!(error.message().contains("another capture"), "{}", error.report());
}

/// A recorded replay of the chain, with digests of what it reads.
fn recorded(ledger: LedgerRecording) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recorded.ireereplay");
    let options = RecordOptions::default().ledger(ledger);
    let recorder = Recorder::create(&path, options).unwrap();
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let devices = recorder.wrap(&devices).unwrap();
    let plan = plan("chain.chain.local-sync");
    let mut reads = HostReadLog::new(Vec::new(), 0);
    Replay::new(plan, &devices, &ReplayOptions::default()).unwrap().run(&mut [&mut reads]).unwrap();
    recorder.close().unwrap();
    std::fs::read(path).unwrap()
}

/// A replay of `plan` on `device`, recorded with digests of its dispatches, and what it read.
fn recorded_dispatches(plan: &Arc<Plan>, device: Device, order: ReplayOrder) -> (Vec<u8>, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recorded.ireereplay");
    let options = RecordOptions::default().ledger(LedgerRecording::Dispatches);
    let types = vec![ElementTypeRule::parse("f32").unwrap()];
    let recorder = Recorder::create(&path, options).unwrap().watch(DispatchDigests::new(types));
    let devices = recorder.wrap(&DeviceGroup::new(vec![device]).unwrap()).unwrap();
    let options = ReplayOptions::default().order(order);
    let mut reads = HostReadLog::new(Vec::new(), usize::MAX);
    Replay::new(plan.clone(), &devices, &options).unwrap().run(&mut [&mut reads]).unwrap();
    drop(devices);
    recorder.close().unwrap();
    (std::fs::read(path).unwrap(), reads.finish().unwrap())
}

/// The entries of a ledger of dispatches, without those of host reads.
fn dispatch_entries(ledger: &Ledger) -> Vec<String> {
    let entries = ledger.entries().map(Result::unwrap);
    entries.filter(|it| it.kind == EntryKind::Dispatch).map(|it| format!("{it:?}")).collect()
}

/// Every fixture program: the digests that its recording has are those of a replay, entry by entry, and it
/// reads the same as without them.
#[test]
fn recorded_digests_are_those_of_a_replay() {
    let mut count = 0;
    for file in std::fs::read_dir(testing::fixtures().join("captures")).unwrap() {
        let path = file.unwrap().path();
        // These end the process.
        if ["divide-by-zero", "gather-outside"].iter().any(|it| path.to_string_lossy().contains(it)) {
            continue;
        }
        let Ok(plan) = Plan::compile(std::fs::read(&path).unwrap(), PlanOptions::default()) else { continue };
        let plan = Arc::new(plan);
        let mut reads = HostReadLog::new(Vec::new(), usize::MAX);
        let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
        let plain = Replay::new(plan.clone(), &devices, &ReplayOptions::default());
        // Some need files or plugins, or fail.
        let Ok(()) = plain.and_then(|it| it.run(&mut [&mut reads]).map(drop)) else { continue };
        let reads = reads.finish().unwrap();
        let task = || LocalTask::create(LocalTaskOptions::default()).unwrap();
        for (device, order) in [
            (LocalSync::create(Plugins::default()), ReplayOrder::Serialized),
            (task(), ReplayOrder::Serialized),
            (task(), ReplayOrder::Captured),
        ] {
            let place = format!("{} on {} in {order:?}", path.display(), device.info().name);
            let (bytes, read) = recorded_dispatches(&plan, device, order);
            assert!(read == reads, "{place}");
            let recorded = compiled(bytes);
            let mut options = LedgerOptions::default();
            options.element_types = vec![ElementTypeRule::parse("f32").unwrap()];
            let mut writer = LedgerWriter::new(Vec::new(), &recorded, options).unwrap();
            replay(&recorded).run(&mut [&mut writer]).unwrap();
            let made = Ledger::from_bytes(writer.finish().unwrap()).unwrap();
            let Some(own) = Ledger::from_plan(&recorded).unwrap() else {
                assert_eq!(made.entries().count(), 0, "{place}");
                continue;
            };
            assert_eq!(dispatch_entries(&own), dispatch_entries(&made), "{place}");
            assert_eq!(own.entries().count(), made.entries().count(), "{place}");
            let found = verify_against(&replay(&recorded), &own, &VerifyOptions::default(), &mut []).unwrap();
            assert_eq!(found.outcome(), Outcome::Same, "{place}");
            count += found.dispatch_count;
        }
    }
    assert!(count > 1000, "{count}");
}

fn compiled(bytes: Vec<u8>) -> Arc<Plan> {
    Arc::new(Plan::compile(bytes, PlanOptions::default()).unwrap())
}

#[test]
fn a_capture_with_digests_is_its_own_ledger() {
    assert!(Ledger::from_plan(&compiled(recorded(LedgerRecording::Off))).unwrap().is_none());
    let plan = compiled(recorded(LedgerRecording::Reads));
    let ledger = Ledger::from_plan(&plan).unwrap().unwrap();
    assert!(!ledger.has_dispatches());
    let found = verify_against(&replay(&plan), &ledger, &VerifyOptions::default(), &mut []).unwrap();
    assert_eq!((found.outcome(), found.read_count, found.dispatch_count), (Outcome::Same, 3, 0));
}

/// A program that reads bytes which nothing has written: of transient memory, through a copy, and around
/// that.
fn reads_padding(ledger: LedgerRecording) -> (Arc<Plan>, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recorded.ireereplay");
    let recorder = Recorder::create(&path, RecordOptions::default().ledger(ledger)).unwrap();
    let recorder = match ledger {
        LedgerRecording::Dispatches => recorder.watch(DispatchDigests::new(Vec::new())),
        _ => recorder,
    };
    let devices = recorder.wrap(&DeviceGroup::new(vec![discrete()]).unwrap()).unwrap();
    let device = &devices.devices()[0];
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    let transient =
        queue.signal(&[done.at(2)]).wait(&[done.at(1)]).alloca(BufferParams::default(), 64, 0).unwrap();
    let part = BufferRef::range(&transient, 16, 32);
    queue.wait(&[done.at(2)]).signal(&[done.at(3)]).fill(part, &[7], 0).unwrap();
    let params = BufferParams::default().mappable();
    let result = device.allocate_buffer(params, 100).unwrap();
    let part = BufferRef::range(&result, 8, 64);
    queue
        .wait(&[done.at(3)])
        .signal(&[done.at(4)])
        .copy(BufferRef::range(&transient, 0, 64), part, 0)
        .unwrap();
    done.signal(1).unwrap();
    done.wait(4, None).unwrap();
    let read = transfer::to_vec(&result, 0, 100).unwrap();
    drop((transient, result, done, devices));
    recorder.close().unwrap();
    (compiled(std::fs::read(path).unwrap()), read)
}

/// A device whose new memory has other bytes each time.
fn discrete() -> Device {
    DiscreteDevice::over(LocalSync::create(Plugins::default()))
}

#[test]
fn bytes_that_nothing_wrote_are_the_same_in_every_run() {
    let mut expected = vec![0; 100];
    expected[24..56].fill(7);
    let on_discrete = |plan: &Arc<Plan>| {
        let devices = DeviceGroup::new(vec![discrete()]).unwrap();
        Replay::new(plan.clone(), &devices, &ReplayOptions::default()).unwrap()
    };
    for ledger in [LedgerRecording::Reads, LedgerRecording::Dispatches] {
        let (plan, read) = reads_padding(ledger);
        assert_eq!(read, expected, "{ledger:?}");
        let own = Ledger::from_plan(&plan).unwrap().unwrap();
        let found = verify_against(&on_discrete(&plan), &own, &VerifyOptions::default(), &mut []).unwrap();
        assert_eq!((found.outcome(), found.read_count), (Outcome::Same, 1), "{ledger:?}");
    }
    // The program itself sees what the device has.
    let (plan, read) = reads_padding(LedgerRecording::Off);
    assert_ne!(read, expected);
    for contents in [LedgerContents::Reads, LedgerContents::Dispatches] {
        let mut options = LedgerOptions::default();
        options.contents = contents;
        let ledger = || {
            let mut writer = LedgerWriter::new(Vec::new(), &plan, options.clone()).unwrap();
            on_discrete(&plan).run(&mut [&mut writer]).unwrap();
            writer.finish().unwrap()
        };
        let (first, second) = (ledger(), ledger());
        assert!(first == second, "{contents:?}");
        let first = Ledger::from_bytes(first).unwrap();
        let found = verify_against(&on_discrete(&plan), &first, &VerifyOptions::default(), &mut []).unwrap();
        assert_eq!(found.outcome(), Outcome::Same, "{contents:?}");
    }
    let mut reads = HostReadLog::new(Vec::new(), usize::MAX);
    on_discrete(&plan).run(&mut [&mut reads]).unwrap();
    let reads = String::from_utf8(reads.finish().unwrap()).unwrap();
    let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(reads.contains(&expected), "{reads}");
}

/// A copy of a capture in which `edit` changes each digest, or removes it.
fn edited(capture: &[u8], mut edit: impl FnMut(&mut Vec<u8>) -> bool) -> Vec<u8> {
    let capture = Capture::open(capture, OpenOptions::default()).unwrap();
    let mut copy = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut copy).unwrap();
    for record in capture.records() {
        let record = record.unwrap();
        let mut payload = record.payload.to_vec();
        let is_kept = match record.payload_type() {
            PayloadType::CHECKSUMMED | PayloadType::CHECKSUMS => continue,
            PayloadType::READ_DIGEST => edit(&mut payload),
            _ => true,
        };
        if is_kept {
            writer.append(&RecordFields::from(record.header), &[&payload]).unwrap();
        }
    }
    writer.close().unwrap();
    copy.into_inner()
}

#[test]
fn malformed_digests_are_errors_and_wrong_ones_differ() {
    let capture = recorded(LedgerRecording::Reads);
    let verify = |bytes: Vec<u8>| {
        let plan = compiled(bytes);
        let ledger = Ledger::from_plan(&plan)?.expect("it has digests");
        verify_against(&replay(&plan), &ledger, &VerifyOptions::default(), &mut [])
    };
    assert_eq!(verify(edited(&capture, |_| true)).unwrap().outcome(), Outcome::Same);
    let wrong = verify(edited(&capture, |payload| {
        payload[30] ^= 1;
        true
    }));
    let wrong = wrong.unwrap();
    assert_eq!((wrong.outcome(), wrong.different_count, wrong.read_count), (Outcome::Different, 1, 1));
    let mut count = 0;
    let fewer = verify(edited(&capture, |_| {
        count += 1;
        count > 1
    }));
    assert!(fewer.unwrap_err().message().contains("where the replay has record"));
    for length in [0, 39, 41] {
        let error = verify(edited(&capture, |payload| {
            payload.resize(length, 0);
            true
        }));
        assert!(error.unwrap_err().message().contains("bytes"), "{length}");
    }
    let elsewhere = verify(edited(&capture, |payload| {
        payload[8] ^= 1;
        true
    }));
    assert!(elsewhere.unwrap_err().message().contains("another range"));
    for at in [16, 23] {
        let error = verify(edited(&capture, |payload| {
            payload[at] ^= 0xff;
            true
        }));
        assert_eq!(error.unwrap_err().code(), StatusCode::DataLoss, "{at}");
    }
}

/// A copy of a capture with digests of dispatches, of which `edit` returns the payloads to write.
fn with_dispatches(capture: &[u8], mut edit: impl FnMut(&[u8]) -> Vec<Vec<u8>>) -> Vec<u8> {
    let capture = Capture::open(capture, OpenOptions::default()).unwrap();
    let mut copy = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut copy).unwrap();
    for record in capture.records() {
        let record = record.unwrap();
        let mut fields = RecordFields::from(record.header);
        let payloads = match record.payload_type() {
            PayloadType::CHECKSUMS => continue,
            PayloadType::CHECKSUMMED => Vec::new(),
            PayloadType::DISPATCH_DIGESTS => edit(record.payload),
            _ => vec![record.payload.to_vec()],
        };
        for payload in &payloads {
            writer.append(&fields, &[payload]).unwrap();
        }
        if payloads.is_empty() {
            // Entries name records by ordinal.
            fields.payload_type = PayloadType::NONE;
            writer.append(&fields, &[]).unwrap();
        }
    }
    writer.close().unwrap();
    copy.into_inner()
}

#[test]
fn malformed_digests_of_dispatches_are_errors() {
    let device = LocalSync::create(Plugins::default());
    let (capture, _) = recorded_dispatches(&plan("chain.chain.local-sync"), device, ReplayOrder::Serialized);
    let whole = Ledger::from_plan(&compiled(capture.clone())).unwrap().unwrap();
    assert!(whole.has_dispatches());
    let refused = |edit: &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>| {
        let Err(error) = Ledger::from_plan(&compiled(with_dispatches(&capture, edit))) else {
            panic!("it is accepted")
        };
        assert_eq!(error.code(), StatusCode::DataLoss, "{}", error.report());
        error.message().to_owned()
    };
    assert!(refused(&mut |it| vec![it.to_vec(), it.to_vec()]).contains("the second of record #"));
    assert!(refused(&mut |_| vec![Vec::new()]).contains("have 0 bytes"));
    assert!(refused(&mut |it| vec![it[..it.len() - 8].to_vec()]).contains("are not the entry"));
    for at in [8, 16, 20, 24, 40, 60] {
        let mut changed = |it: &[u8]| {
            let mut it = it.to_vec();
            it[at] ^= 0x40;
            vec![it]
        };
        refused(&mut changed);
    }
}

/// As after a crash of the watcher, or in a capture of a program that was killed.
#[test]
fn a_ledger_ends_where_digests_are_missing() {
    let device = LocalSync::create(Plugins::default());
    let (capture, _) = recorded_dispatches(&plan("chain.chain.local-sync"), device, ReplayOrder::Serialized);
    let mut count = 0;
    let bytes = with_dispatches(&capture, |it| {
        count += 1;
        if count == 5 { Vec::new() } else { vec![it.to_vec()] }
    });
    let recorded = compiled(bytes);
    let ledger = Ledger::from_plan(&recorded).unwrap().unwrap();
    let mut entries = ledger.entries();
    let dispatches = entries.by_ref().filter(|it| it.as_ref().unwrap().kind == EntryKind::Dispatch).count();
    assert_eq!((dispatches, entries.is_complete()), (4, false));
    let found = verify_against(&replay(&recorded), &ledger, &VerifyOptions::default(), &mut []).unwrap();
    assert_eq!((found.outcome(), found.dispatch_count), (Outcome::Inconclusive, 4));
}

#[test]
fn a_digest_without_a_read_is_an_error() {
    let capture = recorded(LedgerRecording::Reads);
    let capture = Capture::open(&capture, OpenOptions::default()).unwrap();
    let mut copy = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut copy).unwrap();
    let mut last = None;
    for record in capture.records() {
        let record = record.unwrap();
        let fields = RecordFields::from(record.header);
        if !matches!(record.payload_type(), PayloadType::CHECKSUMMED | PayloadType::CHECKSUMS) {
            writer.append(&fields, &[record.payload]).unwrap();
        }
        last =
            last.or((record.payload_type() == PayloadType::READ_DIGEST).then_some((fields, record.payload)));
    }
    let (fields, payload) = last.unwrap();
    writer.append(&fields, &[payload]).unwrap();
    writer.close().unwrap();
    let Err(error) = Ledger::from_plan(&compiled(copy.into_inner())) else { panic!("it is accepted") };
    assert!(error.message().contains("does not follow one"), "{}", error.report());
}

#[test]
fn ledgers_of_version_1_0_stay_readable() {
    for (name, count) in [("add4.add.local-sync", 3), ("chain.chain.local-sync", 16)] {
        let path = testing::repository().join(format!("crates/judge/tests/data/{name}.ledger"));
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.entries().count(), count);
        let found =
            verify_against(&replay(&plan(name)), &ledger, &VerifyOptions::default(), &mut []).unwrap();
        assert_eq!((found.outcome(), found.dispatch_count + found.read_count), (Outcome::Same, count as u64));
    }
}

#[test]
fn an_entry_of_another_submission_or_buffer_is_refused() {
    let whole = ledger("add4.add.local-sync");
    let entry = 72;
    for (at, reason) in
        [(entry + 20, "submitted by #"), (entry + 40 + 8, "another binding 2 of the dispatch")]
    {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fuzzing::seal(&mut bytes);
        let ledger = Ledger::from_bytes(bytes).unwrap();
        let found = verify_against(
            &replay(&plan("add4.add.local-sync")),
            &ledger,
            &VerifyOptions::default(),
            &mut [],
        );
        let error = found.unwrap_err();
        assert!(error.message().contains(reason), "{}", error.report());
    }
}

#[test]
fn bindings_of_an_entry_must_increase() {
    let whole = ledger("add4.add.local-sync");
    let (entry, range) = (72, 72 + 40);
    let end = entry + u64::from_le_bytes(whole[entry..entry + 8].try_into().unwrap()) as usize;
    for (binding, is_valid) in [(3, true), (2, false), (1, false)] {
        let mut bytes = whole[..end].to_vec();
        bytes.extend_from_slice(&whole[range..]);
        let length = (2 * end - range - entry) as u64;
        bytes[entry..entry + 8].copy_from_slice(&length.to_le_bytes());
        bytes[entry + 32] = 2;
        bytes[end] = binding;
        fuzzing::seal(&mut bytes);
        match fuzzing::exercise(&bytes) {
            Ok(count) => assert!(is_valid && count == 3, "{binding}"),
            Err(error) => {
                let message = error.message();
                assert!(!is_valid && message.contains("binding: expected more than 2"), "{message}");
                assert!(message.contains("in entry #0"), "{message}");
            }
        }
    }
}

/// A replay with code of one of whose functions 8 rows of the results are others.
fn faulty(plan: &Arc<Plan>) -> Replay {
    const MARK: &[u8] = b"REHAL-FAULT\0";
    let mut code = std::fs::read(testing::fixtures().join("cts/chain.so")).unwrap();
    let at = code.windows(MARK.len()).position(|bytes| bytes == MARK).unwrap() + MARK.len();
    code[at] = 2;
    let substitution = Substitution::new(Selector::All, Replacement::bytes(code));
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let options = ReplayOptions::default().substitutions(vec![substitution]);
    Replay::new(plan.clone(), &devices, &options).unwrap()
}

/// Without this test, differences of which only digests are known may not be compared by element, or be
/// compared with a replay that the ledger is not of.
#[test]
fn digests_that_differ_are_compared_by_element_with_what_the_ledger_is_of() {
    let name = "chain.chain.local-sync";
    let plan = plan(name);
    let whole = Ledger::from_bytes(ledger(name)).unwrap();
    let recorded = compiled(recorded(LedgerRecording::Reads));
    let reads = Ledger::from_plan(&recorded).unwrap().unwrap();
    let options = VerifyOptions::default();
    let elements = |found: &Verification, expected: &Replay, actual: &Replay, ledger: &Ledger| {
        let sides = VerifySides { expected, actual, expected_observers: &mut [], observers: &mut [] };
        verify_elements(found.clone(), sides, ledger, &options).unwrap()
    };
    let facts = |it: &Verification| {
        let elements = it.differences.first().and_then(|it| it.elements.as_ref());
        let different = elements.map_or(0, |it| it.different_count);
        (it.outcome(), it.digested_bytes, different, it.is_with_captured, it.is_unreproduced)
    };
    let (right, wrong) = (replay(&plan), faulty(&plan));
    let same = verify_against(&right, &whole, &options, &mut []).unwrap();
    let found = verify_against(&wrong, &whole, &options, &mut []).unwrap();
    assert_eq!(facts(&same), (Outcome::Same, 0, 0, false, false));
    assert_eq!(facts(&found), (Outcome::Different, 2304, 0, false, false));
    // The rows of one of three workgroups: 8 of 24 numbers.
    let compared = elements(&found, &right, &wrong, &whole);
    assert_eq!(facts(&compared), (Outcome::Different, 0, 192, true, false));
    // Nothing is known of elements, or is to be found out.
    assert_eq!(facts(&elements(&same, &right, &wrong, &whole)), facts(&same));
    assert_eq!(facts(&elements(&found, &right, &wrong, &reads)), facts(&found));
    // The captured code does not do what the ledger says.
    assert_eq!(facts(&elements(&found, &wrong, &right, &whole)), facts(&found));
    let unreproduced = elements(&found, &right, &right, &whole);
    assert_eq!(facts(&unreproduced), (Outcome::Different, 2304, 0, false, true));
}

fn lockstep(plan: &Arc<Plan>) -> Verification {
    let (expected, actual) = (replay(plan), replay(plan));
    let sides =
        VerifySides { expected: &expected, actual: &actual, expected_observers: &mut [], observers: &mut [] };
    verify_lockstep(sides, &VerifyOptions::default()).unwrap()
}

#[test]
fn nothing_to_compare_is_not_the_same() {
    // A program without dispatches, whose results the host does not read.
    let name = "multi.scalars.local-sync";
    let ledger_of = |contents| {
        let mut options = LedgerOptions::default();
        options.contents = contents;
        let plan = plan(name);
        let mut writer = LedgerWriter::new(Vec::new(), &plan, options).unwrap();
        replay(&plan).run(&mut [&mut writer]).unwrap();
        Ledger::from_bytes(writer.finish().unwrap()).unwrap()
    };
    let options = VerifyOptions::default();
    let mut outcomes = vec![lockstep(&plan(name))];
    for contents in [LedgerContents::Dispatches, LedgerContents::Reads] {
        outcomes.push(verify_against(&replay(&plan(name)), &ledger_of(contents), &options, &mut []).unwrap());
    }
    for outcome in outcomes {
        assert_eq!((outcome.outcome(), outcome.compared_count()), (Outcome::Inconclusive, 0));
        assert!(outcome.inconclusive[0].starts_with("nothing was compared: "), "{:?}", outcome.inconclusive);
    }
}

#[test]
fn the_rest_of_a_truncated_capture_is_inconclusive() {
    let path = testing::fixtures().join("captures/chain.chain.local-sync.ireereplay");
    let whole = std::fs::read(path).unwrap();
    let recovered = |bytes: Vec<u8>| {
        let options = PlanOptions { recover: true, ..PlanOptions::default() };
        Arc::new(Plan::compile(bytes, options).unwrap())
    };
    assert_eq!(lockstep(&recovered(whole.clone())).outcome(), Outcome::Same);
    let mut unclosed = whole.clone();
    let length = 16..24;
    assert_eq!(unclosed[length.clone()], (whole.len() as u64).to_le_bytes());
    unclosed[length].fill(0);
    for (bytes, reason) in [
        (unclosed.clone(), "the capture was never closed: "),
        (whole[..whole.len() - 40].to_vec(), "the capture is truncated: "),
        (unclosed[..whole.len() - 40].to_vec(), "the capture is truncated: "),
    ] {
        let plan = recovered(bytes);
        let mut writer = LedgerWriter::new(Vec::new(), &plan, LedgerOptions::default()).unwrap();
        replay(&plan).run(&mut [&mut writer]).unwrap();
        let ledger = Ledger::from_bytes(writer.finish().unwrap()).unwrap();
        let against = verify_against(&replay(&plan), &ledger, &VerifyOptions::default(), &mut []).unwrap();
        for outcome in [against, lockstep(&plan)] {
            assert_eq!((outcome.outcome(), outcome.dispatch_count), (Outcome::Inconclusive, 13), "{reason}");
            assert!(outcome.inconclusive[0].starts_with(reason), "{:?}", outcome.inconclusive);
        }
    }
}
