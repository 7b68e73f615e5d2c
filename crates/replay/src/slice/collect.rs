//! Finds what a slice needs by replaying up to it: the bytes that its operations read, as they are before, and those that
//! they write, as they are afterwards.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use rehal_base::{Context, Error, Range, Result};
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{Buffer, HostOp, transfer};

use super::cut::{Found, Item};
use super::ranges::Ranges;
use crate::{AccessKind, Observer, Operation, Plan, RecordLocation};

/// Bytes of a buffer, by its index.
pub(super) struct Content {
    pub buffer: u32,
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Whether a kernel that they are bound to may not read them: it changes bytes of the binding.
    pub may_be_unread: bool,
}

/// Observes a replay until the slice ends.
pub(super) struct Collector<'p> {
    plan: &'p Plan,
    found: &'p Found,
    indices: HashMap<u64, u32>,
    /// The submissions of the slice, by the ordinals of their records.
    submissions: HashSet<u32>,
    /// The host writes of the slice that have not happened, by the ordinals of their records.
    host_writes: HashMap<u32, u32>,
    /// The buffers that the slice accesses.
    buffers: BTreeMap<u32, Buffer>,
    /// The bytes that the slice has accessed.
    touched: HashMap<u32, Ranges>,
    written: BTreeMap<u32, Ranges>,
    /// The ranges that kernels may have written without a change.
    bound: BTreeMap<u32, Ranges>,
    /// The digests of bound ranges before an operation, in its order.
    before: Vec<Option<blake3::Hash>>,
    /// The first of `contents` that the operation needs.
    first_content: usize,
    /// What operations read first, as it was.
    pub contents: Vec<Content>,
    /// What they wrote, as it is at the end.
    pub outputs: Vec<Content>,
    /// The bytes that submissions read from files, by the ordinals of their records.
    pub file_reads: HashMap<u32, Vec<Vec<u8>>>,
    is_finished: bool,
}

impl<'p> Collector<'p> {
    pub(super) fn new(plan: &'p Plan, found: &'p Found) -> Self {
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
        let indices = plan.buffer_ids.iter().copied().zip(0..).collect();
        Self {
            plan,
            found,
            indices,
            submissions,
            host_writes,
            buffers: BTreeMap::new(),
            touched: HashMap::new(),
            written: BTreeMap::new(),
            bound: BTreeMap::new(),
            before: Vec::new(),
            first_content: 0,
            contents: Vec::new(),
            outputs: Vec::new(),
            file_reads: HashMap::new(),
            is_finished: false,
        }
    }

    /// The buffers that the slice accesses, by index.
    pub(super) fn buffers(&self) -> impl Iterator<Item = u32> {
        self.buffers.keys().copied()
    }

    /// Fails unless the replay has reached the end of the slice.
    pub(super) fn check_finished(&self) -> Result<()> {
        match self.is_finished {
            true => Ok(()),
            false => Err(Error::data_loss("the replay ended before the work of the slice")),
        }
    }

    fn is_inside(&self, operation: &Operation<'_>) -> bool {
        match self.found.end {
            Some(_) => self.submissions.contains(&operation.submission.ordinal),
            None => {
                let Found { location, occurrence, .. } = *self.found;
                (operation.location, operation.occurrence) == (location, occurrence)
            }
        }
    }

    fn index(&self, buffer_id: u64) -> Result<u32> {
        self.indices.get(&buffer_id).copied().ok_or_else(|| Error::not_found(format!("buffer {buffer_id}")))
    }

    /// Keeps the bytes of a range that are accessed for the first time, if they are read.
    fn touch(&mut self, buffer: u32, handle: &Buffer, range: Range, reads: bool) -> Result<()> {
        self.buffers.entry(buffer).or_insert_with(|| handle.clone());
        for new in self.touched.entry(buffer).or_default().add(range) {
            if reads {
                let bytes = transfer::to_vec(handle, new.offset, new.length)?;
                self.contents.push(Content { buffer, offset: new.offset, bytes, may_be_unread: false });
            }
        }
        Ok(())
    }

