//! Payloads of hand-made captures, from what a test says of them.

use rehal_capture::layout::*;
use rehal_hal::{BufferUsage, FunctionInfo, MemoryAccess, MemoryType};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::Id;

/// `length` bytes of `buffer` from `offset`.
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

/// `length` bytes from `offset` of what the binding table has in `slot`.
pub fn slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer_slot: U32::new(slot), ..range(0, offset, length) }
}

/// A request for `size` bytes that may be used for everything and mapped.
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

/// Timepoints from pairs of a semaphore and a value.
pub fn timepoints(pairs: &[(Id, u64)]) -> Vec<SemaphoreTimepoint> {
    pairs
        .iter()
        .map(|(id, value)| SemaphoreTimepoint { semaphore_id: U64::new(*id), value: U64::new(*value) })
        .collect()
}

/// What a recorder writes of an executable's functions; without names, as version 1.0 did, where
/// `named` is false.
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

/// A file of a capture: what its record says.
#[derive(Clone, Debug)]
pub struct FileSpec {
    pub header: FileObject,
    pub reference: Vec<u8>,
}

impl FileSpec {
    /// A file outside of the capture, without validation beyond its length.
    pub fn external(path: &std::path::Path, length: u64) -> Self {
        Self::new(1, path.as_os_str().as_encoded_bytes(), length)
    }

    /// A file whose bytes are in the capture.
    pub fn inline(bytes: &[u8]) -> Self {
        Self::new(2, bytes, bytes.len() as u64)
    }

    /// A file of which the capture holds what was read.
    pub fn ranges(path: &str, length: u64) -> Self {
        Self::new(3, path.as_bytes(), length)
    }

    /// A file by reference of any type.
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

    /// The program may write to it as well.
    pub fn writable(mut self) -> Self {
        self.header.access = U32::new((MemoryAccess::READ | MemoryAccess::WRITE).bits().into());
        self
    }

    /// Must be the file with this device, inode and time of modification in nanoseconds.
    pub fn identity(mut self, [device, inode, mtime_ns]: [u64; 3]) -> Self {
        self.header.validation_type = U32::new(1);
        self.header.file_device = U64::new(device);
        self.header.file_inode = U64::new(inode);
        self.header.file_mtime_ns = U64::new(mtime_ns);
        self
    }

    /// Must have contents with this FNV-1a-64.
    pub fn digest(mut self, digest: u64) -> Self {
        self.header.validation_type = U32::new(2);
        self.header.digest_type = U16::new(1);
        self.header.digest[..8].copy_from_slice(&digest.to_le_bytes());
        self
    }
}
