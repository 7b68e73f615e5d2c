//! Leaves out of a slice the bytes that its work overwrites without reading them, and out of its reads those
//! that it does not write.

use std::ops::Range as Span;
use std::time::Duration;

use rehal_base::{Range, Result};

use super::collect::{Collector, Content, Reading};
use super::cut::SlicePlan;
use super::isolated_work::{Fill, patterns};
use super::shared::Shared;
use crate::effects::{Ranges, changes, overlap};

/// Ranges with fewer bytes between them are one: the records of another take more.
const GAP_BYTES: u64 = 256;
/// Maximum number of parts of a content, and of the reads of a range.
const MAX_PARTS: usize = 64;
/// Maximum number of contents that are tested one by one.
const MAX_TESTS: usize = 16;

/// The outcomes of tests of a slice, by content.
pub(super) struct Tested {
    /// Which contents have no effect on what the work writes, all of it.
    pub unread: Vec<bool>,
    /// The bytes of those that it writes, by offset in the buffer.
    pub written: Vec<Ranges>,
    /// Whether the work without them wrote the same bytes as in the whole capture.
    pub is_checked: bool,
}

impl Shared<'_> {
    /// Finds contents that the work does not read, by performing it with other bytes in their place, and
    /// without them if the slice is checked; otherwise only those that are zeros, as new memory is here. What
    /// is both changed and bound more than once is tested only if that is cheap.
    pub(super) fn test(
        &self,
        found: &SlicePlan,
        collected: &mut Collector<'_>,
        is_cheap: bool,
    ) -> Result<Tested> {
        let keeps_outputs = self.options.keep_outputs || self.options.unperformed;
        let reading = if keeps_outputs || !is_cheap { Reading::Read } else { Reading::Unread };
        collected.split(Reading::Shared, reading)?;
        let mut tested = Tested::from_collector(collected);
        let checks = self.checks(is_cheap);
        let candidates = collected.candidates(checks);
        if keeps_outputs || !candidates.contains(&true) {
            return Ok(tested);
        }
        if tested.passes(self, found, collected, &candidates, checks)? || !is_cheap {
            return Ok(tested);
        }
        // What a binding contains besides what is changed may be read.
        if collected.split(Reading::Unread, Reading::Unread)? {
            tested = Tested::from_collector(collected);
            if tested.passes(self, found, collected, &collected.candidates(checks), checks)? {
                return Ok(tested);
            }
        }
        let candidates = collected.candidates(checks);
        let count = candidates.iter().filter(|it| **it).count();
        if (2..=MAX_TESTS).contains(&count) {
            for index in (0..candidates.len()).filter(|index| candidates[*index]) {
                let mut which = tested.unread.clone();
                which[index] = true;
                tested.passes(self, found, collected, &which, checks)?;
            }
        }
        Ok(tested)
    }

    /// The bytes of contents that the work writes, if they have no effect on what it writes, all of it.
    fn written_without(
        &self,
        found: &SlicePlan,
        collected: &Collector<'_>,
        which: &[bool],
    ) -> Result<Option<Vec<Ranges>>> {
        /// Of this many bytes, any value that is read meets each of the patterns often enough.
        const MANY_BYTES: usize = 4096;
        let bytes = collected.contents.iter().zip(which).filter(|(_, is)| **is);
        let fewest = bytes.map(|(content, _)| content.bytes.len()).min().unwrap_or(0);
        let rounds = if fewest < MANY_BYTES { 2 } else { 1 };
        let mut written = vec![Ranges::default(); which.len()];
        for round in 0..rounds {
            let fill = |index: usize| if which[index] { Fill::Patterns(round) } else { Fill::Captured };
            let mut outputs = self.perform(found, collected, &fill)?;
            for (index, content) in collected.contents.iter().enumerate().filter(|(at, _)| which[*at]) {
                let Some((output, at)) = collected.output_of(content) else { return Ok(None) };
                let after = &collected.outputs[output].bytes[at.clone()];
                let filled = patterns(&content.bytes, round);
                let actual = &mut outputs[output][at];
                let is_written = |at: usize| actual[at] != filled[at] || content.bytes[at] != after[at];
                let spans = spans(content.bytes.len(), is_written);
                spans.iter().for_each(|span| drop(written[index].add(content.range(span))));
                // What it did not write is what was there.
                let mut from = 0;
                for span in spans.iter().cloned().chain(std::iter::once(after.len()..after.len())) {
                    actual[from..span.start].copy_from_slice(&after[from..span.start]);
                    from = span.end;
                }
            }
            if !outputs.iter().eq(collected.outputs.iter().map(|it| &it.bytes)) {
                return Ok(None);
            }
        }
        Ok(Some(written))
    }

    /// Whether the work writes the same bytes if contents are left out, as a replay of the slice performs it.
    /// A kernel may tell what new memory has there, such as zeros, from everything else. Of these contents,
    /// only the bytes that are `written` are read.
    pub(super) fn is_same_without(
        &self,
        found: &SlicePlan,
        collected: &Collector<'_>,
        which: &[bool],
        written: &[Ranges],
    ) -> Result<bool> {
        let fill = |index: usize| if which[index] { Fill::Nothing } else { Fill::Captured };
        let mut outputs = self.perform(found, collected, &fill)?;
        for (index, content) in collected.contents.iter().enumerate().filter(|(at, _)| which[*at]) {
            // What is not accessed need not be in an output.
            let Some((output, at)) = collected.output_of(content) else { continue };
            let (actual, after) = (&mut outputs[output][at.clone()], &collected.outputs[output].bytes[at]);
            let mut from = 0;
            let ends = written[index].iter().map(|it| content.span(it));
            for span in ends.chain(std::iter::once(after.len()..after.len())) {
                actual[from..span.start].copy_from_slice(&after[from..span.start]);
                from = span.end;
            }
        }
        Ok(outputs.iter().eq(collected.outputs.iter().map(|it| &it.bytes)))
    }
}