    fn keep_outputs_of(&mut self, buffer: u32, handle: &Buffer) -> Result<()> {
        for range in
            self.written.remove(&buffer).into_iter().flat_map(|ranges| ranges.iter().collect::<Vec<_>>())
        {
            let bytes = transfer::to_vec(handle, range.offset, range.length)?;
            self.outputs.push(Content { buffer, offset: range.offset, bytes, may_be_unread: false });
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.is_finished {
            return Ok(());
        }
        self.is_finished = true;
        if self.written.is_empty() && self.outputs.is_empty() {
            self.written = std::mem::take(&mut self.bound);
        }
        for (buffer, handle) in self.buffers.clone() {
            self.keep_outputs_of(buffer, &handle)?;
        }
        Ok(())
    }

    fn begin(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.before.clear();
        self.first_content = self.contents.len();
        for it in operation.ranges {
            let buffer = self.index(it.buffer_id)?;
            let range = Range { offset: it.offset, length: it.length };
            match operation.kind {
                QueueOpKind::Alloca => continue,
                // Its bytes are gone afterwards.
                QueueOpKind::Dealloca => {
                    self.keep_outputs_of(buffer, it.buffer)?;
                    continue;
                }
                // A slice does not write files.
                QueueOpKind::Write => continue,
                _ => self.touch(buffer, it.buffer, range, it.access != AccessKind::Writes)?,
            }
            self.before.push(match it.access {
                AccessKind::Binds => Some(digest(it.buffer, range)?),
                _ => None,
            });
        }
        Ok(())
    }

    fn end(&mut self, operation: &Operation<'_>) -> Result<()> {
        let before = std::mem::take(&mut self.before);
        for (it, before) in operation.ranges.iter().zip(before) {
            let buffer = self.index(it.buffer_id)?;
            let range = Range { offset: it.offset, length: it.length };
            match (it.access, before) {
                (AccessKind::Writes, _) => {
                    self.written.entry(buffer).or_default().add(range);
                }
                (AccessKind::Binds, Some(before)) => {
                    self.bound.entry(buffer).or_default().add(range);
                    if digest(it.buffer, range)? != before {
                        self.written.entry(buffer).or_default().add(range);
                        let shares = |other: &&crate::AccessedRange<'_>| {
                            other.buffer_id == it.buffer_id
                                && Range { offset: other.offset, length: other.length }.overlaps(range)
                        };
                        // Of aliases, one may be read.
                        if operation.ranges.iter().filter(shares).count() == 1 {
                            self.mark_unread(buffer, range);
                        }
                    }
                }
                _ => {}
            }
            if operation.kind == QueueOpKind::Read {
                let bytes = transfer::to_vec(it.buffer, it.offset, it.length)?;
                self.file_reads.entry(operation.submission.ordinal).or_default().push(bytes);
            }
        }
        Ok(())
    }

    fn mark_unread(&mut self, buffer: u32, range: Range) {
        // Earlier operations read what they needed first.
        for content in self.contents[self.first_content..].iter_mut().filter(|it| it.buffer == buffer) {
            let end = content.offset + content.bytes.len() as u64;
            content.may_be_unread |= range.offset <= content.offset && end <= range.end();
        }
    }

    /// The host writes bytes, so that their values before are not needed.
    fn host_write(&mut self, op: u32) {
        if let HostOp::Unmap(at, Some(data)) | HostOp::Flush(at, Some(data)) = self.plan.host_ops[op as usize]
        {
            let range = Range { offset: at.offset, length: data.count };
            self.touched.entry(at.buffer).or_default().add(range);
        }
    }
}

impl Observer for Collector<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_submission(&mut self, submission: RecordLocation) -> bool {
        self.submissions.contains(&submission.ordinal)
    }

    fn wants_steps(&self) -> bool {
        self.found.end.is_some()
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        if let Some(op) = self.host_writes.remove(&location.ordinal) {
            self.host_write(op);
        }
        match self.found.end {
            Some(end) if end == location => self.finish(),
            _ => Ok(()),
        }
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.is_inside(operation) && !self.is_finished {
            self.begin(operation).context(|| "reading what the slice needs".to_string())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if !self.is_inside(operation) || self.is_finished {
            return Ok(ControlFlow::Continue(()));
        }
        self.end(operation).context(|| "reading what the slice wrote".to_string())?;
        if self.found.end.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        self.finish()?;
        Ok(ControlFlow::Break(()))
    }
}

fn digest(buffer: &Buffer, range: Range) -> Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    transfer::read_with(buffer, range.offset, range.length, |memory, range| {
        memory.for_each_chunk(range, |chunk| {
            hasher.update(chunk);
            Ok::<_, Error>(())
        })
    })?;
    Ok(hasher.finalize())
}
