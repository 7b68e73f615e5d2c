//! Arbitrary bytes with valid checksums as a ledger: every entry.
#![no_main]

use rehal_judge::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    fuzzing::seal(&mut bytes);
    let _ = fuzzing::exercise(&bytes);
});
