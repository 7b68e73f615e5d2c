//! Finds what a slice needs while a replay runs up to it: the bytes that its operations read, as they are
//! before, and those that they write, as they are afterwards.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rehal_base::{Error, OwnBytes, Range, Result};
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{Buffer, HostOp, transfer};

use super::shared::Shared;
use crate::effects::{ChangeTracker, Ranges};
use crate::{AccessKind, AccessedRange, Operation};

/// Bytes of a buffer, by its index.
pub(super) struct Content {
    pub buffer: u32,
    pub offset: u64,
    pub bytes: OwnBytes,
    pub reading: Reading,
}

/// Whether the work reads a content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As far as is known.
    Read,
    /// Maybe not: it is of a binding that a kernel changes.
    Unread,
    /// The same, but other bindings of the kernel have some of the bytes.
    Shared,
}

impl Content {
    /// Bytes of a buffer that are read as far as is known.
    pub(super) fn new(buffer: u32, offset: u64, bytes: OwnBytes) -> Self {
        Self { buffer, offset, bytes, reading: Reading::Read }
    }
}

/// The bytes that the operations of a slice access.
pub(super) struct Collector<'s> {
    shared: &'s Shared<'s>,
    /// The buffers that the slice accesses.
    buffers: BTreeMap<u32, Buffer>,
    /// The bytes that the slice has accessed.
    touched: HashMap<u32, Ranges>,
    written: BTreeMap<u32, Ranges>,
    /// Ranges that operations other than kernels wrote.
    pub transfers: HashMap<u32, Ranges>,
    /// The ranges that kernels may have written without a change.
    bound: BTreeMap<u32, Ranges>,
    changes: ChangeTracker,
    /// The first of `contents` that the operation needs.
    first_content: usize,
    /// Bytes that operations read first, as they were.
    pub contents: Vec<Content>,
    /// Bytes that they wrote, as they are at the end.
    pub outputs: Vec<Content>,
    /// The bytes that submissions read from files, by the ordinals of their records.
    pub file_reads: HashMap<u32, Vec<OwnBytes>>,
    /// When the operation began.
    begun: Instant,
    /// How long the operations took.
    pub duration: Duration,
}

impl<'s> Collector<'s> {
    pub(super) fn new(shared: &'s Shared<'s>) -> Self {
        Self {
            shared,
            buffers: BTreeMap::new(),
            touched: HashMap::new(),
            written: BTreeMap::new(),
            transfers: HashMap::new(),
            bound: BTreeMap::new(),
            changes: ChangeTracker::default(),
            first_content: 0,
            contents: Vec::new(),
            outputs: Vec::new(),
            file_reads: HashMap::new(),
            begun: Instant::now(),
            duration: Duration::ZERO,
        }
    }

    /// The buffers that the slice accesses, by index.
    pub(super) fn buffers(&self) -> impl Iterator<Item = u32> {
        self.buffers.keys().copied()
    }

    /// The ranges that it accesses, as far as is known, by buffer.
    pub(super) fn touched(&self) -> impl Iterator<Item = (u32, &Ranges)> {
        self.touched.iter().map(|(buffer, ranges)| (*buffer, ranges))
    }

    fn index(&self, buffer_id: u64) -> Result<u32> {
        let index = self.shared.buffers.get(&buffer_id);
        index.copied().ok_or_else(|| Error::not_found(format!("buffer {buffer_id}")))
    }

    /// Keeps the bytes of a range that are accessed for the first time, if they are read.
    fn touch(&mut self, buffer: u32, handle: &Buffer, range: Range, reads: bool) -> Result<()> {
        self.buffers.entry(buffer).or_insert_with(|| handle.clone());
        for new in self.touched.entry(buffer).or_default().add(range) {
            if reads {
                let bytes = transfer::to_own(handle, new.offset, new.length)?;
                self.contents.push(Content::new(buffer, new.offset, bytes));
            }
        }
        Ok(())
    }

