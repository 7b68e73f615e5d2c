use rehal_base::{Error, HostMemory, Range, Result, StatusCode};
use rehal_hal::{Device, HostFile, MemoryAccess};
use rehal_vm::Call;

use super::HalState;
use super::arguments::handle;
use super::handle::Handle;

/// `(device, affinity, access, bytes, offset, length, flags) -> file`: the program's bytes as a file,
/// zero-copy.
pub(super) fn from_memory(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device: &Device = handle(call, 0)?;
    let access = MemoryAccess::from_bits_retain(call.u32(2)? as u16);
    let bytes: &rehal_vm::Buffer = call.object(3)?;
    if call.u32(2)? & !u32::from(MemoryAccess::READ.bits()) != 0 {
        return Err(Error::new(
            StatusCode::PermissionDenied,
            "only read-only memory can be accessed via a file handle (today)",
        ));
    }
    let (offset, length) = (call.u64(4)?, call.u64(5)?);
    let range = Range::new(offset, length).ok_or_else(|| {
        Error::out_of_range(format!(
            "{length} bytes at offset {offset} exceed a buffer of {} bytes",
            bytes.length()
        ))
    })?;
    let memory = HostMemory::part(bytes.memory(), range)?;
    let file = device.import_file(call.u64(1)?, access, HostFile::Memory(memory))?;
    call.push(Handle::reference(file));
    Ok(())
}
