//! Commands: what a command buffer of the program becomes, and how operations are recorded for Vulkan.
//!
//! A `Recorder` owns a pool of Vulkan command buffers, so that recording takes no lock, and is reused.
//! Command buffers keep the commands as the program recorded them. They are baked when they are first
//! submitted, since buffers that they name may not be allocated before: once for each binding table, by the
//! memory of its buffers (`instance.rs`). Fills of odd sizes copy the bytes at the ends from a table of all
//! bytes. Updates that Vulkan cannot inline are staged, and waits for events are barriers. Host calls have a
//! thread each, since they may block; transfers of files share four (`executor.rs`).

mod barriers;
mod commands;
mod instance;
mod memory_range;
mod operations;
mod recorder;
mod recorder_pool;
mod staging;
mod staging_memory;

pub(crate) use commands::VulkanCommands;
pub(crate) use instance::Instance;
pub(crate) use memory_range::MemoryRange;
pub(crate) use operations::{describe, record_operation};
pub(crate) use recorder::{Recorder, Repeats};
pub(crate) use recorder_pool::RecorderPool;
pub(crate) use staging_memory::{Receiver, StagingMemory};
