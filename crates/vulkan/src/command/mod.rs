//! Commands: what a command buffer of the program becomes, and how operations are recorded for Vulkan.

mod barriers;
mod commands;
mod instance;
mod operations;
mod places;
mod recorder;
mod staging;
mod tools;

pub(crate) use commands::VulkanCommands;
pub(crate) use instance::Instance;
pub(crate) use operations::{describe, record_operation};
pub(crate) use places::Place;
pub(crate) use recorder::{Recorder, Repeats};
pub(crate) use tools::Tools;
