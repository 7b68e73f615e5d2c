use std::io::{self, Write};

use rehal_base::Fault;

use super::*;

/// The output of release 3.13.0 for [`testing::sample_capture`].
const SAMPLE_TEXT: &[u8] = include_bytes!("testdata/sample.text");
const SAMPLE_JSONL: &[u8] = include_bytes!("testdata/sample.jsonl");

const TEXT: Options = Options { format: Format::Text, recover: false };

fn dumped(input: Input<'_>, format: Format, recover: bool) -> Result<Vec<u8>, Error> {
    let mut output = Vec::new();
    dump(input, Options { format, recover }, &mut output, &mut |_| {})?;
    Ok(output)
}

/// Compares line by line, so that a failure shows the differing line.
#[track_caller]
fn assert_same(ours: &[u8], theirs: &[u8]) {
    let lines = |bytes: &[u8]| -> Vec<String> {
        bytes.split(|byte| *byte == b'\n').map(|line| line.escape_ascii().to_string()).collect()
    };
    for (ours, theirs) in lines(ours).iter().zip(&lines(theirs)) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn the_sample_matches_the_reference() {
    let bytes = testing::sample_capture();
    assert_same(&dumped(Input::from(&bytes[..]), Format::Text, false).unwrap(), SAMPLE_TEXT);
    assert_same(&dumped(Input::from(&bytes[..]), Format::Jsonl, false).unwrap(), SAMPLE_JSONL);
}

#[test]
fn an_unclosed_capture_prints_like_a_closed_one() {
    let mut bytes = testing::sample_capture();
    bytes[16..24].fill(0);
    assert!(matches!(dumped(Input::from(&bytes[..]), Format::Text, false), Err(Error::Format(_))));
    assert_same(&dumped(Input::from(&bytes[..]), Format::Text, true).unwrap(), SAMPLE_TEXT);
    assert_same(&dumped(Input::from(&bytes[..]), Format::Jsonl, true).unwrap(), SAMPLE_JSONL);
}

#[test]
fn a_truncated_capture_prints_its_complete_records_and_the_tear() {
    let bytes = testing::sample_capture();
    let cut = &bytes[..bytes.len() - 1];
    let mut output = Vec::new();
    let options = Options { format: Format::Jsonl, recover: true };
    let tear = dump(Input::from(cut), options, &mut output, &mut |_| {}).unwrap().unwrap();
    assert_eq!(tear.lost_bytes, 96);
    let lines = output.split(|byte| *byte == b'\n').count() as u64;
    assert_eq!(lines, 2 + tear.record_count + 1);
}

#[test]
fn a_damaged_capture_prints_nothing() {
    let mut bytes = testing::sample_capture();
    let last = bytes.len() - 97;
    bytes[last + 80] = 1;
    let mut output = Vec::new();
    let error = dump(Input::from(&bytes[..]), TEXT, &mut output, &mut |_| {}).unwrap_err();
    assert!(
        matches!(error, Error::Format(error) if error.fault == Fault::Corrupt && error.field == "reserved0")
    );
    assert!(output.is_empty());
}

/// A reader that closes the pipe after the first piece.
struct Closed(usize);

impl Write for Closed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += 1;
        if self.0 > 1 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A capture of `count` records of about 300 bytes each.
fn long_capture(count: u64) -> Vec<u8> {
    use rehal_capture::{RecordFields, RecordType, Writer};
    let mut bytes = io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut bytes).unwrap();
    for _ in 0..count {
        let blob = RecordFields { record_type: RecordType::BLOB, ..Default::default() };
        writer.append(&blob, &[&[7; 200]]).unwrap();
    }
    writer.close().unwrap();
    bytes.into_inner()
}

#[test]
fn a_closed_pipe_ends_a_dump_immediately() {
    let bytes = long_capture(10_000);
    let mut pipe = Closed(0);
    let error = dump(Input::from(&bytes[..]), TEXT, &mut pipe, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Write(error) if error.kind() == io::ErrorKind::BrokenPipe));
    assert_eq!(pipe.0, 2, "no write after the failure");
}

#[test]
fn progress_counts_both_passes() {
    let bytes = long_capture(40_000);
    let mut seen = Vec::new();
    let options = Options::default();
    dump(Input::from(&bytes[..]), options, &mut io::sink(), &mut |progress| seen.push(progress)).unwrap();
    assert!(seen.len() >= 4, "{seen:?}");
    assert!(seen.is_sorted_by_key(|progress| progress.done_bytes));
    let last = seen.last().unwrap();
    assert_eq!((last.done_bytes, last.total_bytes), (2 * bytes.len() as u64, 2 * bytes.len() as u64));
}
