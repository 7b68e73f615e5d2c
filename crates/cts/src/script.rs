use rehal_base::Result;
use rehal_hal::{
    Binding, Buffer, BufferRef, CommandBuffer, CommandBufferMode, DispatchFlags, Executable,
    QUEUE_AFFINITY_ANY, QueueAffinity, QueueOp, WHOLE_BUFFER, WorkgroupCount,
};

use crate::check::wrong;
use crate::harness::{Harness, bytes_of};
use crate::live::{Command, Dispatch};

/// The affinity of the second queue, which is for transfers where it is not like the first.
const SECOND_QUEUE: QueueAffinity = 1 << 1;

/// How work is submitted to the device. The same tests run over each route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Queue operations, ordered by timepoints.
    Queue,
    /// As [`Route::Queue`], with transfers on the second queue. Devices with one queue execute them on that.
    Queues,
    /// Commands that refer to buffers directly.
    Direct,
    /// Commands that refer to ranges of slots; the binding table has whole buffers.
    Slots,
    /// Commands that refer to whole slots; the binding table has the ranges.
    Windows,
}

impl Route {
    /// All routes.
    pub(crate) const ALL: [Self; 5] = [Self::Queue, Self::Queues, Self::Direct, Self::Slots, Self::Windows];

    /// Its part in test names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Queues => "queues",
            Self::Direct => "direct",
            Self::Slots => "slots",
            Self::Windows => "windows",
        }
    }
}

/// A kernel with its arguments.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    executable: &'a Executable,
    function: u32,
    size: [u32; 3],
    count: WorkgroupCount<&'a Buffer>,
    local_memory: u32,
    constants: Vec<u8>,
    bindings: Vec<BufferRef<&'a Buffer>>,
    flags: DispatchFlags,
}

impl<'a> Call<'a> {
    /// One workgroup of a function.
    pub(crate) fn new(executable: &'a Executable, function: u32) -> Self {
        Self {
            executable,
            function,
            size: [0; 3],
            count: WorkgroupCount::Static([1; 3]),
            local_memory: 0,
            constants: Vec::new(),
            bindings: Vec::new(),
            flags: DispatchFlags::empty(),
        }
    }

    /// Sets the workgroup size.
    pub(crate) fn size(self, size: [u32; 3]) -> Self {
        Self { size, ..self }
    }

    /// Sets the workgroup count.
    pub(crate) fn count(self, count: [u32; 3]) -> Self {
        Self { count: WorkgroupCount::Static(count), ..self }
    }

    /// Sets an indirect workgroup count.
    pub(crate) fn count_from(self, count: impl Into<BufferRef<&'a Buffer>>, flags: DispatchFlags) -> Self {
        Self { count: WorkgroupCount::Indirect(count.into()), flags: self.flags | flags, ..self }
    }

    /// Adds dynamic local memory, in bytes.
    pub(crate) fn local_memory(self, local_memory: u32) -> Self {
        Self { local_memory, ..self }
    }

    /// Sets the constants.
    pub(crate) fn constants(self, constants: &[u32]) -> Self {
        Self { constants: bytes_of(constants), ..self }
    }

    /// Adds a binding.
    pub(crate) fn bind(mut self, part: impl Into<BufferRef<&'a Buffer>>) -> Self {
        self.bindings.push(part.into());
        self
    }

    /// Adds flags.
    pub(crate) fn flags(self, flags: DispatchFlags) -> Self {
        Self { flags: self.flags | flags, ..self }
    }
}

impl<'a> Call<'a> {
    fn dispatch(&self) -> Dispatch<'_> {
        Dispatch {
            executable: self.executable,
            function: self.function,
            workgroup_size: self.size,
            workgroup_count: self.count,
            dynamic_local_memory: self.local_memory,
            constants: &self.constants,
            bindings: &self.bindings,
            flags: self.flags,
        }
    }
}

/// One step that changes buffers.
enum Step<'a> {
    /// A command with lists of the caller.
    Command(Command<'a>),
    /// A dispatch with its own lists.
    Call(Call<'a>),
}

impl<'a> Step<'a> {
    fn command(&self) -> Result<Command<'_>> {
        match self {
            Self::Command(command) => command.reborrow(),
            Self::Call(call) => Ok(Command::Dispatch(call.dispatch())),
        }
    }
}

