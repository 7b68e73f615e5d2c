//! Arbitrary bytes as a capture: dumped, and compiled to a plan, but not executed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_replay::fuzzing::exercise(bytes);
});
