//! Any bytes as the instructions of a function: verified, and run within a budget where they are some.
#![no_main]

/// A module of ours with a function to replace.
const TEMPLATE: &[u8] = include_bytes!("../../../fixtures/vm/template.vmfb");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_vm::check::exercise_instructions(TEMPLATE, bytes);
});
