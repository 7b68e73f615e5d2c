//! How a program is loaded and run, and what becomes of its results: typed, and without flags.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result};
use rehal_replay::RecordOptions;
use rehal_values::{Equality, Input, ScalarType, Source};

use crate::devices::DeviceOptions;
use crate::parameters::ParameterOptions;

/// How a program is loaded and run.
#[derive(Clone)]
pub(crate) struct ProgramOptions {
    /// At least one; functions are looked up in the last one.
    pub modules: Vec<ModuleSource>,
    pub module_mode: ModuleMode,
    /// Index of the device that allocates inputs and memory that devices share.
    pub lead: usize,
    pub trace_execution: bool,
    pub parameters: ParameterOptions,
    pub devices: DeviceOptions,
    pub recording: Option<RecordingOptions>,
    /// Values that are read after the program is loaded.
    pub inputs: Vec<ValueText>,
    /// Files that the tool writes besides results and the capture, each with its flag.
    pub reports: Vec<(&'static str, PathBuf)>,
    /// `None` for tools that do nothing with results.
    pub results: Option<ResultOptions>,
}

/// Where a module is read from.
#[derive(Clone, Debug)]
pub(crate) enum ModuleSource {
    StandardInput,
    File(PathBuf),
}

/// How modules are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleMode {
    /// Into memory at the start.
    Preload,
    /// Mapped.
    Mmap,
}

/// The capture that a program is recorded to.
#[derive(Clone, Debug)]
pub(crate) struct RecordingOptions {
    pub path: PathBuf,
    pub options: RecordOptions,
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

/// The text of an input or of an expected result. Its syntax is valid for an argument of some type; the
/// function's signature decides which type it is parsed as.
#[derive(Clone, Debug)]
pub(crate) struct ValueText(OsString);

impl ModuleSource {
    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::StandardInput => None,
            Self::File(path) => Some(path),
        }
    }
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

impl ValueText {
    /// Fails if the text is valid for no type of argument.
    pub(crate) fn new(text: &OsStr) -> Result<Self> {
        const SCALARS: [ScalarType; 4] = [ScalarType::I32, ScalarType::I64, ScalarType::F32, ScalarType::F64];
        let checked = Input::parse(text, None).map(drop);
        let checked = checked.or_else(|error: Error| {
            let is_scalar = SCALARS.iter().any(|scalar| Input::parse(text, Some(*scalar)).is_ok());
            if is_scalar { Ok(()) } else { Err(error) }
        });
        checked.map(|()| Self(text.to_os_string()))
    }

    /// The text.
    pub(crate) fn text(&self) -> &OsStr {
        &self.0
    }

    /// The file that the value is read from, if it is in one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match Input::parse(&self.0, None).ok()? {
            Input::Npy { path, .. } | Input::Tensor { source: Source::File { path, .. }, .. } => Some(path),
            _ => None,
        }
    }
}
