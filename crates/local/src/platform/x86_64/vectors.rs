//! Runs loops with the widest vectors of the processor.

use std::sync::OnceLock;

use crate::platform::VectorWork;

/// Whether the processor has fused multiply-add in vectors of `lanes` 32-bit floats: 8 or 16. The reference's
/// microkernels check for these features.
pub(crate) fn has_fused_vectors(lanes: usize) -> bool {
    match lanes {
        8 => is_x86_feature_detected!("avx2") && has_fma(),
        16 => has_avx512() && has_fma(),
        _ => false,
    }
}

/// The tile into which the reference packs matrices of `f32` on this machine: rows, columns and depth.
pub(crate) fn tile_of_f32() -> [i64; 3] {
    match () {
        () if has_fused_vectors(16) => [16, 16, 1],
        () if has_fused_vectors(8) => [8, 8, 1],
        () => [8, 4, 1],
    }
}

/// The same for matrices of `i8`.
pub(crate) fn tile_of_i8() -> [i64; 3] {
    let most = if is_x86_feature_detected!("avx512vnni") { 16 } else { 8 };
    let [m, n, _] = tile_of_f32();
    [m.min(most), n.min(most), 2]
}

/// Runs `work` compiled for the widest vectors of this machine, which do not affect its results.
pub(crate) fn with_vectors<W: VectorWork>(work: W) -> W::Output {
    // Detection is a dozen loads and branches: too many for each call of a short kernel.
    static WIDTH: OnceLock<usize> = OnceLock::new();
    match WIDTH.get_or_init(|| [16, 8].into_iter().find(|lanes| has_fused_vectors(*lanes)).unwrap_or(1)) {
        // SAFETY: the processor and the system support each feature that the function enables.
        16 => unsafe { with_avx512(work) },
        // SAFETY: as above.
        8 => unsafe { with_avx2(work) },
        _ => work.run(false),
    }
}

fn has_fma() -> bool {
    is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c")]
fn with_avx512<W: VectorWork>(work: W) -> W::Output {
    work.run(true)
}

#[target_feature(enable = "avx2,fma,f16c")]
fn with_avx2<W: VectorWork>(work: W) -> W::Output {
    work.run(true)
}
