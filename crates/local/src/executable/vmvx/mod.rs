//! VMVX: executables that are VM bytecode, and the microkernels that they call.
//!
//! ```text
//! executable: bytecode module --imports--> vmvx module --> kernels
//! ```
//!
//! `span` checks operands (buffer, offset, strides) and lends their bytes as slices. The kernels (`elementwise`,
//! `movement`, `mmt4d`, `tiles`) compute over slices and do not depend on the VM. Only `span` has unsafe code:
//! bytecode is untrusted, and can access only the bindings and constants of its dispatch.

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
