//! Processor features, processor ids, and the floating-point mode of kernels.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::hint::black_box;
use std::marker::PhantomData;

/// Feature words, numbered as in `iree/schemas/cpu_feature_bits.inl`; only word 0 is in use.
pub(crate) fn processor_data() -> [u64; 8] {
    let basic = cpuid(0x1);
    let extended = cpuid(0x7);
    let amd = cpuid(0x8000_0001);
    let state = cpuid(0xD);
    let sub_leaf_1 = if extended.eax >= 1 { __cpuid_count(0x7, 1) } else { NONE };
    // Registers that the operating system saves (bits of XCR0).
    let saves = |mask: u32| state.eax & mask == mask;
    let (ymm, zmm, tiles) = (saves(0x7), saves(0xE7), saves(0x6_0000));
    let features = [
        // (our bit, CPUID register, its bit, enabled by the system)
        (0, basic.ecx, 0, true),       // sse3
        (1, basic.ecx, 9, true),       // ssse3
        (2, basic.ecx, 19, true),      // sse4.1
        (3, basic.ecx, 20, true),      // sse4.2
        (4, amd.ecx, 6, true),         // sse4a
        (10, basic.ecx, 28, ymm),      // avx
        (11, basic.ecx, 12, ymm),      // fma
        (12, amd.ecx, 16, ymm),        // fma4
        (13, amd.ecx, 11, ymm),        // xop
        (14, basic.ecx, 29, ymm),      // f16c
        (15, extended.ebx, 5, ymm),    // avx2
        (20, extended.ebx, 16, zmm),   // avx512f
        (21, extended.ebx, 28, zmm),   // avx512cd
        (22, extended.ebx, 31, zmm),   // avx512vl
        (23, extended.ebx, 17, zmm),   // avx512dq
        (24, extended.ebx, 30, zmm),   // avx512bw
        (25, extended.ebx, 21, zmm),   // avx512ifma
        (26, extended.ecx, 1, zmm),    // avx512vbmi
        (27, extended.ecx, 14, zmm),   // avx512vpopcntdq
        (28, extended.ecx, 11, zmm),   // avx512vnni
        (29, extended.ecx, 6, zmm),    // avx512vbmi2
        (30, extended.ecx, 12, zmm),   // avx512bitalg
        (31, sub_leaf_1.eax, 5, zmm),  // avx512bf16
        (32, extended.edx, 23, zmm),   // avx512fp16
        (50, extended.edx, 24, tiles), // amx-tile
        (51, extended.edx, 25, tiles), // amx-int8
        (52, extended.edx, 22, tiles), // amx-bf16
    ];
    let mut word = 0;
    for (bit, register, position, usable) in features {
        word |= u64::from(usable && register >> position & 1 == 1) << bit;
    }
    [word, 0, 0, 0, 0, 0, 0, 0]
}

const NONE: CpuidResult = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };

/// Sub-leaf 0 of the leaf, or zeros if the processor lacks it.
fn cpuid(leaf: u32) -> CpuidResult {
    let last = __cpuid_count(leaf & 0x8000_0000, 0).eax;
    if leaf <= last { __cpuid_count(leaf, 0) } else { NONE }
}

/// The logical processor that the calling thread currently runs on.
pub(crate) fn processor_id() -> u32 {
    // SAFETY: takes no arguments and does not access our memory.
    let id = unsafe { libc::sched_getcpu() };
    u32::try_from(id).unwrap_or(0)
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
        let word = processor_data()[0];
        let has = |bit: u32| word >> bit & 1 == 1;
        assert_eq!(has(0), is_x86_feature_detected!("sse3"));
        assert_eq!(has(3), is_x86_feature_detected!("sse4.2"));
        assert_eq!(has(10), is_x86_feature_detected!("avx"));
        assert_eq!(has(11), is_x86_feature_detected!("fma"));
        assert_eq!(has(14), is_x86_feature_detected!("f16c"));
        assert_eq!(has(15), is_x86_feature_detected!("avx2"));
        assert_eq!(has(20), is_x86_feature_detected!("avx512f"));
        assert_eq!(has(28), is_x86_feature_detected!("avx512vnni"));
        assert_eq!(has(31), is_x86_feature_detected!("avx512bf16"));
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
