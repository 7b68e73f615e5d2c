//! Processors of 64-bit ARM.

mod dot_products;
mod features;
mod instruction;
#[cfg(not(target_os = "macos"))]
mod instruction_cache;
mod kernel_mode;
mod stack_switch;
mod without_pairs;

#[cfg(target_os = "macos")]
pub(super) use super::macos::publish_code;
pub(crate) use dot_products::{add_quad_products, has_quad_products};
pub(crate) use features::features;
pub(crate) use instruction::missing_feature;
#[cfg(not(target_os = "macos"))]
pub(super) use instruction_cache::publish_code;
pub(crate) use kernel_mode::KernelMode;
pub(super) use stack_switch::switch;
pub(crate) use without_pairs::{add_dot_products, has_dot_products};

use std::arch::is_aarch64_feature_detected;

use crate::platform::VectorWork;

/// The architecture, as in executable formats.
pub(crate) const ARCHITECTURE: &str = "arm_64";

/// Whether the reference has microkernels with fused multiply-add for tiles of `lanes` 32-bit floats.
pub(crate) fn has_fused_vectors(lanes: usize) -> bool {
    lanes == 8
}

/// The tile into which the reference packs matrices of `f32` on this machine: rows, columns and depth.
pub(crate) fn tile_of_f32() -> [i64; 3] {
    [8, 8, 1]
}

/// The same for matrices of `i8`.
pub(crate) fn tile_of_i8() -> [i64; 3] {
    match () {
        () if is_aarch64_feature_detected!("i8mm") => [8, 8, 8],
        () if is_aarch64_feature_detected!("dotprod") => [8, 8, 4],
        () => [8, 8, 1],
    }
}

/// Runs `work`: all processors have NEON and fused multiply-add, for which all code is compiled.
pub(crate) fn with_vectors<W: VectorWork>(work: W) -> W::Output {
    work.run(true)
}
