//! The calls that a benchmark measures.

use std::cell::RefCell;

use rehal_base::{Error, Result};
use rehal_bench::{State, TimeUnit};
use rehal_hal::{Device, Fence, QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags};
use rehal_modules::hal::Handle;
use rehal_replay::Recorder;
use rehal_vm::{Invocation, Value};

use super::Kept;
use crate::program::{Entry, Program};

/// How many calls an iteration has, and how many of them run concurrently. Both are positive.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub size: u64,
    pub concurrency: u64,
}

impl Batch {
    /// The number of calls, as a multiple of those that run concurrently.
    pub fn rounded(self) -> u64 {
        self.size.next_multiple_of(self.concurrency)
    }
}

/// A function with what it is called with.
pub(super) struct Calls<'p> {
    program: &'p Program,
    entry: Entry<'p>,
    inputs: Vec<Value>,
    batch: Batch,
    kind: Kind<'p>,
    kept: Option<Kept>,
    /// Kept between runs, so that a call allocates nothing.
    invocation: RefCell<Invocation>,
}

enum Kind<'p> {
    Plain,
    /// Takes the number of repetitions, which is the batch's size.
    Dispatch,
    /// Takes two fences behind its inputs.
    Async(&'p Device),
}

impl<'p> Calls<'p> {
    /// Calls of a function with these inputs.
    pub fn of(
        program: &'p Program,
        entry: Entry<'p>,
        inputs: Vec<Value>,
        batch: Batch,
        kept: Option<Kept>,
    ) -> Result<Self> {
        let kind = match (entry.is_async(), program.device()) {
            (false, _) => Kind::Plain,
            (true, Some(device)) => Kind::Async(device),
            (true, None) => {
                return Err(Error::failed_precondition(
                    "the function takes fences, and its module uses no device to make them on",
                ));
            }
        };
        let invocation = RefCell::new(Invocation::new(entry.function()));
        Ok(Self { program, entry, inputs, batch, kind, kept, invocation })
    }

    /// Calls of a function that repeats its dispatches as often as it is told.
    pub fn of_dispatch(program: &'p Program, entry: Entry<'p>, batch: Batch) -> Self {
        let inputs = vec![Value::I32(batch.size as i32)];
        let invocation = RefCell::new(Invocation::new(entry.function()));
        Self { program, entry, inputs, batch, kind: Kind::Dispatch, kept: None, invocation }
    }

    /// The function.
    pub fn entry(&self) -> &Entry<'p> {
        &self.entry
    }

    /// The unit of its times unless the user names another.
    pub fn default_unit(&self) -> TimeUnit {
        match self.kind {
            Kind::Dispatch => TimeUnit::Microsecond,
            Kind::Plain | Kind::Async(_) => TimeUnit::Millisecond,
        }
    }

    /// The measured loop.
    pub fn run(&self, state: &mut State<'_>) -> Result<()> {
        match self.kind {
            Kind::Plain | Kind::Dispatch => self.run_plain(state)?,
            Kind::Async(device) => self.run_async(state, device)?,
        }
        state.set_items_processed(state.iterations());
        Ok(())
    }

    fn run_plain(&self, state: &mut State<'_>) -> Result<()> {
        let mut invocation = self.invocation.borrow_mut();
        let recorder = self.program.recorder();
        while state.keep_running_batch(self.batch.size) {
            scoped(recorder, || invocation.call(self.inputs.iter().cloned()))?;
        }
        if let Some(kept) = &self.kept {
            *kept.borrow_mut() = invocation.take_results();
        }
        Ok(())
    }

    /// Each call signals a fence. Of calls that follow one another on a track, each waits for the one before it; the
    /// iteration ends when the last of every track has signalled. Making fences and dropping results is not measured.
    fn run_async(&self, state: &mut State<'_>, device: &Device) -> Result<()> {
        let mut invocation = self.invocation.borrow_mut();
        let recorder = self.program.recorder();
        let calls = self.batch.rounded();
        while state.keep_running_batch(calls) {
            state.pause_timing();
            let prepared = Prepared::new(device, self.batch)?;
            let mut results: Vec<Vec<Value>> = Vec::with_capacity(prepared.fences.len());
            state.resume_timing();
            scoped(recorder, || {
                for fences in &prepared.fences {
                    invocation.call(self.inputs.iter().chain(fences).cloned())?;
                    results.push(invocation.take_results());
                }
                prepared.completion.wait(None)
            })?;
            state.pause_timing();
            if let (Some(kept), Some(last)) = (&self.kept, results.pop()) {
                *kept.borrow_mut() = last;
            }
            drop(results);
            drop(prepared);
            state.resume_timing();
        }
        Ok(())
    }
}

/// The fences of one batch.
struct Prepared {
    /// For each call the fence that it waits for and the one that it signals.
    fences: Vec<[Value; 2]>,
    /// Reached when all calls are done.
    completion: Fence,
}

impl Prepared {
    fn new(device: &Device, batch: Batch) -> Result<Self> {
        let flags = SemaphoreFlags::HOST_INTERRUPT | SemaphoreFlags::EXPORTABLE_TIMEPOINTS;
        let tracks: Vec<Semaphore> = (0..batch.concurrency)
            .map(|_| device.create_semaphore(QUEUE_AFFINITY_ANY, 0, flags))
            .collect::<Result<_>>()?;
        let rounds = batch.rounded() / batch.concurrency;
        let mut completion = Fence::default();
        let mut before = vec![Value::NULL; tracks.len()];
        let mut fences = Vec::new();
        for round in 1..=rounds {
            for (track, before) in tracks.iter().zip(&mut before) {
                let signal: Value = Handle::reference(Fence::at(track.clone(), round)).into();
                fences.push([std::mem::replace(before, signal.clone()), signal]);
            }
        }
        for track in &tracks {
            completion.insert(track, rounds)?;
        }
        Ok(Self { fences, completion })
    }
}

/// Runs `body` in the scope of captures that says what is measured. The scope ends also when `body` fails, or the
/// capture could not be replayed by scope.
#[inline]
fn scoped(recorder: Option<&Recorder>, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let Some(recorder) = recorder else { return body() };
    let _scope = recorder.scope("execute")?;
    body()
}
