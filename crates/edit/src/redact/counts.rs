//! The workgroup counts that dispatches read from buffers, which a replay knows and a plan does not.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use rehal_base::{Error, Range, Result, StatusCode};
use rehal_replay::{AccessKind, Observer, Operation, Plan, PlannedBinding, RecordLocation, Replay};

use super::rules::{RedactDecision, RedactRule};

/// The workgroup counts that the dispatches of a replay read from buffers, in the order of the run.
pub struct WorkgroupCounts(Vec<IndirectDispatch>);

/// A dispatch with a workgroup count in a buffer.
#[derive(Clone, Debug)]
struct IndirectDispatch {
    location: RecordLocation,
    occurrence: u64,
    count: [u32; 3],
}

/// A dispatch that has another workgroup count in the redacted capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChangedCount {
    /// The record of the dispatch in the original capture.
    pub location: RecordLocation,
    /// How often it has been performed before.
    pub occurrence: u64,
    /// The name of the function.
    pub function: String,
    /// The count in x, y and z in the original capture.
    pub original: [u32; 3],
    /// The count in the redacted capture.
    pub redacted: [u32; 3],
}

impl WorkgroupCounts {
    /// The counts of a replay of the original capture.
    pub fn from_replay(original: &Replay, reports: &mut dyn Observer) -> Result<Self> {
        let mut watch = Watch::for_plan(original.plan(), |this: &mut Vec<_>, seen, _| {
            this.push(seen);
            None
        })?;
        original.run(&mut [reports, &mut watch])?;
        Ok(Self(watch.state))
    }

    /// Replays the redacted capture up to the first dispatch with another count, which is not performed.
    /// `None` if there is none.
    pub fn compare(&self, redacted: &Replay, reports: &mut dyn Observer) -> Result<Option<ChangedCount>> {
        let mut watch = Watch::for_plan(redacted.plan(), |at: &mut usize, seen, operation| {
            let original = self.0.get(*at);
            *at += 1;
            let original = original?;
            (original.count != seen.count).then(|| original.changed(&seen, operation))
        })?;
        redacted.run(&mut [reports, &mut watch])?;
        match watch.changed {
            None if watch.state != self.0.len() => {
                Err(Error::new(StatusCode::Internal, "the redacted capture performs other dispatches"))
            }
            changed => Ok(changed),
        }
    }
}

impl IndirectDispatch {
    fn changed(&self, redacted: &Self, operation: &Operation<'_>) -> ChangedCount {
        ChangedCount {
            location: self.location,
            occurrence: self.occurrence,
            function: operation.dispatch.map_or_else(String::new, |it| it.name.to_owned()),
            original: self.count,
            redacted: redacted.count,
        }
    }
}

/// The names of the functions that may compute workgroup counts, by what dispatches are bound to: those that
/// may write a count, and those that may write what such a function uses if a rule keeps the data of that
/// one. Kept functions are left out.
pub fn workgroup_count_functions(plan: &Plan, rules: &[RedactRule]) -> Result<Vec<String>> {
    let keeps = |rule: &&RedactRule| rule.decision == RedactDecision::Keep;
    let is_kept = |name: &[u8]| rules.iter().filter(keeps).any(|it| it.selects_function(name));
    let (mut ranges, mut functions) = (HashSet::new(), BTreeSet::new());
    let range = |it: &PlannedBinding| (it.buffer_id, Range { offset: it.offset, length: it.length });
    plan.distinct_dispatches(|it, _| {
        ranges.extend(it.workgroup_count_ref.as_ref().map(range));
        Ok(())
    })?;
    let mut count = 0;
    while count < ranges.len() {
        count = ranges.len();
        let is_needed = |ranges: &HashSet<(u64, Range)>, it: &PlannedBinding| {
            let bound = range(it);
            ranges.iter().any(|(buffer, range)| *buffer == bound.0 && range.overlaps(bound.1))
        };
        plan.distinct_transfers(|it| {
            if let Some(source) = it.source.as_ref().filter(|_| is_needed(&ranges, &it.target)) {
                ranges.insert(range(source));
            }
        });
        plan.distinct_dispatches(|it, _| {
            let writes = |it: &&PlannedBinding| it.access != AccessKind::Reads;
            match it.bindings.iter().filter(writes).any(|it| is_needed(&ranges, it)) {
                true if is_kept(it.name) => ranges.extend(it.bindings.iter().map(range)),
                true => drop(functions.insert(String::from_utf8_lossy(it.name).into_owned())),
                false => {}
            }
            Ok(())
        })?;
    }
    Ok(functions.into_iter().collect())
}

/// Calls a function with each dispatch whose workgroup count is in a buffer, until it returns a change.
struct Watch<S, F> {
    /// The records of the dispatches: others are performed without observation.
    records: HashSet<u32>,
    state: S,
    see: F,
    changed: Option<ChangedCount>,
}

impl<S: Default, F> Watch<S, F>
where
    F: FnMut(&mut S, IndirectDispatch, &Operation<'_>) -> Option<ChangedCount>,
{
    fn for_plan(plan: &Plan, see: F) -> Result<Self> {
        let mut records = HashSet::new();
        plan.distinct_dispatches(|it, _| {
            if it.workgroup_count.is_none() {
                records.insert(it.location.ordinal);
            }
            Ok(())
        })?;
        Ok(Self { records, state: S::default(), see, changed: None })
    }
}

impl<S, F> Observer for Watch<S, F>
where
    F: FnMut(&mut S, IndirectDispatch, &Operation<'_>) -> Option<ChangedCount>,
{
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_command(&mut self, location: RecordLocation, _occurrence: u64) -> bool {
        self.records.contains(&location.ordinal)
    }

    // Counts must not depend on what was in memory before.
    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let Some(dispatch) = operation.dispatch.filter(|it| it.is_indirect) else {
            return Ok(ControlFlow::Continue(()));
        };
        let seen = IndirectDispatch {
            location: operation.location,
            occurrence: operation.occurrence,
            count: dispatch.workgroup_count,
        };
        self.changed = (self.see)(&mut self.state, seen, operation);
        Ok(match self.changed {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
    }
}
