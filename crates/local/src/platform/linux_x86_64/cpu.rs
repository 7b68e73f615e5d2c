//! Processor features, processor ids, and the floating-point mode of kernels.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::hint::black_box;
use std::marker::PhantomData;

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

/// While it lives, the floating-point units of the thread are as kernels find them. Then they are as before,
/// whatever a kernel has changed of their control words.
///
/// Denormal inputs and results of SSE are flushed to zero, as the reference does for kernels; otherwise
/// results differ in the last bits. Only kernels may be called meanwhile: Rust's floating-point code assumes
/// the default mode. The only exception is [`with_flushed_denormals`].
pub(crate) struct KernelMode {
    mxcsr: u32,
    x87: u16,
    /// The modes are per thread, so it is not `Send`.
    _not_send: PhantomData<*const ()>,
}

/// MXCSR: flush to zero (bit 15) and denormals are zero (bit 6).
const FLUSH: u32 = 0x8040;

impl KernelMode {
    /// Sets the mode; `flushes` says whether denormals are flushed.
    #[inline]
    pub(crate) fn enter(flushes: bool) -> Self {
        let (mxcsr, x87) = (load_mxcsr(), load_x87());
        if flushes && mxcsr & FLUSH != FLUSH {
            store_mxcsr(mxcsr | FLUSH);
        }
        Self { mxcsr, x87, _not_send: PhantomData }
    }
}

impl Drop for KernelMode {
    #[inline]
    fn drop(&mut self) {
        store_mxcsr(self.mxcsr);
        if load_x87() != self.x87 {
            store_x87(self.x87);
        }
    }
}

/// Runs `work`, which interprets floating-point operations of a program, in that mode.
///
/// Rust specifies floating-point code only in the default mode, so this relies on the compiler: an operation
/// on values known only at run time becomes an SSE instruction or a libm call, both of which follow the mode
/// as in the reference. `work` is opaque here, so none of it can be moved out of the region where the mode is
/// set. Only floating-point results depend on the mode, and memory safety depends on none of them.
pub(crate) fn with_flushed_denormals(work: &mut dyn FnMut()) {
    let _mode = KernelMode::enter(true);
    black_box(work)();
}

fn load_mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: stores the control word to the four bytes of `value`.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value
}

fn store_mxcsr(value: u32) {
    // SAFETY: loads the control word from the four bytes of `value`, which is an earlier one of the thread,
    // or differs from it in the two flush bits. Until they are restored, the only Rust floating-point code
    // that runs is that of `with_flushed_denormals`, justified there.
    unsafe {
        asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, readonly, preserves_flags));
    }
}

/// The control word of the x87 unit: precision, rounding, and which exceptions trap.
#[inline]
fn load_x87() -> u16 {
    let mut value = 0u16;
    // SAFETY: stores the control word to the two bytes of `value`.
    unsafe { asm!("fnstcw [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value
}

#[cold]
fn store_x87(value: u16) {
    // SAFETY: loads the control word, which is an earlier one of the thread, from the two bytes of `value`.
    // An exception that is pending would trap in that.
    unsafe {
        asm!("fnclex", "fldcw [{}]", in(reg) &raw const value, options(nostack, readonly, preserves_flags));
    }
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

    #[test]
    fn denormals_are_flushed_only_in_the_mode() {
        let small = black_box([f32::MIN_POSITIVE / 2.0, f32::MIN_POSITIVE]);
        let mut results = [9.0; 3];
        with_flushed_denormals(&mut || results = [small[0] * 4.0, small[1] * 0.5, small[1] * 2.0]);
        assert_eq!(results, [0.0, 0.0, f32::MIN_POSITIVE * 2.0]);
        assert_eq!(small[0] * 2.0, f32::MIN_POSITIVE, "and only there");
    }

    #[test]
    fn the_floating_point_mode_is_restored() {
        let (before, x87) = (load_mxcsr(), load_x87());
        {
            let _outer = KernelMode::enter(true);
            assert_eq!(load_mxcsr() & FLUSH, FLUSH);
            {
                let _inner = KernelMode::enter(true);
            }
            assert_eq!(load_mxcsr() & FLUSH, FLUSH, "the inner guard keeps the outer mode");
            // As a kernel does: another rounding, and traps of divisions.
            store_mxcsr(0x7F80 & !0x200);
            store_x87(0xF7B);
        }
        assert_eq!(load_x87(), x87);
        {
            let _mode = KernelMode::enter(false);
            assert_eq!(load_mxcsr() & FLUSH, before & FLUSH);
            store_mxcsr(0x3F80);
        }
        // Bits 0..6 are sticky exception flags, which other code may set.
        assert_eq!(load_mxcsr() & !0x3F, before & !0x3F);
    }
}
