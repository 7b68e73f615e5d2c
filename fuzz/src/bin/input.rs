//! Arbitrary text as an input of a program: parsed as each kind, printed and compared.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    rehal_values::fuzzing::exercise_input(text);
});
