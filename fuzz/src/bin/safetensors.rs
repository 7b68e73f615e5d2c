//! Arbitrary bytes as a .safetensors file: every parameter and its location.
#![no_main]

use rehal_params::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = fuzzing::exercise(Format::Safetensors, bytes);
});
