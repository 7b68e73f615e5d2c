//! The typed options of the tools that run programs.

use std::path::{Path, PathBuf};

use crate::kernel_recording::ProgramRecording;
use crate::profiling;
use rehal_base::Result;
use rehal_session::{Equality, ProgramOptions, ValueText};

/// A program and its handling by the tool.
#[derive(Clone)]
pub(crate) struct Options {
    pub program: ProgramOptions,
    /// Input values, which are read after the program is loaded.
    pub inputs: Vec<ValueText>,
    /// Other output files than results and the capture, each with its flag.
    pub reports: Vec<(&'static str, PathBuf)>,
    /// Records of the kernels of the program, which is then recorded.
    pub kernels: Option<ProgramRecording>,
    /// `None` for tools that ignore results.
    pub results: Option<ResultOptions>,
}

impl Options {
    /// Runs the program, and then records its kernels if flags request it.
    pub(crate) fn recording_kernels(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        ProgramRecording::run(self.kernels.as_ref(), &self.program.devices, run)
    }

    /// Adds the bundle of a profile to the output files.
    pub(crate) fn add_profile(&mut self, profiling: Option<&profiling::Options>) {
        let output = profiling.and_then(profiling::Options::output);
        self.reports.extend(output.map(|(flag, path)| (flag, path.to_path_buf())));
    }
}

/// The handling of results.
#[derive(Clone, Debug)]
pub(crate) struct ResultOptions {
    /// One per result, or empty to print all.
    pub outputs: Vec<OutputTarget>,
    /// The expected results; if empty, results are not compared.
    pub expected: Vec<ValueText>,
    /// Maximum number of elements of a result to print.
    pub max_elements: u64,
    /// The comparison with expected results.
    pub equality: Equality,
}

/// The target of one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputTarget {
    Drop,
    Print,
    Write(PathBuf),
    Append(PathBuf),
}

impl OutputTarget {
    /// The output file, if any.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Drop | Self::Print => None,
            Self::Write(path) | Self::Append(path) => Some(path),
        }
    }
}
