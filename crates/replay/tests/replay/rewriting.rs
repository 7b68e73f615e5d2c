//! Copies of captures with other data and names.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use rehal_capture::{Capture, OpenOptions, Payload, Record, RecordFields, RecordType};
use rehal_replay::{
    DataKind, DataPlace, FileContents, NameKind, Plan, PlanOptions, RewriteOptions, Rewriter, Rewritten,
    rewrite,
};

use crate::common::{CaptureBuilder, FileSpec, everything, range, whole};

/// Adds one to each byte of data, and a letter to each name.
#[derive(Default)]
struct Change {
    is_identity: bool,
    seen: BTreeMap<DataKind, usize>,
}

impl Rewriter for Change {
    fn name(&mut self, _kind: NameKind, name: &[u8]) -> Vec<u8> {
        if self.is_identity { name.to_vec() } else { [name, b"!"].concat() }
    }

    fn begin(&mut self, place: &DataPlace, _data: &[u8]) {
        *self.seen.entry(place.kind).or_default() += 1;
    }

    fn fill(&mut self, data: &[u8], at: u64, target: &mut [u8]) {
        for (target, byte) in target.iter_mut().zip(&data[at as usize..]) {
            *target = byte.wrapping_add(u8::from(!self.is_identity));
        }
    }
}

fn rewritten(bytes: &[u8], change: &mut Change) -> (Vec<u8>, Rewritten) {
    let plan =
        Plan::compile(bytes.to_vec(), PlanOptions { recover: true, ..PlanOptions::default() }).unwrap();
    let mut copy = Vec::new();
    let mut options = RewriteOptions::default();
    options.renumber_threads = true;
    let outcome = rewrite(&plan, Cursor::new(&mut copy), &options, change).unwrap();
    (copy, outcome)
}

fn records(bytes: &[u8]) -> Vec<Record<'_>> {
    let capture = Capture::open(bytes, OpenOptions { recover: true }).unwrap();
    let records = capture.records().map(|record| record.unwrap());
    records.filter(|it| it.record_type() != RecordType::SESSION).collect()
}

/// The fields and the payload of a record, without what a copy may change.
fn comparable(record: &Record<'_>) -> (RecordFields, Vec<u8>) {
    let fields = RecordFields { thread_id: 0, ..RecordFields::from(record.header) };
    let payload = match record.payload().unwrap() {
        Payload::FileObject(_) => Vec::new(),
        // A static count means nothing next to one that is read from a buffer.
        Payload::Dispatch(it) if it.flags.get() == 1 => it.constants.to_vec(),
        _ => record.payload.to_vec(),
    };
    (fields, payload)
}

#[test]
fn a_copy_has_every_operation() {
    let original = everything().finish();
    let mut change = Change { is_identity: true, ..Change::default() };
    let (copy, outcome) = rewritten(&original, &mut change);
    assert_eq!((outcome.failed_count, outcome.unknown_count, outcome.embedded_count), (1, 1, 1));
    let is_kept = |it: &&Record<'_>| it.record_type().is_known() && it.header.status_code.get() == 0;
    let (was, is) = (records(&original), records(&copy));
    // The failed call stays, without its arguments.
    assert_eq!(is.len(), was.len() - 1);
    assert!(is.iter().filter(|it| it.header.status_code.get() != 0).all(|it| it.payload.is_empty()));
    for (was, is) in was.iter().filter(is_kept).zip(is.iter().filter(is_kept)) {
        assert_eq!(comparable(was), comparable(is));
    }
    for kind in [DataKind::HostWrite, DataKind::Update, DataKind::Import, DataKind::File, DataKind::Read] {
        assert!(change.seen.contains_key(&kind), "{kind:?}");
    }
    assert_eq!(change.seen[&DataKind::Pattern], 2);
    assert!(Capture::open(&copy, OpenOptions::default()).unwrap().is_closed());
}

