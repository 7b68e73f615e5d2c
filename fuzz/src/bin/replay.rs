//! Any bytes as a capture: planned strictly and for recovery, and dumped in both formats; never executed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_replay::check::exercise(bytes);
});
