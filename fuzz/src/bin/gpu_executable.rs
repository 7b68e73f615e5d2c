//! Arbitrary bytes as an executable for CUDA, HIP or amdgpu.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_formats::fuzzing::exercise(bytes);
});
