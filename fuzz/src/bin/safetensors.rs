//! Arbitrary bytes as a .safetensors file: every parameter and its location.
#![no_main]

use rehal_params::{Format, check};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = check::exercise(Format::Safetensors, bytes);
});
