//! Loops of multiplications and additions that a processor can run.

/// A loop whose chains of operations are independent of each other.
pub(crate) struct Kernel {
    pub(crate) element: &'static str,
    pub(crate) instructions: &'static str,
    pub(crate) vector_bits: u32,
    /// Operations of a round.
    pub(crate) operations: u32,
    /// Performs rounds. The processor has what it needs.
    pub(crate) run: fn(u64),
}

/// Whether the processor can run it, the type, the instructions, bits of a vector, chains, operations of one,
/// the function.
pub(crate) type Row = (bool, &'static str, &'static str, u32, u32, u32, fn(u64));

/// The kernels that this processor can run.
pub(crate) fn available<const N: usize>(rows: [Row; N]) -> Vec<Kernel> {
    let kernel = |(has, element, instructions, vector_bits, chains, operations, run): Row| {
        let operations = chains * operations;
        has.then_some(Kernel { element, instructions, vector_bits, operations, run })
    };
    rows.into_iter().filter_map(kernel).collect()
}

/// Defines a function that runs chains: the next value of each from its last one and two constants. The
/// compiler knows neither constants nor first values, so that it can neither compute nor combine chains.
macro_rules! chains {
    ($name:ident, $features:literal, [$vector:ty; $count:expr], [$first:expr, $second:expr],
     |$value:ident, $a:ident, $b:ident| $next:expr) => {
        fn $name(rounds: u64) {
            #[target_feature(enable = $features)]
            fn run(rounds: u64) {
                let ($a, $b): ($vector, $vector) = std::hint::black_box(($first, $second));
                let mut chains: [$vector; $count] = std::hint::black_box([$second; $count]);
                for _ in 0..rounds {
                    for chain in &mut chains {
                        let $value = *chain;
                        *chain = $next;
                    }
                }
                std::hint::black_box(chains);
            }
            // SAFETY: a kernel is listed only if the processor has these features.
            unsafe { run(rounds) }
        }
    };
}
pub(crate) use chains;
