//! Arbitrary bytes as a Vulkan executable: read in each format, without a device.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rehal_formats::vulkan::check::exercise(bytes);
});
