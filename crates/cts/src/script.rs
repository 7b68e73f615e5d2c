use rehal_base::Result;
use rehal_hal::{
    Buffer, BufferRef, CommandBuffer, CommandBufferMode, DispatchFlags, Executable, ExecutionStage, Live,
    MemoryBarrier, QUEUE_AFFINITY_ANY, WHOLE_BUFFER, WorkgroupCount,
};

use crate::harness::{Harness, at, bytes_of};
use crate::live::{Command, Dispatch, QueueOp};

/// How work gets to the device. The same tests run over each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Operations of a queue, ordered by timepoints.
    Queue,
    /// Commands that name buffers.
    Direct,
    /// Commands that name ranges of slots; the binding table holds whole buffers.
    Slots,
    /// Commands that name whole slots; the binding table holds the ranges.
    Windows,
}

impl Route {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Queue, Self::Direct, Self::Slots, Self::Windows];

    /// Its part of a test's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Direct => "direct",
            Self::Slots => "slots",
            Self::Windows => "windows",
        }
    }
}

/// A range of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    buffer: &'a Buffer,
    offset: u64,
    length: u64,
}

impl<'a> Part<'a> {
    /// `length` bytes from `offset`.
    pub(crate) fn of(buffer: &'a Buffer, offset: u64, length: u64) -> Self {
        Self { buffer, offset, length }
    }

    /// The range as an operation names it.
    pub(crate) fn as_ref<'x>(&self) -> BufferRef<Live<'x>>
    where
        'a: 'x,
    {
        BufferRef::range(self.buffer, self.offset, self.length)
    }
}

impl<'a> From<&'a Buffer> for Part<'a> {
    fn from(buffer: &'a Buffer) -> Self {
        Self { buffer, offset: 0, length: WHOLE_BUFFER }
    }
}

/// A kernel with its arguments.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    executable: &'a Executable,
    function: u32,
    size: [u32; 3],
    count: [u32; 3],
    count_from: Option<Part<'a>>,
    local_memory: u32,
    constants: Vec<u8>,
    bindings: Vec<Part<'a>>,
    flags: DispatchFlags,
}

impl<'a> Call<'a> {
    /// One workgroup of a function.
    pub(crate) fn new(executable: &'a Executable, function: u32) -> Self {
        Self {
            executable,
            function,
            size: [0; 3],
            count: [1; 3],
            count_from: None,
            local_memory: 0,
            constants: Vec::new(),
            bindings: Vec::new(),
            flags: DispatchFlags::empty(),
        }
    }

    /// With workgroups of this size.
    pub(crate) fn size(self, size: [u32; 3]) -> Self {
        Self { size, ..self }
    }

    /// With so many workgroups.
    pub(crate) fn count(self, count: [u32; 3]) -> Self {
        Self { count, ..self }
    }

    /// With as many workgroups as a buffer says.
    pub(crate) fn count_from(self, count: impl Into<Part<'a>>, flags: DispatchFlags) -> Self {
        Self { count_from: Some(count.into()), flags: self.flags | flags, ..self }
    }

    /// With more local memory than the function asks for, in bytes.
    pub(crate) fn local_memory(self, local_memory: u32) -> Self {
        Self { local_memory, ..self }
    }

    /// With these constants.
    pub(crate) fn constants(self, constants: &[u32]) -> Self {
        Self { constants: bytes_of(constants), ..self }
    }

    /// With one more binding.
    pub(crate) fn bind(mut self, part: impl Into<Part<'a>>) -> Self {
        self.bindings.push(part.into());
        self
    }

    /// With these flags besides.
    pub(crate) fn flags(self, flags: DispatchFlags) -> Self {
        Self { flags: self.flags | flags, ..self }
    }
}

/// One step that changes buffers.
#[derive(Clone)]
pub(crate) enum Work<'a> {
    Fill { target: Part<'a>, pattern: &'a [u8] },
    Update { source: &'a [u8], target: Part<'a> },
    Copy { source: Part<'a>, target: Part<'a> },
    Call(Call<'a>),
}

impl<'a> Work<'a> {
    fn parts(&self) -> Vec<Part<'a>> {
        match self {
            Self::Fill { target, .. } | Self::Update { target, .. } => vec![*target],
            Self::Copy { source, target } => vec![*source, *target],
            Self::Call(call) => call.bindings.iter().chain(&call.count_from).copied().collect(),
        }
    }

    fn queue_op<'x>(&'x self, refs: &'x [BufferRef<Live<'x>>]) -> QueueOp<'x> {
        match self {
            Self::Fill { pattern, .. } => QueueOp::Fill { target: refs[0], pattern, flags: 0 },
            Self::Update { source, .. } => QueueOp::Update { source, target: refs[0], flags: 0 },
            Self::Copy { .. } => QueueOp::Copy { source: refs[0], target: refs[1], flags: 0 },
            Self::Call(call) => QueueOp::Dispatch(call.dispatch(refs)),
        }
    }

    fn command<'x>(&'x self, refs: &'x [BufferRef<Live<'x>>]) -> Command<'x> {
        match self {
            Self::Fill { pattern, .. } => Command::Fill { target: refs[0], pattern, flags: 0 },
            Self::Update { source, .. } => Command::Update { source, target: refs[0], flags: 0 },
            Self::Copy { .. } => Command::Copy { source: refs[0], target: refs[1], flags: 0 },
            Self::Call(call) => Command::Dispatch(call.dispatch(refs)),
        }
    }
}

