//! Cuts work out of a capture: a capture of that work alone, with the bytes that it reads.
//!
//! `walk.rs` and `slice/cut.rs` find the work in the plan, in run order and without running it. An observer
//! of operations (`slice/runs.rs`) keeps what the work reads first, as it is just before
//! (`slice/collect.rs`). `slice/isolated_work.rs` creates the same objects, writes the kept bytes, issues the
//! operations and reads what they wrote: under a `Recorder` whose devices perform nothing, to record the
//! slice, and on the devices, to check that the work by itself does what it does in the whole replay
//! (`SliceCheck`). A dispatch that takes most of a replay is not repeated by default.
//!
//! Buffers keep their sizes, so that offsets, alignment and aliasing stay; only ranges that are read have
//! bytes in the capture. Slots are resolved to buffers. Whether a kernel reads the contents of a binding that
//! it overwrites is tested (`slice/trim.rs`): the work is issued with other bytes there, each of which
//! differs from the one that it replaces, and the bytes are left out if it writes the same. The accesses to
//! other bindings are found by issuing the work in watched buffers (`slice/accessed_pages.rs`), if the caller
//! passes the function that allocates them (`SliceOptions::watch`), since `replay` does not know which
//! devices can watch.
//!
//! A reference to a file (`slice/pieces.rs`) replaces bytes that a submission has read from it and that
//! are still the same. Transient buffers of a scope are allocated before it, so that the contents of memory
//! that nothing wrote are stored like other bytes. `Replay::slices` cuts many dispatches while one replay
//! passes them.

mod accessed_pages;
mod collect;
mod cut;
mod isolated_work;
mod options;
mod pieces;
mod references;
mod runs;
mod shared;
mod trim;
mod write;

use std::time::Duration;

use rehal_base::{Error, Result};

pub use self::options::{BufferRanges, Cut, Slice, SliceCheck, SliceOptions, SlicedRead, WatchBuffer};

use self::runs::{DispatchRun, ScopeRun};
use self::shared::Shared;
use crate::observe::with;
use crate::{CaptureSink, Observer, Replay, prepare};

/// Receives the slices of [`Replay::slices`].
pub trait SliceSet {
    /// Where a capture is written.
    type Sink: CaptureSink + 'static;

    /// The sink of the slice with an index, whose function has this name.
    fn sink(&mut self, index: usize, name: &str) -> Result<Self::Sink>;

    /// The slice with an index is complete.
    fn finished(&mut self, index: usize, slice: Slice) -> Result<()>;
}

impl Replay {
    /// Writes a capture of a part of the work: its executables, its buffers with the bytes that it reads, as
    /// they are just before, its operations, and a host read of each range that it writes. Replays up to
    /// there in serialized order, which other observers also see.
    ///
    /// Fails if there is no such work, if it cannot be replayed, or if it does not write the same bytes by
    /// itself. Then what the sink contains is not a capture.
    pub fn slice(
        &self,
        cut: &Cut,
        options: &SliceOptions,
        sink: impl CaptureSink + 'static,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Slice> {
        self.slice_to(cut, options, sink, observers).map_err(|error| self.plan().in_file(error))
    }

    /// Writes slices of dispatches, each with its record and occurrence, in a single replay up to the last of
    /// them, which other observers also see. They arrive in the order of the replay.
    #[doc(hidden)]
    pub fn slices<S: SliceSet>(
        &self,
        dispatches: &[(u32, u64)],
        options: &SliceOptions,
        set: &mut S,
        observers: &mut [&mut dyn Observer],
    ) -> Result<()> {
        let outcome = self.find_dispatches(dispatches);
        let founds = outcome.map_err(|error| self.plan().in_file(error))?;
        let shared = Shared::new(self, options);
        let mut run = DispatchRun::new(&shared, &founds, |index, collected, elapsed| {
            let sink = set.sink(index, &founds[index].name)?;
            set.finished(index, shared.write(&founds[index], collected, elapsed, sink)?)
        });
        self.run(&mut with(observers, &mut run))?;
        run.finish().map_err(|error| self.plan().in_file(error))
    }

    /// The bytes of its bindings that each of these dispatches accesses, in pages of 4 KiB: ranges of
    /// buffers, which are named by their captured ids, in order and without overlap. `None` if the device
    /// cannot tell, or if the dispatch does not write the same bytes by itself. Dispatches are named by
    /// record and occurrence. Replays once, up to the last of them, which other observers also see.
    #[doc(hidden)]
    pub fn accessed_pages(
        &self,
        dispatches: &[(u32, u64)],
        watch: WatchBuffer,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Vec<Option<BufferRanges>>> {
        let outcome = self.find_dispatches(dispatches);
        let founds = outcome.map_err(|error| self.plan().in_file(error))?;
        let shared = Shared::new(self, &SliceOptions { watch: Some(watch), ..SliceOptions::default() });
        let mut accessed = vec![None; founds.len()];
        let mut run = DispatchRun::new(&shared, &founds, |index, collected, _| {
            accessed[index] = shared.accessed_pages(&founds[index], &collected);
            Ok(())
        });
        self.run(&mut with(observers, &mut run))?;
        run.finish().map_err(|error| self.plan().in_file(error))?;
        Ok(accessed)
    }

    fn slice_to(
        &self,
        cut: &Cut,
        options: &SliceOptions,
        sink: impl CaptureSink + 'static,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Slice> {
        let found = self.find(cut)?;
        let shared = Shared::new(self, options);
        if let Some(end) = found.end {
            if shared.options.unperformed {
                return Err(Error::invalid_argument(
                    "the work of a scope cannot be cut out without performing it",
                ));
            }
            let mut run = ScopeRun::new(&shared, &found, end);
            self.run(&mut with(observers, &mut run))?;
            // What is issued from here on is the work of the scope.
            for observer in observers.iter_mut().filter(|it| it.wants_steps()) {
                observer.step(found.location)?;
            }
            return shared.write(&found, run.finish()?, Duration::MAX, sink);
        }
        let founds = [found];
        let (mut sink, mut slice) = (Some(sink), None);
        let mut run = DispatchRun::new(&shared, &founds, |_, collected, elapsed| {
            if let Some(sink) = sink.take() {
                slice = Some(shared.write(&founds[0], collected, elapsed, sink)?);
            }
            Ok(())
        });
        self.run(&mut with(observers, &mut run))?;
        run.finish()?;
        slice.ok_or_else(|| Error::data_loss("the replay ended before the work of the slice"))
    }

    /// The names of the functions of each executable, by captured ordinal.
    pub(crate) fn function_names(&self) -> Result<Vec<Vec<String>>> {
        let plan = self.plan();
        let mut names: Vec<Vec<String>> = Vec::with_capacity(plan.executables.len());
        for op in prepare::preparations(plan) {
            let record = plan.executables[op.created as usize].record(plan.bytes());
            let captured = record.function_names().map(|name| String::from_utf8_lossy(name).into_owned());
            let mut captured: Vec<String> = captured.collect();
            // Captures of version 1.0 have none.
            if captured.iter().any(String::is_empty) {
                let prepared = self.prepare(op, &self.devices().devices()[op.cache as usize])?;
                for (captured, name) in (0..).zip(&mut captured) {
                    let (executable, ordinal) = prepared.function(captured);
                    name.clone_from(&executable.function(ordinal)?.name);
                }
            }
            names.push(captured);
        }
        Ok(names)
    }
}
