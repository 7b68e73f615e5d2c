use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rehal_base::{Error, Result};
use rehal_hal::{
    Buffer, BufferRef, CommandBufferMode, HostCall, HostCallFlags, HostFile, MemoryAccess,
    QUEUE_AFFINITY_ANY, Queue, Semaphore,
};

use crate::check::{equal, wrong};
use crate::harness::{Harness, bytes_of};
use crate::live::Dispatch;
use crate::{Capability, Kernel};

/// A queue operation for ordering tests.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    name: &'static str,
    /// The features it needs.
    pub(super) needs: &'static [Capability],
    /// Creates its objects; a dispatch gets the format of its executable.
    make: fn(&Harness<'_>, &'static str) -> Result<Probe>,
    format: &'static str,
}

const DISPATCH: Operation = Operation::new("dispatch", &[Capability::Executables], dispatch);

const OTHERS: [Operation; 10] = [
    Operation::new("alloca", &[], alloca),
    Operation::new("dealloca", &[], dealloca),
    Operation::new("fill", &[], fill),
    Operation::new("update", &[], update),
    Operation::new("copy", &[], copy),
    Operation::new("read", &[Capability::MemoryFiles], read),
    Operation::new("write", &[Capability::MemoryFiles], write),
    Operation::new("execute", &[], execute),
    Operation::new("barrier", &[], barrier),
    Operation::new("host_call", &[Capability::HostCalls], host_call),
];

/// The bytes before and after the operation.
const BEFORE: [u8; 16] = [0x11; 16];
const AFTER: [u8; 16] = [0x2e; 16];
/// The same, as written by the kernel `write_constants`.
const AFTER_WORDS: [u32; 4] = [0x2e2e_2e2e; 4];

impl Operation {
    const fn new(
        name: &'static str,
        needs: &'static [Capability],
        make: fn(&Harness<'_>, &'static str) -> Result<Probe>,
    ) -> Self {
        Self { name, needs, make, format: "" }
    }