impl Call<'_> {
    fn dispatch<'x>(&'x self, refs: &'x [BufferRef<Live<'x>>]) -> Dispatch<'x> {
        let (bindings, count) = refs.split_at(self.bindings.len());
        Dispatch {
            executable: self.executable,
            function: self.function,
            workgroup_size: self.size,
            workgroup_count: match count {
                [] => WorkgroupCount::Static(self.count),
                [buffer, ..] => WorkgroupCount::Indirect(*buffer),
            },
            dynamic_local_memory: self.local_memory,
            constants: &self.constants,
            bindings,
            flags: self.flags,
        }
    }
}

/// Steps that run one after another, each after the writes of the one before.
pub(crate) struct Script<'a> {
    harness: &'a Harness<'a>,
    route: Route,
    steps: Vec<Work<'a>>,
}

impl<'a> Script<'a> {
    /// An empty script.
    pub(crate) fn new(harness: &'a Harness<'a>, route: Route) -> Self {
        Self { harness, route, steps: Vec::new() }
    }

    /// One more step.
    pub(crate) fn then(mut self, work: Work<'a>) -> Self {
        self.steps.push(work);
        self
    }

    /// A fill as the next step.
    pub(crate) fn fill(self, target: impl Into<Part<'a>>, pattern: &'a [u8]) -> Self {
        self.then(Work::Fill { target: target.into(), pattern })
    }

    /// An update as the next step.
    pub(crate) fn update(self, source: &'a [u8], target: impl Into<Part<'a>>) -> Self {
        self.then(Work::Update { source, target: target.into() })
    }

    /// A copy as the next step.
    pub(crate) fn copy(self, source: impl Into<Part<'a>>, target: impl Into<Part<'a>>) -> Self {
        self.then(Work::Copy { source: source.into(), target: target.into() })
    }

    /// A dispatch as the next step.
    pub(crate) fn call(self, call: Call<'a>) -> Self {
        self.then(Work::Call(call))
    }

    /// Runs it and waits for the end. A refusal at any point is the result.
    pub(crate) fn run(&self) -> Result<()> {
        if self.route == Route::Queue {
            return self.run_on_queue();
        }
        let (commands, table) = self.record(CommandBufferMode::ONE_SHOT)?;
        self.harness.execute(&commands, &table)
    }

    /// The script as a command buffer, with the binding table that it wants.
    pub(crate) fn record(&self, mode: CommandBufferMode) -> Result<(CommandBuffer, Vec<Part<'a>>)> {
        let parts: usize = self.steps.iter().map(|step| step.parts().len()).sum();
        let capacity = if matches!(self.route, Route::Slots | Route::Windows) { parts as u64 } else { 0 };
        let commands = self.harness.begin(mode, capacity)?;
        let mut table = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            if index != 0 {
                record_barrier(&commands)?;
            }
            let refs: Vec<_> =
                step.parts().into_iter().map(|part| self.route.place(part, &mut table)).collect();
            commands.record(&step.command(&refs))?;
        }
        commands.end()?;
        Ok((commands, table))
    }

    fn run_on_queue(&self) -> Result<()> {
        let done = self.harness.semaphore()?;
        for (index, step) in self.steps.iter().enumerate() {
            let refs: Vec<_> = step.parts().iter().map(Part::as_ref).collect();
            let value = index as u64;
            let waits = [at(&done, value)];
            let waits = if index == 0 { &waits[..0] } else { &waits[..] };
            let signals = [at(&done, value + 1)];
            self.harness.device.submit(QUEUE_AFFINITY_ANY, waits, &signals, step.queue_op(&refs))?;
        }
        self.harness.wait(&done, self.steps.len() as u64)
    }
}

impl Route {
    /// How a command names `part`; adds to the binding table what it needs there.
    fn place<'a: 'x, 'x>(self, part: Part<'a>, table: &mut Vec<Part<'a>>) -> BufferRef<Live<'x>> {
        let slot = table.len() as u32;
        match self {
            Self::Queue | Self::Direct => part.as_ref(),
            Self::Slots => {
                table.push(Part::from(part.buffer));
                BufferRef::slot(slot, part.offset, part.length)
            }
            Self::Windows => {
                table.push(part);
                BufferRef::slot(slot, 0, WHOLE_BUFFER)
            }
        }
    }
}

/// Records a barrier between everything before and everything after.
pub(crate) fn record_barrier(commands: &CommandBuffer) -> Result<()> {
    use rehal_hal::AccessScope as Scope;
    let source_scope = Scope::DISPATCH_WRITE | Scope::TRANSFER_WRITE;
    let target_scope =
        Scope::DISPATCH_READ | Scope::DISPATCH_WRITE | Scope::TRANSFER_READ | Scope::TRANSFER_WRITE;
    commands.record(&Command::ExecutionBarrier {
        source_stages: ExecutionStage::DISPATCH | ExecutionStage::TRANSFER | ExecutionStage::COMMAND_RETIRE,
        target_stages: ExecutionStage::COMMAND_ISSUE | ExecutionStage::DISPATCH | ExecutionStage::TRANSFER,
        flags: 0,
        memory_barriers: &[MemoryBarrier { source_scope, target_scope }],
        buffer_barriers: &[],
    })
}
