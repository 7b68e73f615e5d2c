//! Decides which bytes a slice contains, and records it.

use std::time::Duration;

use rehal_base::{Error, OwnBytes, Result};
use rehal_hal::DeviceGroup;

use super::collect::{Collector, Content};
use super::cut::SlicePlan;
use super::isolated_work::Fill;
use super::pieces::Source;
use super::shared::Shared;
use super::trim::is_cheap;
use super::{Slice, SliceCheck, SlicedRead};
use crate::{CaptureSink, RecordOptions, Recorder};

impl Shared<'_> {
    /// Writes a slice. `elapsed` is the time of the replay up to its end.
    pub(super) fn write(
        &self,
        found: &SlicePlan,
        mut collected: Collector<'_>,
        elapsed: Duration,
        sink: impl CaptureSink + 'static,
    ) -> Result<Slice> {
        let is_cheap = is_cheap(collected.duration, elapsed);
        let mut tested = self.test(found, &mut collected, is_cheap)?;
        if self.checks(is_cheap) {
            self.keep_accessed(found, &mut collected, &mut tested)?;
        }
        if self.checks(is_cheap) && !tested.is_checked {
            self.check(found, &collected)?;
            tested.is_checked = true;
        }
        tested.narrow(&mut collected)?;
        let content_bytes = self.record(found, &collected, &tested.unread, sink)?;
        let read = |output: Content| SlicedRead {
            buffer_id: self.plan.buffer_ids[output.buffer as usize],
            offset: output.offset,
            bytes: output.bytes.to_vec(),
        };
        let reads = std::mem::take(&mut collected.outputs).into_iter().map(read).collect();
        let SlicePlan { ref name, location, occurrence, .. } = *found;
        let is_checked = tested.is_checked;
        let is_performed = !self.options.unperformed;
        Ok(Slice { name: name.clone(), location, occurrence, content_bytes, is_checked, is_performed, reads })
    }

    /// Whether the work is performed as a replay of the slice performs it.
    pub(super) fn checks(&self, is_cheap: bool) -> bool {
        match self.options.check {
            _ if self.options.unperformed => false,
            SliceCheck::WhenCheap => is_cheap,
            SliceCheck::Always => true,
            SliceCheck::Never => false,
        }
    }

    /// Fails if the work by itself writes other bytes. No contents are left out: a test that leaves some out
    /// checks the rest.
    fn check(&self, found: &SlicePlan, collected: &Collector<'_>) -> Result<()> {
        let outputs = self.perform(found, collected, &|_| Fill::Captured)?;
        match outputs.iter().eq(collected.outputs.iter().map(|it| &it.bytes)) {
            true => Ok(()),
            false => Err(Error::failed_precondition(format!(
                "{} does not write the same bytes by itself as in the whole capture",
                shown(found)
            ))
            .advise("its kernels may read bytes that are not bound to them, or differ from run to run")),
        }
    }

    /// Records the work, which devices do not perform again; returns how many bytes of buffers the slice
    /// contains.
    fn record(
        &self,
        found: &SlicePlan,
        collected: &Collector<'_>,
        unread: &[bool],
        sink: impl CaptureSink + 'static,
    ) -> Result<u64> {
        let kept = collected.contents.iter().zip(unread).filter(|(_, unread)| !**unread);
        let mut pieces = Vec::new();
        for (content, _) in kept {
            self.pieces(content, &mut pieces)?;
        }
        // The same work is the same bytes.
        let mut options = RecordOptions { renumber_threads: true, ..RecordOptions::default() };
        if self.options.keep_references {
            options.file_validation = self.references()?.validation();
        }
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
        let mut work = self.isolate(&devices, found, collected)?;
        if self.options.keep_references {
            work.import_files(self.references()?)?;
        }
        for piece in &pieces {
            work.put(piece)?;
        }
        work.run(&scope)?;
        drop(work);
        recorder.close()?;
        let stored = pieces.iter().filter(|piece| matches!(piece.source, Source::Bytes(_)));
        Ok(stored.map(|piece| piece.length).sum())
    }

    /// The bytes that the work writes when it is performed by itself.
    pub(super) fn perform(
        &self,
        found: &SlicePlan,
        collected: &Collector<'_>,
        fill: &dyn Fn(usize) -> Fill,
    ) -> Result<Vec<OwnBytes>> {
        let mut work = self.isolate(self.replay.devices().devices(), found, collected)?;
        for (index, content) in collected.contents.iter().enumerate() {
            work.write(content, fill(index))?;
        }
        work.run(&|_| Ok(()))
    }
}

fn shown(found: &SlicePlan) -> String {
    match found.end {
        Some(_) => format!("scope '{}'", found.name.escape_debug()),
        None => format!("the dispatch of '{}' at {}", found.name.escape_debug(), found.location),
    }
}
