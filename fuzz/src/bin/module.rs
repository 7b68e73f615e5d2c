//! Any bytes as a module: read, shown, verified, and run within a budget where that goes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_vm::check::exercise(bytes);
});
