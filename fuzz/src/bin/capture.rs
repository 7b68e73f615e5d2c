//! Arbitrary bytes as a capture: read strictly and in recovery mode, with every record, payload and name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_capture::fuzzing::exercise(bytes);
});
