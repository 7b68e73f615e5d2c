//! Leaves out of a slice the pages of its contents that the work does not access.

use std::collections::HashMap;

use rehal_base::{Range, Result};

use super::BufferRanges;
use super::collect::{Collector, Content, Reading};
use super::cut::SlicePlan;
use super::isolated_work::Fill;
use super::shared::Shared;
use super::trim::Tested;
use crate::effects::{Ranges, overlap};

/// Contents up to this size stay: they are a page, or two that may be parts of one.
const SMALL_BYTES: usize = 4 << 10;
/// Ranges with fewer bytes between them are one.
const GAP_BYTES: u64 = 4 << 10;
/// Maximum number of parts of a content: the records of as many take less than 64 KiB.
const MAX_PARTS: usize = 256;

impl Shared<'_> {
    /// Leaves out what the work does not access when it is performed by itself, if it then writes the same
    /// bytes, also without what is left out. Work whose bytes are the same accesses the same pages.
    pub(super) fn keep_accessed(
        &self,
        found: &SlicePlan,
        collected: &mut Collector<'_>,
        tested: &mut Tested,
    ) -> Result<()> {
        let contents = collected.contents.iter().zip(&tested.unread);
        let may_shrink = contents.into_iter().any(|(it, unread)| !unread && it.bytes.len() > SMALL_BYTES);
        if self.options.watch.is_none() || !may_shrink {
            return Ok(());
        }
        let Some(accessed) = self.accessed(found, collected)? else { return Ok(()) };
        let (contents, narrowed) = tested.split(collected, |content| {
            let Some(accessed) = accessed.get(&content.buffer) else { return vec![content.all()] };
            let mut ranges = Ranges::default();
            for range in accessed.iter().filter_map(|it| overlap(*it, content.all())) {
                ranges.add(range);
            }
            ranges.joined_to(GAP_BYTES, MAX_PARTS)
        })?;
        let is_unchanged = |content: &Content| {
            let output = collected.output_of(content);
            output.is_none_or(|(output, at)| collected.outputs[output].bytes[at] == *content.bytes)
        };
        let left_out = contents.iter().zip(&narrowed.unread).zip(&narrowed.written);
        // What is not accessed does not change; what is known to be written was left out before.
        let mut left_out =
            left_out.filter(|((_, unread), written)| **unread && written.iter().next().is_none());
        if !left_out.all(|((content, _), _)| is_unchanged(content)) {
            return Ok(());
        }
        let whole = std::mem::replace(&mut collected.contents, contents);
        match self.is_same_without(found, collected, &narrowed.unread, &narrowed.written)? {
            true => *tested = Tested { is_checked: true, ..narrowed },
            false => collected.contents = whole,
        }
        Ok(())
    }

    /// The parts of its bindings that a dispatch accesses, in whole pages, by captured buffer; `None` if that
    /// is unknown, also because it cannot be performed by itself.
    pub(super) fn accessed_pages(&self, cut: &SlicePlan, collected: &Collector<'_>) -> Option<BufferRanges> {
        let pages = self.accessed(cut, collected).ok()??;
        let mut all = Vec::new();
        for (buffer, bound) in collected.touched() {
            let mut accessed = Ranges::default();
            for page in pages.get(&buffer)? {
                for part in bound.iter().filter_map(|range| overlap(*page, range)) {
                    accessed.add(part);
                }
            }
            let id = self.plan.buffer_ids[buffer as usize];
            all.extend(accessed.iter().map(|it| (id, it)));
        }
        Some(all)
    }

    /// The ranges that the work accesses of each buffer that is watched; `None` if it does not write the same
    /// bytes, or if that is unknown.
    fn accessed(&self, cut: &SlicePlan, slice: &Collector<'_>) -> Result<Option<HashMap<u32, Vec<Range>>>> {
        let devices = self.replay.devices().devices();
        let mut work = self.isolate_watched(devices, cut, slice)?;
        for content in &slice.contents {
            work.write(content, Fill::Captured)?;
        }
        // A system call that accesses watched memory fails, and so does the work then.
        let Ok(outputs) = work.run(&|_| Ok(())) else { return Ok(None) };
        let is_same = outputs.iter().eq(slice.outputs.iter().map(|it| &it.bytes));
        Ok(is_same.then_some(work.accessed))
    }
}

impl Tested {
    /// The contents of a slice without what is outside of the ranges to keep, and what is known of them.
    fn split(
        &self,
        collected: &Collector<'_>,
        keep: impl Fn(&Content) -> Vec<Range>,
    ) -> Result<(Vec<Content>, Self)> {
        let mut contents = Vec::with_capacity(collected.contents.len());
        let mut split = Self { unread: Vec::new(), written: Vec::new(), is_checked: false };
        for (index, content) in collected.contents.iter().enumerate() {
            let (mut kept, mut dropped) = (Vec::new(), Vec::new());
            if self.unread[index] {
                content.part(content.offset, content.all().end(), content.reading, &mut dropped)?;
                split.written.push(self.written[index].clone());
            } else {
                let mut at = content.offset;
                for range in keep(content) {
                    content.part(at, range.offset, Reading::Read, &mut dropped)?;
                    content.part(range.offset, range.end(), Reading::Read, &mut kept)?;
                    at = range.end();
                }
                content.part(at, content.all().end(), Reading::Read, &mut dropped)?;
                // Nothing that is not accessed is written.
                split.written.resize(split.written.len() + dropped.len(), Ranges::default());
            }
            split.unread.resize(split.unread.len() + dropped.len(), true);
            contents.append(&mut dropped);
            split.unread.resize(split.unread.len() + kept.len(), false);
            split.written.resize(split.written.len() + kept.len(), Ranges::default());
            contents.append(&mut kept);
        }
        Ok((contents, split))
    }
}
