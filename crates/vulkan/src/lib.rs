//! The Vulkan driver: devices with Vulkan 1.2 or later, through a loader that is opened at run time.
//!
//! It implements the backend traits of `hal`. It must not depend on a file format of rehal, a tool, or
//! another driver. All work of a device reaches it through queues (`queue/`), whose progress is one timeline
//! semaphore each.
//!
//! `loader.rs` opens the loader, `instance.rs` has layers and messages, `physical.rs` describes a physical
//! device, `gpu.rs` the logical one. Every object owns an `Arc` of the logical device, and work owns the
//! objects that it uses until it is complete (`Uses`). Functions of Vulkan 1.2 suffice; extensions are used
//! if a device has them.
//!
//! Results are those of the reference, bit for bit on the same driver, except of tensors whose bytes are not
//! a multiple of 4, such as `37xi8`: a binding is a range of whole words here, so that the last elements are
//! not 0. The reference passes bindings and workgroup counts above the limits of the device to the driver.
//! Here they are refused, since a kernel may then read undefined bytes, unless the driver is known to run
//! more than it states (`Physical::serves_more`): then a warning says so.

#![deny(unsafe_code)]

#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../formats/tests/vulkan/assembler.rs"]
mod assembler;
mod bfloat16;
mod buffer;
mod command;
mod cooperative_matrix;
#[cfg(test)]
mod creation;
mod describe;
mod device;
mod driver;
#[doc(hidden)]
pub mod emulation;
mod error;
pub mod executable;
mod executor;
mod gpu;
mod host_work;
mod instance;
mod loader;
mod memory;
mod options;
mod parameters;
mod physical;
mod profile;
mod queue;
mod semaphore;
mod submission;

pub use driver::VulkanDriver;
pub use options::{
    DebugMessage, DebugSeverity, DebugSink, DispatchAbis, VULKAN, VulkanDriverOptions, VulkanOptions,
};
pub use parameters::PARAMETERS;
