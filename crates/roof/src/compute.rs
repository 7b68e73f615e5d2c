//! Operations per second of each element type, with each instruction set that this processor has.

use std::io;

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::platform::{cycles_per_second, kernels};
use crate::threads::{Work, best};
use crate::{MeasureOptions, Rate};

/// Operations per second of an element type with an instruction set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The type of the factors: `f32`, `f64`, `f16`, `bf16` or `i8`.
    pub element: String,
    /// The instructions, such as `AVX2 and FMA`.
    pub instructions: String,
    /// Bits of a vector.
    pub vector_bits: u32,
    /// Operations: a multiplication and an addition are two.
    pub rate: Rate,
}

/// Cycles per second of the processor while it computes; fails if the system has no counter for that.
pub fn clock_hz() -> io::Result<f64> {
    cycles_per_second(spin)
}

/// Computes for a fraction of a millisecond.
#[allow(dead_code, reason = "not all systems count cycles")]
pub(crate) fn spin() {
    if let Some(first) = kernels().first() {
        (first.run)(20_000);
    }
}

/// Measures each type and instruction set, with one thread and with all. Fails if a thread cannot be started.
pub fn peaks(options: &MeasureOptions) -> io::Result<Vec<Peak>> {
    let of = |kernel: &Kernel, threads: usize| {
        let work = |_| -> Work<'static> { Box::new(kernel.run) };
        let rate = best((0..threads).map(work).collect(), kernel.operations.into(), options.time)?;
        Ok(Peak {
            element: kernel.element.into(),
            instructions: kernel.instructions.into(),
            vector_bits: kernel.vector_bits,
            rate,
        })
    };
    let kernels = kernels();
    kernels
        .iter()
        .flat_map(|kernel| options.thread_counts().map(move |threads| of(kernel, threads)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wider_vectors_do_more() {
        let options = MeasureOptions { threads: 1, time: Duration::from_millis(10) };
        let all = peaks(&options).unwrap();
        let rate = |element: &str, bits: u32| {
            let found = all.iter().filter(|it| it.element == element && it.vector_bits == bits);
            found.map(|it| it.rate.per_second).fold(0.0, f64::max)
        };
        // A core does an operation of a vector in a cycle, or a few, of some GHz.
        let widest = all.iter().filter(|it| it.element == "f32").map(|it| it.vector_bits).max().unwrap();
        assert!((4e9..2e12).contains(&rate("f32", widest)), "{all:?}");
        // Half as many elements of twice the size.
        let ratio = rate("f32", widest) / rate("f64", widest);
        assert!((1.4..2.8).contains(&ratio), "{ratio}: {all:?}");
        if cfg!(target_arch = "x86_64") && widest >= 256 {
            let ratio = rate("f32", 256) / rate("f32", 128);
            assert!((1.4..4.5).contains(&ratio), "{ratio}: {all:?}");
        }
    }
}
