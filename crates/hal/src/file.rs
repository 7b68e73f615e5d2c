use std::any::Any;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::RwLock;
use rehal_base::{Error, Range, Result};

use crate::flags::MemoryAccess;

/// What a driver does for a file.
pub trait FileBackend: Send + Sync {
    /// Fills `target` from the bytes at `offset`; fails where the file ends before.
    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<()>;

    /// Writes `source` at `offset`.
    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()>;

    /// The backend itself, for the driver that made it.
    fn as_any(&self) -> &dyn Any;
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
    pub fn new(access: MemoryAccess, length: u64, backend: impl FileBackend + 'static) -> Self {
        Self(Arc::new(Shared { access, length, backend }))
    }

    /// Number of bytes that may be accessed.
    pub fn length(&self) -> u64 {
        self.0.length
    }

    /// What may be done with it.
    pub fn access(&self) -> MemoryAccess {
        self.0.access
    }

    /// The backend.
    pub fn backend(&self) -> &dyn FileBackend {
        &self.0.backend
    }

    /// Whether both handles are of one file.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Fails unless the file allows `access` and holds the range.
    pub fn require(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<()> {
        if !self.0.access.contains(access) {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!("the file does not allow {access:?}; it allows {:?}", self.0.access),
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

/// A file of the host: an open file, or bytes in memory.
pub enum HostFile {
    /// An open file, read and written by position.
    Disk(std::fs::File),
    /// Bytes in memory.
    Memory(RwLock<Vec<u8>>),
}

impl HostFile {
    /// Bytes in memory as a file.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self::Memory(RwLock::new(bytes))
    }

    /// The file as one that queues can use, for drivers that read and write it by position.
    pub fn into_file(self, access: MemoryAccess) -> Result<File> {
        Ok(File::new(access, self.length()?, self))
    }

    /// Number of bytes.
    pub fn length(&self) -> Result<u64> {
        match self {
            Self::Disk(file) => match file.metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(error) => Err(Error::io("reading the length of a file", &error)),
            },
            Self::Memory(bytes) => Ok(bytes.read().len() as u64),
        }
    }
}

impl FileBackend for HostFile {
    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        match self {
            Self::Disk(file) => {
                file.read_exact_at(target, offset).map_err(|error| Error::io("reading a file", &error))
            }
            Self::Memory(bytes) => {
                let bytes = bytes.read();
                let source = slice_range(offset, target.len(), bytes.len())?;
                target.copy_from_slice(&bytes[source]);
                Ok(())
            }
        }
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        match self {
            Self::Disk(file) => {
                file.write_all_at(source, offset).map_err(|error| Error::io("writing a file", &error))
            }
            Self::Memory(bytes) => {
                let mut bytes = bytes.write();
                let target = slice_range(offset, source.len(), bytes.len())?;
                bytes[target].copy_from_slice(source);
                Ok(())
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn slice_range(offset: u64, length: usize, size: usize) -> Result<std::ops::Range<usize>> {
    match Range::new(offset, length as u64) {
        Some(range) if range.fits(size as u64) => Ok(offset as usize..offset as usize + length),
        _ => Err(Error::out_of_range(format!(
            "{length} bytes at offset {offset} exceed a file of {size} bytes"
        ))),
    }
}
