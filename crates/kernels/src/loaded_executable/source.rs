use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::platform::is_device;
use rehal_base::{Error, MappedFile, Result};

use super::NO_EXECUTABLE;

/// Where an executable is read from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExecutableSource {
    /// Standard input.
    StandardInput,
    /// A file, or a pipe.
    File(PathBuf),
    /// Bytes in memory.
    Bytes(Arc<[u8]>),
}

/// The bytes of an executable.
pub(super) enum Data {
    Mapped(MappedFile),
    Owned(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Data {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file.bytes(),
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl ExecutableSource {
    /// The path, if the source is a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::StandardInput | Self::Bytes(_) => None,
            Self::File(path) => Some(path),
        }
    }

    /// How errors name it.
    pub(super) fn place(&self) -> String {
        match self {
            Self::StandardInput => "an executable on standard input".into(),
            Self::File(path) => format!("'{}'", path.display()),
            Self::Bytes(_) => "an executable in memory".into(),
        }
    }

    pub(super) fn read(&self) -> Result<Data> {
        match self {
            Self::StandardInput => read_all(std::io::stdin().lock(), "standard input"),
            Self::Bytes(bytes) => Ok(Data::Shared(bytes.clone())),
            Self::File(path) => read_file(path),
        }
    }
}

fn read_file(path: &Path) -> Result<Data> {
    let shown = format!("'{}'", path.display());
    let failed = |error| Error::io(format_args!("opening {shown}"), &error).advise(NO_EXECUTABLE);
    let metadata = path.metadata().map_err(failed)?;
    if is_device(&metadata) {
        // Some devices are endless.
        let error = Error::invalid_argument(format!("{shown} is a character or block device"));
        return Err(error.advise(NO_EXECUTABLE));
    }
    if metadata.is_file() || metadata.is_dir() {
        return MappedFile::open(path).map(Data::Mapped).map_err(|error| error.advise(NO_EXECUTABLE));
    }
    read_all(File::open(path).map_err(failed)?, &shown)
}

fn read_all(mut from: impl Read, shown: &str) -> Result<Data> {
    let mut bytes = Vec::new();
    let read = from.read_to_end(&mut bytes);
    read.map_err(|error| Error::io(format_args!("reading {shown}"), &error))?;
    Ok(Data::Owned(bytes))
}
