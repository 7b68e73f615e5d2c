//! Any bytes as a capture: dumped, and compiled to a plan; nothing of it is run.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_replay::check::exercise(bytes);
});
