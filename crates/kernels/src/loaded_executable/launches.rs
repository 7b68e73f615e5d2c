use rehal_base::{Context, Error, Result, StatusCode, plural};
use rehal_hal::{
    Buffer, BufferRef, CommandBuffer, CommandBufferParams, Device, Dispatch, Executable, FunctionInfo,
    QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags, WHOLE_BUFFER,
};

/// Maximum number of dispatches that are launched together: each allocates memory for its arguments.
pub const MAX_LAUNCHES: u32 = 1 << 20;

/// The arguments of a dispatch.
#[derive(Clone)]
#[non_exhaustive]
pub struct LaunchArguments {
    /// The function's ordinal.
    pub function: u32,
    /// Number of workgroups in x, y and z. Default: 1 each. If one is zero, nothing runs.
    pub workgroup_count: [u32; 3],
    /// Workgroup size in x, y and z. Default: zero, so that the driver chooses.
    pub workgroup_size: [u32; 3],
    /// Dynamic workgroup-local memory in bytes, in addition to the function's static memory. Default: 0.
    pub dynamic_local_memory: u32,
    /// 32-bit constants; their number must be the function's. Default: none.
    pub constants: Vec<u32>,
    /// Buffers, by binding ordinal; their number must be the function's. Default: none.
    pub bindings: Vec<LaunchBinding>,
}

/// A range of a buffer. Several bindings may share bytes.
#[derive(Clone)]
#[non_exhaustive]
pub struct LaunchBinding {
    /// The buffer.
    pub buffer: Buffer,
    /// First byte.
    pub offset: u64,
    /// Number of bytes, or [`WHOLE_BUFFER`].
    pub length: u64,
}

/// Dispatches of a function, recorded once and launched repeatedly with the same memory.
pub struct Launches {
    device: Device,
    commands: CommandBuffer,
    done: Semaphore,
    /// The last value of `done` that a run signals.
    payload: u64,
    count: u32,
}

impl LaunchArguments {
    /// One workgroup of a function, without constants and bindings.
    pub fn for_function(function: u32) -> Self {
        Self {
            function,
            workgroup_count: [1; 3],
            workgroup_size: [0; 3],
            dynamic_local_memory: 0,
            constants: Vec::new(),
            bindings: Vec::new(),
        }
    }

    /// Number of workgroups; `OUT_OF_RANGE` if it exceeds 64 bits.
    pub fn total_workgroups(&self) -> Result<u64> {
        let [x, y, z] = self.workgroup_count.map(u64::from);
        let total = if [x, y, z].contains(&0) { Some(0) } else { (x * y).checked_mul(z) };
        total.ok_or_else(|| {
            Error::out_of_range(format!("{x}x{y}x{z} workgroups are more than 64 bits count"))
                .advise("give a smaller workgroup count")
        })
    }

    /// Fails unless the function takes this many constants and bindings, in words that say what was given.
    fn check(&self, function: &FunctionInfo) -> Result<()> {
        let (constants, bindings) = (self.constants.len(), self.bindings.len());
        for (wanted, given, what) in
            [(function.constant_count, constants, "constant"), (function.binding_count, bindings, "binding")]
        {
            if usize::from(wanted) != given {
                return Err(Error::invalid_argument(format!(
                    "function '{}' takes {}, found {given}",
                    function.name.escape_debug(),
                    plural(wanted.into(), what)
                ))
                .advise(format!("give each {what} of the function, in order")));
            }
        }
        self.total_workgroups().map(drop)
    }
}

impl LaunchBinding {
    /// All of a buffer.
    pub fn whole(buffer: Buffer) -> Self {
        Self { buffer, offset: 0, length: WHOLE_BUFFER }
    }

    /// `length` bytes of a buffer from `offset`.
    pub fn range(buffer: Buffer, offset: u64, length: u64) -> Self {
        Self { buffer, offset, length }
    }
}

impl Launches {
    pub(super) fn record(
        device: &Device,
        executable: &Executable,
        arguments: &LaunchArguments,
        count: u32,
    ) -> Result<Self> {
        if !(1..=MAX_LAUNCHES).contains(&count) {
            return Err(Error::new(
                StatusCode::OutOfRange,
                format!("{count} dispatches cannot be launched together: 1 to {MAX_LAUNCHES} can"),
            ));
        }
        let function = executable.function(arguments.function)?;
        arguments.check(function)?;
        let place = || format!("function '{}'", function.name.escape_debug());
        for (ordinal, it) in arguments.bindings.iter().enumerate() {
            it.buffer
                .resolve(it.offset, it.length)
                .context(|| format!("binding {ordinal}"))
                .context(place)?;
        }
        let constants: Vec<u8> = arguments.constants.iter().flat_map(|it| it.to_le_bytes()).collect();
        let bindings = arguments.bindings.iter();
        let bindings: Vec<_> =
            bindings.map(|it| BufferRef::range(&it.buffer, it.offset, it.length)).collect();
        let commands = device.create_command_buffer(CommandBufferParams::default())?;
        commands.begin()?;
        let dispatch = Dispatch::new(executable, arguments.function, arguments.workgroup_count)
            .workgroup_size(arguments.workgroup_size)
            .dynamic_local_memory(arguments.dynamic_local_memory)
            .constants(&constants)
            .bindings(&bindings);
        for _ in 0..count {
            commands.dispatch(&dispatch).context(place)?;
            // Each dispatch sees what the one before it wrote.
            commands.barrier()?;
        }
        commands.end().context(place)?;
        let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
        Ok(Self { device: device.clone(), commands, done, payload: 0, count })
    }

    /// Number of dispatches of each run.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Launches the dispatches and waits for them: one submission, and no allocation by this function. Its
    /// duration is that of launch, execution and synchronization. After an error, every further run fails.
    pub fn run(&mut self) -> Result<()> {
        self.payload += 1;
        let signals = [self.done.at(self.payload)];
        self.device.queue(QUEUE_AFFINITY_ANY).signal(&signals).execute(&self.commands, &[], 0)?;
        self.done.wait(self.payload, None)
    }
}
