use super::group::{Event, Group};
use super::memory::BlockMemory;

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
}

/// The place of a block in its launch.
#[derive(Clone, Copy)]
pub(crate) struct BlockPlace {
    pub block: [u32; 3],
    pub grid: [u32; 3],
    pub size: [u32; 3],
    pub dynamic_shared_bytes: u32,
}

/// The place of a warp in its launch.
pub(crate) struct WarpPlace {
    pub block: BlockPlace,
    /// In its block.
    pub index: u32,
}

/// A mask of the first lanes.
pub(crate) fn first_lanes(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
