//! Arbitrary bytes as PTX text, which is run.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_simt::fuzzing::exercise(bytes);
});
