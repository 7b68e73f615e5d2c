//! Features of the processor.

use std::arch::x86_64::{__cpuid_count, CpuidResult};

/// The features: bit in the first feature word (source: `iree/schemas/cpu_feature_bits.inl`), name as LLVM
/// spells it, and whether the processor has it and the system supports it.
pub(crate) fn features() -> Vec<(u32, &'static str, bool)> {
    let basic = cpuid(0x1);
    let extended = cpuid(0x7);
    let amd = cpuid(0x8000_0001);
    let state = cpuid(0xD);
    let sub_leaf_1 = if extended.eax >= 1 { __cpuid_count(0x7, 1) } else { NONE };
    // Registers that the operating system saves (bits of XCR0).
    let saves = |mask: u32| state.eax & mask == mask;
    let (ymm, zmm, tiles) = (saves(0x7), saves(0xE7), saves(0x6_0000));
    let features = [
        // (our bit, name, CPUID register, its bit, enabled by the system)
        (0, "sse3", basic.ecx, 0, true),
        (1, "ssse3", basic.ecx, 9, true),
        (2, "sse4.1", basic.ecx, 19, true),
        (3, "sse4.2", basic.ecx, 20, true),
        (4, "sse4a", amd.ecx, 6, true),
        (10, "avx", basic.ecx, 28, ymm),
        (11, "fma", basic.ecx, 12, ymm),
        (12, "fma4", amd.ecx, 16, ymm),
        (13, "xop", amd.ecx, 11, ymm),
        (14, "f16c", basic.ecx, 29, ymm),
        (15, "avx2", extended.ebx, 5, ymm),
        (20, "avx512f", extended.ebx, 16, zmm),
        (21, "avx512cd", extended.ebx, 28, zmm),
        (22, "avx512vl", extended.ebx, 31, zmm),
        (23, "avx512dq", extended.ebx, 17, zmm),
        (24, "avx512bw", extended.ebx, 30, zmm),
        (25, "avx512ifma", extended.ebx, 21, zmm),
        (26, "avx512vbmi", extended.ecx, 1, zmm),
        (27, "avx512vpopcntdq", extended.ecx, 14, zmm),
        (28, "avx512vnni", extended.ecx, 11, zmm),
        (29, "avx512vbmi2", extended.ecx, 6, zmm),
        (30, "avx512bitalg", extended.ecx, 12, zmm),
        (31, "avx512bf16", sub_leaf_1.eax, 5, zmm),
        (32, "avx512fp16", extended.edx, 23, zmm),
        (50, "amx-tile", extended.edx, 24, tiles),
        (51, "amx-int8", extended.edx, 25, tiles),
        (52, "amx-bf16", extended.edx, 22, tiles),
    ];
    let feature = |(bit, name, register, position, usable): (u32, &'static str, u32, u32, bool)| {
        (bit, name, usable && register >> position & 1 == 1)
    };
    features.map(feature).to_vec()
}

const NONE: CpuidResult = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };

/// Sub-leaf 0 of the leaf, or zeros if the processor lacks it.
fn cpuid(leaf: u32) -> CpuidResult {
    let last = __cpuid_count(leaf & 0x8000_0000, 0).eax;
    if leaf <= last { __cpuid_count(leaf, 0) } else { NONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_agree_with_the_standard_librarys_detection() {
        let features = features();
        for (bit, name, has) in [
            (0, "sse3", is_x86_feature_detected!("sse3")),
            (3, "sse4.2", is_x86_feature_detected!("sse4.2")),
            (10, "avx", is_x86_feature_detected!("avx")),
            (11, "fma", is_x86_feature_detected!("fma")),
            (14, "f16c", is_x86_feature_detected!("f16c")),
            (15, "avx2", is_x86_feature_detected!("avx2")),
            (20, "avx512f", is_x86_feature_detected!("avx512f")),
            (28, "avx512vnni", is_x86_feature_detected!("avx512vnni")),
            (31, "avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ] {
            assert!(features.contains(&(bit, name, has)), "{name}: {features:?}");
        }
    }
}
