use std::any::Any;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::{Error, HostMemory, MappedFile, Range, Result, StatusCode};
use rehal_capture::{DigestType, FileReferenceType, FileValidationType, layout};
use rehal_hal::{File, FileBackend, HostFile};
use zerocopy::little_endian::{U16, U32, U64};

use super::names::Recorded;
use super::stream::Stream;
use super::{FilePolicy, FileValidation, RecordOptions};

/// A file that queues read and write on the record.
pub(super) struct RecordedFile {
    pub base: File,
    pub id: u64,
    /// The contents, where reads are recorded with what they give.
    contents: Option<MappedFile>,
    stream: Arc<Stream>,
}

impl RecordedFile {
    /// The handle of file `id`, which the device made as `base`.
    pub fn wrap(base: File, id: u64, description: Description, stream: &Arc<Stream>) -> File {
        let (access, length) = (base.access(), base.length());
        let contents = match description.reference {
            Reference::Ranges { contents, .. } => Some(contents),
            _ => None,
        };
        File::new(access, length, Self { base, id, contents, stream: stream.clone() })
    }

    /// What a read of `range` gives, where the capture is to hold it.
    pub fn captured(&self, range: Range) -> Result<&[u8]> {
        let Some(contents) = &self.contents else { return Ok(&[]) };
        let bytes = contents.bytes();
        if !range.fits(bytes.len() as u64) {
            return Err(Error::new(
                StatusCode::Unavailable,
                format!(
                    "{} bytes at offset {} cannot be captured: the file has {} bytes",
                    range.length,
                    range.offset,
                    bytes.len()
                ),
            ));
        }
        Ok(&bytes[range.offset as usize..][..range.length as usize])
    }
}

impl FileBackend for RecordedFile {
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()> {
        self.base.backend().read_at(offset, target, range)
    }

    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()> {
        self.base.backend().write_at(offset, source, range)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Recorded for RecordedFile {
    const NAME: &'static str = "a file";

    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}

/// What a capture holds of an imported file.
pub(super) struct Description {
    /// All that its operation does not say; without the length of what is stored.
    pub header: layout::FileObject,
    pub reference: Reference,
}

/// Where the bytes of an imported file are.
pub(super) enum Reference {
    /// Nowhere: the file is refused.
    Nothing,
    /// At this path.
    External(PathBuf),
    /// At this path, and in the records of the reads.
    Ranges { path: PathBuf, contents: MappedFile },
    /// In the capture: those of this file.
    InlineFile(MappedFile),
    /// In the capture: those of this memory.
    InlineMemory(Arc<HostMemory>),
}

/// A file that is about to be imported, kept so that it can be described once it is.
pub(super) enum Source {
    /// A file on disk.
    Disk(std::fs::File),
    /// Memory.
    Memory(Arc<HostMemory>),
}

impl Source {
    /// What `file` is, and the file again to import.
    pub fn of(file: HostFile) -> Result<(Self, HostFile)> {
        match file {
            HostFile::Disk(file) => {
                let same =
                    file.try_clone().map_err(|error| Error::io("keeping a file to record it", &error))?;
                Ok((Self::Disk(same), HostFile::Disk(file)))
            }
            HostFile::Memory(memory) => {
                let memory = Arc::new(memory);
                let whole = Range { offset: 0, length: memory.length() };
                let part = HostMemory::part(&memory, whole)?;
                Ok((Self::Memory(memory), HostFile::Memory(part)))
            }
        }
    }

    /// What the capture holds of it; with an error, what it holds of the refusal.
    pub fn describe(self, length: u64, options: &RecordOptions) -> (Description, Result<()>) {
        /// `IREE_IO_FILE_HANDLE_TYPE_HOST_ALLOCATION` and `IREE_IO_FILE_HANDLE_TYPE_FD`.
        const HOST_ALLOCATION: u32 = 0;
        const FILE_DESCRIPTOR: u32 = 1;
        let header = |handle_type, reference_type: FileReferenceType| layout::FileObject {
            handle_type: U32::new(handle_type),
            reference_type: U32::new(reference_type.0),
            ..Default::default()
        };
        let file = match self {
            Self::Memory(memory) => {
                let header = header(HOST_ALLOCATION, FileReferenceType::INLINE_BYTES);
                return (Description { header, reference: Reference::InlineMemory(memory) }, Ok(()));
            }
            Self::Disk(file) => file,
        };
        match describe_disk(&file, length, options) {
            Ok((rest, reference_type, reference)) => {
                let header = layout::FileObject {
                    handle_type: U32::new(FILE_DESCRIPTOR),
                    reference_type: U32::new(reference_type.0),
                    ..rest
                };
                (Description { header, reference }, Ok(()))
            }
            Err(error) => {
                let header = header(FILE_DESCRIPTOR, FileReferenceType::NONE);
                (Description { header, reference: Reference::Nothing }, Err(error))
            }
        }
    }
}

impl Reference {
    /// The bytes that the capture stores for it, unless they are in memory that may be written.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Nothing | Self::InlineMemory(_) => &[],
            Self::External(path) | Self::Ranges { path, .. } => path.as_os_str().as_bytes(),
            Self::InlineFile(contents) => contents.bytes(),
        }
    }

