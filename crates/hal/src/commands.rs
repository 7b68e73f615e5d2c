//! The commands of a command buffer, a function each, as queues have them for their operations; and
//! dispatches by what a program knows of them.

use rehal_base::Result;

use crate::flags::{AccessScope, DispatchFlags, ExecutionStage};
use crate::{
    Buffer, BufferRef, Command, CommandBuffer, Dispatch, Event, Executable, Live, MemoryBarrier,
    WorkgroupCount,
};

/// All that precedes a barrier, and all that follows one.
const SOURCE_STAGES: ExecutionStage =
    ExecutionStage::DISPATCH.union(ExecutionStage::TRANSFER).union(ExecutionStage::COMMAND_RETIRE);
const TARGET_STAGES: ExecutionStage =
    ExecutionStage::COMMAND_ISSUE.union(ExecutionStage::DISPATCH).union(ExecutionStage::TRANSFER);

/// All that commands write becomes visible to all that they access.
const EVERYTHING: MemoryBarrier = MemoryBarrier {
    source_scope: AccessScope::DISPATCH_WRITE.union(AccessScope::TRANSFER_WRITE),
    target_scope: AccessScope::INDIRECT_COMMAND_READ
        .union(AccessScope::DISPATCH_READ)
        .union(AccessScope::DISPATCH_WRITE)
        .union(AccessScope::TRANSFER_READ)
        .union(AccessScope::TRANSFER_WRITE),
};

/// Errors are those of [`CommandBuffer::record`].
impl CommandBuffer {
    /// Fills a range with a pattern of 1, 2 or 4 bytes.
    pub fn fill<'b>(&self, target: impl Into<BufferRef<&'b Buffer>>, pattern: &[u8]) -> Result<()> {
        self.record(&Command::Fill { target: target.into(), pattern, flags: 0 })
    }

    /// Writes host bytes, which are copied before this returns.
    pub fn update<'b>(&self, source: &[u8], target: impl Into<BufferRef<&'b Buffer>>) -> Result<()> {
        self.record(&Command::Update { source, target: target.into(), flags: 0 })
    }

    /// Copies a range of a buffer to another.
    pub fn copy<'b>(
        &self,
        source: impl Into<BufferRef<&'b Buffer>>,
        target: impl Into<BufferRef<&'b Buffer>>,
    ) -> Result<()> {
        self.record(&Command::Copy { source: source.into(), target: target.into(), flags: 0 })
    }

    /// Dispatches a kernel.
    pub fn dispatch(&self, dispatch: &Dispatch<Live<'_>>) -> Result<()> {
        self.record(&Command::Dispatch(*dispatch))
    }

    /// Later commands wait for all earlier ones, and see their writes.
    pub fn barrier(&self) -> Result<()> {
        self.record(&Command::ExecutionBarrier {
            source_stages: SOURCE_STAGES,
            target_stages: TARGET_STAGES,
            flags: 0,
            memory_barriers: &[EVERYTHING],
            buffer_barriers: &[],
        })
    }

    /// Signals an event when all that precedes is complete.
    pub fn signal_event(&self, event: &Event) -> Result<()> {
        self.record(&Command::SignalEvent { event, source_stages: SOURCE_STAGES })
    }

    /// Resets an event when all that precedes is complete.
    pub fn reset_event(&self, event: &Event) -> Result<()> {
        self.record(&Command::ResetEvent { event, source_stages: SOURCE_STAGES })
    }

    /// Later commands wait for events, and see all writes before their signals.
    pub fn wait_events(&self, events: &[&Event]) -> Result<()> {
        self.record(&Command::WaitEvents {
            events,
            source_stages: SOURCE_STAGES,
            target_stages: TARGET_STAGES,
            memory_barriers: &[EVERYTHING],
            buffer_barriers: &[],
        })
    }
}

impl<'a> Dispatch<Live<'a>> {
    /// Dispatches a function, by its ordinal, without constants and bindings. The driver chooses the size of
    /// workgroups.
    pub fn new(executable: &'a Executable, function: u32, workgroup_count: [u32; 3]) -> Self {
        Self {
            executable,
            function,
            workgroup_size: [0; 3],
            workgroup_count: WorkgroupCount::Static(workgroup_count),
            dynamic_local_memory: 0,
            constants: &[],
            bindings: &[],
            flags: DispatchFlags::empty(),
        }
    }

    /// The 32-bit constants, little-endian.
    pub fn constants(self, constants: &'a [u8]) -> Self {
        Self { constants, ..self }
    }

    /// The buffers, by binding ordinal.
    pub fn bindings(self, bindings: &'a [BufferRef<&'a Buffer>]) -> Self {
        Self { bindings, ..self }
    }

    /// The workgroup size in x, y and z.
    pub fn workgroup_size(self, workgroup_size: [u32; 3]) -> Self {
        Self { workgroup_size, ..self }
    }

    /// Dynamic workgroup-local memory in bytes, in addition to the function's static memory.
    pub fn dynamic_local_memory(self, dynamic_local_memory: u32) -> Self {
        Self { dynamic_local_memory, ..self }
    }
}
