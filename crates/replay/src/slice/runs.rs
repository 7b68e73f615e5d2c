//! The replays that reach the work of slices.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rehal_base::{Context, Error, Result};

use super::collect::Collector;
use super::cut::{Item, SlicePlan};
use super::shared::Shared;
use crate::effects::Unknown;
use crate::{AccessKind, Observer, Operation, RecordLocation};

/// Collects what the work of a scope accesses.
pub(super) struct ScopeRun<'s> {
    collector: Collector<'s>,
    end: RecordLocation,
    /// The submissions of the slice, by the ordinals of their records.
    submissions: HashSet<u32>,
    /// The host writes of the slice that have not happened, by the ordinals of their records.
    host_writes: HashMap<u32, u32>,
    is_finished: bool,
}

impl<'s> ScopeRun<'s> {
    pub(super) fn new(shared: &'s Shared<'s>, found: &SlicePlan, end: RecordLocation) -> Self {
        let (mut submissions, mut host_writes) = (HashSet::new(), HashMap::new());
        for item in &found.items {
            match *item {
                Item::Submission(_, location) | Item::Command { location, .. } => {
                    submissions.insert(location.ordinal);
                }
                Item::HostWrite(op, location) => {
                    host_writes.insert(location.ordinal, op);
                }
            }
        }
        Self { collector: Collector::new(shared), end, submissions, host_writes, is_finished: false }
    }

    /// The bytes that the scope accesses. Fails unless the replay has reached its end.
    pub(super) fn finish(self) -> Result<Collector<'s>> {
        match self.is_finished {
            true => Ok(self.collector),
            false => Err(unreached()),
        }
    }

    fn is_inside(&self, operation: &Operation<'_>) -> bool {
        !self.is_finished && self.submissions.contains(&operation.submission.ordinal)
    }
}

impl Observer for ScopeRun<'_> {
    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_submission(&mut self, submission: RecordLocation) -> bool {
        // The first after the scope ends the run.
        self.is_finished || self.submissions.contains(&submission.ordinal)
    }

    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        if let Some(op) = self.host_writes.remove(&location.ordinal) {
            self.collector.host_write(op);
        }
        if location == self.end && !self.is_finished {
            self.is_finished = true;
            self.collector.finish()?;
        }
        Ok(())
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.is_finished {
            return Ok(ControlFlow::Break(()));
        }
        if self.is_inside(operation) {
            self.collector.begin(operation).context(reading_before)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.is_inside(operation) {
            self.collector.end(operation).context(reading_after)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Collects what dispatches access, and passes each of them on as soon as it is complete.
pub(super) struct DispatchRun<'s, F> {
    shared: &'s Shared<'s>,
    founds: &'s [SlicePlan],
    /// The dispatches, by record and occurrence.
    sites: HashMap<(u32, u64), usize>,
    /// Their submissions, by the ordinals of the records.
    submissions: HashSet<u32>,
    current: Option<Collector<'s>>,
    /// If devices perform no dispatch.
    unknown: Option<Unknown>,
    begun: Instant,
    cut: F,
}

impl<'s, F: FnMut(usize, Collector<'s>, Duration) -> Result<()>> DispatchRun<'s, F> {
    /// `cut` is called with the index of a dispatch, what it accesses, and the time of the replay up to
    /// there.
    pub(super) fn new(shared: &'s Shared<'s>, founds: &'s [SlicePlan], cut: F) -> Self {
        let sites = founds.iter().zip(0..).map(|(it, index)| ((it.location.ordinal, it.occurrence), index));
        let submissions = founds.iter().map(|it| it.submission.ordinal);
        Self {
            shared,
            founds,
            sites: sites.collect(),
            submissions: submissions.collect(),
            current: None,
            unknown: shared
                .options
                .idle
                .as_ref()
                .map(|written| Unknown::new(shared.plan, shared.plan.written_by(|record| written(record)))),
            begun: Instant::now(),
            cut,
        }
    }

    /// Fails unless the replay has reached all of them.
    pub(super) fn finish(self) -> Result<()> {
        match self.sites.is_empty() {
            true => Ok(()),
            false => Err(unreached()),
        }
    }

    fn pass_on(&mut self, index: usize, collector: Collector<'s>, elapsed: Duration) -> Result<()> {
        let SlicePlan { location, occurrence, .. } = self.founds[index];
        self.sites.remove(&(location.ordinal, occurrence));
        (self.cut)(index, collector, elapsed)
    }

    fn site(&self, operation: &Operation<'_>) -> Option<usize> {
        operation.dispatch?;
        self.sites.get(&(operation.location.ordinal, operation.occurrence)).copied()
    }
}

impl<'s, F: FnMut(usize, Collector<'s>, Duration) -> Result<()>> Observer for DispatchRun<'s, F> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_submission(&mut self, submission: RecordLocation) -> bool {
        self.unknown.is_some() || self.submissions.contains(&submission.ordinal)
    }

    fn wants_steps(&self) -> bool {
        self.unknown.is_some()
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        self.unknown.iter_mut().for_each(|it| it.step(location));
        Ok(())
    }

    fn wants_command(&mut self, location: RecordLocation, occurrence: u64) -> bool {
        self.unknown.is_some() || self.sites.contains_key(&(location.ordinal, occurrence))
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let Some(index) = self.site(operation) else { return Ok(ControlFlow::Continue(())) };
        self.unknown.iter().try_for_each(|it| it.check(operation))?;
        let mut collector = Collector::new(self.shared);
        collector.begin(operation).context(reading_before)?;
        if !self.shared.options.unperformed {
            self.current = Some(collector);
            return Ok(ControlFlow::Continue(()));
        }
        let outputs = match &self.unknown {
            Some(unknown) => unknown.outputs(operation),
            None => operation.ranges.iter().filter(|it| it.access == AccessKind::Binds).collect(),
        };
        collector.assume_written(&outputs).and_then(|()| collector.finish()).context(reading_before)?;
        let elapsed = self.begun.elapsed();
        self.pass_on(index, collector, elapsed)?;
        // The dispatch is not performed, so nothing after it can be either.
        Ok(ControlFlow::Break(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.unknown.iter_mut().for_each(|it| it.add(operation));
        let (Some(index), Some(mut collector)) = (self.site(operation), self.current.take()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let elapsed = self.begun.elapsed();
        collector.end(operation).and_then(|()| collector.finish()).context(reading_after)?;
        self.pass_on(index, collector, elapsed)?;
        match self.sites.is_empty() {
            true => Ok(ControlFlow::Break(())),
            false => Ok(ControlFlow::Continue(())),
        }
    }
}

fn unreached() -> Error {
    Error::data_loss("the replay ended before the work of the slice")
}

fn reading_before() -> String {
    "reading what the slice needs".to_string()
}

fn reading_after() -> String {
    "reading what the slice wrote".to_string()
}
