//! Screening: whether dispatches change just what a ledger says, for about the cost of what they change.
//!
//! Copies of all bindings would say where else a dispatch writes, and cost several times what its kernel does. Digests of
//! blocks say only whether anything does; a second, thorough pass then finds it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::ops;

use rehal_base::{Range, Result};
use rehal_hal::{Buffer, transfer};
use rehal_replay::{AccessKind, AccessedRange};
use twox_hash::XxHash3_64;

use crate::Entry;
use crate::written::{CHUNK_BYTES, each_chunk, merged, read, reserve, without};

/// Bytes of a block.
const BLOCK_BYTES: usize = 4 << 10;
/// Blocks that a thread reads at a time.
const CHUNK_BLOCKS: usize = CHUNK_BYTES / BLOCK_BYTES;
/// The digest of a block whose contents are not known.
const UNKNOWN: u64 = 0;

/// The bytes that the dispatches of a submission may change, by digests of blocks.
///
/// A block is known from the first dispatch on that binds it, until another operation writes it or the submission is complete:
/// the program may write it then. Before, it is compared, so that no change is missed.
#[derive(Default)]
pub(super) struct Screen {
    /// By the id in the capture.
    buffers: HashMap<u64, KnownBuffer>,
    /// What the dispatch should change.
    targets: Vec<Target>,
    /// Allocations to reuse.
    spare: Vec<Vec<u64>>,
    scratch: Vec<u64>,
    bytes: Vec<u8>,
    /// Something changed that should not have.
    has_changed: bool,
}

struct KnownBuffer {
    buffer: Buffer,
    /// Of each block, from the first one of the buffer on.
    digests: Vec<u64>,
    /// The blocks that may be known.
    span: ops::Range<usize>,
}

/// The bytes of a buffer that a dispatch should change.
struct Target {
    buffer_id: u64,
    /// The blocks that they are in.
    runs: Vec<ops::Range<usize>>,
    /// The other bytes of these blocks.
    kept: Vec<(Range, Vec<u8>)>,
}

