use rehal_base::Result;

use crate::flags::*;
use crate::{BufferParams, CommandBufferParams, FileSource, Names, RenameHost};

/// Host operations around commands and submissions.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the names are those of the HAL")]
pub enum HostOp<N: Names> {
    /// Creates an object.
    Create(CreateOp<N>),
    BeginCommandBuffer {
        command_buffer: N::CommandBuffer,
    },
    EndCommandBuffer {
        command_buffer: N::CommandBuffer,
    },
    Map(RangeOp<N>),
    /// Carries the bytes that the host may have written while it was mapped.
    Unmap(RangeOp<N>, Option<N::Bytes>),
    Invalidate(RangeOp<N>),
    /// Carries the flushed bytes.
    Flush(RangeOp<N>, Option<N::Bytes>),
    FlushQueue {
        device: N::Device,
    },
    Trim {
        device: N::Device,
    },
    TrimAllocator {
        allocator: N::Allocator,
    },
    ScopeBegin {
        name: N::Bytes,
    },
    ScopeEnd {
        name: N::Bytes,
    },
}

/// Queries, profiling and topology: calls that no later result depends on. A replay skips them.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the names are those of the HAL")]
pub enum InfoOp<N: Names> {
    AssignTopology { device: N::Device },
    BeginProfiling { device: N::Device },
    FlushProfiling { device: N::Device },
    EndProfiling { device: N::Device },
    BeginExternalCapture { device: N::Device },
    EndExternalCapture { device: N::Device },
    QueryDevice { device: N::Device, query: DeviceQuery },
    QueryMemoryHeaps { allocator: N::Allocator },
    QueryExecutable { executable: N::Executable, query: ExecutableQuery },
}

/// A device query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the HAL")]
pub enum DeviceQuery {
    I64,
    Capabilities,
    QueuePool,
}

/// An executable query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the HAL")]
pub enum ExecutableQuery {
    FunctionCount,
    FunctionInfo,
    FunctionParameters,
    LookupFunction,
}

/// Creates an object; carries the name of the new object.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields have the names of the HAL's arguments")]
pub enum CreateOp<N: Names> {
    /// The next device of the group, which existed before the program.
    Device {
        created: N::Created<N::Device>,
    },
    /// The allocator of a device, created with it.
    Allocator {
        device: N::Device,
        created: N::Created<N::Allocator>,
    },
    Semaphore {
        device: N::Device,
        affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
        created: N::Created<N::Semaphore>,
    },
    CommandBuffer {
        device: N::Device,
        params: CommandBufferParams,
        created: N::Created<N::CommandBuffer>,
    },
    Event {
        device: N::Device,
        affinity: QueueAffinity,
        flags: u32,
        created: N::Created<N::Event>,
    },
    ExecutableCache {
        device: N::Device,
        identifier: N::Bytes,
        created: N::Created<N::ExecutableCache>,
    },
    Executable(PrepareExecutable<N>),
    File(ImportFile<N>),
    Buffer {
        allocator: N::Allocator,
        params: BufferParams,
        size: u64,
        created: N::Created<N::Buffer>,
    },
    /// Imports host memory as a buffer; carries its contents.
    ImportedBuffer {
        allocator: N::Allocator,
        params: BufferParams,
        size: u64,
        flags: u32,
        data: N::Bytes,
        created: N::Created<N::Buffer>,
    },
}

/// Prepares code for a device.
#[derive(Clone, Copy)]
pub struct PrepareExecutable<N: Names> {
    /// The executable cache.
    pub cache: N::ExecutableCache,
    /// The queues that it will execute on.
    pub affinity: QueueAffinity,
    /// Flags for its preparation.
    pub caching_mode: CachingMode,
    /// The format's name, such as `embedded-elf-x86_64`.
    pub format: N::Bytes,
    /// The code, in that format.
    pub data: N::Bytes,
    /// 32-bit specialization constants, little-endian.
    pub constants: N::Bytes,
    /// The device's reflection of its functions, in capture form; empty unless prepared.
    pub metadata: N::Captured<N::Bytes>,
    /// The executable.
    pub created: N::Created<N::Executable>,
}

/// Imports a host file into a device.
#[derive(Clone, Copy)]
pub struct ImportFile<N: Names> {
    /// The device.
    pub device: N::Device,
    /// The queues that may use it.
    pub affinity: QueueAffinity,
    /// The allowed access.
    pub access: MemoryAccess,
    /// Number of bytes.
    pub length: u64,
    /// The source of its bytes.
    pub source: N::Captured<FileSource<N::Bytes>>,
    /// The file.
    pub created: N::Created<N::File>,
}

/// A host access to a range of a buffer.
#[derive(Clone, Copy)]
pub struct RangeOp<N: Names> {
    /// The buffer.
    pub buffer: N::Buffer,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The lifetime of a mapping; zero for other operations.
    pub mode: MappingMode,
    /// The host's access to the bytes.
    pub access: MemoryAccess,
}

