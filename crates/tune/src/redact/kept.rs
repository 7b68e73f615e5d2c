//! Data that stays: what dispatches read workgroup counts from, what functions access whose data is to be kept, and what is copied
//! there.

use std::collections::HashMap;
use std::ops::Range as Part;

use rehal_base::{Error, Range, Result, glob};
use rehal_hal::WORKGROUP_COUNT_BYTES;
use rehal_hal::profile::QueueOpKind;
use rehal_replay::{AccessKind, DataKind, DataPlace, Plan, PlannedBinding, PlannedTransfer};

use super::hints::overlap;

/// How often all copies are followed. In one pass they are followed backwards, so that more than one is needed only if a command
/// buffer is executed again.
const MAX_PASSES: usize = 16;

/// The data of a capture that stays.
pub(crate) struct Kept {
    /// What dispatches read workgroup counts from.
    pub counts: Places,
    /// What functions access whose data is to be kept.
    pub stated: Places,
    /// Whether workgroup counts may depend on other data.
    pub counts_may_change: bool,
    /// Dispatches that read their workgroup count from a buffer, each performed one.
    pub indirect_dispatch_count: u64,
}

/// Where data stays.
#[derive(Default)]
pub(crate) struct Places {
    /// By buffer.
    buffers: HashMap<u64, Ranges>,
    /// The parts of the data of fills, updates and reads of files, by record.
    records: HashMap<u64, Ranges>,
    /// Whether not all copies could be followed.
    is_incomplete: bool,
}

/// Ranges in order, which neither overlap nor touch.
#[derive(Default)]
struct Ranges(Vec<Range>);

impl Kept {
    /// That of a plan. `functions` are patterns of the names of functions whose data stays; one that matches no dispatch is an error.
    pub(crate) fn of(plan: &Plan, functions: &[String]) -> Result<Self> {
        let mut this = Self {
            counts: Places::default(),
            stated: Places::default(),
            counts_may_change: false,
            indirect_dispatch_count: 0,
        };
        let mut used = vec![false; functions.len()];
        plan.distinct_dispatches(|dispatch, count| {
            this.indirect_dispatch_count += if dispatch.workgroup_count.is_none() { count } else { 0 };
            if let Some(it) = &dispatch.workgroup_count_ref {
                let length = it.length.min(WORKGROUP_COUNT_BYTES);
                this.counts.add(it.buffer_id, Range { offset: it.offset, length });
            }
            let mut is_kept = false;
            for (pattern, used) in functions.iter().zip(&mut used) {
                let matches = glob::matches_bytes(pattern.as_bytes(), dispatch.name);
                *used |= matches;
                is_kept |= matches;
            }
            if is_kept {
                for it in dispatch.bindings {
                    this.stated.add(it.buffer_id, range(it));
                }
            }
            Ok(())
        })?;
        if let Some(unused) = used.iter().position(|used| !used) {
            let message = format!("no function that is dispatched matches '{}'", functions[unused]);
            return Err(Error::invalid_argument(message).advise("name a function of the catalog of kernels"));
        }
        if this.counts.buffers.is_empty() && this.stated.buffers.is_empty() {
            return Ok(this);
        }
        let mut transfers = Vec::new();
        plan.distinct_transfers(|it| transfers.push(*it));
        this.counts.follow(&transfers);
        this.stated.follow(&transfers);
        this.counts_may_change = this.counts.may_change(plan, &transfers)?;
        Ok(this)
    }
}

impl Places {
    /// Adds a range of a buffer; returns whether any of it is new.
    fn add(&mut self, buffer: u64, range: Range) -> bool {
        self.buffers.entry(buffer).or_default().add(range)
    }

    /// Adds what is copied to the places, and the data that fills, updates and reads of files write there.
    fn follow(&mut self, transfers: &[PlannedTransfer]) {
        for _ in 0..MAX_PASSES {
            self.is_incomplete = false;
            for transfer in transfers.iter().rev() {
                let Some(source) = &transfer.source else { continue };
                for part in self.written_by(transfer) {
                    let offset = source.offset.saturating_add(part.start);
                    let length = (part.end - part.start).min(source.length.saturating_sub(part.start));
                    self.is_incomplete |= self.add(source.buffer_id, Range { offset, length });
                }
            }
            if !self.is_incomplete {
                break;
            }
        }
        for transfer in transfers.iter().filter(|it| it.source.is_none()) {
            let parts = self.written_by(transfer);
            if parts.is_empty() {
                continue;
            }
            let kept = self.records.entry(transfer.location.ordinal.into()).or_default();
            for part in parts {
                // A pattern has no part of its own for each byte.
                let whole = Range { offset: 0, length: u64::MAX };
                let part = Range { offset: part.start, length: part.end - part.start };
                kept.add(if transfer.kind == QueueOpKind::Fill { whole } else { part });
            }
        }
    }

