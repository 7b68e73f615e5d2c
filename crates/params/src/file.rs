use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rehal_base::{Error, HostMemory, MappedFile, Range, Result, StatusCode};

/// How the bytes of parameter files are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FileMode {
    /// By reading at a position when they are wanted.
    #[default]
    File,
    /// As mapped memory: pages come when they are touched and can go again.
    Mmap,
    /// As memory that the whole file is read into first.
    Preload,
}

/// A file that parameters are in, opened when it is first needed.
#[derive(Debug)]
pub struct ParameterFile {
    path: PathBuf,
    mode: FileMode,
    external: bool,
    writable: bool,
    contents: OnceLock<Contents>,
}

/// An opened file.
pub enum Contents {
    /// An open file, read at a position.
    Disk {
        /// The open file.
        file: File,
        /// Bytes that it had when it was opened.
        length: u64,
    },
    /// An open file, all of which is mapped as well.
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
        /// The file that they were read from, for its tables: memory that devices may write lends nobody its bytes.
        map: MappedFile,
    },
}

impl Contents {
    /// The open file, for who reads at a position; nothing where only memory is left.
    pub fn disk(&self) -> Option<&File> {
        match self {
            Self::Disk { file, .. } | Self::Mapped { file, .. } => Some(file),
            Self::Memory { .. } => None,
        }
    }

    /// All bytes in memory, for who uses them where they are.
    pub fn memory(&self) -> Option<&Arc<HostMemory>> {
        match self {
            Self::Disk { .. } => None,
            Self::Mapped { memory, .. } | Self::Memory { memory, .. } => Some(memory),
        }
    }
}

impl ParameterFile {
    /// The file at `path`, not opened yet.
    pub fn new(path: PathBuf, mode: FileMode) -> Self {
        Self { path, mode, external: false, writable: false, contents: OnceLock::new() }
    }

    /// The file at `path`, which an archive names as the place of its data.
    pub fn external(path: PathBuf, mode: FileMode) -> Self {
        Self { external: true, ..Self::new(path, mode) }
    }

    /// The file at `path`, into which programs may also write.
    pub fn writable(path: PathBuf) -> Self {
        Self { writable: true, ..Self::new(path, FileMode::File) }
    }

    /// Whether programs may write into it.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether it was named by an archive, and not by the user.
    pub fn is_external(&self) -> bool {
        self.external
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How its bytes are reached.
    pub fn mode(&self) -> FileMode {
        self.mode
    }

    /// The opened file. Fails when it does not exist, cannot be read or is not a regular file.
    pub fn contents(&self) -> Result<&Contents> {
        if let Some(contents) = self.contents.get() {
            return Ok(contents);
        }
        let contents = Contents::open(&self.path, self.mode, self.writable)?;
        // Whoever was first wins; the other's handle is closed.
        Ok(self.contents.get_or_init(|| contents))
    }

    /// Number of bytes; opens the file.
    pub fn length(&self) -> Result<u64> {
        Ok(match self.contents()? {
            Contents::Disk { length, .. } => *length,
            Contents::Mapped { memory, .. } | Contents::Memory { memory, .. } => memory.length(),
        })
    }

    /// Fills `target` from `offset` on; fails where the file ends before.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        match self.contents()? {
            // Pages of a map that were read would stay with the process.
            Contents::Disk { file, .. } | Contents::Mapped { file, .. } => {
                file.read_exact_at(target, offset).map_err(|error| reading(&self.path, &error))
            }
            Contents::Memory { memory, .. } => memory.read(offset, target),
        }
    }

    /// Shows all bytes of the file to `look`, without holding them longer than that.
    pub(crate) fn with_bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        match self.contents()? {
            Contents::Disk { .. } => Ok(look(MappedFile::open(&self.path)?.bytes())),
            Contents::Mapped { memory, .. } => Ok(look(&memory.bytes(memory.whole())?)),
            Contents::Memory { map, .. } => Ok(look(map.bytes())),
        }
    }
}

impl Contents {
    fn open(path: &Path, mode: FileMode, writable: bool) -> Result<Self> {
        // It says what is wrong with a directory or a pipe, which opening would not, or wait for.
        let map = MappedFile::open(path)?;
        let length = map.bytes().len() as u64;
        let disk = || {
            let opened = File::options().read(true).write(writable).open(path);
            opened.map_err(|error| opening(path, &error))
        };
        Ok(match mode {
            FileMode::File => Self::Disk { file: disk()?, length },
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
        let text = format!("'{}' ends before the bytes that were there when it was opened", path.display());
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
