//! Arbitrary bytes as a module: read, printed, verified and, if valid, executed within a budget.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_vm::fuzzing::exercise(bytes);
});
