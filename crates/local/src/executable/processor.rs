//! Processor features, for executables and tools.

use std::sync::OnceLock;

use rehal_base::{Error, Result};

use super::abi::PROCESSOR_DATA_WORDS;
use crate::platform;

/// Features of this machine: bit in the first feature word, name, and whether it has the feature; none if
/// unknown. Detected once: then, reading them takes no lock.
pub(super) fn features() -> &'static [(u32, &'static str, bool)] {
    static FEATURES: OnceLock<Vec<(u32, &'static str, bool)>> = OnceLock::new();
    FEATURES.get_or_init(platform::features)
}

/// Feature words of this machine for [`super::abi::Environment::processor`]; zeros if unknown.
pub fn data() -> [u64; PROCESSOR_DATA_WORDS] {
    let mut words = [0; PROCESSOR_DATA_WORDS];
    words[0] = features().iter().filter(|it| it.2).map(|it| 1 << it.0).sum();
    words
}

/// The logical processor that currently runs the calling thread, for
/// [`super::abi::WorkgroupState::processor_id`].
pub fn id() -> u32 {
    platform::processor_id()
}

/// The value of the feature named `key` (as LLVM spells it), which programs query as `hal.cpu`: `Some(true)`
/// if this machine has it, `None` if the name is unknown here.
pub fn feature(key: &str) -> Option<bool> {
    features().iter().find(|it| it.1 == key).map(|it| it.2)
}

/// The result of the query `hal.cpu :: key`: 1 or 0, or an error if the name is unknown here.
pub fn query(key: &str) -> Result<i64> {
    feature(key).map(i64::from).ok_or_else(|| {
        Error::not_found(format!("CPU feature '{key}' is unknown on {}", platform::ARCHITECTURE))
    })
}

/// Instruction-set levels of the x86-64 psABI: the bit of each in a `.note.gnu.property`, its name, and its
/// features in word 0.
const LEVELS: [(u32, &str, &[&str]); 3] = [
    (1, "x86-64-v2", &["sse3", "ssse3", "sse4.1", "sse4.2"]),
    (2, "x86-64-v3", &["avx", "avx2", "fma", "f16c"]),
    (3, "x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

/// Names of the levels in `bits` that a processor with these feature `words` lacks.
pub(crate) fn missing_levels(bits: u32, words: [u64; PROCESSOR_DATA_WORDS]) -> Vec<&'static str> {
    let has = |name: &&str| features().iter().any(|it| it.1 == *name && words[0] >> it.0 & 1 == 1);
    let misses =
        |(bit, _, features): &&(u32, &str, &[&str])| bits >> bit & 1 == 1 && !features.iter().all(has);
    LEVELS.iter().filter(misses).map(|(_, name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_known_by_name() {
        assert_eq!(feature("no-such-feature"), None);
        if platform::ARCHITECTURE == "x86_64" {
            assert!(feature("avx2").is_some());
            // No processor has both AMD's XOP and Intel's AMX.
            assert!(!(feature("xop") == Some(true) && feature("amx-tile") == Some(true)));
            assert_eq!(missing_levels(0b1110, [0xFC0F, 0, 0, 0, 0, 0, 0, 0]), ["x86-64-v4"]);
        }
        assert!(missing_levels(0b1, [0; 8]).is_empty(), "every x86-64 machine has the baseline");
        assert_eq!(missing_levels(0b1110, [0; 8]), ["x86-64-v2", "x86-64-v3", "x86-64-v4"]);
    }
}
