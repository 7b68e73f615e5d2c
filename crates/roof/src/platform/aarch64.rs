//! Chains of AArch64 instructions. Those of f16, bf16 and i8 have no intrinsics in stable Rust.

#![allow(unsafe_code, reason = "calls of functions after a check of the processor's features; assembly")]

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use crate::kernel::{Kernel, available, chains};

/// Chains of each kernel: more than the latency of an instruction times the instructions that begin in a
/// cycle, and fewer than the 32 registers.
const CHAINS: usize = 24;

/// An instruction that accumulates products of two vectors.
macro_rules! accumulate {
    ($instruction:literal, $value:ident, $a:ident, $b:ident) => {{
        let mut value = $value;
        // SAFETY: it accesses three registers only, and the function has the feature.
        unsafe {
            asm!($instruction, value = inout(vreg) value, a = in(vreg) $a, b = in(vreg) $b,
                options(pure, nomem, nostack, preserves_flags));
        }
        value
    }};
}

// Values grow slowly, so that none becomes infinite; FP16 adds products that round to nothing.
chains!(f32_neon, "neon", [float32x4_t; CHAINS], [vdupq_n_f32(0.5), vdupq_n_f32(0.25)], |value, a, b| {
    vfmaq_f32(value, a, b)
});
chains!(f64_neon, "neon", [float64x2_t; CHAINS], [vdupq_n_f64(0.5), vdupq_n_f64(0.25)], |value, a, b| {
    vfmaq_f64(value, a, b)
});
chains!(
    f16_neon,
    "neon,fp16",
    [uint16x8_t; CHAINS],
    [vdupq_n_u16(0x0400), vdupq_n_u16(0x0400)],
    |value, a, b| accumulate!("fmla {value:v}.8h, {a:v}.8h, {b:v}.8h", value, a, b)
);
chains!(
    bf16_neon,
    "neon,bf16",
    [uint16x8_t; CHAINS],
    [vdupq_n_u16(0x3f80), vdupq_n_u16(0x3f80)],
    |value, a, b| accumulate!("bfdot {value:v}.4s, {a:v}.8h, {b:v}.8h", value, a, b)
);
chains!(i8_neon, "neon,dotprod", [int32x4_t; CHAINS], [vdupq_n_s32(3), vdupq_n_s32(5)], |value, a, b| {
    accumulate!("sdot {value:v}.4s, {a:v}.16b, {b:v}.16b", value, a, b)
});

/// The kernels that this processor can run.
pub(crate) fn kernels() -> Vec<Kernel> {
    let (has_f16, has_bf16) = (is_aarch64_feature_detected!("fp16"), is_aarch64_feature_detected!("bf16"));
    available([
        (true, "f32", "NEON", 128, CHAINS as u32, 8, f32_neon),
        (true, "f64", "NEON", 128, CHAINS as u32, 4, f64_neon),
        (has_f16, "f16", "NEON FP16", 128, CHAINS as u32, 16, f16_neon),
        (has_bf16, "bf16", "NEON BF16", 128, CHAINS as u32, 16, bf16_neon),
        (is_aarch64_feature_detected!("dotprod"), "i8", "NEON dot product", 128, CHAINS as u32, 32, i8_neon),
    ])
}
