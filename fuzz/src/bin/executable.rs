//! Arbitrary bytes as an executable: recognised, parsed and mapped, but not executed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_local::executable::check::exercise(bytes);
});
