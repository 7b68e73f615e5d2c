use crate::flags::*;

/// The requested or granted parameters of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferParams {
    /// Allowed usage.
    pub usage: BufferUsage,
    /// Allowed access to its memory.
    pub access: MemoryAccess,
    /// Its memory type.
    pub memory_type: MemoryType,
    /// The queues that may use it.
    pub affinity: QueueAffinity,
    /// Minimum alignment in bytes; 0 lets the device choose.
    pub min_alignment: u64,
    /// The offset in a file from which the first byte will be read, modulo 2^64, if that is known: a device
    /// may choose the address so that its memory is the file's. Captures do not contain it.
    pub file_offset: Option<u64>,
}

impl Default for BufferParams {
    /// Device-local memory for dispatches and transfers, on any queue.
    fn default() -> Self {
        Self {
            usage: BufferUsage::TRANSFER_SOURCE
                | BufferUsage::TRANSFER_TARGET
                | BufferUsage::DISPATCH_STORAGE_READ
                | BufferUsage::DISPATCH_STORAGE_WRITE,
            access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD,
            memory_type: MemoryType::DEVICE_LOCAL,
            affinity: QUEUE_AFFINITY_ANY,
            min_alignment: 0,
            file_offset: None,
        }
    }
}

impl BufferParams {
    /// Memory that the host can map, too: in any order, for as long as a mapping lives.
    pub fn mappable(self) -> Self {
        Self {
            usage: self.usage | BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_ACCESS_RANDOM,
            memory_type: self.memory_type | MemoryType::HOST_VISIBLE,
            ..self
        }
    }

    /// Completes the fields that are zero, like the reference's HAL does for every driver.
    pub fn canonical(self) -> Self {
        Self {
            usage: if self.usage.is_empty() { Self::default().usage } else { self.usage },
            access: if self.access.is_empty() { Self::default().access } else { self.access },
            memory_type: if self.memory_type.is_empty() { MemoryType::OPTIMAL } else { self.memory_type },
            affinity: if self.affinity == 0 { QUEUE_AFFINITY_ANY } else { self.affinity },
            ..self
        }
    }
}

/// The parameters of a command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandBufferParams {
    /// How it may be recorded and executed.
    pub mode: CommandBufferMode,
    /// The categories of commands it may contain.
    pub categories: CommandCategories,
    /// The queues that it will execute on.
    pub affinity: QueueAffinity,
    /// Capacity of the binding table that its commands refer to.
    pub binding_capacity: u64,
}

/// For commands of both categories on any queue, executed any number of times, without slots.
impl Default for CommandBufferParams {
    fn default() -> Self {
        Self {
            mode: CommandBufferMode::empty(),
            categories: CommandCategories::TRANSFER | CommandCategories::DISPATCH,
            affinity: QUEUE_AFFINITY_ANY,
            binding_capacity: 0,
        }
    }
}

impl CommandBufferParams {
    /// Whether it is executed at most once.
    pub fn one_shot(mut self, is_one_shot: bool) -> Self {
        self.mode.set(CommandBufferMode::ONE_SHOT, is_one_shot);
        self
    }

    /// The number of slots that its commands may use in place of buffers.
    pub fn slots(self, count: u64) -> Self {
        Self { binding_capacity: count, ..self }
    }
}
