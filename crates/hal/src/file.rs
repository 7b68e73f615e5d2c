use std::any::Any;
use std::sync::Arc;

use rehal_base::{Error, HostMemory, Range, Result};

use crate::flags::MemoryAccess;

/// A driver's implementation of a file.
pub trait FileBackend: Any + Send + Sync {
    /// Fills `range` of `target` with the bytes at `offset`; fails if the file is too short.
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()>;

    /// Writes `range` of `source` at `offset`.
    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()>;
}

/// Bytes outside of device memory that queues read and write: a cheap clone of a shared object.
#[derive(Clone)]
pub struct File(Arc<Shared<dyn FileBackend>>);

struct Shared<B: ?Sized> {
    access: MemoryAccess,
    length: u64,
    backend: B,
}

impl File {
    /// A file of `length` bytes over a driver's backend.
    #[doc(hidden)]
    pub fn new(access: MemoryAccess, length: u64, backend: impl FileBackend + 'static) -> Self {
        Self(Arc::new(Shared { access, length, backend }))
    }

    /// Number of accessible bytes.
    pub fn length(&self) -> u64 {
        self.0.length
    }

    /// The allowed access.
    pub fn access(&self) -> MemoryAccess {
        self.0.access
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn FileBackend {
        &self.0.backend
    }

    /// Whether both handles refer to the same file.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Fails unless the file allows `access` and contains the range.
    pub fn require(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<()> {
        if !self.0.access.contains(access) {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!("file access does not allow {access:?} (allowed: {:?})", self.0.access),
            ));
        }
        match Range::new(offset, length) {
            Some(range) if range.fits(self.0.length) => Ok(()),
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a file of {} bytes",
                self.0.length
            ))),
        }
    }
}

/// A host file: an open file, or memory.
pub enum HostFile {
    /// An open file, accessed at explicit offsets.
    Disk(std::fs::File),
    /// Host memory, shared by the file, with the same length.
    Memory(HostMemory),
}

impl HostFile {
    /// A memory file with a copy of `bytes`. Fails if memory is exhausted.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let memory = HostMemory::allocate(bytes.len() as u64)?;
        memory.write(0, bytes)?;
        Ok(Self::Memory(memory))
    }

    /// Converts it to a file for queues, for drivers that access it at explicit offsets. Fails if write
    /// access is requested for constant memory.
    pub fn into_file(self, access: MemoryAccess) -> Result<File> {
        if let Self::Memory(memory) = &self
            && access.contains(MemoryAccess::WRITE)
            && !memory.is_writable()
        {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                "read-only memory cannot back a writable file",
            ));
        }
        Ok(File::new(access, self.length()?, self))
    }

    /// Number of bytes.
    pub fn length(&self) -> Result<u64> {
        match self {
            Self::Disk(file) => match file.metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(error) => Err(Error::io("reading the length of a file", &error)),
            },
            Self::Memory(memory) => Ok(memory.length()),
        }
    }
}

impl From<std::fs::File> for HostFile {
    fn from(file: std::fs::File) -> Self {
        Self::Disk(file)
    }
}

impl FileBackend for HostFile {
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()> {
        match self {
            Self::Disk(file) => {
                target.read_file_at(file, offset, range)?.map_err(|error| Error::io("reading a file", &error))
            }
            Self::Memory(memory) => target.copy_from(range.offset, memory, offset, range.length),
        }
    }

    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()> {
        match self {
            Self::Disk(file) => source
                .write_file_at(file, offset, range)?
                .map_err(|error| Error::io("writing a file", &error)),
            Self::Memory(memory) => memory.copy_from(offset, source, range.offset, range.length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_and_memory_files_behave_the_same() {
        let disk = HostFile::Disk(tempfile::tempfile().unwrap());
        for file in [disk, HostFile::from_bytes(&[0; 12]).unwrap()] {
            let memory = HostMemory::allocate(16).unwrap();
            memory.write(4, &[1, 2, 3, 4]).unwrap();
            file.write_at(8, &memory, Range::new(4, 4).unwrap()).unwrap();
            file.read_at(7, &memory, Range::new(0, 3).unwrap()).unwrap();
            assert_eq!(memory.load::<6>(0).unwrap(), [0, 1, 2, 0, 1, 2]);
            assert!(file.read_at(10, &memory, Range::new(0, 3).unwrap()).is_err());
            assert!(file.read_at(0, &memory, Range::new(14, 3).unwrap()).is_err());
        }
    }

    #[test]
    fn a_truncated_file_is_data_loss() {
        let file = HostFile::Disk(tempfile::tempfile().unwrap());
        let memory = HostMemory::allocate(16).unwrap();
        let beyond = file.read_at(4, &memory, memory.whole()).unwrap_err();
        assert_eq!(beyond.code(), rehal_base::StatusCode::DataLoss);
    }
}
