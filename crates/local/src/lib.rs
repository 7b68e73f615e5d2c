//! The CPU as a device: the drivers `local-sync` and `local-task`, and executables, both native code and VM
//! programs.
//!
//! Used by the tools, which create its device, and tested by the conformance suite. It must not depend on
//! captures, plans or tools. Platform-dependent code is in `platform`, one module per platform.
//!
//! Loading an executable runs its code: only this crate executes bytes as machine code (docs/unsafe.md).
//!
//! One device (`device.rs`) serves two drivers, which differ in how ready work runs: `local-sync` runs it on
//! the thread that makes it ready, `local-task` on a pool of workers (`task/`, `pool/`). `execute.rs` runs an
//! operation on the calling thread. `command.rs` bakes the commands of a command buffer into stages: commands
//! between barriers are independent and form one stage, and event commands end a stage. `executable/` loads
//! code.
//!
//! All queues of a device use the same workers, so affinity has no effect. Devices share `Workers` if they
//! are created with the same (`LocalTaskOptions::workers`). Dropping a device fails the submissions that
//! wait; the last owner of its workers runs what is ready and joins them, unless it is a worker itself, which
//! could deadlock. Queues own the buffers of their allocas unless these are empty, as in the reference, so
//! that programs deallocate them on a queue.

#![deny(unsafe_code)]

mod command;
mod device;
mod driver;
pub mod emulator;
pub mod executable;
mod execute;
mod options;
mod parameters;
mod place;
mod platform;
mod pool;
mod profile;
mod task;
pub mod topology;
mod watched;

pub use device::{LocalSync, LocalTask, create_emulated};
pub use driver::{LocalSyncDriver, LocalTaskDriver};
pub use executable::open_perf_files;
pub use options::{LOCAL_SYNC, LOCAL_TASK, LocalSyncOptions, LocalTaskOptions};
pub use parameters::PARAMETERS;
#[doc(hidden)]
pub use task::WorkerDelays;
pub use task::{WorkerOptions, Workers};
pub use topology::{Topology, TopologyOptions};
pub use watched::watch_buffer;
