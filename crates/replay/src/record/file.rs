use std::path::PathBuf;
use std::sync::Arc;

use rehal_base::platform::{OsStrExt, modified, path_of, reopen_path};
use rehal_base::{Error, FileId, HostMemory, MappedFile, Range, Result, StatusCode};
use rehal_hal::{File, FileBackend, FileContents, FileIdentity, FileSource, HostFile, Validation};

use super::object::{Recorded, handle};
use super::{FilePolicy, FileValidation, RecordOptions};

// The state: the contents, if reads are recorded with their bytes.
handle!(File, "a file", Option<MappedFile>);

impl Recorded<File> {
    /// The bytes of a read of `range`, if the capture is to contain them.
    pub fn captured(&self, range: Range) -> Result<&[u8]> {
        let Some(contents) = &self.state else { return Ok(&[]) };
        // The file belongs to the program, which may have truncated it since.
        let present = contents.present_bytes()?;
        if !range.fits(present) {
            return Err(Error::new(
                StatusCode::Unavailable,
                format!(
                    "{} bytes at offset {} cannot be captured: the file has {present} bytes",
                    range.length, range.offset
                ),
            ));
        }
        Ok(&contents.bytes()[range.offset as usize..][..range.length as usize])
    }
}

impl FileBackend for Recorded<File> {
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()> {
        self.base.backend().read_at(offset, target, range)
    }

    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()> {
        self.base.backend().write_at(offset, source, range)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.base.backend().check_unchanged()
    }
}

/// The description of an imported file in a capture.
pub(super) struct Description {
    handle_type: u32,
    identity: FileIdentity,
    pub reference: Reference,
}

/// The location of an imported file's bytes.
pub(super) enum Reference {
    /// None: the file is rejected.
    Nothing,
    /// At this path.
    External { path: PathBuf, validation: Validation },
    /// At this path; the bytes read are in the records of the reads.
    Ranges { path: PathBuf, contents: MappedFile },
    /// In the capture, copied from this file.
    InlineFile(MappedFile),
    /// In the capture, copied from this memory.
    InlineMemory(Arc<HostMemory>),
}

/// A file about to be imported, kept so that it can be described afterwards.
pub(super) enum Source {
    /// A file on disk.
    Disk(std::fs::File),
    /// Memory.
    Memory(Arc<HostMemory>),
}

impl Source {
    /// Keeps a handle to `file` and returns it for the import.
    pub fn from_file(file: HostFile) -> Result<(Self, HostFile)> {
        match file {
            HostFile::Disk(ref on_disk) | HostFile::Copied(ref on_disk) => {
                let same = on_disk
                    .try_clone()
                    .map_err(|error| Error::io("duplicating the descriptor of an imported file", &error))?;
                Ok((Self::Disk(same), file))
            }
            HostFile::Memory(memory) => {
                let memory = Arc::new(memory);
                let whole = Range { offset: 0, length: memory.length() };
                let part = HostMemory::part(&memory, whole)?;
                Ok((Self::Memory(memory), HostFile::Memory(part)))
            }
        }
    }

    /// Describes the file; on error, as a rejected one.
    pub fn describe(self, length: u64, options: &RecordOptions) -> (Description, Result<()>) {
        /// `IREE_IO_FILE_HANDLE_TYPE_HOST_ALLOCATION` and `IREE_IO_FILE_HANDLE_TYPE_FD`.
        const HOST_ALLOCATION: u32 = 0;
        const FILE_DESCRIPTOR: u32 = 1;
        let file = match self {
            Self::Memory(memory) => {
                let reference = Reference::InlineMemory(memory);
                let identity = FileIdentity::default();
                return (Description { handle_type: HOST_ALLOCATION, identity, reference }, Ok(()));
            }
            Self::Disk(file) => file,
        };
        let handle_type = FILE_DESCRIPTOR;
        match describe_disk(&file, length, options) {
            Ok((identity, reference)) => (Description { handle_type, identity, reference }, Ok(())),
            Err(error) => {
                let (identity, reference) = (FileIdentity::default(), Reference::Nothing);
                (Description { handle_type, identity, reference }, Err(error))
            }
        }
    }
}

