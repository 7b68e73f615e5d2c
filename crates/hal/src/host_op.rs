use rehal_base::Result;

use crate::flags::*;
use crate::{BufferParams, CommandBufferParams, Names, RenameHost};

/// What the host does around commands and submissions.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the names are the HAL's own")]
pub enum HostOp<N: Names> {
    /// Makes an object.
    Create(CreateOp<N>),
    BeginCommandBuffer {
        command_buffer: N::CommandBuffer,
    },
    EndCommandBuffer {
        command_buffer: N::CommandBuffer,
    },
    Map(RangeOp<N>),
    /// With the bytes that the host wrote while it was mapped, where it may have written.
    Unmap(RangeOp<N>, Option<N::Bytes>),
    Invalidate(RangeOp<N>),
    /// With the bytes that are flushed.
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
    AssignTopology {
        device: N::Device,
    },
    BeginProfiling {
        device: N::Device,
    },
    FlushProfiling {
        device: N::Device,
    },
    EndProfiling {
        device: N::Device,
    },
    BeginExternalCapture {
        device: N::Device,
    },
    EndExternalCapture {
        device: N::Device,
    },
    /// A question, without an effect on what later work computes.
    QueryDevice {
        device: N::Device,
        query: DeviceQuery,
    },
    /// A question, without an effect on what later work computes.
    QueryMemoryHeaps {
        allocator: N::Allocator,
    },
    /// A question, without an effect on what later work computes.
    QueryExecutable {
        executable: N::Executable,
        query: ExecutableQuery,
    },
    ScopeBegin {
        name: N::Bytes,
    },
    ScopeEnd {
        name: N::Bytes,
    },
}

/// What a device is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the HAL's own")]
pub enum DeviceQuery {
    I64,
    Capabilities,
    QueuePool,
}

/// What an executable is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the HAL's own")]
pub enum ExecutableQuery {
    FunctionCount,
    FunctionInfo,
    FunctionParameters,
    LookupFunction,
}

/// What makes an object, and the name that the object gets.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields carry the names of the HAL's arguments")]
pub enum CreateOp<N: Names> {
    /// The next device of the group, which was there before the program.
    Device {
        created: N::Created<N::Device>,
    },
    /// The allocator of a device, which came with it.
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
    Channel {
        device: N::Device,
        created: N::Created<N::Channel>,
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
    /// Host memory that becomes a buffer, with the bytes that it held.
    ImportedBuffer {
        allocator: N::Allocator,
        params: BufferParams,
        size: u64,
        flags: u32,
        data: N::Bytes,
        created: N::Created<N::Buffer>,
    },
}

/// Code that a device is to run, given to it.
#[derive(Clone, Copy)]
pub struct PrepareExecutable<N: Names> {
    /// Where the device keeps it.
    pub cache: N::ExecutableCache,
    /// The queues that it will run on.
    pub affinity: QueueAffinity,
    /// How it may be prepared.
    pub caching_mode: CachingMode,
    /// The format's name, such as `embedded-elf-x86_64`.
    pub format: N::Bytes,
    /// The code, in that format.
    pub data: N::Bytes,
    /// 32-bit specialization constants, little-endian.
    pub constants: N::Bytes,
    /// What the device said of its functions, in the form of captures; empty where it was not prepared.
    pub metadata: N::Captured<N::Bytes>,
    /// The executable.
    pub created: N::Created<N::Executable>,
}

/// A file of the host, given to a device.
#[derive(Clone, Copy)]
pub struct ImportFile<N: Names> {
    /// The device.
    pub device: N::Device,
    /// The queues that it will be used on.
    pub affinity: QueueAffinity,
    /// What may be done with it.
    pub access: MemoryAccess,
    /// Number of bytes.
    pub length: u64,
    /// Where its bytes are.
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
    /// For map: how long it lives. Zero otherwise.
    pub mode: MappingMode,
    /// What the host does with the bytes.
    pub access: MemoryAccess,
}

/// Where the bytes of an imported file are. `B` is how bytes and paths are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSource<B> {
    /// What the program imported: 0 for memory, 1 for an open file (source: `iree_io_file_handle_type_t`).
    pub handle_type: u32,
    /// Flags of the import.
    pub flags: u32,
    /// By what the system knew an open file.
    pub identity: FileIdentity,
    /// Where its bytes are.
    pub contents: FileContents<B>,
}

/// By what a system knows an open file; zeros where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Time of modification in nanoseconds since 1970.
    pub mtime_ns: u64,
}

/// Where the bytes of a captured file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileContents<B> {
    /// Nowhere: the import was refused.
    Nothing,
    /// In a file outside of the capture.
    External {
        /// The path, as the program named it.
        path: B,
        /// How to tell that it is the same file.
        validation: Validation,
    },
    /// In the capture.
    Inline(B),
    /// In the capture, where they are read.
    Ranges {
        /// The path, as the program named it.
        path: B,
    },
}

/// How to tell that a file is the one that was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// By its length alone.
    Length,
    /// By its [`FileIdentity`]; by its length where that is not known.
    Identity,
    /// By the FNV-1a-64 of its contents.
    Digest(u64),
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
            Self::AssignTopology { device } => To::AssignTopology { device: names.device(device)? },
            Self::BeginProfiling { device } => To::BeginProfiling { device: names.device(device)? },
            Self::FlushProfiling { device } => To::FlushProfiling { device: names.device(device)? },
            Self::EndProfiling { device } => To::EndProfiling { device: names.device(device)? },
            Self::BeginExternalCapture { device } => {
                To::BeginExternalCapture { device: names.device(device)? }
            }
            Self::EndExternalCapture { device } => To::EndExternalCapture { device: names.device(device)? },
            Self::QueryDevice { device, query } => To::QueryDevice { device: names.device(device)?, query },
            Self::QueryMemoryHeaps { allocator } => {
                To::QueryMemoryHeaps { allocator: names.allocator(allocator)? }
            }
            Self::QueryExecutable { executable, query } => {
                To::QueryExecutable { executable: names.executable(executable)?, query }
            }
            Self::ScopeBegin { name } => To::ScopeBegin { name: names.bytes(name)? },
            Self::ScopeEnd { name } => To::ScopeEnd { name: names.bytes(name)? },
        })
    }
}

impl<N: Names> CreateOp<N> {
    /// The same operation under other names. What it names is renamed before what it makes.
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
            Self::Channel { device, created } => {
                let device = names.device(device)?;
                To::Channel { device, created: names.created_channel(created)? }
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

impl<B> FileSource<B> {
    /// The same source with its bytes held in another way.
    pub fn try_map_bytes<T, E>(self, hold: impl FnOnce(B) -> Result<T, E>) -> Result<FileSource<T>, E> {
        let Self { handle_type, flags, identity, contents } = self;
        let contents = match contents {
            FileContents::Nothing => FileContents::Nothing,
            FileContents::External { path, validation } => {
                FileContents::External { path: hold(path)?, validation }
            }
            FileContents::Inline(bytes) => FileContents::Inline(hold(bytes)?),
            FileContents::Ranges { path } => FileContents::Ranges { path: hold(path)? },
        };
        Ok(FileSource { handle_type, flags, identity, contents })
    }
}