impl Screen {
    /// Whether anything changed that should not have.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Before a dispatch that should change what `entry` says.
    pub(super) fn begin(&mut self, bindings: &[AccessedRange<'_>], entry: &Entry<'_>) -> Result<()> {
        for binding in bindings.iter().filter(|it| it.access != AccessKind::Reads && it.length != 0) {
            self.learn(binding)?;
        }
        self.targets.clear();
        let mut pieces: HashMap<u64, Vec<Range>> = HashMap::new();
        for range in &entry.ranges {
            let pieces = pieces.entry(range.buffer_id).or_default();
            let start = range.range.offset;
            pieces
                .extend(range.pieces.iter().map(|it| Range { offset: start + it.range.offset, ..it.range }));
        }
        for (buffer_id, pieces) in pieces {
            // An entry of other bindings is a mismatch, which is reported after the dispatch.
            let Some(known) = self.buffers.get(&buffer_id) else { continue };
            let pieces = merged(pieces);
            let runs = runs(&pieces);
            let size = known.buffer.size();
            let mut kept = Vec::new();
            for run in &runs {
                self.has_changed |= known.changed(run.clone(), &mut self.scratch)?;
            }
            let blocks: Vec<Range> = runs.iter().map(|run| bytes_of(run, size)).collect();
            for range in without(&blocks, pieces.iter().copied()) {
                let mut bytes = Vec::new();
                read(&known.buffer, range.offset, range.length, &mut bytes)?;
                kept.push((range, bytes));
            }
            self.targets.push(Target { buffer_id, runs, kept });
        }
        Ok(())
    }

    /// After the dispatch.
    pub(super) fn end(&mut self) -> Result<()> {
        for target in std::mem::take(&mut self.targets) {
            let Some(known) = self.buffers.get_mut(&target.buffer_id) else { continue };
            for (range, before) in &target.kept {
                read(&known.buffer, range.offset, range.length, &mut self.bytes)?;
                self.has_changed |= self.bytes != *before;
            }
            for run in target.runs {
                known.digest(run)?;
            }
        }
        Ok(())
    }

    /// Before an operation that is not a dispatch: what it overwrites is compared, and not known from then on.
    pub(super) fn overwrite(&mut self, ranges: &[AccessedRange<'_>]) -> Result<()> {
        for range in ranges.iter().filter(|it| it.access != AccessKind::Reads && it.length != 0) {
            let Some(known) = self.buffers.get_mut(&range.buffer_id) else { continue };
            let blocks = blocks_of(&Range { offset: range.offset, length: range.length });
            self.has_changed |= known.changed(blocks.clone(), &mut self.scratch)?;
            let end = blocks.end.min(known.digests.len());
            known.digests[blocks.start.min(end)..end].fill(UNKNOWN);
        }
        Ok(())
    }

    /// After a submission: compares all that is known, and releases the buffers.
    pub(super) fn submission_complete(&mut self) -> Result<()> {
        for (_, mut known) in self.buffers.drain() {
            self.has_changed |= known.changed(known.span.clone(), &mut self.scratch)?;
            known.digests.clear();
            self.spare.push(known.digests);
        }
        Ok(())
    }

    /// Digests the blocks of a binding that are not known.
    fn learn(&mut self, binding: &AccessedRange<'_>) -> Result<()> {
        let known = match self.buffers.entry(binding.buffer_id) {
            MapEntry::Occupied(known) => known.into_mut(),
            MapEntry::Vacant(vacant) => {
                let count = usize::try_from(binding.buffer.size().div_ceil(BLOCK_BYTES as u64));
                let mut digests = self.spare.pop().unwrap_or_default();
                let count = count.unwrap_or(usize::MAX);
                reserve(&mut digests, count)?;
                digests.resize(count, UNKNOWN);
                vacant.insert(KnownBuffer { buffer: binding.buffer.clone(), digests, span: 0..0 })
            }
        };
        let blocks = blocks_of(&Range { offset: binding.offset, length: binding.length });
        known.span = match known.span.is_empty() {
            true => blocks.clone(),
            false => known.span.start.min(blocks.start)..known.span.end.max(blocks.end),
        };
        let mut next = blocks.start;
        while let Some(first) = (next..blocks.end).find(|block| known.digests[*block] == UNKNOWN) {
            let is_known = |block: &usize| known.digests[*block] != UNKNOWN;
            next = (first..blocks.end).find(is_known).unwrap_or(blocks.end);
            known.digest(first..next)?;
        }
        Ok(())
    }
}

impl KnownBuffer {
    /// Makes blocks known.
    fn digest(&mut self, blocks: ops::Range<usize>) -> Result<()> {
        digest_blocks(&self.buffer, blocks.start, &mut self.digests[blocks])
    }

    /// Whether any of these blocks that is known has changed.
    fn changed(&self, blocks: ops::Range<usize>, scratch: &mut Vec<u64>) -> Result<bool> {
        let mut next = blocks.start;
        let is_known = |block: &usize| self.digests[*block] != UNKNOWN;
        while let Some(first) = (next..blocks.end).find(is_known) {
            next = (first..blocks.end).find(|block| !is_known(block)).unwrap_or(blocks.end);
            let known = &self.digests[first..next];
            scratch.clear();
            reserve(scratch, known.len())?;
            scratch.resize(known.len(), UNKNOWN);
            digest_blocks(&self.buffer, first, scratch)?;
            if scratch != known {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The digests of blocks of a buffer, from the block `first` on.
fn digest_blocks(buffer: &Buffer, first: usize, digests: &mut [u64]) -> Result<()> {
    let bytes = bytes_of(&(first..first + digests.len()), buffer.size());
    let mut rest = digests.chunks_mut(CHUNK_BLOCKS);
    transfer::read_with(buffer, bytes.offset, bytes.length, |memory, piece| {
        let count = (piece.length as usize).div_ceil(CHUNK_BYTES);
        each_chunk(rest.by_ref().take(count).collect(), |index, chunk| {
            let mut block = [0; BLOCK_BYTES];
            for (number, digest) in chunk.iter_mut().enumerate() {
                let at = (index * CHUNK_BYTES + number * BLOCK_BYTES) as u64;
                let bytes = &mut block[..(piece.length - at).min(BLOCK_BYTES as u64) as usize];
                memory.read(piece.offset + at, bytes)?;
                *digest = XxHash3_64::oneshot(bytes).max(UNKNOWN + 1);
            }
            Ok(())
        })
    })
}

/// The blocks that a range of a buffer is in.
fn blocks_of(range: &Range) -> ops::Range<usize> {
    let block = BLOCK_BYTES as u64;
    (range.offset / block) as usize..range.end().div_ceil(block) as usize
}

/// The range of blocks in a buffer of `size` bytes.
fn bytes_of(blocks: &ops::Range<usize>, size: u64) -> Range {
    let start = (blocks.start * BLOCK_BYTES) as u64;
    Range { offset: start, length: ((blocks.end * BLOCK_BYTES) as u64).min(size) - start }
}

/// The blocks that ranges are in; ranges are in order and do not overlap.
fn runs(ranges: &[Range]) -> Vec<ops::Range<usize>> {
    let mut runs: Vec<ops::Range<usize>> = Vec::new();
    for blocks in ranges.iter().map(blocks_of) {
        match runs.last_mut() {
            Some(last) if blocks.start <= last.end => last.end = last.end.max(blocks.end),
            _ => runs.push(blocks),
        }
    }
    runs
}
