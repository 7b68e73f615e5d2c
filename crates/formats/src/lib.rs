//! Executables as data: the code of GPUs, read and checked without a device.
//!
//! [`read_cuda`], [`read_hip`] and [`read_amdgpu`] accept any bytes of the formats of these drivers: the
//! containers of the compiler (`container.rs`), and the images in them or by themselves: PTX (`ptx.rs`),
//! cubin and fatbin (`nvidia.rs`), HSACO (`hsaco.rs`). What they return names functions, bindings,
//! constants, targets and images; nothing of it runs. [`with_image`] replaces functions of a
//! container by those of an image (`replaced.rs`, `rewritten.rs`). [`vulkan`] has the executables for Vulkan,
//! and SPIR-V.
//!
//! It must not depend on devices or on the semantics of operations. `hal` describes formats with it, drivers
//! and tools read executables with it. Time is in proportion to the bytes, and a size that a file states
//! allocates nothing.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "an error ends the reading of a file; not a hot path")]

mod container;
pub mod elf;
mod executable;
pub mod fuzzing;
mod hsaco;
mod message_pack;
mod nvidia;
mod ptx;
mod replaced;
mod rewritten;
mod target;
pub mod vulkan;

pub use container::{read_amdgpu, read_cuda, read_hip, with_image};
pub use executable::{
    Binding, CodeImage, Executable, Function, ImageKind, Parameter, ParameterKind, Registers,
};
pub use replaced::Replaced;

/// Bytes before the flatbuffer of a container.
pub(crate) const HEADER_BYTES: usize = 64;
/// Limit on the bytes of a name.
pub(crate) const MAX_NAME_BYTES: usize = 16 << 10;
/// Limit on the functions of an executable, and on those of an image.
pub(crate) const MAX_FUNCTIONS: usize = 64 << 10;
/// Limit on the parameters of a kernel: drivers pass at most this many bytes.
pub(crate) const MAX_PARAMETERS: usize = 32 << 10;
