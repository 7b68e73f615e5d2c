//! Tensors on a device, or in plain memory for programs that have none.

use rehal_base::{HostMemory, Range, Result};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, BufferView, Device, Encoding, MemoryAccess, MemoryType, PlainBuffer,
    WHOLE_BUFFER,
};
use rehal_values::TensorType;

use super::inputs::TensorBytes;

/// What it takes to map memory from time to time.
pub(crate) const MAPPING: BufferUsage = BufferUsage::MAPPING_SCOPED.union(BufferUsage::MAPPING_ACCESS_RANDOM);

/// A tensor that a program can take, filled through a mapping.
pub(crate) fn upload(
    device: Option<&Device>,
    tensor_type: &TensorType,
    mut bytes: TensorBytes<'_>,
) -> Result<BufferView> {
    let size = tensor_type.size_bytes()?;
    let wanted = BufferParams {
        usage: BufferParams::default().usage | MAPPING,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    let buffer = match device {
        // As the reference, which asks what it would get and then for that.
        Some(device) => device.allocate_buffer(device.backend().grant(wanted)?, size)?,
        None => plain(size, wanted)?,
    };
    let mapping = buffer.map(MemoryAccess::WRITE | MemoryAccess::DISCARD, 0, size)?;
    mapping.with_bytes_mut(|target| bytes.fill(target))??;
    drop(mapping);
    BufferView::new(buffer, &tensor_type.shape, tensor_type.element_type, Encoding::DENSE_ROW_MAJOR)
}

/// A buffer of the host alone.
fn plain(size: u64, params: BufferParams) -> Result<Buffer> {
    let params = BufferParams { memory_type: params.memory_type | MemoryType::HOST_LOCAL, ..params };
    Ok(Buffer::new(params, size, PlainBuffer::allocate(size)?))
}

/// A tensor in host memory that no device knows.
pub(crate) struct HostTensor {
    pub tensor_type: TensorType,
    memory: HostMemory,
}

impl HostTensor {
    pub(crate) fn new(tensor_type: &TensorType, mut bytes: TensorBytes<'_>) -> Result<Self> {
        let size = tensor_type.size_bytes()?;
        let memory = HostMemory::allocate(size)?;
        memory.with_bytes_mut(0, size, |target| bytes.fill(target))??;
        Ok(Self { tensor_type: tensor_type.clone(), memory })
    }

    /// Shows the bytes to `look`.
    pub(crate) fn with_bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let Range { offset, length } = Range { offset: 0, length: self.memory.length() };
        self.memory.with_bytes(offset, length, look)
    }
}

/// The type of what a view shows.
pub(crate) fn type_of(view: &BufferView) -> TensorType {
    TensorType { shape: view.shape().to_vec(), element_type: view.element_type() }
}

/// Shows the bytes of a buffer that the host can reach, all of them, to `look`.
pub(crate) fn with_bytes<R>(buffer: &Buffer, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
    buffer.map(MemoryAccess::READ, 0, WHOLE_BUFFER)?.with_bytes(look)
}