impl<N: Names> HostOp<N> {
    /// The same operation under other names.
    pub fn rename<T: Names, R: RenameHost<N, T>>(self, names: &mut R) -> Result<HostOp<T>> {
        use HostOp as To;
        Ok(match self {
            Self::Create(op) => To::Create(op.rename(names)?),
            Self::BeginCommandBuffer { command_buffer } => {
                To::BeginCommandBuffer { command_buffer: names.command_buffer(command_buffer)? }
            }
            Self::EndCommandBuffer { command_buffer } => {
                To::EndCommandBuffer { command_buffer: names.command_buffer(command_buffer)? }
            }
            Self::Map(range) => To::Map(range.rename(names)?),
            Self::Unmap(range, data) => {
                To::Unmap(range.rename(names)?, data.map(|data| names.bytes(data)).transpose()?)
            }
            Self::Invalidate(range) => To::Invalidate(range.rename(names)?),
            Self::Flush(range, data) => {
                To::Flush(range.rename(names)?, data.map(|data| names.bytes(data)).transpose()?)
            }
            Self::FlushQueue { device } => To::FlushQueue { device: names.device(device)? },
            Self::Trim { device } => To::Trim { device: names.device(device)? },
            Self::TrimAllocator { allocator } => To::TrimAllocator { allocator: names.allocator(allocator)? },
            Self::ScopeBegin { name } => To::ScopeBegin { name: names.bytes(name)? },
            Self::ScopeEnd { name } => To::ScopeEnd { name: names.bytes(name)? },
        })
    }
}

impl<N: Names> CreateOp<N> {
    /// The same operation under other names. Operands are renamed before the created object.
    pub fn rename<T: Names, R: RenameHost<N, T>>(self, names: &mut R) -> Result<CreateOp<T>> {
        use CreateOp as To;
        Ok(match self {
            Self::Device { created } => To::Device { created: names.created_device(created)? },
            Self::Allocator { device, created } => {
                let device = names.device(device)?;
                To::Allocator { device, created: names.created_allocator(device, created)? }
            }
            Self::Semaphore { device, affinity, initial_value, flags, created } => {
                let device = names.device(device)?;
                let created = names.created_semaphore(created)?;
                To::Semaphore { device, affinity, initial_value, flags, created }
            }
            Self::CommandBuffer { device, params, created } => {
                let device = names.device(device)?;
                To::CommandBuffer { device, params, created: names.created_command_buffer(created)? }
            }
            Self::Event { device, affinity, flags, created } => {
                let device = names.device(device)?;
                To::Event { device, affinity, flags, created: names.created_event(created)? }
            }
            Self::ExecutableCache { device, identifier, created } => {
                let (device, identifier) = (names.device(device)?, names.bytes(identifier)?);
                let created = names.created_executable_cache(device, created)?;
                To::ExecutableCache { device, identifier, created }
            }
            Self::Executable(op) => To::Executable(op.rename(names)?),
            Self::File(op) => To::File(op.rename(names)?),
            Self::Buffer { allocator, params, size, created } => {
                let allocator = names.allocator(allocator)?;
                To::Buffer { allocator, params, size, created: names.created_buffer(created)? }
            }
            Self::ImportedBuffer { allocator, params, size, flags, data, created } => {
                let (allocator, data) = (names.allocator(allocator)?, names.bytes(data)?);
                let created = names.created_buffer(created)?;
                To::ImportedBuffer { allocator, params, size, flags, data, created }
            }
        })
    }
}

impl<N: Names> PrepareExecutable<N> {
    /// The same code under other names.
    pub fn rename<T: Names, R: RenameHost<N, T>>(self, names: &mut R) -> Result<PrepareExecutable<T>> {
        Ok(PrepareExecutable {
            cache: names.executable_cache(self.cache)?,
            affinity: self.affinity,
            caching_mode: self.caching_mode,
            format: names.bytes(self.format)?,
            data: names.bytes(self.data)?,
            constants: names.bytes(self.constants)?,
            metadata: names.captured_metadata(self.metadata)?,
            created: names.created_executable(self.created)?,
        })
    }
}

impl<N: Names> ImportFile<N> {
    /// The same file under other names.
    pub fn rename<T: Names, R: RenameHost<N, T>>(self, names: &mut R) -> Result<ImportFile<T>> {
        Ok(ImportFile {
            device: names.device(self.device)?,
            affinity: self.affinity,
            access: self.access,
            length: self.length,
            source: names.captured_source(self.source)?,
            created: names.created_file(self.created)?,
        })
    }
}

impl<N: Names> RangeOp<N> {
    /// The same access under another name.
    pub fn rename<T: Names, R: RenameHost<N, T>>(self, names: &mut R) -> Result<RangeOp<T>> {
        let Self { buffer, offset, length, mode, access } = self;
        Ok(RangeOp { buffer: names.buffer(buffer)?, offset, length, mode, access })
    }
}
