//! Tensors on a device, or in host memory for programs without devices.

use std::sync::Arc;

use rehal_base::{HostMemory, Result};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, BufferView, Device, Encoding, MemoryAccess, MemoryType, PlainBuffer,
    WHOLE_BUFFER, transfer,
};
use rehal_values::TensorType;

use super::inputs::TensorBytes;

/// The usage required for scoped mapping.
pub const MAPPING: BufferUsage = BufferUsage::MAPPING_SCOPED.union(BufferUsage::MAPPING_ACCESS_RANDOM);

/// Creates a filled tensor.
pub fn upload(
    device: Option<&Device>,
    tensor_type: &TensorType,
    mut bytes: TensorBytes<'_>,
) -> Result<BufferView> {
    let size = tensor_type.size_bytes()?;
    let buffer = allocate(device, size)?;
    let mut at = 0;
    transfer::write_with(&buffer, MemoryAccess::WRITE | MemoryAccess::DISCARD, 0, size, |memory, range| {
        bytes.fill(at, memory, range)?;
        at += range.length;
        Ok(())
    })?;
    BufferView::new(buffer, &tensor_type.shape, tensor_type.element_type, Encoding::DENSE_ROW_MAJOR)
}

/// Memory of the device that the host can access.
fn wanted() -> BufferParams {
    BufferParams {
        usage: BufferParams::default().usage | MAPPING,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    }
}

/// Creates a tensor over memory, which has its size.
pub fn import(
    device: Option<&Device>,
    tensor_type: &TensorType,
    memory: &Arc<HostMemory>,
) -> Result<BufferView> {
    let mut params = wanted();
    if !memory.is_writable() {
        params.access = MemoryAccess::READ;
    }
    let buffer = match device {
        Some(device) => device.import_buffer(params, memory, memory.whole())?,
        None => {
            let params = BufferParams { memory_type: params.memory_type | MemoryType::HOST_LOCAL, ..params };
            let memory = HostMemory::part(memory, memory.whole())?;
            Buffer::new(params, memory.length(), PlainBuffer::over(memory))
        }
    };
    BufferView::new(buffer, &tensor_type.shape, tensor_type.element_type, Encoding::DENSE_ROW_MAJOR)
}

/// Memory of the device that the host can access, or of the host.
pub fn allocate(device: Option<&Device>, size: u64) -> Result<Buffer> {
    let wanted = wanted();
    match device {
        // Like the reference, which queries compatibility and then requests the resulting parameters.
        Some(device) => device.allocate_buffer(device.backend().grant(wanted)?, size),
        None => plain(size, wanted),
    }
}

/// A host-only buffer.
fn plain(size: u64, params: BufferParams) -> Result<Buffer> {
    let params = BufferParams { memory_type: params.memory_type | MemoryType::HOST_LOCAL, ..params };
    Ok(Buffer::new(params, size, PlainBuffer::allocate(size)?))
}

/// A tensor in host memory, unknown to any device.
pub struct HostTensor {
    /// Its type.
    pub tensor_type: TensorType,
    /// Constant.
    memory: HostMemory,
}

impl HostTensor {
    /// Allocates and fills one.
    pub fn new(tensor_type: &TensorType, mut bytes: TensorBytes<'_>) -> Result<Self> {
        let size = tensor_type.size_bytes()?;
        let memory = HostMemory::allocate(size)?;
        bytes.fill(0, &memory, memory.whole())?;
        Ok(Self { tensor_type: tensor_type.clone(), memory: memory.into_constant()? })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.constant_bytes().unwrap_or_default()
    }
}

/// The tensor type of a view.
pub fn type_of(view: &BufferView) -> TensorType {
    TensorType { shape: view.shape().to_vec(), element_type: view.element_type() }
}

/// Passes the first `length` bytes of a buffer to `look`; all if it has fewer.
pub fn view_part<R>(buffer: &Buffer, length: u64, look: impl FnOnce(&HostMemory) -> Result<R>) -> Result<R> {
    transfer::view(buffer, 0, length.min(buffer.size()), look)
}

/// Passes all bytes of a buffer to `look`.
pub fn view<R>(buffer: &Buffer, look: impl FnOnce(&HostMemory) -> Result<R>) -> Result<R> {
    transfer::view(buffer, 0, WHOLE_BUFFER, look)
}