/// Steps executed in order, each after the writes of the previous one.
pub(crate) struct Script<'a> {
    harness: &'a Harness<'a>,
    route: Route,
    steps: Vec<Step<'a>>,
    /// The binding table that the steps refer to, if the route needs one.
    table: Vec<BufferRef<&'a Buffer>>,
}

impl<'a> Script<'a> {
    /// An empty script.
    pub(crate) fn new(harness: &'a Harness<'a>, route: Route) -> Self {
        Self { harness, route, steps: Vec::new(), table: Vec::new() }
    }

    /// Adds a fill.
    pub(crate) fn fill(self, target: impl Into<BufferRef<&'a Buffer>>, pattern: &'a [u8]) -> Self {
        self.then(|script| Command::Fill { target: script.place(target.into()), pattern, flags: 0 })
    }

    /// Adds an update.
    pub(crate) fn update(self, source: &'a [u8], target: impl Into<BufferRef<&'a Buffer>>) -> Self {
        self.then(|script| Command::Update { source, target: script.place(target.into()), flags: 0 })
    }

    /// Adds a copy.
    pub(crate) fn copy(
        self,
        source: impl Into<BufferRef<&'a Buffer>>,
        target: impl Into<BufferRef<&'a Buffer>>,
    ) -> Self {
        self.then(|script| {
            let (source, target) = (script.place(source.into()), script.place(target.into()));
            Command::Copy { source, target, flags: 0 }
        })
    }

    /// Adds a dispatch.
    pub(crate) fn call(mut self, mut call: Call<'a>) -> Self {
        call.bindings.iter_mut().for_each(|binding| *binding = self.place(*binding));
        if let WorkgroupCount::Indirect(buffer) = &mut call.count {
            *buffer = self.place(*buffer);
        }
        self.steps.push(Step::Call(call));
        self
    }

    fn then(mut self, command: impl FnOnce(&mut Self) -> Command<'a>) -> Self {
        let command = command(&mut self);
        self.steps.push(Step::Command(command));
        self
    }

    /// How the route refers to `part`; adds what it needs to the binding table.
    fn place(&mut self, part: BufferRef<&'a Buffer>) -> BufferRef<&'a Buffer> {
        let (Route::Slots | Route::Windows, Binding::Direct(buffer)) = (self.route, part.binding) else {
            return part;
        };
        let slot = self.table.len() as u32;
        if self.route == Route::Slots {
            self.table.push(BufferRef::whole(buffer));
            return BufferRef::slot(slot, part.offset, part.length);
        }
        self.table.push(part);
        BufferRef::slot(slot, 0, WHOLE_BUFFER)
    }

    /// Executes it and waits for completion. Returns the first error.
    pub(crate) fn run(&self) -> Result<()> {
        if matches!(self.route, Route::Queue | Route::Queues) {
            return self.run_on_queues();
        }
        let (commands, table) = self.record(CommandBufferMode::ONE_SHOT)?;
        self.harness.execute(&commands, &table)
    }

    /// The script as a command buffer, with its binding table.
    pub(crate) fn record(
        &self,
        mode: CommandBufferMode,
    ) -> Result<(CommandBuffer, Vec<BufferRef<&'a Buffer>>)> {
        let commands = self.harness.begin(mode, self.table.len() as u64)?;
        for (index, step) in self.steps.iter().enumerate() {
            if index != 0 {
                commands.barrier()?;
            }
            commands.record(&step.command()?)?;
        }
        commands.end()?;
        Ok((commands, self.table.clone()))
    }

    fn run_on_queues(&self) -> Result<()> {
        let done = self.harness.semaphore()?;
        for (value, step) in (0..).zip(&self.steps) {
            let waits = [done.at(value)];
            let waits = if value == 0 { &waits[..0] } else { &waits[..] };
            let op = step.command()?.as_queue_op();
            let Some(op) = op else {
                return wrong("a step of a script is not an operation of a queue".into());
            };
            let affinity = match op {
                QueueOp::Dispatch(_) => QUEUE_AFFINITY_ANY,
                _ if self.route == Route::Queues => SECOND_QUEUE,
                _ => QUEUE_AFFINITY_ANY,
            };
            self.harness.device.queue(affinity).wait(waits).signal(&[done.at(value + 1)]).submit(op)?;
        }
        self.harness.wait(&done, self.steps.len() as u64)
    }
}
