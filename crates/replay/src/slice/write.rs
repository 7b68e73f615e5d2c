//! Decides which bytes a slice contains, and records it.

use std::time::Duration;

use rehal_base::{Error, Result};
use rehal_hal::DeviceGroup;

use super::collect::{Collector, Content};
use super::cut::Found;
use super::issue::Fill;
use super::references::Source;
use super::shared::Shared;
use super::{Slice, SliceCheck, SlicedRead};
use crate::{CaptureSink, RecordOptions, Recorder};

/// What tests of a slice have shown.
struct Tested {
    /// Which contents have no effect on what the work writes, all of it.
    unread: Vec<bool>,
    /// Whether the work without them wrote the same bytes as in the whole capture.
    is_checked: bool,
}

impl Shared<'_> {
    /// Writes a slice. `elapsed` is the time of the replay up to its end.
    pub(super) fn write(
        &self,
        found: &Found,
        mut collected: Collector<'_>,
        elapsed: Duration,
        sink: impl CaptureSink + 'static,
    ) -> Result<Slice> {
        let mut tested = self.test(found, &collected)?;
        let checks = match self.options.check {
            SliceCheck::WhenCheap => collected.duration <= elapsed / 4,
            SliceCheck::Always => true,
            SliceCheck::Never => false,
        };
        if checks && !tested.is_checked {
            self.check(found, &collected, &tested.unread)?;
            tested.is_checked = true;
        }
        let content_bytes = self.record(found, &collected, &tested.unread, sink)?;
        let read = |output: Content| SlicedRead {
            buffer_id: self.plan.buffer_ids[output.buffer as usize],
            offset: output.offset,
            bytes: output.bytes,
        };
        let reads = std::mem::take(&mut collected.outputs).into_iter().map(read).collect();
        let Found { ref name, location, occurrence, .. } = *found;
        let is_checked = tested.is_checked;
        Ok(Slice { name: name.clone(), location, occurrence, content_bytes, is_checked, reads })
    }

    /// Fails if the work by itself writes other bytes.
    fn check(&self, found: &Found, collected: &Collector<'_>, unread: &[bool]) -> Result<()> {
        let fill = |index: usize| if unread[index] { Fill::Nothing } else { Fill::Captured };
        match self.is_same(found, collected, &fill)? {
            true => Ok(()),
            false => Err(Error::failed_precondition(format!(
                "{} does not write the same bytes by itself as in the whole capture",
                shown(found)
            ))
            .advise("its kernels may read bytes that are not bound to them, or differ from run to run")),
        }
    }

    /// Records the work, which devices do not perform again; returns how many bytes of buffers the slice contains.
    fn record(
        &self,
        found: &Found,
        collected: &Collector<'_>,
        unread: &[bool],
        sink: impl CaptureSink + 'static,
    ) -> Result<u64> {
        let kept = collected.contents.iter().zip(unread).filter(|(_, unread)| !**unread);
        let mut pieces = Vec::new();
        for (content, _) in kept {
            self.pieces(content, &mut pieces)?;
        }
        let options = match self.options.keep_references {
            true => {
                RecordOptions { file_validation: self.references()?.validation(), ..RecordOptions::default() }
            }
            false => RecordOptions::default(),
        };
        let recorder = Recorder::to(sink, options)?;
        // Others are not part of the slice.
        let used = self.used_devices(found, collected);
        let mut devices = self.replay.devices().devices().to_vec();
        let base = used.iter().map(|index| devices[*index as usize].clone()).collect();
        let recorded = recorder.wrap_idle(&DeviceGroup::new(base)?)?;
        for (index, device) in used.iter().zip(recorded.devices()) {
            devices[*index as usize] = device.clone();
        }
        let scope = |begins| match found.name.as_str() {
            "" => Ok(()),
            name if begins => recorder.scope_begin(name),
            name => recorder.scope_end(name),
        };
        let mut issue = self.begin_issue(&devices, found, collected)?;
        if self.options.keep_references {
            issue.import_files(self.references()?)?;
        }
        for piece in &pieces {
            issue.put(piece)?;
        }
        issue.run(&scope)?;
        drop(issue);
        recorder.close()?;
        let stored = pieces.iter().filter(|piece| matches!(piece.source, Source::Bytes(_)));
        Ok(stored.map(|piece| piece.length).sum())
    }

    fn test(&self, found: &Found, collected: &Collector<'_>) -> Result<Tested> {
        /// Maximum number of contents that are tested one by one.
        const MAX_TESTS: usize = 16;
        let candidates: Vec<bool> = collected.contents.iter().map(|it| it.may_be_unread).collect();
        let count = candidates.iter().filter(|it| **it).count();
        let mut tested = Tested { unread: vec![false; candidates.len()], is_checked: false };
        if self.options.keep_outputs || count == 0 {
            return Ok(tested);
        }
        if self.have_no_effect(found, collected, &candidates)? {
            return Ok(Tested { unread: candidates, is_checked: true });
        }
        if (2..=MAX_TESTS).contains(&count) {
            for index in (0..candidates.len()).filter(|index| candidates[*index]) {
                tested.unread[index] = true;
                tested.unread[index] = self.have_no_effect(found, collected, &tested.unread)?;
                tested.is_checked |= tested.unread[index];
            }
        }
        Ok(tested)
    }

    /// Whether contents have no effect on what the work writes, all of it: kernels overwrite them without reading them.
    fn have_no_effect(&self, found: &Found, collected: &Collector<'_>, which: &[bool]) -> Result<bool> {
        /// Of this many bytes, any value that is read meets each of the patterns often enough.
        const MANY_BYTES: usize = 4096;
        let bytes = collected.contents.iter().zip(which).filter(|(_, is)| **is);
        let fewest = bytes.map(|(content, _)| content.bytes.len()).min().unwrap_or(0);
        let rounds = if fewest < MANY_BYTES { 2 } else { 1 };
        for round in 0..rounds {
            let fill = |index: usize| if which[index] { Fill::Patterns(round) } else { Fill::Captured };
            if !self.is_same(found, collected, &fill)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the work, performed by itself, writes the bytes that it writes in the whole capture.
    fn is_same(
        &self,
        found: &Found,
        collected: &Collector<'_>,
        fill: &dyn Fn(usize) -> Fill,
    ) -> Result<bool> {
        let mut issue = self.begin_issue(self.replay.devices().devices(), found, collected)?;
        for (index, content) in collected.contents.iter().enumerate() {
            issue.write(content, fill(index))?;
        }
        let outputs = issue.run(&|_| Ok(()))?;
        Ok(outputs.iter().eq(collected.outputs.iter().map(|it| &it.bytes)))
    }
}

fn shown(found: &Found) -> String {
    match found.end {
        Some(_) => format!("scope '{}'", found.name),
        None => format!("the dispatch of '{}' at {}", found.name, found.location),
    }
}