    fn keep_outputs_of(&mut self, buffer: u32, handle: &Buffer) -> Result<()> {
        for range in
            self.written.remove(&buffer).into_iter().flat_map(|ranges| ranges.iter().collect::<Vec<_>>())
        {
            let bytes = transfer::to_own(handle, range.offset, range.length)?;
            self.outputs.push(Content::new(buffer, range.offset, bytes));
        }
        Ok(())
    }

    /// The last operation is complete.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.written.is_empty() && self.outputs.is_empty() {
            self.written = std::mem::take(&mut self.bound);
        }
        for (buffer, handle) in self.buffers.clone() {
            self.keep_outputs_of(buffer, &handle)?;
        }
        Ok(())
    }

    /// An operation of the slice is about to be performed.
    pub(super) fn begin(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.first_content = self.contents.len();
        for it in operation.ranges {
            let buffer = self.index(it.buffer_id)?;
            match operation.kind {
                // A slice does not write files.
                QueueOpKind::Alloca | QueueOpKind::Write => {}
                // Its bytes are gone afterwards.
                QueueOpKind::Dealloca => self.keep_outputs_of(buffer, it.buffer)?,
                _ => self.touch(buffer, it.buffer, it.range(), it.access != AccessKind::Writes)?,
            }
        }
        self.changes.begin(operation.bindings())?;
        self.begun = Instant::now();
        Ok(())
    }

    /// It is not performed: what it may write counts as written.
    pub(super) fn assume_written(&mut self, outputs: &[&AccessedRange<'_>]) -> Result<()> {
        for it in outputs {
            let buffer = self.index(it.buffer_id)?;
            self.written.entry(buffer).or_default().add(it.range());
        }
        Ok(())
    }

    /// It is complete.
    pub(super) fn end(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.duration += self.begun.elapsed();
        if matches!(operation.kind, QueueOpKind::Alloca | QueueOpKind::Dealloca | QueueOpKind::Write) {
            return Ok(());
        }
        self.changes.end()?;
        for (it, ordinal) in operation.ranges.iter().zip(0..) {
            let (buffer, range) = (self.index(it.buffer_id)?, it.range());
            match it.access {
                AccessKind::Reads => {}
                AccessKind::Writes => {
                    self.written.entry(buffer).or_default().add(range);
                    self.transfers.entry(buffer).or_default().add(range);
                }
                AccessKind::Binds => {
                    self.bound.entry(buffer).or_default().add(range);
                    if self.changes.binding(ordinal).is_some_and(|it| !it.changes.is_empty()) {
                        self.written.entry(buffer).or_default().add(range);
                        let shares = |other: &&AccessedRange<'_>| {
                            other.buffer_id == it.buffer_id && other.range().overlaps(range)
                        };
                        // Of aliases, one may be read.
                        self.mark(
                            buffer,
                            range,
                            match operation.ranges.iter().filter(shares).count() {
                                1 => Reading::Unread,
                                _ => Reading::Shared,
                            },
                        );
                    }
                }
            }
            if operation.kind == QueueOpKind::Read {
                let bytes = transfer::to_own(it.buffer, it.offset, it.length)?;
                self.file_reads.entry(operation.submission.ordinal).or_default().push(bytes);
            }
        }
        self.changes.release();
        Ok(())
    }

    fn mark(&mut self, buffer: u32, range: Range, reading: Reading) {
        // Earlier operations read what they needed first.
        for content in self.contents[self.first_content..].iter_mut().filter(|it| it.buffer == buffer) {
            let end = content.offset + content.bytes.len() as u64;
            if range.offset <= content.offset && end <= range.end() {
                content.reading = reading;
            }
        }
    }

    /// The host writes bytes, so that their values before are not needed.
    pub(super) fn host_write(&mut self, op: u32) {
        let op = &self.shared.plan.host_ops[op as usize];
        if let HostOp::Unmap(at, Some(data)) | HostOp::Flush(at, Some(data)) = op {
            let range = Range { offset: at.offset, length: data.count };
            self.touched.entry(at.buffer).or_default().add(range);
        }
    }
}