impl Tested {
    /// Nothing is known.
    fn from_collector(collected: &Collector<'_>) -> Self {
        let count = collected.contents.len();
        Self { unread: vec![false; count], written: vec![Ranges::default(); count], is_checked: false }
    }

    /// Tests contents together, and `checks` what is left; keeps the result if they have no effect.
    fn passes(
        &mut self,
        shared: &Shared<'_>,
        found: &SlicePlan,
        collected: &Collector<'_>,
        which: &[bool],
        checks: bool,
    ) -> Result<bool> {
        let Some(written) = shared.written_without(found, collected, which)? else { return Ok(false) };
        if checks && !shared.is_same_without(found, collected, which, &written)? {
            return Ok(false);
        }
        *self = Self { unread: which.to_vec(), written, is_checked: checks };
        Ok(true)
    }

    /// Narrows the outputs to what the work writes: changed units of 16 bytes, or bytes that it is known to
    /// write.
    pub(super) fn narrow(&mut self, collected: &mut Collector<'_>) -> Result<()> {
        let mut narrowed = Vec::new();
        let mut stored = Vec::new();
        for output in &collected.outputs {
            let written = self.written_in(collected, output);
            for range in self.joined(collected, output, &written) {
                narrowed.push(output.cut(range, output.reading)?);
                // What is between would be whatever new memory contains.
                let dropped = collected.contents.iter().zip(&self.unread).filter(|(_, unread)| **unread);
                for (content, _) in dropped.filter(|(it, _)| it.buffer == output.buffer) {
                    if let Some(part) = overlap(content.all(), range)
                        && !written.covers(part)
                    {
                        stored.push(content.cut(part, Reading::Read)?);
                    }
                }
            }
        }
        // Work that changes nothing: what it wrote is unknown, and all of it is read.
        if narrowed.is_empty() {
            let is_read = |it: &Content| {
                collected
                    .outputs
                    .iter()
                    .any(|output| output.buffer == it.buffer && overlap(output.all(), it.all()).is_some())
            };
            for (content, unread) in collected.contents.iter().zip(&mut self.unread) {
                *unread &= !is_read(content);
            }
            return Ok(());
        }
        collected.outputs = narrowed;
        self.unread.extend(stored.iter().map(|_| false));
        collected.contents.append(&mut stored);
        Ok(())
    }

    /// The bytes of an output that the work writes.
    fn written_in(&self, collected: &Collector<'_>, output: &Content) -> Ranges {
        let mut written = Ranges::default();
        // What is not read first is written first.
        let contents = || collected.contents.iter().enumerate().filter(|(_, it)| it.buffer == output.buffer);
        let mut first = Ranges::default();
        contents().for_each(|(_, it)| drop(first.add(it.all())));
        for range in first.add(output.all()) {
            written.add(range);
        }
        let transfers = collected.transfers.get(&output.buffer).into_iter().flat_map(Ranges::iter);
        for range in transfers.filter_map(|it| overlap(it, output.all())) {
            written.add(range);
        }
        for (index, content) in contents() {
            let Some(part) = overlap(content.all(), output.all()) else { continue };
            if self.unread[index] {
                let known = self.written[index].iter().filter_map(|it| overlap(it, part));
                known.for_each(|it| drop(written.add(it)));
            } else {
                let (before, after) = (&content.bytes[content.span(part)], &output.bytes[output.span(part)]);
                for it in changes(before, after) {
                    written.add(Range { offset: part.offset + it.offset, length: it.length });
                }
            }
        }
        written
    }

    /// The ranges to read: those written, joined if there is little between them that the slice contains.
    fn joined(&self, collected: &Collector<'_>, output: &Content, written: &Ranges) -> Vec<Range> {
        let is_dropped = |gap: Range| {
            let dropped = collected.contents.iter().zip(&self.unread).filter(|(_, unread)| **unread);
            let mut dropped = dropped.filter(|(it, _)| it.buffer == output.buffer);
            dropped.any(|(it, _)| overlap(it.all(), gap).is_some())
        };
        let joined = written.joined(|gap| gap.length < GAP_BYTES && !is_dropped(gap));
        if joined.len() <= MAX_PARTS {
            return joined;
        }
        written.joined_to(GAP_BYTES, MAX_PARTS)
    }
}

