//! The files that the values of flags name.

use std::path::{Path, PathBuf};

use super::parse::Flags;

/// A file that the value of a flag names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path.
    pub path: PathBuf,
    /// The tool's access to it.
    pub access: Access,
}

/// A tool's access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it, perhaps while outputs are written.
    Read,
    /// Reads it before results are written, which may replace it.
    ReadFirst,
    /// Writes it as a file of its own, which cannot be the one that output is printed to.
    Write,
    /// Writes it from the start to the end; it may be the one that output is printed to.
    WriteStream,
    /// Records to it while the tool runs, at several places of the file, which cannot be standard output.
    Record,
    /// Writes a result to it, once the inputs are read.
    WriteResult,
    /// Appends a result to it, once the inputs are read; after earlier results in the same file.
    AppendResult,
}

impl Access {
    /// Whether the file is changed.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::ReadFirst)
    }

    /// This access to the file at `path`.
    pub fn to(self, path: impl Into<PathBuf>) -> NamedFile {
        NamedFile { path: path.into(), access: self }
    }
}

/// The files of a value of type `T`, which may depend on other flags.
pub type FilesOf<T> = fn(&T, &Flags) -> Vec<NamedFile>;

/// [`FilesOf`] of a flag that names at most one file, which is read.
pub(crate) fn read(path: &Option<PathBuf>, _: &Flags) -> Vec<NamedFile> {
    path.iter().map(|path| Access::Read.to(path)).collect()
}

/// [`FilesOf`] of a flag that names at most one file, which is written.
pub(crate) fn written(path: &Option<PathBuf>, _: &Flags) -> Vec<NamedFile> {
    path.iter().map(|path| Access::Write.to(path)).collect()
}

/// [`FilesOf`] of a flag that names at most one file, which is recorded.
pub(crate) fn recorded(path: &Option<PathBuf>, _: &Flags) -> Vec<NamedFile> {
    path.iter().map(|path| Access::Record.to(path)).collect()
}

/// [`FilesOf`] of a flag that names at most one file, which is written from the start to the end.
pub(crate) fn streamed(path: &Option<PathBuf>, _: &Flags) -> Vec<NamedFile> {
    path.iter().map(|path| Access::WriteStream.to(path)).collect()
}

/// [`FilesOf`] of a list of files that are read.
pub(crate) fn read_path(path: &PathBuf, _: &Flags) -> Vec<NamedFile> {
    vec![Access::Read.to(path)]
}

/// At most one file, which is read.
pub(crate) fn read_if(path: Option<&Path>) -> Vec<NamedFile> {
    path.into_iter().map(|path| Access::Read.to(path)).collect()
}
