//! Dumps of real programs' captures match the reference's.

use std::path::Path;

use rehal_base::MappedFile;
use rehal_replay::dump::{Format, Input, Options, dump};

pub fn dumps_match_the_reference(set: &Path) {
    let mut compared = 0;
    for path in testing::captures(set) {
        let map = MappedFile::open(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        for (format, extension) in [(Format::Text, "text"), (Format::Jsonl, "jsonl")] {
            // Only dumps of smaller captures that the reference accepts are stored; the oracle compares all
            // captures with the reference's tool.
            let expected = set.join(format!("expected/{name}.dump.{extension}"));
            let Ok(theirs) = std::fs::read(expected) else { continue };
            let mut ours = Vec::new();
            let options = Options { format, recover: false };
            dump(Input::from(&map), options, &mut ours, &mut |_| {}).unwrap();
            assert!(ours == theirs, "{name}.{extension}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}
