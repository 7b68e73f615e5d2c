use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use rehal_base::{Error, HostMemory, MappedFile, Range, Result};

use crate::flags::MemoryAccess;

/// Shorter reads are copies.
const LARGE_BYTES: u64 = 1 << 20;

/// A driver's implementation of a file.
pub trait FileBackend: Any + Send + Sync {
    /// Fills `range` of `target` with the bytes at `offset`; fails if the file is too short. The memory may
    /// be the file's from then on: see [`HostMemory::map_file_at`].
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()>;

    /// Writes `range` of `source` at `offset`.
    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()>;

    /// Fails if memory is the file's and it has been changed since it was imported: what used the memory may
    /// have seen either contents.
    fn check_unchanged(&self) -> Result<()>;
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
    /// An open file, accessed at explicit offsets. Memory may have pages of it.
    Disk(std::fs::File),
    /// An open file, accessed at explicit offsets, and copied.
    Copied(std::fs::File),
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
        let is_copied = matches!(self, Self::Copied(_)) || access.contains(MemoryAccess::WRITE);
        match self {
            Self::Disk(file) | Self::Copied(file) => {
                let reading = |error| Error::io("reading the length of a file", &error);
                let metadata = file.metadata().map_err(reading)?;
                // Now: what is changed from here on has changed while it is in use.
                let map = (!is_copied && metadata.len() >= LARGE_BYTES).then(|| file.try_clone().ok());
                let map =
                    map.flatten().and_then(|file| MappedFile::from_file(file, Path::new("a file")).ok());
                Ok(File::new(access, metadata.len(), DiskFile { file, map: map.map(Arc::new) }))
            }
            Self::Memory(memory) => Ok(File::new(access, memory.length(), MemoryFile(memory))),
        }
    }
}

impl From<std::fs::File> for HostFile {
    fn from(file: std::fs::File) -> Self {
        Self::Disk(file)
    }
}

/// A file on disk.
struct DiskFile {
    file: std::fs::File,
    /// The file, mapped, of which memory may have pages; `None` if it is short, if it cannot be mapped, or if
    /// what queues have read must not change, as when they may write it.
    map: Option<Arc<MappedFile>>,
}

impl FileBackend for DiskFile {
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()> {
        let reading = |error| Error::io("reading a file", &error);
        match self.map.as_ref().filter(|_| range.length >= LARGE_BYTES) {
            Some(map) => target.map_file_at(map, offset, range)?.map(drop).map_err(reading),
            None => target.read_file_at(&self.file, offset, range)?.map_err(reading),
        }
    }

    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()> {
        let written = source.write_file_at(&self.file, offset, range)?;
        written.map_err(|error| Error::io("writing a file", &error))
    }

    fn check_unchanged(&self) -> Result<()> {
        self.map.as_ref().map_or(Ok(()), |map| map.check_unchanged())
    }
}

/// Host memory as a file.
struct MemoryFile(HostMemory);

impl FileBackend for MemoryFile {
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()> {
        target.map_from(range.offset, &self.0, Range { offset, ..range })
    }

    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()> {
        self.0.copy_from(offset, source, range.offset, range.length)
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_and_memory_files_behave_the_same() {
        let disk = HostFile::Disk(tempfile::tempfile().unwrap());
        for file in [disk, HostFile::from_bytes(&[0; 12]).unwrap()] {
            let file = file.into_file(MemoryAccess::READ | MemoryAccess::WRITE).unwrap();
            let file = file.backend();
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
        let file = HostFile::Disk(tempfile::tempfile().unwrap()).into_file(MemoryAccess::READ).unwrap();
        let memory = HostMemory::allocate(16).unwrap();
        let beyond = file.backend().read_at(4, &memory, memory.whole()).unwrap_err();
        assert_eq!(beyond.code(), rehal_base::StatusCode::DataLoss);
    }
    /// Bytes written to a file show in memory that is its; no run may pass for one with either contents.
    #[test]
    fn a_file_that_changes_while_memory_is_its_own_is_data_loss() {
        use std::io::Write;
        let mut disk = tempfile::NamedTempFile::new().unwrap();
        disk.write_all(&[7; 3 << 20]).unwrap();
        let is_mapped = |access, offset| {
            let file = HostFile::Disk(std::fs::File::open(disk.path()).unwrap()).into_file(access).unwrap();
            let memory = HostMemory::allocate_for_file(2 << 20, 0, Some(64)).unwrap();
            file.backend().read_at(offset, &memory, memory.whole()).unwrap();
            file.backend().check_unchanged().unwrap();
            let set = |seconds| {
                let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
                disk.as_file().set_modified(time).unwrap();
            };
            set(1);
            let outcome = file.backend().check_unchanged();
            set(2);
            assert!(memory.bytes(memory.whole()).unwrap().iter().all(|byte| *byte == 7));
            outcome.is_err_and(|error| error.code() == rehal_base::StatusCode::DataLoss)
        };
        assert_eq!(is_mapped(MemoryAccess::READ, 64), cfg!(target_os = "linux"));
        assert!(!is_mapped(MemoryAccess::READ, 65), "copied, as the address does not fit");
        assert!(
            !is_mapped(MemoryAccess::READ | MemoryAccess::WRITE, 64),
            "copied, as the program may write it"
        );
    }
}
