//! Processors of x86-64.

mod dot_products;
mod features;
mod instruction;
mod kernel_mode;
mod stack_switch;
mod vectors;

pub(crate) use dot_products::{add_dot_products, add_quad_products, has_dot_products, has_quad_products};
pub(crate) use features::features;
pub(crate) use instruction::missing_feature;
pub(crate) use kernel_mode::KernelMode;
pub(super) use stack_switch::switch;
pub(crate) use vectors::{has_fused_vectors, tile_of_f32, tile_of_i8, with_vectors};

/// The architecture, as in executable formats.
pub(crate) const ARCHITECTURE: &str = "x86_64";

/// Makes code that was written visible to the instruction fetch, which it is at once.
#[inline]
pub(super) fn publish_code(_code: &[u8]) {}
