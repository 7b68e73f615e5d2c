use rehal_base::{Error, Result};
use rehal_hal::{Buffer, BufferParams, BufferUsage, MemoryAccess};

/// The bytes around each buffer of a run.
pub(crate) struct Redzones {
    /// On each side; 0 for none.
    bytes: u64,
}

/// The alignment of redzones, and the largest of buffers.
const ALIGNMENT: u64 = 4096;
/// Maximum size of redzones.
const MAX_BYTES: u64 = 1 << 30;

impl Redzones {
    pub(super) fn new(bytes: u64) -> Result<Self> {
        match bytes.is_multiple_of(ALIGNMENT) && bytes <= MAX_BYTES {
            true => Ok(Self { bytes }),
            false => Err(Error::invalid_argument(format!(
                "redzones of {bytes} bytes (expected a multiple of {ALIGNMENT}, at most {MAX_BYTES})"
            ))),
        }
    }

    /// The parameters and the size to allocate for a buffer. Observers may fill it, whatever the program did.
    #[inline]
    pub(super) fn around(&self, params: BufferParams, size: u64) -> Result<(BufferParams, u64)> {
        match self.bytes {
            0 => Ok((params, size)),
            _ => self.enlarge(params, size),
        }
    }

    fn enlarge(&self, params: BufferParams, size: u64) -> Result<(BufferParams, u64)> {
        let params = params.canonical();
        if params.min_alignment > ALIGNMENT {
            return Err(Error::new(
                rehal_base::StatusCode::Unimplemented,
                format!("no redzones for a buffer with an alignment of {} bytes", params.min_alignment),
            ));
        }
        let whole = size.checked_add(2 * self.bytes).ok_or_else(|| {
            Error::resource_exhausted(format!("a buffer of {size} bytes has no room for redzones"))
        })?;
        let transfers = BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET;
        let access = params.access | MemoryAccess::READ | MemoryAccess::WRITE;
        Ok((BufferParams { usage: params.usage | transfers, access, ..params }, whole))
    }

    /// The buffer in its allocation.
    #[inline]
    pub(super) fn inside(&self, allocated: Buffer, size: u64) -> Result<Buffer> {
        match self.bytes {
            0 => Ok(allocated),
            bytes => allocated.subspan(bytes, size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redzones_keep_alignments() {
        for bytes in [1, 4095, 2 * MAX_BYTES, u64::MAX] {
            assert!(Redzones::new(bytes).is_err(), "{bytes}");
        }
        let redzones = Redzones::new(8192).unwrap();
        let params = BufferParams { usage: BufferUsage::DISPATCH_STORAGE_READ, ..BufferParams::default() };
        let (around, size) = redzones.around(params, 100).unwrap();
        assert_eq!(size, 16_484);
        assert!(around.usage.contains(params.usage | BufferUsage::TRANSFER_TARGET));
        assert!(redzones.around(params, u64::MAX - 100).is_err());
        assert!(redzones.around(BufferParams { min_alignment: 8192, ..params }, 100).is_err());
        let none = Redzones::new(0).unwrap();
        assert_eq!(none.around(params, u64::MAX).unwrap(), (params, u64::MAX));
    }
}
