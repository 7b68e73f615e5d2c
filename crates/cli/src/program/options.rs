//! The typed options of the tools that run programs.

use std::path::PathBuf;

use rehal::program::{LoadFunctions, ModuleSource, ProgramModule, ProgramOptions, resolve_substitutions};
use rehal_base::Result;
use rehal_devices::ValueText;
use rehal_values::Equality;

use crate::Invocation;
use crate::flags::{Access, NamedFile};
use crate::kernel_recording::ProgramRecording;
use crate::output_file::OutputFile;
use crate::sandbox::Reach;

/// A program and its handling by the tool.
#[derive(Clone)]
pub(crate) struct Options {
    pub program: ProgramOptions,
    /// Input values, which are read after the program is loaded.
    pub inputs: Vec<ValueText>,
    /// Records of the kernels of the program, which is then recorded.
    pub kernels: Option<ProgramRecording>,
    /// The modules, once they are read.
    pub modules: Vec<ProgramModule>,
}

impl Options {
    /// Reads the modules, and compiles what replaces their executables: what confined code could not do.
    pub(crate) fn prepare(&mut self, invocation: &Invocation) -> Result<()> {
        let read = |source: &ModuleSource| ProgramModule::read(source, self.program.module_mode);
        self.modules = self.program.modules.iter().map(read).collect::<Result<_>>()?;
        if !self.program.substitutions.is_empty() {
            let reach = Reach::of_devices(&self.program.devices);
            let load: LoadFunctions<'_> = &|executable, module| {
                let load = || Ok(executable.functions_on(self.program.devices.open()?.devices(), module));
                invocation.confined_value(&reach, load)
            };
            self.program.substitutions = resolve_substitutions(&self.program, &self.modules, load)?;
            self.program.build_substitutes = None;
        }
        Ok(())
    }

    /// The reach of the program, besides the files that flags name.
    pub(crate) fn reach(&self) -> Reach<'_> {
        let mut reach = Reach::of_devices(&self.program.devices);
        reach.directories.extend(self.kernels.as_ref().map(ProgramRecording::directory));
        reach
    }

    /// Runs the program, and then records its kernels if flags request it.
    pub(crate) fn recording_kernels(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        ProgramRecording::run(self.kernels.as_ref(), &self.program.devices, run)
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
    /// Where it is written; `None` unless that is a file. Fails if it cannot be written.
    pub(crate) fn output(&self) -> Result<Option<OutputFile>> {
        match self {
            Self::Drop | Self::Print => Ok(None),
            Self::Write(path) => OutputFile::new("output", path.clone()).map(Some),
            Self::Append(path) => OutputFile::appending("output", path.clone()).map(Some),
        }
    }

    /// The output file, if any.
    pub(crate) fn file(&self) -> Option<NamedFile> {
        match self {
            Self::Drop | Self::Print => None,
            Self::Write(path) => Some(Access::WriteResult.to(path)),
            Self::Append(path) => Some(Access::AppendResult.to(path)),
        }
    }
}
