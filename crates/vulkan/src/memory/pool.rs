use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};

use rehal_hal::BufferParams;

use super::{Allocation, Kind, Memory};
use crate::queue::{Core, Frontier};

/// Limit on the bytes that are kept for queues to allocate again.
const KEPT_BYTES: u64 = 256 << 20;

/// Memory that queues have deallocated, and from when on others may use it.
///
/// A queue's alloca may reuse what an earlier dealloca has freed as soon as it follows it in queue order: the
/// host does not wait for the work in between.
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
    /// Memory for a buffer of `length` bytes that the host allocates.
    pub(crate) fn allocate(&self, core: &Core, params: &BufferParams, length: u64) -> Result<Allocation> {
        let memory = core.memory();
        if memory.shares(params)
            && let Ok(allocation) = memory.allocate_shared(length, params.min_alignment)
        {
            return Ok(allocation);
        }
        // Where the device does not import as much, other memory is still what devices of CPUs share.
        self.allocate_new(core, &memory.kinds(params, length)?, length, params.min_alignment)
    }

    /// Memory for a buffer of `length` bytes whose alloca follows `after`; `params` are those that were
    /// granted.
    pub(crate) fn alloca(
        &self,
        core: &Core,
        params: &BufferParams,
        length: u64,
        after: &Frontier,
    ) -> Result<Arc<Allocation>> {
        let alignment = params.min_alignment;
        let (kinds, completed) = (core.memory().kinds(params, length)?, core.completed());
        let reused = kinds.iter().find_map(|kind| self.reuse(*kind, length, alignment, after, &completed));
        match reused {
            Some(allocation) => Ok(allocation),
            None => self.allocate_new(core, &kinds, length, alignment).map(Arc::new),
        }
    }

    /// Memory of the device, of the first of `kinds` that has as much. If none has, what queues have
    /// deallocated is released, at last by waiting until the device does not use it any more. Fails with the
    /// error of the first.
    pub(crate) fn allocate_new(
        &self,
        core: &Core,
        kinds: &[Kind],
        length: u64,
        alignment: u64,
    ) -> Result<Allocation> {
        let allocate = |kinds: &[Kind]| allocate_any(core.memory(), kinds, length, alignment);
        // What is about to be free is better than other memory.
        let mut outcome = allocate(kinds.get(..1).unwrap_or_default());
        if is_exhausted(&outcome) && (self.release(&core.completed(), 0) || kinds.len() > 1) {
            outcome = allocate(kinds);
        }
        if is_exhausted(&outcome) && length <= core.gpu().largest_block() && self.reclaim(core) {
            outcome = allocate(kinds);
        }
        outcome
    }

    /// Waits until the device does not use any of it, and releases it; returns whether there was any. All
    /// work that uses it is issued, so that it completes without the host.
    fn reclaim(&self, core: &Core) -> bool {
        let mut until = Frontier::default();
        for freed in &self.free.lock().entries {
            until.join(&freed.until);
        }
        while !core.wait(&until, None) {}
        // Submissions own the blocks that they used until they are settled.
        core.settle();
        self.release(&core.completed(), 0)
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
                && it.until.is_included_in_either(after, completed)
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
        if allocation.block().is_imported() {
            // It is returned to the host: reusing it would not save an allocation of the device's memory.
            return;
        }
        free.bytes += allocation.length();
        free.entries.push(Freed { allocation, alignment, until });
        let is_full = free.bytes > KEPT_BYTES;
        drop(free);
        if is_full {
            self.release(completed, KEPT_BYTES / 2);
        }
    }

    /// Releases memory that nothing uses any more until at most `keep` bytes are left; returns whether there
    /// was any.
    pub(crate) fn release(&self, completed: &Frontier, keep: u64) -> bool {
        let mut released = Vec::new();
        let mut free = self.free.lock();
        let Free { entries, bytes } = &mut *free;
        released.extend(entries.extract_if(.., |it| {
            let is_released = *bytes > keep && it.until.is_included_in_either(completed, completed);
            if is_released {
                *bytes -= it.allocation.length();
            }
            is_released
        }));
        drop(free);
        !released.is_empty()
    }
}

fn is_exhausted(outcome: &Result<Allocation>) -> bool {
    outcome.as_ref().is_err_and(|error| error.code() == StatusCode::ResourceExhausted)
}

/// Memory of the first of `kinds` that is not exhausted. Fails with the error of the first if all are.
fn allocate_any(memory: &Arc<Memory>, kinds: &[Kind], length: u64, alignment: u64) -> Result<Allocation> {
    let mut exhausted = None;
    for kind in kinds {
        match memory.allocate(*kind, length, alignment) {
            Err(error) if error.code() == StatusCode::ResourceExhausted => {
                exhausted.get_or_insert(error);
            }
            outcome => return outcome,
        }
    }
    Err(exhausted.unwrap_or_else(|| Error::invalid_argument("the device has no memory for the buffer")))
}
