use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rehal_base::Result;
use rehal_hal::{Indexed, QueueOp};

use super::estimate::of_bytes;
use super::times::CommandTimes;
use crate::executable::{LocalExecutable, workgroup_total};
use crate::execute::{Resolve, StoredNames, workgroup_count};

/// Bytes of a piece of a large copy or fill.
const PIECE_BYTES: u64 = 256 << 10;

/// How the tiles of one command of a stage map to its work. Written by the worker that begins the stage, and
/// read by those that take tiles of it. Relaxed accesses suffice: beginning the stage happens-before taking a
/// tile of it.
#[derive(Default)]
pub(super) struct Tiling {
    /// The first tile in the stage.
    first: AtomicU32,
    /// Workgroups or bytes.
    total: AtomicU64,
    /// Workgroups or bytes of a tile; the last may have less.
    per_tile: AtomicU64,
    /// Workgroup count of a dispatch, read once even if it is indirect.
    workgroup_count: [AtomicU32; 3],
    pub(super) times: CommandTimes,
}

/// The size of a command, computed when its stage begins.
pub(super) struct Size {
    /// At least one, so that arguments are checked even if there are no workgroups.
    pub(super) tiles: u32,
    /// Estimated duration in nanoseconds, if known.
    pub(super) cost: Option<u64>,
}

impl Tiling {
    /// Sets it for a command whose first tile is `first`, of at most `limit` tiles.
    pub(super) fn begin(
        &self,
        operation: &QueueOp<Indexed>,
        names: &StoredNames<'_, '_>,
        first: u32,
        limit: u32,
    ) -> Result<Size> {
        let mut size = Size { tiles: 1, cost: None };
        // Of the command before it, also if this one fails here.
        self.times.reset();
        self.set_workgroup_count([0; 3]);
        let (mut total, mut unit) = (1, 1);
        match operation {
            QueueOp::Dispatch(dispatch) => {
                let count = workgroup_count(dispatch, names)?;
                self.set_workgroup_count(count);
                total = workgroup_total(count);
                let executable = LocalExecutable::of(names.executable(dispatch.executable))?;
                size.cost = executable.cost(dispatch.function).and_then(|cost| cost.of(total));
            }
            QueueOp::Fill { target, .. } => {
                total = names.place(target)?.length();
                unit = PIECE_BYTES;
                size.cost = Some(of_bytes(total));
            }
            QueueOp::Copy { source, target, .. } => {
                let (source, target) = (names.place(source)?, names.place(target)?);
                total = target.length();
                // Pieces would overwrite what others have not read yet.
                unit = if source.overlaps(target) { total.max(1) } else { PIECE_BYTES };
                size.cost = Some(of_bytes(total));
            }
            QueueOp::Update { target, .. } => size.cost = Some(of_bytes(names.place(target)?.length())),
            _ => {}
        }
        let per_tile = total.div_ceil(u64::from(limit)).next_multiple_of(unit).max(unit);
        size.tiles = u32::try_from(total.div_ceil(per_tile)).unwrap_or(limit).max(1);
        self.first.store(first, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.per_tile.store(per_tile, Ordering::Relaxed);
        Ok(size)
    }

    /// The first tile in the stage.
    pub(super) fn first(&self) -> u32 {
        self.first.load(Ordering::Relaxed)
    }

    /// The workgroups or bytes of tiles of the stage that are all of this command.
    pub(super) fn part(&self, tiles: &Range<u32>) -> Range<u64> {
        let (first, total) = (self.first(), self.total.load(Ordering::Relaxed));
        let at = |tile: u32| u64::from(tile - first).saturating_mul(self.per_tile()).min(total);
        at(tiles.start)..at(tiles.end)
    }

    /// Workgroups or bytes of a tile.
    pub(super) fn per_tile(&self) -> u64 {
        self.per_tile.load(Ordering::Relaxed)
    }

    fn set_workgroup_count(&self, counts: [u32; 3]) {
        self.workgroup_count.iter().zip(counts).for_each(|(it, count)| it.store(count, Ordering::Relaxed));
    }

    /// The workgroup count of a dispatch, zeros of other commands.
    pub(super) fn workgroup_count(&self) -> [u32; 3] {
        self.workgroup_count.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}
