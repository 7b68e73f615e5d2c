//! The CPU: executables as native code, and the drivers that run them.
//!
//! It must never know captures, modules or tools. Replay, the conformance suite and the tools use it.
//!
//! Loading an executable runs its code: this crate is the one place of the workspace where bytes
//! become instructions (docs/unsafe.md).

pub mod executable;
mod platform;
