//! Arbitrary bytes as the instructions of a function: verified and, if valid, executed within a budget.
#![no_main]

/// A module of ours whose function is replaced.
const TEMPLATE: &[u8] = include_bytes!("../../../fixtures/vm/template.vmfb");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_vm::fuzzing::exercise_instructions(TEMPLATE, bytes);
});
