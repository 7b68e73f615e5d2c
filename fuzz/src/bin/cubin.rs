//! Arbitrary bytes as a cubin.
#![no_main]

use rehal_formats::{ImageKind, fuzzing};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzzing::exercise_image(ImageKind::Cubin, bytes);
});
