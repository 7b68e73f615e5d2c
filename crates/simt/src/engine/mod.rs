//! The warp engine: lanes, masks, divergence, barriers and memory, for any instruction set.
//!
//! A warp is split into groups of lanes with the same program counter and the same call stack. The group
//! at the least place runs, until it reaches the place of another one, which it joins. A group that waits, at
//! a barrier of the block or for other lanes of its warp, does not keep the others from running: a barrier
//! counts threads, as on hardware since sm_70.

mod barrier;
mod block;
mod group;
mod memory;
mod regions;
mod shadow;

pub(crate) use barrier::BarrierUse;
pub(crate) use block::{Block, BlockPlace};
pub(crate) use group::{Event, Group};
pub(crate) use memory::{ARGUMENT_WINDOW, BlockMemory, LOCAL_WINDOW, SHARED_WINDOW, Site, WINDOW_BYTES};
pub(crate) use regions::{Regions, Shared};
pub(crate) use shadow::GridShadow;

/// Decoded code of a kernel, with all functions that it calls.
pub(crate) trait InstructionSet: Sync {
    /// Lanes of a warp, at most 64.
    const LANES: u32;
    /// The registers of a warp.
    type Warp: Send;

    /// Registers for a warp.
    fn warp(&self) -> Self::Warp;

    /// Sets the registers to their values at the entry of the kernel.
    fn start(&self, warp: &mut Self::Warp, place: &WarpPlace);

    /// Runs a group from its place, until one of the events. `fuel` is the number of instructions that it may
    /// execute; each takes one.
    fn run(
        &self,
        warp: &mut Self::Warp,
        group: &mut Group,
        memory: &mut BlockMemory<'_>,
        fuel: &mut u64,
    ) -> Event;

    /// Stores what the barrier before `pc` returns to the lanes.
    fn store_barrier(&self, warp: &mut Self::Warp, pc: u32, mask: u64, value: u32);

    /// The place of an instruction in the text.
    fn place(&self, pc: u32) -> u32;

    /// Bytes of memory of each thread.
    fn local_bytes(&self) -> u32;

    /// Bytes of memory of a block that the code declares.
    fn shared_bytes(&self) -> u32;
}

/// The place of a warp in its launch.
pub(crate) struct WarpPlace {
    pub block: [u32; 3],
    pub grid: [u32; 3],
    pub block_size: [u32; 3],
    /// In its block.
    pub index: u32,
    pub dynamic_shared_bytes: u32,
}

/// A mask of the first lanes.
pub(crate) fn first_lanes(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
