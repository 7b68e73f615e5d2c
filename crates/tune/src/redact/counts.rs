//! The workgroup counts that dispatches read from buffers, which a replay knows and a plan does not.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rehal_base::{Error, Result, StatusCode, glob};
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{WORKGROUP_COUNT_BYTES, transfer};
use rehal_replay::{AccessKind, AccessedRange, Observer, Operation, Plan, RecordLocation, Replay};

/// How many operations a count is followed back through.
const MAX_SOURCES: usize = 64;

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
    /// The buffer that it is read from, and the first byte.
    place: (u64, u64),
}

/// What wrote the bytes that determine a workgroup count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountSource {
    /// Its record.
    pub location: RecordLocation,
    /// The name of its function, if it is a dispatch.
    pub function: Option<String>,
}

impl WorkgroupCounts {
    /// Those of a replay of the original capture.
    pub fn of(original: &Replay, reports: &mut dyn Observer) -> Result<Self> {
        let mut watch = Watch::of(original.plan(), |this: &mut Vec<_>, seen, _| {
            this.push(seen);
            None
        })?;
        original.run(&mut [reports, &mut watch])?;
        Ok(Self(watch.state))
    }

    /// Replays the redacted capture up to the first dispatch with another count, which is not performed. `None` if there is none.
    pub fn compare(&self, redacted: &Replay, reports: &mut dyn Observer) -> Result<Option<ChangedCount>> {
        let mut watch = Watch::of(redacted.plan(), |at: &mut usize, seen, operation| {
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
            function: operation.dispatch.map_or_else(String::new, |it| it.info.name.clone()),
            original: self.count,
            redacted: redacted.count,
            // The workgroup count follows the bindings.
            place: operation.ranges.last().map_or((0, 0), |it| (it.buffer_id, it.offset)),
        }
    }
}

impl ChangedCount {
    /// Finds the last dispatch that determines the count, by replays of the original capture up to there: the one that changes the
    /// bytes of the count, or what is copied there, or else, if the data of its function is kept (`keep`), what that one accesses.
    pub fn source(
        &self,
        original: &Replay,
        keep: &[String],
        reports: &mut dyn Observer,
    ) -> Result<Option<CountSource>> {
        let mut search = Search {
            end: (self.location.ordinal, self.occurrence),
            ranges: vec![(self.place.0, self.place.1, WORKGROUP_COUNT_BYTES)],
            before: Vec::new(),
            found: None,
            may_write: None,
        };
        for _ in 0..MAX_SOURCES {
            original.run(&mut [&mut *reports, &mut search])?;
            // Data of fills and updates stays: if such a command wrote the bytes last, a kernel wrote the same ones again.
            let is_source = |it: &Found| it.source.function.is_some() || it.kind == QueueOpKind::Copy;
            let found = search.found.take();
            let found = found.filter(is_source).or(search.may_write.take());
            let Some(found) = found else { return Ok(None) };
            let is_kept = found.source.function.as_ref().map(|name| {
                keep.iter().any(|pattern| glob::matches_bytes(pattern.as_bytes(), name.as_bytes()))
            });
            if !is_kept.unwrap_or(found.kind == QueueOpKind::Copy) {
                return Ok(Some(found.source));
            }
            search = Search {
                end: found.site,
                ranges: found.inputs,
                before: Vec::new(),
                found: None,
                may_write: None,
            };
        }
        Ok(None)
    }
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
    fn of(plan: &Plan, see: F) -> Result<Self> {
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

/// Finds the last operation that changes some bytes before a dispatch.
struct Search {
    /// The record of the dispatch, and how often it has been performed before.
    end: (u32, u64),
    /// Where the bytes are: buffer, offset and length.
    ranges: Vec<(u64, u64, u64)>,
    /// The bytes that the operation may write, before it.
    before: Vec<u8>,
    found: Option<Found>,
    /// The last dispatch that may write them.
    may_write: Option<Found>,
}

struct Found {
    source: CountSource,
    kind: QueueOpKind,
    site: (u32, u64),
    /// What it accesses.
    inputs: Vec<(u64, u64, u64)>,
}

impl Search {
    /// The bytes that an operation may write, as they are now.
    fn bytes(&self, operation: &Operation<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for it in operation.ranges.iter().filter(|it| it.access != AccessKind::Reads) {
            for (_, offset, length) in self.ranges.iter().filter(|(buffer, ..)| *buffer == it.buffer_id) {
                let start = it.offset.max(*offset);
                let end = (it.offset + it.length).min(offset + length);
                if start < end {
                    bytes.extend(transfer::to_vec(it.buffer, start, end - start)?);
                }
            }
        }
        Ok(bytes)
    }
}

impl Observer for Search {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if (operation.location.ordinal, operation.occurrence) == self.end {
            return Ok(ControlFlow::Break(()));
        }
        self.before = match writes(operation.kind) {
            true => self.bytes(operation)?,
            false => Vec::new(),
        };
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let is_changed = writes(operation.kind) && self.before != self.bytes(operation)?;
        if is_changed || operation.dispatch.is_some() && !self.before.is_empty() {
            let range = |it: &AccessedRange<'_>| (it.buffer_id, it.offset, it.length);
            let inputs = operation.ranges.iter().filter(|it| it.access != AccessKind::Writes);
            let found = Some(Found {
                source: CountSource {
                    location: operation.location,
                    function: operation.dispatch.map(|it| it.info.name.clone()),
                },
                kind: operation.kind,
                site: (operation.location.ordinal, operation.occurrence),
                inputs: inputs.map(range).collect(),
            });
            match is_changed {
                true => self.found = found,
                false => self.may_write = found,
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Whether an operation changes the bytes of buffers that exist before and after it.
fn writes(kind: QueueOpKind) -> bool {
    !matches!(kind, QueueOpKind::Alloca | QueueOpKind::Dealloca)
}
