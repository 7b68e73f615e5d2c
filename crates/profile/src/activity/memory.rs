//! Bytes in use over time, from the events of allocations.

use std::collections::HashMap;

use super::Builder;
use crate::layout;
use crate::report::memory::{Kind, POOL_STATS};
use crate::timeline::memory::{Change, change_of, plural};

/// The memory events of a bundle.
#[derive(Default)]
pub(super) struct Memory {
    steps: Vec<Step>,
}

/// A change of the bytes in use.
#[derive(Clone, Copy)]
struct Step {
    at: i64,
    device: u32,
    effect: Effect,
}

#[derive(Clone, Copy)]
enum Effect {
    /// Bytes of a kind are allocated or freed.
    Allocation(Kind, Change, u64),
    /// The bytes that a pool has committed.
    Committed(u64, u64),
}

/// The series of what pools have committed.
const COMMITTED: &str = "committed by pools";

impl Memory {
    pub(super) fn add(&mut self, event: &layout::MemoryEvent) {
        let (at, device) = (event.host_time_ns.get(), event.physical_device_ordinal.get());
        if at < 0 {
            return;
        }
        let mut add = |effect| self.steps.push(Step { at, device, effect });
        if let Some((kind, change)) = change_of(event) {
            add(Effect::Allocation(kind, change, event.length.get()));
        }
        let pool = event.pool_id.get();
        if event.flags.get() & POOL_STATS != 0 && pool != 0 {
            add(Effect::Committed(pool, event.pool_bytes_committed.get()));
        }
    }

    /// Adds a series per device and kind. What was allocated before the session began is not known: bytes do
    /// not become negative when it is freed.
    pub(super) fn add_to(mut self, builder: &mut Builder) {
        // Chunks of several devices are flushed one after another.
        self.steps.sort_by_key(|step| step.at);
        let mut totals: HashMap<(u32, &str), u64> = HashMap::new();
        let mut committed: HashMap<(u32, u64), u64> = HashMap::new();
        for Step { at, device, effect } in self.steps {
            let name = match effect {
                Effect::Allocation(kind, ..) => plural(kind),
                Effect::Committed(..) => COMMITTED,
            };
            let total = totals.entry((device, name)).or_default();
            *total = match effect {
                Effect::Allocation(_, change, bytes) => change.apply(*total, bytes),
                Effect::Committed(pool, bytes) => {
                    let before = committed.insert((device, pool), bytes).unwrap_or(0);
                    total.saturating_sub(before).saturating_add(bytes)
                }
            };
            builder.point(device, name.as_bytes(), "bytes", at, *total as f64);
        }
    }
}
