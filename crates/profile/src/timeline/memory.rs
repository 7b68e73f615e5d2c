//! Allocated bytes over time, as counters of devices and of their pools.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rehal_base::Result;

use super::trace::{Trace, Track, Value};
use crate::report::memory::{Kind, POOL_RESERVATION, POOL_STATS};
use crate::{MemoryEventType, layout};

/// Where the counters are among the tracks of a device: below its queues.
const RANK: i32 = 1 << 20;

/// The counters, and the bytes that they are at.
#[derive(Debug, Default)]
pub struct Memory {
    counters: HashMap<Key, Counter>,
    /// Pools of open allocations of queues, by device and allocation: their deallocations name no pool.
    pools: HashMap<(u32, u64), u64>,
}

/// The key of a counter: of a device, or of one of its pools if the id is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: u32,
    pool_id: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// Allocations that are open.
    Open(Kind),
    /// Bytes of a pool's reservations, from its statistics.
    Reserved,
    /// Bytes that a pool has allocated, from its statistics.
    Committed,
}

#[derive(Debug)]
struct Counter {
    track: Track,
    /// The last value, if there is one.
    bytes: Option<u64>,
}

impl Memory {
    /// Adds an event of a device, whose track is `device_track`.
    pub fn add(
        &mut self,
        event: &layout::MemoryEvent,
        time_ns: u64,
        device_track: Track,
        trace: &mut Trace<'_>,
    ) -> Result<()> {
        let device = event.physical_device_ordinal.get();
        let at = |pool_id, what| Key { device, pool_id, what };
        if let Some((kind, change)) = change_of(event) {
            let pool_id = self.pool_of(event, kind, change);
            let pools = if pool_id == 0 { &[0][..] } else { &[0, pool_id] };
            for pool in pools {
                let key = at(*pool, What::Open(kind));
                let counter = self.counter(key, device_track, trace)?;
                let bytes = change.apply(counter.bytes.unwrap_or(0), event.length.get());
                counter.bytes = Some(bytes);
                trace.count(counter.track, time_ns, Value::Unsigned(bytes))?;
            }
        }
        let pool_id = event.pool_id.get();
        if event.flags.get() & POOL_STATS != 0 && pool_id != 0 {
            for (what, bytes) in [
                (What::Reserved, event.pool_bytes_reserved.get()),
                (What::Committed, event.pool_bytes_committed.get()),
            ] {
                let counter = self.counter(at(pool_id, what), device_track, trace)?;
                if counter.bytes != Some(bytes) {
                    counter.bytes = Some(bytes);
                    trace.count(counter.track, time_ns, Value::Unsigned(bytes))?;
                }
            }
        }
        Ok(())
    }

    /// The pool of an event; that of the open allocation with its id if a queue's event names none.
    fn pool_of(&mut self, event: &layout::MemoryEvent, kind: Kind, change: Change) -> u64 {
        let key = (event.physical_device_ordinal.get(), event.allocation_id.get());
        let id = event.pool_id.get();
        match (kind, change) {
            (Kind::QueueAllocation, Change::Open) if id != 0 => {
                self.pools.insert(key, id);
                id
            }
            (Kind::QueueAllocation, Change::Close) => {
                let known = self.pools.remove(&key);
                if id == 0 { known.unwrap_or(0) } else { id }
            }
            _ => id,
        }
    }

    fn counter(&mut self, key: Key, device_track: Track, trace: &mut Trace<'_>) -> Result<&mut Counter> {
        Ok(match self.counters.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let track = trace.counter_track(device_track, &key.name(), RANK, None)?;
                new.insert(Counter { track, bytes: None })
            }
        })
    }
}

impl Key {
    fn name(&self) -> String {
        let what = match self.what {
            What::Open(kind) => plural(kind),
            What::Reserved => "reserved",
            What::Committed => "committed",
        };
        match self.pool_id {
            0 => format!("memory: {what}"),
            id => format!("memory of pool {id}: {what}"),
        }
    }
}

/// The effect of an event on the bytes that are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Open,
    Close,
}

impl Change {
    /// Closing what was opened before the session leaves nothing.
    pub(crate) fn apply(self, bytes: u64, length: u64) -> u64 {
        match self {
            Self::Open => bytes.saturating_add(length),
            Self::Close => bytes.saturating_sub(length),
        }
    }
}

/// The name of the allocations of a kind in charts.
pub(crate) const fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Slab => "slabs",
        Kind::PoolReservation => "pool reservations",
        Kind::QueueAllocation => "queue allocations",
        Kind::BufferAllocation => "buffers",
        Kind::ImportedBuffer => "imported buffers",
    }
}

/// The kind that an event allocates or frees, if it does.
pub(crate) fn change_of(event: &layout::MemoryEvent) -> Option<(Kind, Change)> {
    use MemoryEventType as Type;
    let event_type = Type(event.event_type.get());
    let change = match event_type {
        Type::POOL_RESERVE if event.flags.get() & POOL_RESERVATION == 0 => return None,
        Type::SLAB_ACQUIRE
        | Type::POOL_RESERVE
        | Type::QUEUE_ALLOCA
        | Type::BUFFER_ALLOCATE
        | Type::BUFFER_IMPORT => Change::Open,
        Type::SLAB_RELEASE
        | Type::POOL_RELEASE
        | Type::QUEUE_DEALLOCA
        | Type::BUFFER_FREE
        | Type::BUFFER_UNIMPORT => Change::Close,
        _ => return None,
    };
    Some((Kind::from_event_type(event_type)?, change))
}
