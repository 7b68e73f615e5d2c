//! The Vulkan driver: devices with Vulkan 1.2 or later, through a loader that is opened at run time.
//!
//! It implements the backend traits of `hal`. It must not depend on a file format of rehal, a tool, or another driver.
//! All work of a device reaches it through queues (`queue/`), whose progress is one timeline semaphore each.

#![deny(unsafe_code)]

#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../tests/formats/assembler.rs"]
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
mod issue;
mod loader;
mod memory;
mod physical;
mod profile;
mod queue;
mod semaphore;

pub use driver::{DispatchAbis, VULKAN, VulkanDriver, VulkanDriverOptions, VulkanOptions};
pub use instance::{DebugMessage, DebugSeverity, DebugSink};
