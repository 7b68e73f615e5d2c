//! The floating-point mode of kernels.

use std::arch::asm;
use std::marker::PhantomData;

/// While it lives, the floating-point unit of the thread is as kernels find it. Then it is as before,
/// whatever a kernel has changed of its control register.
///
/// Denormal inputs and results are flushed to zero, as the reference does for kernels; otherwise results
/// differ in the last bits. Only kernels may be called meanwhile: Rust's floating-point code assumes the
/// default mode. The only exception is [`with_flushed_denormals`](crate::platform::with_flushed_denormals).
pub(crate) struct KernelMode {
    fpcr: u64,
    /// The mode is per thread, so it is not `Send`.
    _not_send: PhantomData<*const ()>,
}

/// FPCR: flush to zero.
const FLUSH: u64 = 1 << 24;
/// The same of 16-bit floats; 0 on processors that do not compute with them.
const FLUSH_HALF: u64 = 1 << 19;

impl KernelMode {
    /// Sets the mode; `flushes` says whether denormals are flushed.
    #[inline]
    pub(crate) fn enter(flushes: bool) -> Self {
        let fpcr = load();
        if flushes && fpcr & FLUSH != FLUSH {
            store(fpcr | FLUSH | FLUSH_HALF);
        }
        Self { fpcr, _not_send: PhantomData }
    }
}

impl Drop for KernelMode {
    #[inline]
    fn drop(&mut self) {
        // To write it takes longer than to read it.
        if load() != self.fpcr {
            store(self.fpcr);
        }
    }
}

fn load() -> u64 {
    let value: u64;
    // SAFETY: reads the control register.
    unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

fn store(value: u64) {
    // SAFETY: `value` is an earlier one of the thread, or differs from it in the flush bits. Until they
    // are restored, the only Rust floating-point code that runs is that of `with_flushed_denormals`,
    // justified there. Without `nomem`, so that what kernels write is not moved across it.
    unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floating_point_mode_is_restored() {
        let before = load();
        {
            let _outer = KernelMode::enter(true);
            assert_eq!(load() & FLUSH, FLUSH);
            {
                let _inner = KernelMode::enter(true);
            }
            assert_eq!(load() & FLUSH, FLUSH, "the inner guard keeps the outer mode");
            // As a kernel does: another rounding.
            store(3 << 22);
        }
        assert_eq!(load(), before);
        {
            let _mode = KernelMode::enter(false);
            assert_eq!(load(), before);
        }
        assert_eq!(load(), before);
    }
}
