//! The way in for fuzzing: everything that reads untrusted bytes, nothing that runs them.

use super::{abi, elf, format};

/// Reads `bytes` as an executable in every way there is, maps them where they parse, and runs nothing.
pub fn exercise(bytes: &[u8]) {
    let inferred = format::infer(bytes);
    let Ok(image) = elf::Image::parse(bytes) else { return };
    // Only an image that parses can be inferred to be embedded or, with imports, a system library.
    assert!(inferred.is_some(), "an image that parses has a format");
    let query = image.function(abi::QUERY_SYMBOL);
    let names = image.symbol_names().count();
    assert!(query.is_err() || names > 0, "a function that is found is among the symbols");
    // Larger images cost the fuzzer time and no other code.
    if image.memory_bytes() <= 1 << 20
        && let Ok(module) = image.map()
        && let Ok(query) = query
    {
        assert!(module.memory().contains(&(module.address(query) as usize)));
    }
}
