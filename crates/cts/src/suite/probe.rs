use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rehal_base::{Error, Result};
use rehal_hal::{
    Buffer, BufferRef, CommandBuffer, CommandBufferMode, DispatchFlags, Executable, File, HostCall,
    HostCallFlags, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY, Semaphore, WorkgroupCount,
};

use crate::check::{equal, wrong};
use crate::harness::{Harness, at, bytes_of, run};
use crate::live::{Command, Dispatch, QueueOp};
use crate::{Capability, Kernel};

/// An operation of a queue, as a thing to try the ordering on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Alloca,
    Dealloca,
    Fill,
    Update,
    Copy,
    Read,
    Write,
    Execute,
    Barrier,
    HostCall,
    /// With an executable of this format.
    Dispatch(&'static str),
}

/// Bytes before the operation, and after.
const BEFORE: [u8; 16] = [0x11; 16];
const AFTER: [u8; 16] = [0x2e; 16];
/// The same, as the kernel `write_constants` writes it.
const AFTER_WORDS: [u32; 4] = [0x2e2e_2e2e; 4];

impl Kind {
    /// All of them, dispatches once for each format.
    pub(super) fn all(formats: &[&'static str]) -> Vec<Self> {
        use Kind::*;
        let mut all = vec![Alloca, Dealloca, Fill, Update, Copy, Read, Write, Execute, Barrier, HostCall];
        all.extend(formats.iter().map(|format| Dispatch(format)));
        all
    }

    /// Its part of a test's name.
    pub(super) fn name(self) -> String {
        match self {
            Self::Alloca => "alloca".into(),
            Self::Dealloca => "dealloca".into(),
            Self::Fill => "fill".into(),
            Self::Update => "update".into(),
            Self::Copy => "copy".into(),
            Self::Read => "read".into(),
            Self::Write => "write".into(),
            Self::Execute => "execute".into(),
            Self::Barrier => "barrier".into(),
            Self::HostCall => "host_call".into(),
            Self::Dispatch(format) => format!("dispatch/{format}"),
        }
    }

    /// What a driver needs for it.
    pub(super) fn needs(self) -> &'static [Capability] {
        match self {
            Self::Read | Self::Write => &[Capability::MemoryFiles],
            Self::HostCall => &[Capability::HostCalls],
            Self::Dispatch(_) => &[Capability::Executables],
            _ => &[],
        }
    }
}

/// An operation with its objects, which is submitted once, and what shows whether it has run.
pub(super) struct Probe {
    kind: Kind,
    /// What it writes, or gives back; holds `BEFORE` at first.
    target: Buffer,
    /// What it reads; holds `AFTER`.
    source: Option<Buffer>,
    /// What it reads or writes.
    file: Option<File>,
    command_buffer: Option<CommandBuffer>,
    executable: Option<Executable>,
    host_call: Option<HostCall>,
    calls: Arc<AtomicU32>,
    allocated: Option<Buffer>,
}

impl Probe {
    /// The operation, not yet submitted.
    pub(super) fn new(harness: &Harness<'_>, kind: Kind) -> Result<Self> {
        let target = match kind {
            Kind::Dealloca => harness.transient(&BEFORE)?,
            _ => harness.buffer(&BEFORE)?,
        };
        let calls = Arc::new(AtomicU32::new(0));
        let mut this = Self {
            kind,
            target,
            source: None,
            file: None,
            command_buffer: None,
            executable: None,
            host_call: None,
            calls: calls.clone(),
            allocated: None,
        };
        let memory_file = |bytes: [u8; 16]| {
            let access = MemoryAccess::READ | MemoryAccess::WRITE;
            harness.device.import_file(QUEUE_AFFINITY_ANY, access, HostFile::from_bytes(&bytes)?)
        };
        match kind {
            Kind::Copy => this.source = Some(harness.buffer(&AFTER)?),
            Kind::Read => this.file = Some(memory_file(AFTER)?),
            Kind::Write => {
                this.source = Some(harness.buffer(&AFTER)?);
                this.file = Some(memory_file(BEFORE)?);
            }
            Kind::Execute => this.command_buffer = Some(record_fill(harness, &this.target)?),
            Kind::Dispatch(format) => {
                this.executable = Some(harness.prepare(Kernel::Constants, format)?);
            }
            Kind::HostCall => {
                this.host_call = Some(HostCall(Arc::new(move |arguments| {
                    equal("arguments", arguments, [1, 2, 3, u64::MAX])?;
                    calls.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                })));
            }
            Kind::Alloca | Kind::Dealloca | Kind::Fill | Kind::Update | Kind::Barrier => {}
        }
        Ok(this)
    }

    /// Submits it.
    pub(super) fn submit(
        &mut self,
        harness: &Harness<'_>,
        waits: &[(&Semaphore, u64)],
        signals: &[(&Semaphore, u64)],
    ) -> Result<()> {
        self.allocated = self.submitted(harness, waits, signals)?;
        if self.kind == Kind::Alloca {
            let size = self.allocated.as_ref().map(Buffer::size);
            equal("the size of an alloca's buffer, known at once", size, Some(64))?;
        }
        Ok(())
    }

