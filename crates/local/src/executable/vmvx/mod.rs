//! VMVX: executables that are VM bytecode, and the microkernels that they call.
//!
//! ```text
//! executable: bytecode module --imports--> vmvx module --> kernels
//! ```
//!
//! `span` checks operands (buffer, offset, strides) and lends their bytes as slices. The kernels
//! (`elementwise`, `movement`, `mmt4d`, `tiles`) compute over slices and do not depend on the VM. Only `span`
//! has unsafe code: bytecode is untrusted, and can access only the bindings and constants of its dispatch.
//!
//! An executable has one context; a thread has one invocation and one list of bindings for all workgroups
//! that it runs of a dispatch. Most workgroups are short, so starting one must cost little: bindings are read
//! without a lock (`List::from_buffers`), and arguments that the function does not use are not passed
//! (`vm/src/lower/unused.rs`). The kernels' loops are compiled for the CPU's widest vectors
//! (`platform::with_vectors`); only products of `i8` use intrinsics.

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
