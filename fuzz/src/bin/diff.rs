//! Two captures in arbitrary bytes: compared, each with itself and with the other.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_edit::fuzzing::exercise_diff(bytes);
});
