use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use rehal_base::{Error, HostMemory, Range, Result, StatusCode};
use siphasher::sip::SipHasher24;

use crate::{NamedObject, Object};

/// A program's byte buffer (`!vm.buffer`): shared host memory, readable and optionally writable by the
/// program.
///
/// Constants of a module are zero-copy buffers over the mapped module file.
pub struct Buffer {
    memory: Arc<HostMemory>,
    is_mutable: bool,
}

impl Buffer {
    /// A writable buffer of `length` zeroed bytes, aligned to `alignment` (a power of two; 0 for any). Fails
    /// if the allocation fails.
    pub fn allocate(length: u64, alignment: u64) -> Result<Self> {
        Ok(Self { memory: Arc::new(HostMemory::allocate_aligned(length, alignment)?), is_mutable: true })
    }

    /// A buffer over `memory`, writable by the program if the memory is.
    pub fn over(memory: Arc<HostMemory>) -> Self {
        let is_mutable = memory.is_writable();
        Self { memory, is_mutable }
    }

    /// A read-only buffer over `memory`.
    pub fn constant(memory: Arc<HostMemory>) -> Self {
        Self { memory, is_mutable: false }
    }

    /// A read-only buffer with a copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self::constant(Arc::new(HostMemory::constant(bytes)?)))
    }

    /// The memory of the whole buffer.
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// Length in bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        self.memory.length()
    }

    /// Whether the program can write to it.
    pub fn is_mutable(&self) -> bool {
        self.is_mutable
    }

    /// The memory, for writing; fails if the buffer is read-only.
    #[inline]
    pub fn memory_mut(&self) -> Result<&Arc<HostMemory>> {
        if self.is_mutable { Ok(&self.memory) } else { Err(read_only()) }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length() as usize];
        // The range is the whole memory.
        let _ = self.memory.read(0, &mut bytes);
        bytes
    }

    /// `N` bytes at `offset` bytes.
    #[inline]
    pub fn load<const N: usize>(&self, offset: u64) -> Result<[u8; N]> {
        self.memory.load(offset)
    }

    /// Stores `N` bytes at `offset` bytes.
    #[inline]
    pub fn store<const N: usize>(&self, offset: u64, value: [u8; N]) -> Result<()> {
        self.memory_mut()?.store(offset, value)
    }

    /// Element `index` of the buffer as an array of elements of `N` bytes.
    #[inline(always)]
    pub fn load_element<const N: usize>(&self, index: u64) -> Result<[u8; N]> {
        self.memory.load_element(index)
    }

    /// Stores element `index` of the buffer as an array of elements of `N` bytes.
    #[inline(always)]
    pub fn store_element<const N: usize>(&self, index: u64, value: [u8; N]) -> Result<()> {
        self.memory_mut()?.store_element(index, value)
    }

    /// A new writable buffer with a copy of a range.
    pub fn clone_range(&self, offset: u64, length: u64, alignment: u64) -> Result<Self> {
        // Checked before anything is allocated.
        self.check(offset, length)?;
        let copy = HostMemory::allocate_aligned(length, alignment)?;
        copy.copy_from(0, &self.memory, offset, length)?;
        Ok(Self { memory: Arc::new(copy), is_mutable: true })
    }

    /// Copies `length` bytes from `source`, which may be this buffer.
    pub fn copy_from(&self, offset: u64, source: &Self, source_offset: u64, length: u64) -> Result<()> {
        source.check(source_offset, length)?;
        self.memory_mut()?.copy_from(offset, &source.memory, source_offset, length)
    }

    /// Whether `length` bytes here and in `other` are equal.
    pub fn compare(&self, offset: u64, other: &Self, other_offset: u64, length: u64) -> Result<bool> {
        self.memory.is_equal(offset, &other.memory, other_offset, length)
    }

    /// Fills `length` bytes, a multiple of the pattern's length, with `pattern`.
    pub fn fill(&self, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
        self.memory_mut()?.fill(offset, length, pattern)
    }

    /// SipHash-2-4 of a range under the key of bytes 0 to 15, as `vm.buffer.hash` defines it.
    pub fn hash(&self, offset: u64, length: u64) -> Result<i64> {
        self.check(offset, length)?;
        let mut hasher = SipHasher24::new_with_keys(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        self.memory.for_each_chunk(Range { offset, length }, |bytes| {
            hasher.write(bytes);
            Ok::<_, Error>(())
        })?;
        Ok(hasher.finish() as i64)
    }

    fn check(&self, offset: u64, length: u64) -> Result<()> {
        match Range::new(offset, length) {
            Some(range) if range.fits(self.length()) => Ok(()),
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a buffer of {} bytes",
                self.length()
            ))),
        }
    }
}

#[cold]
fn read_only() -> Error {
    Error::new(StatusCode::PermissionDenied, "the buffer is read-only")
}

impl Object for Buffer {
    fn type_name(&self) -> &'static str {
        Self::TYPE_NAME
    }
}

impl NamedObject for Buffer {
    const TYPE_NAME: &'static str = "vm.buffer";
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes{}", self.length(), if self.is_mutable { "" } else { ", read-only" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_access_are_checked() {
        let buffer = Buffer::allocate(8, 16).unwrap();
        buffer.store(4, 7_u32.to_le_bytes()).unwrap();
        assert_eq!(buffer.load::<8>(0).unwrap(), [0, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(buffer.store(5, [0; 4]).unwrap_err().code(), StatusCode::OutOfRange);
        let clone = buffer.clone_range(4, 4, 1).unwrap();
        assert!(clone.is_mutable() && clone.compare(0, &buffer, 4, 4).unwrap());
        assert_eq!(buffer.clone_range(4, u64::MAX, 1).unwrap_err().code(), StatusCode::OutOfRange);
        let constant = Buffer::from_bytes(&[1, 2]).unwrap();
        assert_eq!(constant.store(0, [0]).unwrap_err().code(), StatusCode::PermissionDenied);
        assert_eq!(constant.fill(0, 1, &[0]).unwrap_err().code(), StatusCode::PermissionDenied);
        buffer.copy_from(0, &constant, 0, 2).unwrap();
        assert_eq!(buffer.copy_from(0, &constant, 1, 2).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(buffer.to_vec(), [1, 2, 0, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn hashes_are_siphash_2_4() {
        // The first test vectors of the SipHash paper and its reference implementation.
        let bytes: Vec<u8> = (0..15).collect();
        let buffer = Buffer::from_bytes(&bytes).unwrap();
        assert_eq!(buffer.hash(0, 15).unwrap() as u64, 0xa129_ca61_49be_45e5);
        assert_eq!(buffer.hash(0, 0).unwrap() as u64, 0x726f_db47_dd0e_0e31);
    }

    /// Writable bytes are hashed in copied chunks, constant bytes in place.
    #[test]
    fn a_hash_does_not_depend_on_chunking() {
        let bytes: Vec<u8> = (0..150_000_u32).map(|index| (index * 7) as u8).collect();
        let constant = Buffer::from_bytes(&bytes).unwrap();
        let mutable = constant.clone_range(0, 150_000, 0).unwrap();
        for (offset, length) in [(0, 150_000), (3, 4096), (3, 4097), (5, 70_001)] {
            assert_eq!(mutable.hash(offset, length).unwrap(), constant.hash(offset, length).unwrap());
        }
        assert!(mutable.hash(1, 150_000).is_err());
    }
}
