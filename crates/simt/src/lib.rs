//! A GPU's threads on the CPU: PTX, interpreted warp by warp, with checks that name the thread.
//!
//! The crate must not depend on the HAL, on captures, or on an API of GPUs. Emulated devices and tests use
//! it.
//!
//! A device calls it in four steps:
//! 1. [`Module::parse_ptx`] verifies the text of an executable, so that nothing fails later for its form.
//! 2. [`Image::load`] allocates its variables, once for each device.
//! 3. For each dispatch, the device chooses an address for each binding, writes these and the constants into
//!    the arguments ([`Function::parameters`] has the layout), and checks the [`Launch`] by
//!    [`Dispatch::new`].
//! 4. Its workers call [`Dispatch::run`], each with a closure that hands out ranges of blocks.
//!    [`Dispatch::report`] then has the count of instructions and the findings; a kernel that cannot end is a
//!    [`Fault`], which names where each warp is.
//!
//! Blocks that do not communicate have the same results for each number of workers. Blocks that do, by
//! atomic operations or by races, may take their turns in another order: the value that an operation
//! returns depends on it, and so does the rounding of a float sum (`atom.add.f32`), as on hardware. One
//! worker that runs the blocks in order gives the same results in each run. Each atomic operation is one of
//! the host, so that locks in global memory exclude the blocks of other workers.
//!
//! Memory is [`HostMemory`](rehal_base::HostMemory) at addresses of the launch's own: a region is looked up
//! for each access, so that an address never becomes a pointer, and the crate needs no unsafe code. The fast
//! path is two comparisons with the region of the last access.
//!
//! Approximate functions and the order of sums in matrix instructions are not those of hardware: results of
//! these differ from a GPU's in the last bits. All other arithmetic is exact to the bit.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "an error ends the parsing of a module; not a hot path")]

#[macro_use]
mod words;

mod engine;
mod fault;
mod finding;
mod function;
pub mod fuzzing;
mod launch;
mod limits;
mod module;
mod numbers;
mod ptx;
mod region;

pub use fault::{Cause, Fault, WarpAt};
pub use finding::{Finding, FindingKind, Target};
pub use function::{Function, Parameter, Symbol};
pub use launch::{Dispatch, Launch, Report};
pub use limits::{Limits, MAX_BLOCK_THREADS, MAX_SHARED_BYTES, VARIABLES_ADDRESS};
pub use module::{Image, Module};
pub use region::{Checks, Region};
