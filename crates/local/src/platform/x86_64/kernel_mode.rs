//! The floating-point mode of kernels.

use std::arch::asm;
use std::marker::PhantomData;

/// While it lives, the floating-point units of the thread are as kernels find them. Then they are as before,
/// whatever a kernel has changed of their control words.
///
/// Denormal inputs and results of SSE are flushed to zero, as the reference does for kernels; otherwise
/// results differ in the last bits. Only kernels may be called meanwhile: Rust's floating-point code assumes
/// the default mode. The only exception is
/// [`with_flushed_denormals`](crate::platform::with_flushed_denormals).
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
