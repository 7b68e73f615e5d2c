//! The warp engine: lanes, masks, divergence, barriers and memory, for any instruction set.
//!
//! A warp is split into groups of lanes with the same program counter and the same call stack. The group
//! at the least place runs, until it reaches the place of another one, which it joins. A group that waits, at
//! a barrier of the block or for other lanes of its warp, does not keep the others from running: a barrier
//! counts threads, as on hardware since sm_70.

mod barrier;
mod block;
mod group;
mod instruction_set;
mod memory;
mod order;
mod regions;
mod shadow;
mod windows;

pub(crate) use barrier::BarrierUse;
pub(crate) use block::Block;
pub(crate) use group::{Action, Event, Group};
pub(crate) use instruction_set::{BlockPlace, InstructionSet, WarpPlace};
pub(crate) use memory::{BlockMemory, Site};
pub(crate) use regions::{Regions, Shared};
pub(crate) use shadow::Shadow;
pub(crate) use windows::{ARGUMENT_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
