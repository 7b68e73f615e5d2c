//! Detects the extension of an instruction: enough to name what a CPU lacks after SIGILL (source: the
//! encodings in the Arm Architecture Reference Manual).

/// The mask of an encoding, its value, and the name of the extension as LLVM spells it.
const ENCODINGS: [(u32, u32, &str); 12] = [
    (0x9E00_0000, 0x8000_0000, "sme"),
    (0x1E00_0000, 0x0400_0000, "sve"),
    (0x9FE0_FC00, 0x0E80_9400, "dotprod"),  // sdot, udot
    (0x9FC0_F400, 0x0F80_E000, "dotprod"),  // the same with an element
    (0xBFE0_FC00, 0x0E80_9C00, "i8mm"),     // usdot
    (0xDFE0_F400, 0x4E80_A400, "i8mm"),     // smmla, ummla, usmmla
    (0xBFE0_FC00, 0x2E40_FC00, "bf16"),     // bfdot
    (0xFFE0_FC00, 0x6E40_EC00, "bf16"),     // bfmmla
    (0x9F60_C400, 0x0E40_0400, "fullfp16"), // vectors of 16-bit floats
    (0x9FC0_3400, 0x0F00_1000, "fullfp16"), // the same with an element
    (0xBF60_FC00, 0x0E20_EC00, "fp16fml"),  // fmlal
    (0x3B20_0C00, 0x3820_0000, "lse"),      // atomic memory operations
];

/// The extension of the instruction in `code`, if this CPU, which has these `features`, lacks it.
pub(crate) fn missing_feature(code: &[u8], features: &[(u32, &str, bool)]) -> Option<&'static str> {
    let name = extension(u32::from_le_bytes(*code.first_chunk()?))?;
    features.iter().any(|(_, it, has)| *it == name && !has).then_some(name)
}

fn extension(word: u32) -> Option<&'static str> {
    ENCODINGS.iter().find(|(mask, value, _)| word & mask == *value).map(|(_, _, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_distinguished() {
        for (word, name) in [
            (0x4E82_9420, Some("dotprod")),  // sdot v0.4s, v1.16b, v2.16b
            (0x6FA2_E820, Some("dotprod")),  // udot v0.4s, v1.16b, v2.4b[3]
            (0x4E82_9C20, Some("i8mm")),     // usdot v0.4s, v1.16b, v2.16b
            (0x4E82_AC20, Some("i8mm")),     // usmmla v0.4s, v1.16b, v2.16b
            (0x6E42_FC20, Some("bf16")),     // bfdot v0.4s, v1.8h, v2.8h
            (0x6E42_EC20, Some("bf16")),     // bfmmla v0.4s, v1.8h, v2.8h
            (0x4E42_1420, Some("fullfp16")), // fadd v0.8h, v1.8h, v2.8h
            (0x4F32_1020, Some("fullfp16")), // fmla v0.8h, v1.8h, v2.h[3]
            (0x4E22_EC20, Some("fp16fml")),  // fmlal v0.4s, v1.4h, v2.4h
            (0xF8E0_0041, Some("lse")),      // ldaddal x0, x1, [x2]
            (0x65A2_0020, Some("sve")),      // fmla z0.s, p0/m, z1.s, z2.s
            (0x04A0_E3E0, Some("sve")),      // cntw x0
            (0x8081_2000, Some("sme")),      // fmopa za0.s, p0/m, p1/m, z0.s, z1.s
            (0x4E22_CC20, None),             // fmla v0.4s, v1.4s, v2.4s
            (0x4FA2_1820, None),             // fmla v0.4s, v1.4s, v2.s[3]
            (0x4E62_9C20, None),             // mul v0.8h, v1.8h, v2.8h
            (0x3DC0_0000, None),             // ldr q0, [x0]
            (0, None),                       // udf #0
        ] {
            assert_eq!(extension(word), name, "{word:#x}");
        }
        let sve = 0x04A0_E3E0_u32.to_le_bytes();
        assert_eq!(missing_feature(&sve, &[(20, "sve", false)]), Some("sve"));
        assert_eq!(missing_feature(&sve, &[(20, "sve", true)]), None);
        assert_eq!(missing_feature(&sve[..3], &[(20, "sve", false)]), None);
    }
}
