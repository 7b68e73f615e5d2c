//! Which bytes of buffers kernels may have computed, in a replay whose devices perform no dispatch.

use std::collections::HashMap;

use rehal_base::{Error, Range, Result};
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{HostOp, WrittenBindings};

use super::{overlap, without};
use crate::plan::{RecordLocation, StepOp};
use crate::{AccessKind, AccessedRange, Operation, Plan};

/// The bytes whose values are not known, as a replay passes its operations.
pub(crate) struct Unknown {
    /// By captured id: ranges without overlap, each with the dispatch that may have written it.
    buffers: HashMap<u64, Vec<(Range, RecordLocation)>>,
    /// A dispatch whose results were written to a file. Any file may have them from then on.
    in_files: Option<RecordLocation>,
    /// By captured id of the executable: the bindings that its functions may write.
    written: HashMap<u64, WrittenBindings>,
    /// The ranges that the host writes, with the ids of the buffers, by the ordinals of their records.
    host_writes: HashMap<u32, (u64, Range)>,
}

impl Unknown {
    /// Before anything of a plan has run. `written` has an entry for each executable, or none.
    pub(crate) fn new(plan: &Plan, written: Vec<WrittenBindings>) -> Self {
        let ids = plan.executables().map(|it| it.id);
        let mut host_writes = HashMap::new();
        for step in &plan.steps {
            let StepOp::Host(op) = step.op else { continue };
            if let HostOp::Unmap(at, Some(data)) | HostOp::Flush(at, Some(data)) = plan.host_ops[op as usize]
            {
                let range = Range { offset: at.offset, length: data.count };
                host_writes.insert(step.location.ordinal, (plan.buffer_ids[at.buffer as usize], range));
            }
        }
        Self { buffers: HashMap::new(), in_files: None, written: ids.zip(written).collect(), host_writes }
    }

    /// The record at `location` is about to run.
    pub(crate) fn step(&mut self, location: RecordLocation) {
        if let Some((buffer, range)) = self.host_writes.remove(&location.ordinal) {
            self.set(buffer, range, None);
        }
    }

    /// An operation is complete.
    pub(crate) fn add(&mut self, operation: &Operation<'_>) {
        match operation.kind {
            QueueOpKind::Dispatch => {
                for it in self.outputs(operation) {
                    self.set(it.buffer_id, it.range(), Some(operation.location));
                }
            }
            QueueOpKind::Copy => {
                let [source, target, ..] = operation.ranges else { return };
                let parts: Vec<_> = self.parts(source.buffer_id, source.range()).collect();
                self.set(target.buffer_id, target.range(), None);
                for (part, origin) in parts {
                    let offset = target.offset + (part.offset - source.offset);
                    self.set(target.buffer_id, Range { offset, ..part }, Some(origin));
                }
            }
            QueueOpKind::Write => {
                let found = operation.ranges.iter().find_map(|it| self.first(it));
                self.in_files = self.in_files.or(found);
            }
            QueueOpKind::Read => self.set_all(operation, self.in_files),
            _ => self.set_all(operation, None),
        }
    }

    /// The bindings that a dispatch may write.
    pub(crate) fn outputs<'o>(&self, operation: &'o Operation<'o>) -> Vec<&'o AccessedRange<'o>> {
        let written = operation
            .dispatch
            .and_then(|it| self.written.get(&it.executable.id)?.get(it.function as usize)?.as_deref());
        let is_output = |ordinal: usize| written.is_none_or(|it| it.get(ordinal) != Some(&false));
        let bindings = operation.bindings().iter().enumerate();
        let outputs = bindings.filter(|(at, it)| it.access == AccessKind::Binds && is_output(*at));
        outputs.map(|(_, it)| it).collect()
    }

    /// Fails if an operation needs bytes that are not known; names the record that computes them.
    pub(crate) fn check(&self, operation: &Operation<'_>) -> Result<()> {
        for (at, it) in operation.ranges.iter().enumerate() {
            let Some(origin) = self.first(it).filter(|_| it.access != AccessKind::Writes) else { continue };
            let what = match at < operation.bindings().len() {
                true => format!("binding {at}"),
                false => "the workgroup count".to_owned(),
            };
            return Err(Error::failed_precondition(format!(
                "{what} has the result of record #{}, a dispatch, and no device of this machine performs it",
                origin.ordinal
            )));
        }
        Ok(())
    }

    fn set_all(&mut self, operation: &Operation<'_>, origin: Option<RecordLocation>) {
        for it in operation.ranges {
            self.set(it.buffer_id, it.range(), origin);
        }
    }

    /// The bytes of a range are from `origin`, or are known.
    fn set(&mut self, buffer: u64, range: Range, origin: Option<RecordLocation>) {
        if range.length == 0 || origin.is_none() && !self.buffers.contains_key(&buffer) {
            return;
        }
        let all = self.buffers.entry(buffer).or_default();
        let cut = |(it, origin): &(Range, RecordLocation)| {
            let rest = without(&[*it], [range].into_iter()).into_iter();
            rest.map(|it| (it, *origin)).collect::<Vec<_>>()
        };
        *all = all.iter().flat_map(cut).collect();
        all.extend(origin.map(|origin| (range, origin)));
    }

    /// The parts of a range that are not known.
    fn parts(&self, buffer: u64, range: Range) -> impl Iterator<Item = (Range, RecordLocation)> {
        let all = self.buffers.get(&buffer).into_iter().flatten();
        all.filter_map(move |(it, origin)| Some((overlap(*it, range)?, *origin)))
    }

    /// The first dispatch that may have computed some of these bytes.
    fn first(&self, it: &AccessedRange<'_>) -> Option<RecordLocation> {
        self.parts(it.buffer_id, it.range()).map(|(_, origin)| origin).min_by_key(|it| it.ordinal)
    }
}