    /// The parts of what a transfer writes that are kept, relative to its target.
    fn written_by(&self, transfer: &PlannedTransfer) -> Vec<Part<u64>> {
        let target = &transfer.target;
        let Some(ranges) = self.buffers.get(&target.buffer_id) else { return Vec::new() };
        ranges.parts(target.offset, target.length).collect()
    }

    /// Whether what is there may depend on data that does not stay: kernels write it, or it is in a file.
    fn may_change(&self, plan: &Plan, transfers: &[PlannedTransfer]) -> Result<bool> {
        let is_read = |it: &PlannedTransfer| it.kind == QueueOpKind::Read && !self.written_by(it).is_empty();
        let mut may_change = self.is_incomplete || transfers.iter().any(is_read);
        plan.distinct_dispatches(|dispatch, _| {
            may_change |= dispatch.bindings.iter().any(|it| {
                let ranges = self.buffers.get(&it.buffer_id).filter(|_| it.access != AccessKind::Reads);
                ranges.is_some_and(|ranges| ranges.parts(it.offset, it.length).next().is_some())
            });
            Ok(())
        })?;
        Ok(may_change)
    }

    /// The parts of the `length` bytes from `at` of data that stay, in order.
    pub(crate) fn parts(&self, place: &DataPlace, at: u64, length: usize) -> Vec<Part<usize>> {
        let (ranges, offset) = match (place.kind, place.target) {
            (DataKind::HostWrite | DataKind::Import, Some((buffer, offset))) => {
                (self.buffers.get(&buffer), offset.saturating_add(at))
            }
            _ => (self.records.get(&place.record), at),
        };
        let parts = ranges.into_iter().flat_map(|it| it.parts(offset, length as u64));
        parts.map(|part| part.start as usize..part.end as usize).collect()
    }
}

impl Ranges {
    /// Adds a range; returns whether any of it is new.
    fn add(&mut self, range: Range) -> bool {
        let end = range.offset.saturating_add(range.length);
        let first = self.0.partition_point(|it| it.end() < range.offset);
        let last = self.0.partition_point(|it| it.offset <= end);
        let old = &self.0[first..last];
        if range.length == 0 || old.iter().any(|it| it.offset <= range.offset && end <= it.end()) {
            return false;
        }
        let start = old.first().map_or(range.offset, |it| it.offset.min(range.offset));
        let end = old.last().map_or(end, |it| it.end().max(end));
        self.0.splice(first..last, [Range { offset: start, length: end - start }]);
        true
    }

    /// The parts of the `length` bytes at `offset` that are in the ranges, relative to these bytes.
    fn parts(&self, offset: u64, length: u64) -> impl Iterator<Item = Part<u64>> {
        let first = self.0.partition_point(|range| range.end() <= offset);
        self.0[first..].iter().map_while(move |range| overlap(*range, offset, length))
    }
}

fn range(it: &PlannedBinding) -> Range {
    Range { offset: it.offset, length: it.length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined() {
        let mut ranges = Ranges::default();
        let mut added = Vec::new();
        for (offset, length) in [(12, 1), (0, 4), (2, 6), (0, 8), (6, 4), (11, 0), (u64::MAX - 1, 9)] {
            added.push(ranges.add(Range { offset, length }));
        }
        assert_eq!(added, [true, true, true, false, true, false, true]);
        let found: Vec<_> = ranges.0.iter().map(|it| (it.offset, it.length)).collect();
        assert_eq!(found, [(0, 10), (12, 1), (u64::MAX - 1, 1)]);
        assert_eq!(ranges.parts(4, 20).collect::<Vec<_>>(), [0..6, 8..9]);
        assert_eq!(ranges.parts(10, 2).count(), 0);
    }
}