impl Description {
    /// The file's source as stored in the capture. The bytes of memory, which may be written concurrently,
    /// are passed to [`Description::source_of`] instead.
    pub fn source(&self) -> FileSource<&[u8]> {
        self.with_contents(match &self.reference {
            Reference::Nothing => FileContents::Nothing,
            Reference::External { path, validation } => {
                FileContents::External { path: path.as_os_str().as_bytes(), validation: *validation }
            }
            Reference::Ranges { path, .. } => FileContents::Ranges { path: path.as_os_str().as_bytes() },
            Reference::InlineFile(contents) => FileContents::Inline(contents.bytes()),
            Reference::InlineMemory(_) => FileContents::Inline(&[]),
        })
    }

    /// The source for memory that contains `bytes`.
    pub fn source_of<'b>(&self, bytes: &'b [u8]) -> FileSource<&'b [u8]> {
        self.with_contents(FileContents::Inline(bytes))
    }

    /// The source without the file's own bytes.
    pub fn without_bytes(&self) -> FileSource<&[u8]> {
        match &self.reference {
            Reference::InlineFile(_) | Reference::InlineMemory(_) => self.source_of(&[]),
            _ => self.source(),
        }
    }

    /// The contents, if reads are recorded with their bytes.
    pub fn into_ranges(self) -> Option<MappedFile> {
        match self.reference {
            Reference::Ranges { contents, .. } => Some(contents),
            _ => None,
        }
    }

    fn with_contents<'b>(&self, contents: FileContents<&'b [u8]>) -> FileSource<&'b [u8]> {
        let Self { handle_type, identity, .. } = *self;
        FileSource { handle_type, flags: 0, identity, contents }
    }
}

fn describe_disk(
    file: &std::fs::File,
    length: u64,
    options: &RecordOptions,
) -> Result<(FileIdentity, Reference)> {
    // The system's name for the open file, whatever its path refers to by now.
    let contents = || {
        let link = reopen_path(file).map_err(|error| Error::io("naming an imported file", &error))?;
        MappedFile::open(&link).map_err(|error| {
            let path = path_of(file).unwrap_or_else(|_| "the imported file".into());
            let message = error.message().replace(&link.display().to_string(), &path.display().to_string());
            Error::new(error.code(), message)
        })
    };
    let path = || {
        path_of(file).map_err(|error| {
            Error::new(StatusCode::Unavailable, format!("the path of an imported file is unknown: {error}"))
        })
    };
    let reference = match options.file_policy {
        FilePolicy::Fail => {
            return Err(Error::failed_precondition("the file policy forbids the import of external files")
                .advise("choose another policy: reference, capture-ranges or capture-all"));
        }
        FilePolicy::CaptureAll => Reference::InlineFile(contents()?),
        FilePolicy::CaptureRanges => Reference::Ranges { path: path()?, contents: contents()? },
        FilePolicy::Reference => {
            let validation = match options.file_validation {
                FileValidation::Identity => Validation::Identity,
                FileValidation::Digest => Validation::Digest(crate::files::digest(file, length)?),
            };
            Reference::External { path: path()?, validation }
        }
    };
    Ok((identity(file)?, reference))
}

/// The identity of the file reported by the operating system.
fn identity(file: &std::fs::File) -> Result<FileIdentity> {
    let querying = |error| Error::io("querying an imported file", &error);
    let (metadata, id) = (file.metadata().map_err(querying)?, FileId::of(file).map_err(querying)?);
    let (seconds, nanoseconds) = modified(&metadata);
    let mtime_ns = seconds.unsigned_abs().wrapping_mul(1_000_000_000) + nanoseconds.unsigned_abs();
    Ok(FileIdentity { device: id.device(), inode: id.inode(), mtime_ns })
}
