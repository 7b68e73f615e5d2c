//! Features of the processor.

use crate::platform::system::feature_words;

/// The features: bit in the first feature word (source: `iree/schemas/cpu_feature_bits.inl`), name as LLVM
/// spells it, and whether the processor has it and the system supports it.
pub(crate) fn features() -> Vec<(u32, &'static str, bool)> {
    let words = feature_words();
    let features = [
        // (our bit, name, word, its bit)
        (0, "fp-armv8", 0, 0),
        (1, "lse", 0, 8),
        (2, "lse128", 0, NEVER),
        (10, "fullfp16", 0, 10),
        (11, "fp16fml", 0, 23),
        (12, "dotprod", 0, 20),
        (13, "i8mm", 1, 13),
        (14, "bf16", 1, 14),
        (20, "sve", 0, 22),
        (21, "sve2", 1, 1),
        (22, "sve2p1", 1, 36),
        (23, "sve2-bitperm", 1, 4),
        (24, "f32mm", 1, 10),
        (25, "f64mm", 1, 11),
        (30, "sme", 1, 23),
        (31, "sme2", 1, 37),
        (32, "sme2p1", 1, 38),
        (33, "sme-f16f16", 1, 42),
        (34, "sme-f64f64", 1, 25),
        (35, "sme-i16i64", 1, 24),
    ];
    let feature = |(bit, name, word, position): (u32, &'static str, usize, u32)| {
        (bit, name, words[word].checked_shr(position).is_some_and(|it| it & 1 == 1))
    };
    features.map(feature).to_vec()
}

/// The reference does not detect the feature either.
const NEVER: u32 = u64::BITS;

#[cfg(test)]
mod tests {
    use std::arch::is_aarch64_feature_detected;

    use super::*;

    #[test]
    fn features_agree_with_the_standard_librarys_detection() {
        let features = features();
        for (bit, name, has) in [
            (0, "fp-armv8", is_aarch64_feature_detected!("neon")),
            (1, "lse", is_aarch64_feature_detected!("lse")),
            (10, "fullfp16", is_aarch64_feature_detected!("fp16")),
            (11, "fp16fml", is_aarch64_feature_detected!("fhm")),
            (12, "dotprod", is_aarch64_feature_detected!("dotprod")),
            (13, "i8mm", is_aarch64_feature_detected!("i8mm")),
            (14, "bf16", is_aarch64_feature_detected!("bf16")),
            (20, "sve", is_aarch64_feature_detected!("sve")),
            (21, "sve2", is_aarch64_feature_detected!("sve2")),
            (25, "f64mm", is_aarch64_feature_detected!("f64mm")),
        ] {
            assert!(features.contains(&(bit, name, has)), "{name}: {features:?}");
        }
    }
}
