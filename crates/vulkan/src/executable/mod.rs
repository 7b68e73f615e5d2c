//! Executables: the formats of the pinned release, SPIR-V and what reflection says about it, and pipelines of a device.

pub mod format;
mod pipeline;
mod prepared;
mod support;
pub mod validator;

pub(crate) use pipeline::{Pipeline, Slots, descriptor_range};
pub(crate) use prepared::{VulkanExecutable, is_supported};