impl Collector<'_> {
    /// Which contents may be unread. New memory may have other values in place of them, such as zeros, which
    /// a kernel may tell from everything else: if the work is not also performed with new memory, only
    /// contents of zeros are left out.
    fn candidates(&self, checks: bool) -> Vec<bool> {
        let is_zero = |it: &Content| it.bytes.iter().all(|byte| *byte == 0);
        let is_candidate = |it: &Content| {
            it.reading == Reading::Unread && self.output_of(it).is_some() && (checks || is_zero(it))
        };
        self.contents.iter().map(is_candidate).collect()
    }

    /// The output that contains a content, and where.
    pub(super) fn output_of(&self, content: &Content) -> Option<(usize, Span<usize>)> {
        let is_inside = |it: &Content| {
            it.buffer == content.buffer && overlap(it.all(), content.all()) == Some(content.all())
        };
        let index = self.outputs.iter().position(is_inside)?;
        Some((index, self.outputs[index].span(content.all())))
    }

    /// Splits contents into what is changed, which becomes `changed`, and what is not, which is kept. Returns
    /// whether that made a difference.
    fn split(&mut self, which: Reading, changed: Reading) -> Result<bool> {
        let mut parts = Vec::with_capacity(self.contents.len());
        let unread_bytes = |contents: &[Content]| -> usize {
            contents.iter().filter(|it| it.reading == Reading::Unread).map(|it| it.bytes.len()).sum()
        };
        let previously = unread_bytes(&self.contents);
        for mut content in std::mem::take(&mut self.contents) {
            let output = if content.reading == which { self.output_of(&content) } else { None };
            let Some((output, at)) = output else {
                parts.push(content);
                continue;
            };
            let after = &self.outputs[output].bytes[at];
            let mut ranges = Ranges::default();
            changes(&content.bytes, after).into_iter().for_each(|it| drop(ranges.add(it)));
            content.reading = Reading::Read;
            if changed == Reading::Read {
                parts.push(content);
                continue;
            }
            let mut from = content.offset;
            for range in ranges.joined_to(GAP_BYTES, MAX_PARTS) {
                let (start, end) = (content.offset + range.offset, content.offset + range.end());
                content.part(from, start, Reading::Read, &mut parts)?;
                content.part(start, end, changed, &mut parts)?;
                from = end;
            }
            content.part(from, content.all().end(), Reading::Read, &mut parts)?;
        }
        self.contents = parts;
        Ok(unread_bytes(&self.contents) != previously)
    }
}

impl Content {
    /// Appends the bytes from and up to an offset in the buffer, if there are any.
    pub(super) fn part(&self, from: u64, to: u64, reading: Reading, parts: &mut Vec<Content>) -> Result<()> {
        if from < to {
            parts.push(self.cut(Range { offset: from, length: to - from }, reading)?);
        }
        Ok(())
    }

    /// A range of the buffer, which it contains.
    fn cut(&self, range: Range, reading: Reading) -> Result<Self> {
        let at = Range { offset: range.offset - self.offset, ..range };
        let bytes = self.bytes.part(at)?;
        Ok(Self { reading, ..Self::new(self.buffer, range.offset, bytes) })
    }

    /// Its range of the buffer.
    pub(super) fn all(&self) -> Range {
        Range { offset: self.offset, length: self.bytes.len() as u64 }
    }

    /// The range of the buffer that is a span of its bytes.
    fn range(&self, span: &Span<usize>) -> Range {
        Range { offset: self.offset + span.start as u64, length: span.len() as u64 }
    }

    /// Where a range of the buffer, inside, is in its bytes.
    fn span(&self, range: Range) -> Span<usize> {
        let start = (range.offset - self.offset) as usize;
        start..start + range.length as usize
    }
}

/// Whether it is cheap to repeat work that took `duration` of a replay of `elapsed`. Times of short work
/// depend on chance.
pub(super) fn is_cheap(duration: Duration, elapsed: Duration) -> bool {
    const SHORT: Duration = Duration::from_millis(50);
    duration <= SHORT || duration <= elapsed / 4
}

/// The spans of indices that satisfy a condition.
fn spans(count: usize, is: impl Fn(usize) -> bool) -> Vec<Span<usize>> {
    let mut spans: Vec<Span<usize>> = Vec::new();
    for at in (0..count).filter(|at| is(*at)) {
        match spans.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => spans.push(at..at + 1),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_work_is_not_repeated() {
        let cheap = |work, replay| is_cheap(Duration::from_millis(work), Duration::from_millis(replay));
        assert!(cheap(50, 50) && cheap(0, 0));
        assert!(cheap(51, 204) && !cheap(51, 203));
        assert!(is_cheap(Duration::from_secs(9), Duration::MAX));
    }
}
