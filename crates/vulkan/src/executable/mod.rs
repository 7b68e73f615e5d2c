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

use rehal_base::FileKind;
use rehal_hal::{ExecutableFormat, FunctionInfo};

pub(crate) use pipeline::{Pipeline, Slots, descriptor_range};
pub(crate) use prepared::{VulkanExecutable, is_supported};

use rehal_formats::vulkan::{Image, binds_addresses, written_bindings};

/// The formats of the driver.
pub(crate) const FORMATS: [ExecutableFormat; 1] = [ExecutableFormat {
    prefix: "vulkan-",
    description: "SPIR-V",
    files: &[FileKind::VulkanExecutable, FileKind::SpirV],
    is_host_code: false,
    states_workgroup_sizes: true,
    functions: |format, bytes| FunctionInfo::of_code(Image::read(format, bytes)?.functions()),
    written_bindings: Some(written_bindings),
    binds_addresses: Some(binds_addresses),
    is_same_code: None,
}];
