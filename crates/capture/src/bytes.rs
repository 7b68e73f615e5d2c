use std::path::Path;
use std::sync::{Arc, OnceLock};

use rehal_base::{Error, FormatError, HostMemory, MappedFile, Range, Result};

use crate::reader::check_present;
use crate::{Capture, OpenOptions};

/// The bytes of a capture and their owner: a mapped file, or memory. A clone shares them.
#[derive(Clone)]
pub struct CaptureBytes {
    owner: Owner,
    /// Shared by the clones, since it takes a pass over the file.
    digest: Arc<OnceLock<[u8; 32]>>,
}

#[derive(Clone)]
enum Owner {
    File(Arc<MappedFile>),
    Memory(Arc<Vec<u8>>),
}

impl CaptureBytes {
    /// Maps the regular file at `path`. Its contents are not read until it is opened as a capture.
    pub fn map(path: &Path) -> Result<Self> {
        MappedFile::open(path).map(Self::from)
    }

    /// Opens the bytes as a capture: see [`Capture::open`].
    #[doc(hidden)]
    pub fn open(&self, options: OpenOptions) -> std::result::Result<Capture<'_>, FormatError> {
        match &self.owner {
            Owner::File(file) => Capture::open_mapped(file, options),
            Owner::Memory(bytes) => Capture::open(bytes, options),
        }
    }

    /// Fails if a mapped file has been truncated since: reading it would end the process with SIGBUS.
    pub fn check_present(&self) -> Result<()> {
        match &self.owner {
            Owner::File(file) => Ok(check_present(file)?),
            Owner::Memory(_) => Ok(()),
        }
    }

    /// Fails if memory may have pages of a mapped file that has been changed since: see
    /// [`MappedFile::check_unchanged`].
    #[doc(hidden)]
    pub fn check_unchanged(&self) -> Result<()> {
        match &self.owner {
            Owner::File(file) => file.check_unchanged(),
            Owner::Memory(_) => Ok(()),
        }
    }

    /// All bytes, including those after the end of the capture.
    pub fn as_slice(&self) -> &[u8] {
        match &self.owner {
            Owner::File(file) => file.bytes(),
            Owner::Memory(bytes) => bytes,
        }
    }

    /// A range of the bytes as constant memory, zero-copy for a mapped file. Fails if the range is out of
    /// bounds, or if allocating a copy fails.
    pub fn memory(&self, range: Range) -> Result<HostMemory> {
        match &self.owner {
            Owner::File(file) => HostMemory::over_file(file.clone(), range),
            Owner::Memory(bytes) => match range.fits(bytes.len() as u64) {
                true => HostMemory::constant(&bytes[range.offset as usize..][..range.length as usize]),
                false => Err(Error::out_of_range("the range exceeds the bytes of the capture")),
            },
        }
    }

    /// The path of the mapped file; `None` for bytes in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.owner {
            Owner::File(file) => Some(file.path()),
            Owner::Memory(_) => None,
        }
    }

    /// The mapped file; `None` for bytes in memory.
    #[doc(hidden)]
    pub fn file(&self) -> Option<&MappedFile> {
        match &self.owner {
            Owner::File(file) => Some(file),
            Owner::Memory(_) => None,
        }
    }

    /// The digest of all bytes, which `compute` is called for once, also if several clones ask for it.
    pub fn digest(&self, compute: impl FnOnce(&Self) -> [u8; 32]) -> [u8; 32] {
        *self.digest.get_or_init(|| compute(self))
    }

    /// Evicts the pages of a mapped file in `offset..offset + length`, which are faulted in again on the next
    /// read, so that a walk over a large file keeps its working set small. No-op for bytes in memory.
    pub fn forget(&self, offset: u64, length: u64) {
        if let Owner::File(file) = &self.owner {
            file.forget(offset as usize, length as usize);
        }
    }
}

impl From<Owner> for CaptureBytes {
    fn from(owner: Owner) -> Self {
        Self { owner, digest: Arc::default() }
    }
}

#[doc(hidden)]
impl From<MappedFile> for CaptureBytes {
    fn from(file: MappedFile) -> Self {
        Owner::File(Arc::new(file)).into()
    }
}

#[doc(hidden)]
impl From<Arc<MappedFile>> for CaptureBytes {
    fn from(file: Arc<MappedFile>) -> Self {
        Owner::File(file).into()
    }
}

impl From<Vec<u8>> for CaptureBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Owner::Memory(Arc::new(bytes)).into()
    }
}

impl From<Arc<Vec<u8>>> for CaptureBytes {
    fn from(bytes: Arc<Vec<u8>>) -> Self {
        Owner::Memory(bytes).into()
    }
}