    /// Whether the bytes are the file's own, which the capture holds once.
    pub fn is_inline(&self) -> bool {
        matches!(self, Self::InlineFile(_) | Self::InlineMemory(_))
    }
}

type Described = (layout::FileObject, FileReferenceType, Reference);

fn describe_disk(file: &std::fs::File, length: u64, options: &RecordOptions) -> Result<Described> {
    // What the system calls the open file, wherever its path leads by now.
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let contents = || MappedFile::open(Path::new(&link));
    let path = || {
        std::fs::read_link(&link).map_err(|error| {
            Error::new(StatusCode::Unavailable, format!("the path of an imported file is not known: {error}"))
        })
    };
    match options.file_policy {
        FilePolicy::Fail => Err(Error::failed_precondition(
            "a file outside of the capture was imported, which the file policy forbids",
        )
        .advise("choose another policy: reference, capture-ranges or capture-all")),
        FilePolicy::CaptureAll => {
            Ok((identity(file)?, FileReferenceType::INLINE_BYTES, Reference::InlineFile(contents()?)))
        }
        FilePolicy::CaptureRanges => {
            let reference = Reference::Ranges { path: path()?, contents: contents()? };
            Ok((identity(file)?, FileReferenceType::CAPTURED_RANGES, reference))
        }
        FilePolicy::Reference => {
            let mut header = identity(file)?;
            match options.file_validation {
                FileValidation::Identity => {
                    header.validation_type = U32::new(FileValidationType::IDENTITY.0);
                }
                FileValidation::Digest => {
                    let digest = crate::files::digest(file, length)?;
                    header.validation_type = U32::new(FileValidationType::CONTENT_DIGEST.0);
                    header.digest_type = U16::new(DigestType::FNV1A_64.0);
                    header.digest[..8].copy_from_slice(&digest.to_le_bytes());
                }
            }
            Ok((header, FileReferenceType::EXTERNAL_PATH, Reference::External(path()?)))
        }
    }
}

/// By what the system knows the file.
fn identity(file: &std::fs::File) -> Result<layout::FileObject> {
    let metadata = file.metadata().map_err(|error| Error::io("asking what an imported file is", &error))?;
    let seconds = metadata.mtime().unsigned_abs();
    Ok(layout::FileObject {
        file_device: U64::new(metadata.dev()),
        file_inode: U64::new(metadata.ino()),
        file_mtime_ns: U64::new(seconds.wrapping_mul(1_000_000_000) + metadata.mtime_nsec().unsigned_abs()),
        ..Default::default()
    })
}
