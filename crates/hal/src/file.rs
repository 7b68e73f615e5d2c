use std::any::Any;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rehal_base::{Error, HostMemory, Range, Result};

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

/// A file of the host: an open file, or memory.
pub enum HostFile {
    /// An open file, read and written by position.
    Disk(std::fs::File),
    /// Memory of the host, which the file shares; as long as it is.
    Memory(HostMemory),
}

impl HostFile {
    /// A copy of `bytes` in memory as a file. Fails when the machine has not that much memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let memory = HostMemory::allocate(bytes.len() as u64)?;
        memory.write(0, bytes)?;
        Ok(Self::Memory(memory))
    }

    /// The file as one that queues can use, for drivers that read and write it by position. Fails where
    /// constant memory is to be written.
    pub fn into_file(self, access: MemoryAccess) -> Result<File> {
        if let Self::Memory(memory) = &self
            && access.contains(MemoryAccess::WRITE)
            && !memory.is_writable()
        {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                "constant memory is imported as a file to write",
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

impl FileBackend for HostFile {
    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        match self {
            Self::Disk(file) => read_disk(file, offset, target),
            Self::Memory(memory) => memory.read(offset, target),
        }
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        match self {
            Self::Disk(file) => {
                file.write_all_at(source, offset).map_err(|error| Error::io("writing a file", &error))
            }
            Self::Memory(memory) => memory.write(offset, source),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// From this size on, a read is split among the processors: what takes the time is copying, and
/// the first touch of the pages that it goes to.
const PARALLEL_FROM_BYTES: usize = 32 << 20;

fn read_disk(file: &std::fs::File, offset: u64, target: &mut [u8]) -> Result<()> {
    let read = |offset, part: &mut [u8]| {
        file.read_exact_at(part, offset).map_err(|error| Error::io("reading a file", &error))
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    if target.len() < PARALLEL_FROM_BYTES || processors == 1 {
        return read(offset, target);
    }
    // Whole huge pages for each, so that no two readers fault on the same one.
    let part_bytes = target.len().div_ceil(processors).next_multiple_of(2 << 20);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0u64..)
            .zip(target.chunks_mut(part_bytes))
            .map(|(index, part)| scope.spawn(move || read(offset + index * part_bytes as u64, part)))
            .collect();
        // All are waited for; the first failure, in file order, is the one to tell.
        readers.into_iter().map(join).fold(Ok(()), Result::and)
    })
}

fn join(reader: std::thread::ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    match reader.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_read_is_the_same_bytes_however_it_is_split() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..PARALLEL_FROM_BYTES as u32 / 4 + 1000).flat_map(u32::to_le_bytes).collect();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let disk = HostFile::Disk(file);
        let mut target = vec![0; bytes.len() - 3];
        disk.read_at(3, &mut target).unwrap();
        assert!(target == bytes[3..]);
        let beyond = disk.read_at(4, &mut target).unwrap_err();
        assert_eq!(beyond.code(), rehal_base::StatusCode::DataLoss);
    }
}
