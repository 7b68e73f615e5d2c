//! Arbitrary bytes as the descriptor of a recorded kernel.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = rehal_kernels::fuzzing::exercise_descriptor(bytes);
});
