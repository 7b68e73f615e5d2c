use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rehal_base::platform::FileExt;
use rehal_base::{Error, HostMemory, MappedFile, Range, Remedy, Result, StatusCode};

/// Access to the contents of parameter files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FileMode {
    /// Positional reads on demand, of which large ones map pages of the file in the place of memory, where
    /// that can be: see [`HostMemory::map_file_at`].
    #[default]
    Map,
    /// Positional reads on demand.
    File,
    /// Memory-mapped: pages are loaded on access and reclaimable.
    Mmap,
    /// Read into memory as a whole.
    Preload,
}

/// A parameter file, opened on first use.
#[derive(Debug)]
pub struct ParameterFile {
    path: PathBuf,
    mode: FileMode,
    external: Option<External>,
    contents: OnceLock<Contents>,
}

/// The description of a file in the archive that names it.
#[derive(Clone, Debug)]
struct External {
    /// The directory of the archive.
    directory: PathBuf,
    /// Whether it has to be in that directory.
    is_confined: bool,
    /// Whether its path leaves that directory: it is absolute, or has a parent directory in it.
    leaves: bool,
}

/// Which external files of archives are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalFiles {
    /// All.
    #[default]
    All,
    /// Files in the directory of their archive, named by a relative path without parent directories. An
    /// archive may otherwise name any file that the user may read: this is for tools that copy what they
    /// read.
    BesideArchive,
}

/// An opened file.
pub enum Contents {
    /// An open file, read at explicit offsets.
    Disk {
        /// The open file.
        file: File,
        /// Its length when it was opened.
        length: u64,
    },
    /// An open file that is also mapped as a whole.
    Mapped {
        /// The open file.
        file: File,
        /// Its bytes.
        memory: Arc<HostMemory>,
    },
    /// All of its bytes in memory.
    Memory {
        /// The bytes.
        memory: Arc<HostMemory>,
        /// The file that they were read from, for reading its tables: memory that devices may write cannot be
        /// borrowed.
        map: MappedFile,
    },
}

impl Contents {
    /// The open file, for positional reads; `None` if only memory is left.
    pub fn disk(&self) -> Option<&File> {
        match self {
            Self::Disk { file, .. } | Self::Mapped { file, .. } => Some(file),
            Self::Memory { .. } => None,
        }
    }

    /// All bytes in memory, for zero-copy use.
    pub fn memory(&self) -> Option<&Arc<HostMemory>> {
        match self {
            Self::Disk { .. } => None,
            Self::Mapped { memory, .. } | Self::Memory { memory, .. } => Some(memory),
        }
    }
}

impl ParameterFile {
    /// The file at `path`, not yet opened.
    pub fn new(path: PathBuf, mode: FileMode) -> Self {
        Self { path, mode, external: None, contents: OnceLock::new() }
    }

    /// The file that the archive at `archive` names `named`.
    pub(crate) fn external(archive: &Path, named: &Path, mode: FileMode, files: ExternalFiles) -> Self {
        let directory = archive.parent().unwrap_or(Path::new("")).to_path_buf();
        let is_plain = |it| matches!(it, Component::Normal(_) | Component::CurDir);
        let path = directory.join(named);
        let is_confined = files == ExternalFiles::BesideArchive;
        let external = External { directory, is_confined, leaves: !named.components().all(is_plain) };
        Self { external: Some(external), ..Self::new(path, mode) }
    }

    /// Whether it was named by an archive instead of the user.
    pub fn is_external(&self) -> bool {
        self.external.is_some()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The access to its contents.
    pub fn mode(&self) -> FileMode {
        self.mode
    }

    /// The opened file. Fails if it does not exist, cannot be read or is not a regular file.
    pub fn contents(&self) -> Result<&Contents> {
        if let Some(contents) = self.contents.get() {
            return Ok(contents);
        }
        if let Some(external) = &self.external {
            external.check(&self.path)?;
        }
        let contents = Contents::open(&self.path, self.mode)?;
        // The first opener wins; the other handle is closed.
        Ok(self.contents.get_or_init(|| contents))
    }

    /// Number of bytes; opens the file.
    pub fn length(&self) -> Result<u64> {
        Ok(match self.contents()? {
            Contents::Disk { length, .. } => *length,
            Contents::Mapped { memory, .. } | Contents::Memory { memory, .. } => memory.length(),
        })
    }

    /// Reads at `offset` into `target`; fails if the file is too short.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        match self.contents()? {
            // Reading through the mapping would leave its pages resident.
            Contents::Disk { file, .. } | Contents::Mapped { file, .. } => {
                file.read_exact_at(target, offset).map_err(|error| reading(&self.path, &error))
            }
            Contents::Memory { memory, .. } => memory.read(offset, target),
        }
    }

    /// Calls `look` with all bytes of the file, without keeping them in memory afterwards.
    pub(crate) fn with_bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        match self.contents()? {
            Contents::Disk { .. } => Ok(look(MappedFile::open(&self.path)?.bytes())),
            Contents::Mapped { memory, .. } => Ok(look(&memory.bytes(memory.whole())?)),
            Contents::Memory { map, .. } => Ok(look(map.bytes())),
        }
    }
}

impl External {
    /// Fails if the file at `path` must not be opened.
    fn check(&self, path: &Path) -> Result<()> {
        if !self.is_confined {
            return Ok(());
        }
        // What a link names is read, too.
        let directory = match self.directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => &self.directory,
        };
        let place = |path: &Path| std::fs::canonicalize(path).ok();
        let is_elsewhere = || match (place(path), place(directory)) {
            (Some(path), Some(directory)) => !path.starts_with(&directory),
            // Opening it fails.
            _ => false,
        };
        if !self.leaves && !is_elsewhere() {
            return Ok(());
        }
        let error =
            format!("the archive refers to '{}', which is not a file of its directory", path.display());
        Err(Error::new(StatusCode::PermissionDenied, error).advise(Remedy::AllowExternalPaths))
    }
}

impl Contents {
    fn open(path: &Path, mode: FileMode) -> Result<Self> {
        // Rejects directories, which can be opened, and pipes, on which opening would block.
        let map = MappedFile::open(path)?;
        let length = map.bytes().len() as u64;
        let disk = || File::open(path).map_err(|error| opening(path, &error));
        Ok(match mode {
            FileMode::Map | FileMode::File => Self::Disk { file: disk()?, length },
            FileMode::Mmap => {
                let all = Range { offset: 0, length };
                let memory = Arc::new(HostMemory::over_file(Arc::new(map), all)?);
                Self::Mapped { file: disk()?, memory }
            }
            FileMode::Preload => Self::Memory { memory: Arc::new(preload(&disk()?, path, length)?), map },
        })
    }
}

fn preload(file: &File, path: &Path, length: u64) -> Result<HostMemory> {
    let memory = HostMemory::allocate(length)
        .map_err(|error| error.context(format!("loading '{}' into memory", path.display())))?;
    memory.read_file_at(file, 0, memory.whole())?.map_err(|error| reading(path, &error))?;
    Ok(memory)
}

fn opening(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("opening '{}'", path.display()), error)
}

fn reading(path: &Path, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        let text = format!("'{}' ends before the requested range", path.display());
        return Error::new(StatusCode::DataLoss, text);
    }
    Error::io(format_args!("reading '{}'", path.display()), error)
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disk { length, .. } => write!(f, "Disk({length} bytes)"),
            Self::Mapped { memory, .. } => write!(f, "Mapped({} bytes)", memory.length()),
            Self::Memory { memory, .. } => write!(f, "Memory({} bytes)", memory.length()),
        }
    }
}
