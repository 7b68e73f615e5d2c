//! Replays of synthetic captures: plans, rejections, and the calls that a device
//! receives.

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests on hostile bytes")]
mod common;

mod captured;
mod commands;
mod fast_forward;
mod files;
mod host_memory;
mod kernels;
#[path = "../memory/mod.rs"]
mod memory;
mod owned;
mod planned_work;
mod queue;
mod races;
mod refusals;
mod remote;
mod rewriting;
mod scopes;
mod slices;
mod stepping;
mod substitution;
mod vulkan;
#[path = "../record/memory.rs"]
mod written;
