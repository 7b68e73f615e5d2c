//! Executables as data: the formats of the pinned release, read and checked without a device.
//!
//! ```text
//! bytes --format--> flatbuffer | bare SPIR-V --spirv--> Shader --layouts--> Image
//! ```
//!
//! [`Image::read`] accepts any bytes. An image's parts are consistent: ordinals are in range, every entry
//! point is in its shader, and what a shader binds is in the pipeline's layout. What the device must support
//! is in [`Image::check_device`]; limits of a device, such as its number of descriptors, are not checked
//! here.

#![allow(clippy::result_large_err, reason = "an error ends the reading of a file; not a hot path")]

mod address;
mod bare;
pub mod check;
mod flatbuffer;
mod functions;
mod layouts;
mod name;
mod read;
mod replaced;
pub mod spirv;
mod written;

pub use address::{AddressLayout, BindingRequirement, ROOT_BYTES, Root};
pub use layouts::{
    DebugInfo, DescriptorBinding, DescriptorKind, DescriptorSetLayout, DescriptorSlot, Dispatch, Image,
    Pipeline, PipelineLayout, PushConstantRange, SourceFile, SourceLocation,
};
pub use name::{DispatchAbi, VulkanFormat};
pub use read::infer;
pub use replaced::with_spirv;
pub use spirv::{Feature, Shader, ShaderSupport, SubgroupSizes};
pub use written::{binds_addresses, written_bindings};
