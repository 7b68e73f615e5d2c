//! Arbitrary bytes as arrays of an .npy file: read, printed and written back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_values::fuzzing::exercise_npy(bytes);
});
