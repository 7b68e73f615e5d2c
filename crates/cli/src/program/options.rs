//! Typed options of the tools that run programs, independent of flags.

use std::path::{Path, PathBuf};

use rehal_session::{Equality, ProgramOptions, ValueText};

/// A program with what the tool does around it.
#[derive(Clone)]
pub(crate) struct Options {
    pub program: ProgramOptions,
    /// Values that are read after the program is loaded.
    pub inputs: Vec<ValueText>,
    /// Files that the tool writes besides results and the capture, each with its flag.
    pub reports: Vec<(&'static str, PathBuf)>,
    /// `None` for tools that do nothing with results.
    pub results: Option<ResultOptions>,
}

/// What to do with results.
#[derive(Clone, Debug)]
pub(crate) struct ResultOptions {
    /// One for each result, or none to print all.
    pub outputs: Vec<OutputTarget>,
    /// What results are compared with; if empty, they are not.
    pub expected: Vec<ValueText>,
    /// How many elements of a result are printed.
    pub max_elements: u64,
    /// When results are equal to what is expected.
    pub equality: Equality,
}

/// What to do with one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputTarget {
    Drop,
    Print,
    Write(PathBuf),
    Append(PathBuf),
}

impl OutputTarget {
    /// The file that is written, if one is.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Drop | Self::Print => None,
            Self::Write(path) | Self::Append(path) => Some(path),
        }
    }
}
