//! Commands: what a command buffer of the program becomes, and how operations are recorded for Vulkan.

mod barriers;
mod commands;
mod instance;
mod memory_range;
mod operations;
mod recorder;
mod recorder_pool;
mod staging;

pub(crate) use commands::VulkanCommands;
pub(crate) use instance::Instance;
pub(crate) use memory_range::MemoryRange;
pub(crate) use operations::{describe, record_operation};
pub(crate) use recorder::{Recorder, Repeats};
pub(crate) use recorder_pool::{Receiver, RecorderPool};
