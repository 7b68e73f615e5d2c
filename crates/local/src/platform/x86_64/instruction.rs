//! Detects the instruction-set extension of an x86-64 instruction from its first bytes: enough to name what a
//! CPU lacks after SIGILL (source: the encodings in the manuals of Intel and AMD).

/// The extension of the instruction in `code`, if this CPU, which has these `features`, lacks it.
pub(crate) fn missing_feature(code: &[u8], features: &[(u32, &str, bool)]) -> Option<&'static str> {
    Feature::encoded(code).filter(|feature| feature.is_missing(features)).map(Feature::name)
}

/// A detectable extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feature {
    Avx512,
    Amx,
    Avx,
    Xop,
    Fma4,
    Sse4a,
}

impl Feature {
    fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "AVX-512 (or a part of it)",
            Self::Amx => "AMX",
            Self::Avx => "AVX, AVX2 or FMA",
            Self::Xop => "XOP",
            Self::Fma4 => "FMA4",
            Self::Sse4a => "SSE4a",
        }
    }

    /// Whether the CPU lacks a feature of the extension.
    fn is_missing(self, features: &[(u32, &str, bool)]) -> bool {
        let is_needed = |name: &str| match self {
            Self::Avx512 => name.starts_with("avx512"),
            Self::Amx => name.starts_with("amx-"),
            Self::Avx => matches!(name, "avx" | "avx2" | "fma" | "f16c"),
            Self::Xop => name == "xop",
            Self::Fma4 => name == "fma4",
            Self::Sse4a => name == "sse4a",
        };
        features.iter().any(|(_, name, has)| is_needed(name) && !has)
    }

    fn encoded(code: &[u8]) -> Option<Self> {
        // Prefixes allowed before the opcode.
        let skipped = code
            .iter()
            .take_while(|byte| matches!(byte, 0x26 | 0x2E | 0x36 | 0x3E | 0x64..=0x67 | 0xF2 | 0xF3))
            .count();
        let (prefixes, rest) = code.split_at(skipped);
        let rest = match rest {
            [0x40..=0x4F, rest @ ..] => rest,
            _ => rest,
        };
        match rest {
            [0x62, ..] => Some(Self::Avx512),
            [0x8F, map, ..] if map & 0x1F >= 8 => Some(Self::Xop),
            [0xC4, map, _, opcode, ..] => Some(match (map & 0x1F, opcode) {
                (2, 0x49 | 0x4B | 0x5C | 0x5E) => Self::Amx,
                (3, 0x5C..=0x5F | 0x68..=0x6F | 0x78..=0x7F) => Self::Fma4,
                _ => Self::Avx,
            }),
            [0xC5, ..] => Some(Self::Avx),
            [0x0F, 0x78 | 0x79, ..] if prefixes.iter().any(|byte| matches!(byte, 0x66 | 0xF2)) => {
                Some(Self::Sse4a)
            }
            [0x0F, 0x2B, ..] if prefixes.iter().any(|byte| matches!(byte, 0xF2 | 0xF3)) => Some(Self::Sse4a),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_distinguished() {
        let cases: [(&[u8], Option<Feature>); 9] = [
            (&[0x62, 0xF1, 0x7C, 0x48, 0x58, 0xC1], Some(Feature::Avx512)), // vaddps zmm
            (&[0xC5, 0xFC, 0x58, 0xC1], Some(Feature::Avx)),                // vaddps ymm
            (&[0xC4, 0xE2, 0x7D, 0xA8, 0xC1], Some(Feature::Avx)),          // vfmadd213ps ymm
            (&[0xC4, 0xE2, 0x6B, 0x5E, 0xC1], Some(Feature::Amx)),          // tdpbssd
            (&[0xC4, 0xE3, 0xF5, 0x68, 0xC2, 0x30], Some(Feature::Fma4)),   // vfmaddps ymm
            (&[0x8F, 0xE9, 0x78, 0x80, 0xC1], Some(Feature::Xop)),          // vfrczps
            (&[0x66, 0x0F, 0x79, 0xC1], Some(Feature::Sse4a)),              // extrq
            (&[0x0F, 0x0B], None),                                          // ud2
            (&[0x66, 0x48], None),                                          // truncated
        ];
        for (code, feature) in cases {
            assert_eq!(Feature::encoded(code), feature, "{code:02x?}");
        }
    }
}
