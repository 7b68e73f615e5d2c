//! Bytes in use over time, from the events of allocations.

use std::collections::HashMap;

use super::Builder;
use crate::MemoryEventType as Type;
use crate::layout;

/// [`layout::MemoryEvent::flags`]: it has the statistics of the pool.
const POOL_STATS: u32 = 1 << 4;

/// The memory events of a bundle.
#[derive(Default)]
pub(super) struct Memory {
    changes: Vec<Change>,
}

/// A change of the bytes in use.
#[derive(Clone, Copy)]
struct Change {
    at: i64,
    device: u32,
    kind: Kind,
    by: By,
}

/// Whose bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Slabs,
    PoolReservations,
    QueueAllocations,
    Buffers,
    Imports,
    Committed,
}

#[derive(Clone, Copy)]
enum By {
    Opening(u64),
    Closing(u64),
    /// The bytes that a pool has committed.
    Pool(u64, u64),
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Slabs => "slabs",
            Self::PoolReservations => "pool reservations",
            Self::QueueAllocations => "queue allocations",
            Self::Buffers => "buffers",
            Self::Imports => "imported buffers",
            Self::Committed => "committed by pools",
        }
    }
}

impl Memory {
    pub(super) fn add(&mut self, event: &layout::MemoryEvent) {
        let (at, device, bytes) =
            (event.host_time_ns.get(), event.physical_device_ordinal.get(), event.length.get());
        if at < 0 {
            return;
        }
        let change = match Type(event.event_type.get()) {
            Type::SLAB_ACQUIRE => Some((Kind::Slabs, By::Opening(bytes))),
            Type::SLAB_RELEASE => Some((Kind::Slabs, By::Closing(bytes))),
            Type::POOL_RESERVE => Some((Kind::PoolReservations, By::Opening(bytes))),
            Type::POOL_RELEASE => Some((Kind::PoolReservations, By::Closing(bytes))),
            Type::QUEUE_ALLOCA => Some((Kind::QueueAllocations, By::Opening(bytes))),
            Type::QUEUE_DEALLOCA => Some((Kind::QueueAllocations, By::Closing(bytes))),
            Type::BUFFER_ALLOCATE => Some((Kind::Buffers, By::Opening(bytes))),
            Type::BUFFER_FREE => Some((Kind::Buffers, By::Closing(bytes))),
            Type::BUFFER_IMPORT => Some((Kind::Imports, By::Opening(bytes))),
            Type::BUFFER_UNIMPORT => Some((Kind::Imports, By::Closing(bytes))),
            _ => None,
        };
        self.changes.extend(change.map(|(kind, by)| Change { at, device, kind, by }));
        if event.flags.get() & POOL_STATS != 0 {
            let by = By::Pool(event.pool_id.get(), event.pool_bytes_committed.get());
            self.changes.push(Change { at, device, kind: Kind::Committed, by });
        }
    }

    /// Adds a series per device and kind. What was allocated before the session began is not known: bytes do not become
    /// negative when it is freed.
    pub(super) fn add_to(mut self, builder: &mut Builder) {
        // Chunks of several devices are flushed one after another.
        self.changes.sort_by_key(|change| change.at);
        let mut totals: HashMap<(u32, Kind), u64> = HashMap::new();
        let mut committed: HashMap<(u32, u64), u64> = HashMap::new();
        for Change { at, device, kind, by } in self.changes {
            let total = totals.entry((device, kind)).or_default();
            *total = match by {
                By::Opening(bytes) => total.saturating_add(bytes),
                By::Closing(bytes) => total.saturating_sub(bytes),
                By::Pool(pool, bytes) => {
                    let before = committed.insert((device, pool), bytes).unwrap_or(0);
                    total.saturating_sub(before).saturating_add(bytes)
                }
            };
            builder.point(device, kind.name().as_bytes(), "bytes", at, *total as f64);
        }
    }
}
