//! The fuzz target: every operation of the reader, on arbitrary bytes.

use rehal_base::FormatError;

use crate::payload::ExecutablePrepare;
use crate::{Capture, ChecksumState, OpenOptions, Payload};

/// Opens `bytes` strictly and for recovery, and walks every record, payload, list and name.
///
/// Returns the number of records read in all walks; the property under test is that it returns.
pub fn exercise(bytes: &[u8]) -> u64 {
    [false, true].into_iter().filter_map(|recover| walk(bytes, OpenOptions { recover }).ok()).sum()
}

fn walk(bytes: &[u8], options: OpenOptions) -> Result<u64, FormatError> {
    let capture = Capture::open(bytes, options)?;
    for damage in capture.damage(&mut |_| {}) {
        assert!(damage.offset + damage.length <= capture.length_bytes(), "damage is in the file");
    }
    let mut read = 0;
    if capture.checksums() == ChecksumState::Present {
        let whole = capture.records_without_data().map_while(Result::ok);
        read += whole.filter(|record| record.payload().is_ok()).count() as u64;
    }
    for record in capture.records() {
        let Ok(record) = record else { break };
        read += 1;
        let Ok(payload) = record.payload() else { continue };
        let length: usize = payload.with_parts(|parts| parts.iter().map(|part| part.len()).sum());
        assert_eq!(length, record.payload.len(), "a view covers its whole payload");
        if let Payload::ExecutablePrepare(prepare) = payload {
            walk_metadata(&prepare);
        }
    }
    Ok(read)
}

fn walk_metadata(prepare: &ExecutablePrepare<'_>) {
    let Some(metadata) = prepare.metadata() else { return };
    let mut name_bytes = 0;
    for function in metadata.functions() {
        name_bytes += function.name.len() as u64;
    }
    assert_eq!(name_bytes, metadata.header.function_name_storage_length.get(), "names fill their storage");
}
