//! The CPU as a device: the `local-sync` driver, and executables: native code, and programs of the VM.
//!
//! It must never know captures, plans or tools. The tools create its device; the conformance suite
//! tests it. What depends on the platform sits in `platform`, one module each.
//!
//! Loading an executable runs its code: this crate is the one place of the workspace where bytes
//! become instructions (docs/unsafe.md).

#![deny(unsafe_code)]

mod command;
mod device;
mod driver;
pub mod executable;
mod platform;
mod queue;

pub use device::LocalSync;
pub use driver::{LOCAL_SYNC, LocalSyncDriver, LocalSyncOptions};
