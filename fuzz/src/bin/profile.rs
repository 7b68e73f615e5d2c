//! Arbitrary bytes as a profile: read strictly and in recovery mode, with every record and row, and every
//! report.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_profile::check::exercise(bytes);
});
