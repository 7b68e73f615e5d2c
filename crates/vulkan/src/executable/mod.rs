//! Executables: the formats of the pinned release, SPIR-V and what reflection says about it, and pipelines of
//! a device.
//!
//! `format/` reads the formats without a device. `prepared.rs` checks limits and features by name, since
//! drivers check none, and makes pipelines and the layouts that a pipeline uses. Bindings are descriptors,
//! pushed if the device can, or a table of addresses, which is in the memory of the device if the host can
//! write to it.

mod pipeline;
mod prepared;
mod support;
pub mod validator;

use rehal_hal::{ExecutableFormat, gpu_formats};

pub(crate) use pipeline::{Pipeline, Slots, descriptor_range};
pub(crate) use prepared::{VulkanExecutable, is_supported};

/// The formats of the driver.
pub(crate) const FORMATS: [ExecutableFormat; 1] = [gpu_formats::VULKAN];