    /// All operations; dispatches once per format.
    pub(super) fn all(formats: &[&'static str]) -> Vec<Self> {
        let dispatches = formats.iter().map(|format| Self { format, ..DISPATCH });
        OTHERS.into_iter().chain(dispatches).collect()
    }

    /// Its part in test names.
    pub(super) fn name(self) -> String {
        match self.format {
            "" => self.name.into(),
            format => format!("{}/{format}", self.name),
        }
    }
}

type Submit = dyn Fn(Queue<'_>) -> Result<Option<Buffer>> + Send + Sync;
type HasRun = dyn Fn(&Harness<'_>) -> Result<bool> + Send + Sync;

/// An operation with its objects, submitted once, and a check for whether it has executed.
pub(super) struct Probe {
    name: &'static str,
    /// Submits it; owns the objects that it needs.
    submit: Option<Box<Submit>>,
    /// Checks its effect, if observable; owns the objects that show it.
    has_run: Option<Box<HasRun>>,
    allocated: Option<Buffer>,
}

impl Probe {
    /// The unsubmitted operation.
    pub(super) fn new(harness: &Harness<'_>, operation: Operation) -> Result<Self> {
        Ok(Self { name: operation.name, ..(operation.make)(harness, operation.format)? })
    }

    fn unseen(submit: impl Fn(Queue<'_>) -> Result<Option<Buffer>> + Send + Sync + 'static) -> Self {
        Self { name: "", submit: Some(Box::new(submit)), has_run: None, allocated: None }
    }

    fn seen(
        submit: impl Fn(Queue<'_>) -> Result<()> + Send + Sync + 'static,
        has_run: impl Fn(&Harness<'_>) -> Result<bool> + Send + Sync + 'static,
    ) -> Self {
        let submit = move |queue: Queue<'_>| submit(queue).map(|()| None);
        Self { has_run: Some(Box::new(has_run)), ..Self::unseen(submit) }
    }

    /// An operation that changes `target` from `BEFORE` to `AFTER`.
    fn writes(
        target: Buffer,
        submit: impl Fn(Queue<'_>, &Buffer) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let written = target.clone();
        Self::seen(move |queue| submit(queue, &target), move |harness| is_after(&harness.read(&written)?))
    }

    /// Submits it.
    pub(super) fn submit(
        &mut self,
        harness: &Harness<'_>,
        waits: &[(&Semaphore, u64)],
        signals: &[(&Semaphore, u64)],
    ) -> Result<()> {
        let waits: Vec<_> = waits.iter().map(|(semaphore, value)| semaphore.at(*value)).collect();
        let signals: Vec<_> = signals.iter().map(|(semaphore, value)| semaphore.at(*value)).collect();
        let submit = self.submit.as_ref();
        let submit = submit.ok_or_else(|| Error::failed_precondition("the probe has dropped its objects"))?;
        self.allocated = submit(harness.queue().wait(&waits).signal(&signals))?;
        match &self.allocated {
            Some(buffer) => equal("the size of an alloca's buffer", buffer.size(), 64),
            None => Ok(()),
        }
    }

    /// Drops everything that is not needed to check whether the operation has executed.
    pub(super) fn drop_objects(&mut self) {
        self.submit = None;
    }

    /// Asserts that the operation has not executed, if observable.
    #[track_caller]
    pub(super) fn expect_not_run(&self, harness: &Harness<'_>) -> Result<()> {
        match &self.has_run {
            Some(has_run) if has_run(harness)? => wrong(format!("the {} has executed", self.name)),
            _ => Ok(()),
        }
    }

    /// Asserts that the operation has executed, if observable.
    #[track_caller]
    pub(super) fn expect_run(&self, harness: &Harness<'_>) -> Result<()> {
        match &self.has_run {
            Some(has_run) if !has_run(harness)? => {
                wrong(format!("the {} has signalled but not executed", self.name))
            }
            _ => Ok(()),
        }
    }

    /// Uses the buffer of an alloca after it has signalled.
    pub(super) fn expect_allocated(&self, harness: &Harness<'_>) -> Result<()> {
        let Some(buffer) = &self.allocated else {
            return Ok(());
        };
        harness.run(|queue| queue.fill(buffer, &[5], 0))?;
        crate::check::same_bytes("what was allocated", &harness.read(buffer)?, &[5; 64])
    }
}

fn alloca(_harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    Ok(Probe::unseen(|queue| queue.alloca(Harness::mappable(), 64, 0).map(Some)))
}

fn dealloca(harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    let buffer = harness.transient(&BEFORE)?;
    let deallocated = buffer.clone();
    Ok(Probe::seen(
        move |queue| queue.dealloca(&buffer, 0),
        // A deallocated buffer can no longer be filled.
        move |harness| Ok(harness.run(|queue| queue.fill(&deallocated, &[1], 0)).is_err()),
    ))
}

fn fill(harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    Ok(Probe::writes(harness.buffer(&BEFORE)?, |queue, target| queue.fill(target, &AFTER[..1], 0)))
}

fn update(harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    Ok(Probe::writes(harness.buffer(&BEFORE)?, |queue, target| queue.update(&AFTER, target, 0)))
}

fn copy(harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    let source = harness.buffer(&AFTER)?;
    Ok(Probe::writes(harness.buffer(&BEFORE)?, move |queue, target| queue.copy(&source, target, 0)))
}

fn read(harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    let file = memory_file(harness, &AFTER)?;
    Ok(Probe::writes(harness.buffer(&BEFORE)?, move |queue, target| queue.read(&file, 0, target, 0)))
}

fn write(harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    let (source, file) = (harness.buffer(&AFTER)?, memory_file(harness, &BEFORE)?);
    let written = file.clone();
    Ok(Probe::seen(
        move |queue| queue.write(&source, &file, 0, 0),
        move |harness| {
            let found = harness.buffer(&[0; 16])?;
            harness.run(|queue| queue.read(&written, 0, &found, 0))?;
            is_after(&harness.read(&found)?)
        },
    ))
}

fn execute(harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    let target = harness.buffer(&BEFORE)?;
    let commands = harness.begin(CommandBufferMode::ONE_SHOT, 0)?;
    commands.fill(&target, &AFTER[..1])?;
    commands.end()?;
    Ok(Probe::writes(target, move |queue, _| queue.execute(&commands, &[], 0)))
}

fn barrier(_harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    Ok(Probe::unseen(|queue| queue.barrier(0).map(|()| None)))
}

fn host_call(_harness: &Harness<'_>, _format: &str) -> Result<Probe> {
    const ARGUMENTS: [u64; 4] = [1, 2, 3, u64::MAX];
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let call = HostCall(Arc::new(move |arguments| {
        equal("arguments", arguments, ARGUMENTS)?;
        calls.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }));
    Ok(Probe::seen(
        move |queue| queue.host_call(&call, ARGUMENTS, HostCallFlags::empty()),
        move |_| match counted.load(Ordering::SeqCst) {
            0 => Ok(false),
            1 => Ok(true),
            calls => wrong(format!("the host was called {calls} times")),
        },
    ))
}

fn dispatch(harness: &Harness<'_>, format: &str) -> Result<Probe> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    Ok(Probe::writes(harness.buffer(&BEFORE)?, move |queue, target| {
        queue.dispatch(
            &Dispatch::new(&executable, 0, [1; 3])
                .constants(&bytes_of(&AFTER_WORDS))
                .bindings(&[BufferRef::whole(target)]),
        )
    }))
}

fn memory_file(harness: &Harness<'_>, bytes: &[u8]) -> Result<rehal_hal::File> {
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    harness.device.import_file(QUEUE_AFFINITY_ANY, access, HostFile::from_bytes(bytes)?)
}

fn is_after(found: &[u8]) -> Result<bool> {
    match found {
        found if found == BEFORE => Ok(false),
        found if found == AFTER => Ok(true),
        found => wrong(format!("neither the bytes before nor those after: {found:02x?}")),
    }
}
