//! Chains of x86-64 instructions, and loads of its vectors.

#![allow(unsafe_code, reason = "calls of functions after a check of the processor's features")]

use std::arch::x86_64::*;

use crate::kernel::{Kernel, available, chains};
use crate::lines::{Line, sum_portable};

// Values converge to 1, so none becomes subnormal or infinite. There are more chains than an instruction has
// cycles of latency, times the instructions that begin in a cycle, and fewer than registers.
chains!(f32_sse2, "sse2", [__m128; 12], [_mm_set1_ps(0.5), _mm_set1_ps(0.5)], |value, a, b| {
    _mm_add_ps(_mm_mul_ps(value, a), b)
});
chains!(f64_sse2, "sse2", [__m128d; 12], [_mm_set1_pd(0.5), _mm_set1_pd(0.5)], |value, a, b| {
    _mm_add_pd(_mm_mul_pd(value, a), b)
});
chains!(f32_avx2, "avx2,fma", [__m256; 12], [_mm256_set1_ps(0.5), _mm256_set1_ps(0.5)], |value, a, b| {
    _mm256_fmadd_ps(value, a, b)
});
chains!(f64_avx2, "avx2,fma", [__m256d; 12], [_mm256_set1_pd(0.5), _mm256_set1_pd(0.5)], |value, a, b| {
    _mm256_fmadd_pd(value, a, b)
});
chains!(f32_avx512, "avx512f", [__m512; 16], [_mm512_set1_ps(0.5), _mm512_set1_ps(0.5)], |value, a, b| {
    _mm512_fmadd_ps(value, a, b)
});
chains!(f64_avx512, "avx512f", [__m512d; 16], [_mm512_set1_pd(0.5), _mm512_set1_pd(0.5)], |value, a, b| {
    _mm512_fmadd_pd(value, a, b)
});
chains!(
    f16_avx512,
    "avx512fp16",
    [__m512h; 16],
    [_mm512_castsi512_ph(_mm512_set1_epi16(0x3800)), _mm512_castsi512_ph(_mm512_set1_epi16(0x3800))],
    |value, a, b| _mm512_fmadd_ph(value, a, b)
);
// The words of 1.0 as two bf16 are 1.0 and 0: a sum of products grows to 2^24 and stays.
chains!(
    bf16_avx512,
    "avx512f,avx512bf16",
    [__m512; 16],
    [_mm512_set1_ps(1.0), _mm512_set1_ps(1.0)],
    |value, a, b| _mm512_dpbf16_ps(value, bf16(_mm512_castps_si512(a)), bf16(_mm512_castps_si512(b)))
);
chains!(
    i8_ssse3,
    "ssse3",
    [__m128i; 12],
    [_mm_set1_epi8(3), _mm_set1_epi16(1)],
    |value, a, b| _mm_add_epi32(_mm_madd_epi16(_mm_maddubs_epi16(value, a), b), a)
);
chains!(i8_avx2, "avx2", [__m256i; 12], [_mm256_set1_epi8(3), _mm256_set1_epi16(1)], |value, a, b| {
    _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(value, a), b), a)
});
chains!(
    i8_avx_vnni,
    "avx2,avxvnni",
    [__m256i; 12],
    [_mm256_set1_epi8(3), _mm256_set1_epi8(5)],
    |value, a, b| _mm256_dpbusd_avx_epi32(value, a, b)
);
chains!(
    i8_avx512_vnni,
    "avx512f,avx512vnni",
    [__m512i; 16],
    [_mm512_set1_epi8(3), _mm512_set1_epi8(5)],
    |value, a, b| _mm512_dpbusd_epi32(value, a, b)
);

/// The same bits.
fn bf16(bits: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes, all of whose values are valid.
    unsafe { std::mem::transmute(bits) }
}

/// The kernels that this processor can run.
pub(crate) fn kernels() -> Vec<Kernel> {
    let has_fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let has_avx512 = is_x86_feature_detected!("avx512f");
    let has_bf16 = has_avx512 && is_x86_feature_detected!("avx512bf16");
    let has_vnni = has_avx512 && is_x86_feature_detected!("avx512vnni");
    let has_avx_vnni = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni");
    let fma = "AVX2 and FMA";
    available([
        (true, "f32", "SSE2", 128, 12, 8, f32_sse2),
        (has_fma, "f32", fma, 256, 12, 16, f32_avx2),
        (has_avx512, "f32", "AVX-512", 512, 16, 32, f32_avx512),
        (true, "f64", "SSE2", 128, 12, 4, f64_sse2),
        (has_fma, "f64", fma, 256, 12, 8, f64_avx2),
        (has_avx512, "f64", "AVX-512", 512, 16, 16, f64_avx512),
        (is_x86_feature_detected!("avx512fp16"), "f16", "AVX-512 FP16", 512, 16, 64, f16_avx512),
        (has_bf16, "bf16", "AVX-512 BF16", 512, 16, 64, bf16_avx512),
        (is_x86_feature_detected!("ssse3"), "i8", "SSSE3", 128, 12, 32, i8_ssse3),
        (is_x86_feature_detected!("avx2"), "i8", "AVX2", 256, 12, 64, i8_avx2),
        (has_avx_vnni, "i8", "AVX-VNNI", 256, 12, 64, i8_avx_vnni),
        (has_vnni, "i8", "AVX-512 VNNI", 512, 16, 128, i8_avx512_vnni),
    ])
}

/// Reads all lines, with the widest loads of this processor.
pub(crate) fn sum(lines: &[Line]) -> u64 {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the feature.
        return unsafe { sum_avx512(lines) };
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        return unsafe { sum_avx2(lines) };
    }
    sum_portable(lines)
}

#[target_feature(enable = "avx2")]
fn sum_avx2(lines: &[Line]) -> u64 {
    sum_portable(lines)
}

#[target_feature(enable = "avx512f")]
fn sum_avx512(lines: &[Line]) -> u64 {
    let mut sums = [_mm512_setzero_si512(); 8];
    let (chunks, rest) = lines.as_chunks::<8>();
    for chunk in chunks {
        for (sum, line) in sums.iter_mut().zip(chunk) {
            // SAFETY: a line has 64 bytes and is aligned to them.
            *sum = _mm512_add_epi64(*sum, unsafe { _mm512_load_si512((&raw const *line).cast()) });
        }
    }
    let sums = sums.into_iter().map(|it| _mm512_reduce_add_epi64(it) as u64);
    sums.fold(sum_portable(rest), u64::wrapping_add)
}
