//! VMVX: executables that are programs of the VM, and the microkernels that they call.
//!
//! ```text
//! executable: bytecode module --imports--> vmvx module --> kernels
//! ```
//!
//! `span` gets from what a program names (buffer, offset, strides) to bytes, with every check; the
//! kernels (`elementwise`, `movement`, `mmt4d`, `tiles`) compute over slices and know nothing of the
//! VM. Nothing in this folder is unsafe: whatever the bytecode holds, it reads and writes only the
//! bindings and constants of its dispatch.

#![deny(unsafe_code)]

mod elementwise;
mod executable;
mod mmt4d;
mod module;
mod movement;
mod span;
mod tile_sizes;
mod tiles;

pub(crate) use executable::VmvxExecutable;

#[cfg(test)]
mod random;
