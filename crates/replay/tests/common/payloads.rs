//! Payloads of hand-built captures.

use rehal_capture::layout::*;
use rehal_hal::{BufferUsage, FunctionInfo, MemoryAccess, MemoryType};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::Id;

/// `length` bytes of `buffer` at `offset`.
pub fn range(buffer: Id, offset: u64, length: u64) -> BufferRef {
    BufferRef {
        buffer_id: U64::new(buffer),
        offset: U64::new(offset),
        length: U64::new(length),
        ..BufferRef::default()
    }
}

/// All of `buffer`.
pub fn whole(buffer: Id) -> BufferRef {
    range(buffer, 0, u64::MAX)
}

/// `length` bytes at `offset` of the binding in `slot`.
pub fn slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer_slot: U32::new(slot), ..range(0, offset, length) }
}

/// A request for `size` mappable bytes that allow every use.
pub fn allocation(size: u64) -> AllocateBuffer {
    let usage = BufferUsage::TRANSFER_SOURCE
        | BufferUsage::TRANSFER_TARGET
        | BufferUsage::DISPATCH_STORAGE_READ
        | BufferUsage::DISPATCH_STORAGE_WRITE
        | BufferUsage::DISPATCH_INDIRECT_PARAMETERS
        | BufferUsage::MAPPING_SCOPED
        | BufferUsage::MAPPING_ACCESS_RANDOM;
    let access = MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD;
    AllocateBuffer {
        allocation_size: U64::new(size),
        queue_affinity: U64::new(u64::MAX),
        usage: U32::new(usage.bits()),
        memory_type: U32::new((MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE).bits()),
        access: U16::new(access.bits()),
        ..AllocateBuffer::default()
    }
}

/// Timepoints from pairs of semaphore and value.
pub fn timepoints(pairs: &[(Id, u64)]) -> Vec<SemaphoreTimepoint> {
    pairs
        .iter()
        .map(|(id, value)| SemaphoreTimepoint { semaphore_id: U64::new(*id), value: U64::new(*value) })
        .collect()
}

/// The recorded description of an executable's functions; without names, as in version 1.0, unless `named`.
pub fn metadata(functions: &[FunctionInfo], named: bool) -> Vec<u8> {
    let parameters: usize = functions.iter().map(|it| it.parameters.len()).sum();
    let names: String = functions.iter().filter(|_| named).map(|it| it.name.as_str()).collect();
    let mut bytes = ExecutableMetadataHeader {
        function_count: U64::new(functions.len() as u64),
        parameter_count: U64::new(parameters as u64),
        function_name_storage_length: U64::new(names.len() as u64),
        reserved1: U64::ZERO,
    }
    .as_bytes()
    .to_vec();
    for it in functions {
        let function = FunctionMetadata {
            flags: U64::new(it.flags),
            workgroup_size: it.workgroup_size.map(U32::new),
            constant_count: U16::new(it.constant_count),
            binding_count: U16::new(it.binding_count),
            parameter_count: U16::new(it.parameters.len() as u16),
            name_length: U16::new(if named { it.name.len() as u16 } else { 0 }),
            ..FunctionMetadata::default()
        };
        bytes.extend_from_slice(function.as_bytes());
    }
    for it in functions.iter().flat_map(|it| &it.parameters) {
        let parameter = ParameterMetadata {
            offset: U16::new(it.offset),
            flags: U16::new(it.flags),
            parameter_type: it.kind,
            size: it.size,
            reserved0: U16::ZERO,
        };
        bytes.extend_from_slice(parameter.as_bytes());
    }
    bytes.extend_from_slice(names.as_bytes());
    bytes
}

/// The fields of a file's record.
#[derive(Clone, Debug)]
pub struct FileSpec {
    pub header: FileObject,
    pub reference: Vec<u8>,
}

impl FileSpec {
    /// An external file, validated only by its length.
    pub fn external(path: &std::path::Path, length: u64) -> Self {
        Self::new(1, path.as_os_str().as_encoded_bytes(), length)
    }

    /// A file stored in the capture.
    pub fn inline(bytes: &[u8]) -> Self {
        Self::new(2, bytes, bytes.len() as u64)
    }

    /// A file whose reads are stored in the capture.
    pub fn ranges(path: &str, length: u64) -> Self {
        Self::new(3, path.as_bytes(), length)
    }

    /// A referenced file of any reference type.
    pub fn new(reference_type: u32, reference: &[u8], length: u64) -> Self {
        let header = FileObject {
            queue_affinity: U64::new(u64::MAX),
            file_length: U64::new(length),
            access: U32::new(MemoryAccess::READ.bits().into()),
            reference_type: U32::new(reference_type),
            ..FileObject::default()
        };
        Self { header, reference: reference.to_vec() }
    }

    /// Allows writes.
    pub fn writable(mut self) -> Self {
        self.header.access = U32::new((MemoryAccess::READ | MemoryAccess::WRITE).bits().into());
        self
    }

    /// Validated by this device, inode and modification time in nanoseconds.
    pub fn identity(mut self, [device, inode, mtime_ns]: [u64; 3]) -> Self {
        self.header.validation_type = U32::new(1);
        self.header.file_device = U64::new(device);
        self.header.file_inode = U64::new(inode);
        self.header.file_mtime_ns = U64::new(mtime_ns);
        self
    }

    /// Validated by this FNV-1a-64 digest of the contents.
    pub fn digest(mut self, digest: u64) -> Self {
        self.header.validation_type = U32::new(2);
        self.header.digest_type = U16::new(1);
        self.header.digest[..8].copy_from_slice(&digest.to_le_bytes());
        self
    }
}
