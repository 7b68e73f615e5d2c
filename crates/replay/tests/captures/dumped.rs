//! Captures of real programs print what the reference printed of them.

use std::path::Path;

use rehal_base::MappedFile;
use rehal_replay::dump::{Format, Input, Options, dump};

pub fn captures_print_what_the_reference_printed(set: &Path) {
    let mut compared = 0;
    for path in testing::captures(set) {
        let map = MappedFile::open(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        for (format, extension) in [(Format::Text, "text"), (Format::Jsonl, "jsonl")] {
            // Of the largest, and of those that the reference refuses, nothing is kept; the oracle compares all of them
            // with the real tool.
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
