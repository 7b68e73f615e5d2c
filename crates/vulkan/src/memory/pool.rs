use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::Result;

use super::{Allocation, Kind, Memory};
use crate::queue::Frontier;

/// Limit on the bytes that are kept for queues to allocate again.
const KEPT_BYTES: u64 = 256 << 20;

/// Memory that queues have deallocated, and from when on others may use it.
///
/// A queue's alloca may reuse what an earlier dealloca has freed as soon as it follows it in queue order: the host does not wait
/// for the work in between.
#[derive(Default)]
pub(crate) struct Pool {
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    entries: Vec<Freed>,
    bytes: u64,
}

struct Freed {
    allocation: Arc<Allocation>,
    alignment: u64,
    /// The work that may still use it.
    until: Frontier,
}

impl Pool {
    /// Memory for an alloca that follows `after`, of work that is complete up to `completed`.
    pub(crate) fn allocate(
        &self,
        memory: &Arc<Memory>,
        kind: Kind,
        length: u64,
        alignment: u64,
        after: &Frontier,
        completed: &Frontier,
    ) -> Result<Arc<Allocation>> {
        if let Some(allocation) = self.reuse(kind, length, alignment, after, completed) {
            return Ok(allocation);
        }
        match memory.allocate(kind, length, alignment) {
            Ok(allocation) => Ok(Arc::new(allocation)),
            Err(error) if self.release(completed, 0) => {
                memory.allocate(kind, length, alignment).map(Arc::new).map_err(|_| error)
            }
            Err(error) => Err(error),
        }
    }

    /// The smallest freed allocation that fits and is not much larger.
    fn reuse(
        &self,
        kind: Kind,
        length: u64,
        alignment: u64,
        after: &Frontier,
        completed: &Frontier,
    ) -> Option<Arc<Allocation>> {
        let mut free = self.free.lock();
        let limit = length.max(4096).saturating_mul(2);
        let fits = |it: &Freed| {
            it.allocation.block().kind() == kind
                && (length..=limit).contains(&it.allocation.length())
                && it.alignment >= alignment
                && it.until.is_within(after, completed)
                // Otherwise the host has it mapped, or work that no timepoint orders uses it.
                && Arc::strong_count(&it.allocation) == 1
        };
        let candidates = free.entries.iter().enumerate().filter(|(_, it)| fits(it));
        let (index, _) = candidates.min_by_key(|(_, it)| it.allocation.length())?;
        let freed = free.entries.swap_remove(index);
        free.bytes -= freed.allocation.length();
        Some(freed.allocation)
    }

    /// Keeps what a dealloca frees after `until`.
    pub(crate) fn deallocate(
        &self,
        allocation: Arc<Allocation>,
        alignment: u64,
        until: Frontier,
        completed: &Frontier,
    ) {
        let mut free = self.free.lock();
        free.bytes += allocation.length();
        free.entries.push(Freed { allocation, alignment, until });
        let is_full = free.bytes > KEPT_BYTES;
        drop(free);
        if is_full {
            self.release(completed, KEPT_BYTES / 2);
        }
    }

    /// Releases memory that nothing uses any more until at most `keep` bytes are left; returns whether there was any.
    pub(crate) fn release(&self, completed: &Frontier, keep: u64) -> bool {
        let mut released = Vec::new();
        let mut free = self.free.lock();
        let Free { entries, bytes } = &mut *free;
        released.extend(entries.extract_if(.., |it| {
            let is_released = *bytes > keep && it.until.is_within(completed, completed);
            if is_released {
                *bytes -= it.allocation.length();
            }
            is_released
        }));
        drop(free);
        !released.is_empty()
    }
}