    fn submitted(
        &self,
        harness: &Harness<'_>,
        waits: &[(&Semaphore, u64)],
        signals: &[(&Semaphore, u64)],
    ) -> Result<Option<Buffer>> {
        let waits: Vec<_> = waits.iter().map(|(semaphore, value)| at(semaphore, *value)).collect();
        let signals: Vec<_> = signals.iter().map(|(semaphore, value)| at(semaphore, *value)).collect();
        let constants = bytes_of(&AFTER_WORDS);
        let target = BufferRef::whole(&self.target);
        let bindings = [target];
        let flags = 0;
        let op = match self.kind {
            Kind::Alloca => QueueOp::Alloca { params: Harness::mappable(), size: 64, flags, created: () },
            Kind::Dealloca => QueueOp::Dealloca { buffer: &self.target, flags },
            Kind::Fill => QueueOp::Fill { target, pattern: &AFTER[..1], flags },
            Kind::Update => QueueOp::Update { source: &AFTER, target, flags },
            Kind::Copy => QueueOp::Copy { source: whole(&self.source)?, target, flags },
            Kind::Read => QueueOp::Read { file: given(&self.file)?, file_offset: 0, target, flags },
            Kind::Write => {
                let (source, file) = (whole(&self.source)?, given(&self.file)?);
                QueueOp::Write { source, file, file_offset: 0, flags }
            }
            Kind::Execute => {
                QueueOp::Execute { command_buffer: given(&self.command_buffer)?, bindings: &[], flags }
            }
            Kind::Barrier => QueueOp::Barrier { flags },
            Kind::HostCall => QueueOp::HostCall {
                call: given(&self.host_call)?,
                arguments: [1, 2, 3, u64::MAX],
                flags: HostCallFlags::empty(),
            },
            Kind::Dispatch(_) => QueueOp::Dispatch(Dispatch {
                executable: given(&self.executable)?,
                function: 0,
                workgroup_size: [0; 3],
                workgroup_count: WorkgroupCount::Static([1; 3]),
                dynamic_local_memory: 0,
                constants: &constants,
                bindings: &bindings,
                flags: DispatchFlags::empty(),
            }),
        };
        harness.device.submit(QUEUE_AFFINITY_ANY, &waits, &signals, op)
    }

    /// Lets go of everything that is not needed to see whether the operation has run.
    pub(super) fn let_go(&mut self) {
        self.source = None;
        self.command_buffer = None;
        self.executable = None;
        self.host_call = None;
        if self.kind != Kind::Write {
            self.file = None;
        }
    }

    /// Fails unless the operation has not run, where that can be seen.
    #[track_caller]
    pub(super) fn expect_not_run(&self, harness: &Harness<'_>) -> Result<()> {
        match self.has_run(harness)? {
            None | Some(false) => Ok(()),
            Some(true) => wrong(format!("the {} has run", self.kind.name())),
        }
    }

    /// Fails unless the operation has run, where that can be seen.
    #[track_caller]
    pub(super) fn expect_run(&self, harness: &Harness<'_>) -> Result<()> {
        match self.has_run(harness)? {
            None | Some(true) => Ok(()),
            Some(false) => wrong(format!("the {} has signalled, but not run", self.kind.name())),
        }
    }

    fn has_run(&self, harness: &Harness<'_>) -> Result<Option<bool>> {
        match self.kind {
            Kind::Barrier => Ok(None),
            Kind::Alloca => Ok(None),
            // What is deallocated cannot be filled any more.
            Kind::Dealloca => {
                let target = BufferRef::whole(&self.target);
                let fill = run!(harness, QueueOp::Fill { target, pattern: &[1], flags: 0 });
                Ok(Some(fill.is_err()))
            }
            Kind::HostCall => match self.calls.load(Ordering::SeqCst) {
                0 => Ok(Some(false)),
                1 => Ok(Some(true)),
                calls => wrong(format!("the host was called {calls} times")),
            },
            Kind::Write => {
                let found = harness.buffer(&[0; 16])?;
                let target = BufferRef::whole(&found);
                let file = given(&self.file)?;
                run!(harness, QueueOp::Read { file, file_offset: 0, target, flags: 0 })?;
                from_bytes(&harness.read(&found)?)
            }
            Kind::Fill | Kind::Update | Kind::Copy | Kind::Read | Kind::Execute | Kind::Dispatch(_) => {
                from_bytes(&harness.read(&self.target)?)
            }
        }
    }

    /// Uses what an alloca gave, after it has signalled.
    pub(super) fn expect_allocated(&self, harness: &Harness<'_>) -> Result<()> {
        let Some(buffer) = &self.allocated else {
            return Ok(());
        };
        let target = BufferRef::whole(buffer);
        run!(harness, QueueOp::Fill { target, pattern: &[5], flags: 0 })?;
        crate::check::same_bytes("what was allocated", &harness.read(buffer)?, &[5; 64])
    }
}

fn record_fill(harness: &Harness<'_>, target: &Buffer) -> Result<CommandBuffer> {
    let commands = harness.begin(CommandBufferMode::ONE_SHOT, 0)?;
    commands.record(&Command::Fill { target: target.into(), pattern: &AFTER[..1], flags: 0 })?;
    commands.end()?;
    Ok(commands)
}

fn from_bytes(found: &[u8]) -> Result<Option<bool>> {
    match found {
        found if found == BEFORE => Ok(Some(false)),
        found if found == AFTER => Ok(Some(true)),
        found => wrong(format!("neither the bytes before nor those after: {found:02x?}")),
    }
}

fn given<T>(option: &Option<T>) -> Result<&T> {
    option.as_ref().ok_or_else(|| Error::failed_precondition("the probe has let go of it"))
}

fn whole<'a>(buffer: &'a Option<Buffer>) -> Result<BufferRef<rehal_hal::Live<'a>>> {
    Ok(BufferRef::whole(given(buffer)?))
}
