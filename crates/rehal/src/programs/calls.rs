use rehal_base::{Error, Result};
use rehal_hal::{Device, Fence, QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags};
use rehal_modules::hal::Handle;
use rehal_replay::Recorder;
use rehal_vm::{Invocation, Value};

use super::Function;

/// The size and concurrency of a batch of calls. Both are positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of calls.
    pub size: u64,
    /// Maximum number of concurrent calls; each further call waits for an earlier one.
    pub concurrency: u64,
}

impl Default for Batch {
    fn default() -> Self {
        Self { size: 1, concurrency: 1 }
    }
}

impl Batch {
    /// The number of calls, rounded up to a multiple of the concurrency.
    pub fn rounded(self) -> u64 {
        let concurrency = self.concurrency.max(1);
        // Rounded down if rounding up overflows.
        self.size.checked_next_multiple_of(concurrency).unwrap_or(self.size - self.size % concurrency)
    }
}

/// A function with its inputs, for repeated calls with minimal overhead.
///
/// Each batch of calls is in a scope `execute` of the capture, if the program is recorded.
///
/// ```
/// # fn main() -> rehal_base::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/modules/simple_abs.vmfb");
/// use rehal::program::{Batch, ModuleSource, Program, ProgramOptions, ValueText};
///
/// let mut options = ProgramOptions::default();
/// options.modules.push(ModuleSource::File(path.into()));
/// let program = Program::load(&options)?;
/// let function = program.function("abs")?;
/// let inputs = program.inputs(&function, &[ValueText::new("f32=-2")?])?;
/// let mut calls = program.calls(function, inputs, Batch::default())?;
/// let start = std::time::Instant::now();
/// for _ in 0..10 {
///     // The preparation and drop of a batch need not be measured.
///     let mut batch = calls.prepare()?;
///     calls.run(&mut batch)?;
/// }
/// println!("{:?} for 10 calls", start.elapsed());
/// drop(calls);
/// program.close()
/// # }
/// ```
pub struct Calls {
    inputs: Vec<Value>,
    batch: Batch,
    kind: CallKind,
    /// Reused by all calls, so that a call does not allocate.
    invocation: Invocation,
    /// Dropped last: the invocation and the inputs belong to its program, which another thread may end
    /// afterwards.
    function: Function,
}

enum CallKind {
    Synchronous,
    /// Takes the repetition count, which is the batch size.
    Repeating,
    /// Takes two fences of this device after its inputs.
    Asynchronous(Device),
}

/// The fences and the results of one batch.
#[derive(Default)]
pub struct PreparedBatch {
    /// The wait fence and the signal fence of each call of an asynchronous function.
    fences: Vec<[Value; 2]>,
    /// Signalled when all calls are done.
    completion: Fence,
    results: Vec<Vec<Value>>,
}

impl Calls {
    pub(super) fn new(function: Function, inputs: Vec<Value>, batch: Batch) -> Result<Self> {
        let kind = match (function.is_async(), function.device()) {
            (false, _) => CallKind::Synchronous,
            (true, Some(device)) => CallKind::Asynchronous(device.clone()),
            (true, None) => return Err(no_device()),
        };
        let invocation = Invocation::new(function.vm());
        Ok(Self { function, inputs, batch, kind, invocation })
    }

    pub(super) fn repeating(function: Function, batch: Batch) -> Result<Self> {
        let Ok(repetitions) = i32::try_from(batch.size) else {
            return Err(Error::out_of_range(format!(
                "the function takes at most {} repetitions, and the batch size is {}",
                i32::MAX,
                batch.size
            ))
            .advise("choose a smaller batch"));
        };
        let inputs = vec![Value::I32(repetitions)];
        let invocation = Invocation::new(function.vm());
        Ok(Self { function, inputs, batch, kind: CallKind::Repeating, invocation })
    }

    /// The function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Whether the function repeats its dispatches itself, so that a batch is a single call.
    pub fn is_repeating(&self) -> bool {
        matches!(self.kind, CallKind::Repeating)
    }

    /// Whether batches need preparation; if not, measure only [`Calls::call`].
    pub fn needs_preparation(&self) -> bool {
        matches!(self.kind, CallKind::Asynchronous(_))
    }

    /// Number of iterations that a batch counts as.
    pub fn batch_size(&self) -> u64 {
        match self.kind {
            CallKind::Synchronous | CallKind::Repeating => self.batch.size,
            CallKind::Asynchronous(_) => self.batch.rounded(),
        }
    }

    /// Calls a function that needs no preparation once. The results are kept until the next call.
    #[inline]
    pub fn call(&mut self) -> Result<()> {
        let (invocation, inputs) = (&mut self.invocation, &self.inputs);
        scoped(self.function.recorder(), || invocation.call(inputs.iter().cloned()))
    }

    /// The results of the last [`Calls::call`].
    pub fn take_results(&mut self) -> Vec<Value> {
        self.invocation.take_results()
    }

    /// Prepares a batch: creates the fences of an asynchronous function.
    pub fn prepare(&self) -> Result<PreparedBatch> {
        match &self.kind {
            CallKind::Synchronous | CallKind::Repeating => Ok(PreparedBatch::default()),
            CallKind::Asynchronous(device) => PreparedBatch::new(device, self.batch),
        }
    }

    /// Runs a batch and waits for it. With concurrency N, each asynchronous call waits for the Nth call
    /// before it. A synchronous function is called once.
    pub fn run(&mut self, prepared: &mut PreparedBatch) -> Result<()> {
        if !self.needs_preparation() {
            self.call()?;
            prepared.results.push(self.invocation.take_results());
            return Ok(());
        }
        let (invocation, inputs) = (&mut self.invocation, &self.inputs);
        scoped(self.function.recorder(), || {
            for fences in &prepared.fences {
                invocation.call(inputs.iter().chain(fences).cloned())?;
                prepared.results.push(invocation.take_results());
            }
            prepared.completion.wait(None)
        })
    }
}

impl PreparedBatch {
    /// The results of the last call.
    pub fn take_last_results(&mut self) -> Option<Vec<Value>> {
        self.results.pop()
    }

    fn new(device: &Device, batch: Batch) -> Result<Self> {
        let flags = SemaphoreFlags::HOST_INTERRUPT | SemaphoreFlags::EXPORTABLE_TIMEPOINTS;
        let concurrency = batch.concurrency.max(1);
        let tracks: Vec<Semaphore> = (0..concurrency)
            .map(|_| device.create_semaphore(QUEUE_AFFINITY_ANY, 0, flags))
            .collect::<Result<_>>()?;
        let rounds = batch.rounded() / concurrency;
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
        let results = Vec::with_capacity(fences.len());
        Ok(Self { fences, completion, results })
    }
}

#[cold]
pub(super) fn no_device() -> Error {
    Error::failed_precondition("the function takes fences, but its module uses no device to create them")
}

/// Runs `body` in the scope that marks calls in the capture. The scope ends even if `body` fails: a capture
/// with an open scope cannot be replayed by scope.
#[inline]
fn scoped(recorder: Option<&Recorder>, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let Some(recorder) = recorder else { return body() };
    let _scope = recorder.scope("execute")?;
    body()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_multiples_of_their_concurrency() {
        for (size, concurrency, rounded) in
            [(5, 2, 6), (4, 2, 4), (1, 8, 8), (3, 0, 3), (u64::MAX, 2, u64::MAX - 1)]
        {
            assert_eq!(Batch { size, concurrency }.rounded(), rounded);
        }
    }
}
