//! Arbitrary bytes as a capture: redacted, but not executed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // An error means that the bytes are malformed, which is expected.
    let _ = rehal_edit::fuzzing::exercise_redact(bytes);
});