#[test]
fn data_and_names_change_and_nothing_else() {
    let original = everything().finish();
    let (copy, _) = rewritten(&original, &mut Change::default());
    for name in ["everything", "/gone"] {
        let count = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).filter(|it| *it == name).count();
        let changed = format!("{name}!");
        assert_eq!(count(&copy, name.as_bytes()), count(&copy, changed.as_bytes()));
        assert_eq!(count(&original, name.as_bytes()), count(&copy, changed.as_bytes()));
    }
    for data in [&b"host bytes"[..], b"imported", b"the bytes of a file", b"range", b"update"] {
        let changed: Vec<u8> = data.iter().map(|byte| byte + 1).collect();
        assert!(!copy.windows(data.len()).any(|it| it == data), "{}", data.escape_ascii());
        assert!(copy.windows(data.len()).any(|it| it == changed), "{}", data.escape_ascii());
    }
    // Constants of dispatches are arguments.
    assert!(copy.windows(8).any(|it| it == b"8 bytes!"));
    let sizes = |bytes: &[u8]| {
        let of = |record: &Record<'_>| {
            (record.operation(), record.header.object_id.get(), record.header.related_object_id.get())
        };
        records(bytes).iter().filter(|it| it.record_type().is_known()).map(of).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&original), sizes(&copy));
    let threads = records(&copy).iter().map(|it| it.header.thread_id.get()).max();
    assert!(threads.unwrap() <= 1);
}

#[test]
fn external_files_become_part_of_the_capture() {
    let directory = tempfile::tempdir().unwrap();
    let contents: Vec<u8> = (0..200).collect();
    let [read, written] = ["read", "written"].map(|name| {
        let path = directory.path().join(name);
        std::fs::write(&path, &contents).unwrap();
        path
    });
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(64);
    let file = |capture: &mut CaptureBuilder, path: &Path| capture.file(&FileSpec::external(path, 200));
    let first = file(&mut capture, &read);
    capture.file_read(first, 100, whole(buffer), b"");
    capture.file_read(first, 10, range(buffer, 8, 5), b"");
    let second = capture.file(&FileSpec::external(&written, 200).writable());
    capture.file_write(range(buffer, 0, 8), second, 3);
    capture.file_read(second, 0, range(buffer, 0, 8), b"");
    let (copy, outcome) =
        rewritten(&capture.finish(), &mut Change { is_identity: true, ..Change::default() });
    assert_eq!(outcome.embedded_count, 2);
    std::fs::remove_file(&read).unwrap();
    let plan = Plan::compile(copy.clone(), PlanOptions::default()).unwrap();
    let sources: Vec<_> = plan.files().map(|file| file.source).collect();
    assert!(matches!(sources[0].contents, FileContents::Ranges { path } if path.ends_with(b"read")));
    assert!(matches!(sources[1].contents, FileContents::Inline(bytes) if bytes == contents));
    assert!(sources.iter().all(|it| it.identity == Default::default()));
    let captured: Vec<Vec<u8>> = records(&copy)
        .iter()
        .filter_map(|record| match record.payload().unwrap() {
            Payload::QueueRead(it) => Some(it.captured_data.to_vec()),
            _ => None,
        })
        .collect();
    assert_eq!(captured, [contents[100..164].to_vec(), contents[10..15].to_vec(), vec![]]);
    // Now it is gone.
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let error =
        rewrite(&plan, Cursor::new(&mut Vec::new()), &RewriteOptions::default(), &mut Change::default());
    assert!(error.unwrap_err().report().contains("read"));
}

#[test]
fn a_read_beyond_an_external_file_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [1; 20]).unwrap();
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(64);
    let id = capture.file(&FileSpec::external(file.path(), 20));
    capture.file_read(id, 10, range(buffer, 0, 16), b"");
    let plan = Plan::compile(capture.finish(), PlanOptions::default()).unwrap();
    let error =
        rewrite(&plan, Cursor::new(&mut Vec::new()), &RewriteOptions::default(), &mut Change::default());
    let report = error.unwrap_err().report();
    assert!(report.contains("16 bytes are read at 10") && report.contains("which has 20"), "{report}");
}

#[test]
fn a_capture_that_was_never_closed_stays_unclosed() {
    let mut bytes = everything().finish();
    bytes[16..24].fill(0);
    bytes.truncate(bytes.len() - 3);
    let (copy, _) = rewritten(&bytes, &mut Change { is_identity: true, ..Change::default() });
    assert!(Capture::open(&copy, OpenOptions::default()).is_err());
    let capture = Capture::open(&copy, OpenOptions { recover: true }).unwrap();
    assert!(!capture.is_closed() && capture.tear().is_none());
    // Its last two records are the torn one and a failed call.
    assert!(records(&copy).len() + 2 >= records(&everything().finish()).len());
}

#[test]
fn a_version_stays() {
    let mut bytes = CaptureBuilder::new().finish();
    bytes[4] = 1;
    let (copy, _) = rewritten(&bytes, &mut Change::default());
    assert_eq!(Capture::open(&copy, OpenOptions::default()).unwrap().version().major, 1);
}
