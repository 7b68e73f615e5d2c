//! The CPU as a device: the drivers `local-sync` and `local-task`, and executables, both native code and VM programs.
//!
//! Used by the tools, which create its device, and tested by the conformance suite. It must not depend on
//! captures, plans or tools. Platform-dependent code is in `platform`, one module per platform.
//!
//! Loading an executable runs its code: only this crate executes bytes as machine code (docs/unsafe.md).

#![deny(unsafe_code)]

mod command;
mod device;
mod driver;
pub mod executable;
mod execute;
mod parameters;
mod platform;
mod pool;
mod profile;
mod task;
pub mod topology;
mod watched;

pub use device::{LocalSync, LocalTask};
pub use driver::{
    LOCAL_SYNC, LOCAL_TASK, LocalSyncDriver, LocalSyncOptions, LocalTaskDriver, LocalTaskOptions,
};
#[doc(hidden)]
pub use task::WorkerDelays;
pub use task::{WorkerOptions, Workers};
pub use topology::{Topology, TopologyOptions};
pub use watched::watch_buffer;
