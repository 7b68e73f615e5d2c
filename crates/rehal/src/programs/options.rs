use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::{Context, Result};
use rehal_devices::{DeviceOptions, NamedPath, ProfilingOptions};
use rehal_judge::{DispatchDigests, ElementTypeRule};
use rehal_params::{ExternalFiles, FileMode, Scopes};
use rehal_replay::{RecordOptions, Recorder, ResolvedSubstitutions, Substitution};

/// A sink for text, such as traces of a program. May be called from any thread that runs the program.
pub type TextSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Compiles the sources among substitutions once it is known which executables they replace, before anything
/// of a program runs.
pub type SubstituteBuilder = Arc<dyn Fn(&mut ResolvedSubstitutions) -> Result<()> + Send + Sync>;

/// Options for loading and running a program.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ProgramOptions {
    /// The modules, each after those that it imports from; functions are looked up in the last one. At least
    /// one. rehal's own modules (`hal`, `io_parameters`) are added if imported.
    pub modules: Vec<ModuleSource>,
    /// How modules are read. Default: into memory.
    pub module_mode: ModuleMode,
    /// The devices, opened only if the program uses devices.
    pub devices: DeviceOptions,
    /// Index of the device that allocates inputs and shared memory. Default: 0.
    pub lead: usize,
    /// Executables of the modules that other code replaces, with the rules of a replay's substitutions; ids
    /// are the numbers of [`ModuleExecutable`](crate::program::ModuleExecutable), counted over all modules.
    /// Default: none.
    pub substitutions: Vec<Substitution>,
    /// Compiles the sources among them. Default: none may be a source.
    #[doc(hidden)]
    pub build_substitutes: Option<SubstituteBuilder>,
    /// The parameter files, opened only if the program imports parameters.
    pub parameters: ParameterOptions,
    /// The capture of the program. Default: none.
    pub recording: Option<RecordingOptions>,
    /// The profile of each test of [`ModuleTests`](crate::program::ModuleTests); other programs begin theirs
    /// themselves ([`Profiling`](rehal_devices::Profiling)). Default: none.
    pub profiling: Option<ProfilingOptions>,
    /// Receives each instruction before it is executed. Default: no tracing.
    pub trace_execution: Option<TextSink>,
    /// Receives the values that the program traces (`flow.tensor.trace`). Default: discarded.
    pub trace_values: Option<TextSink>,
    /// Whether [`CrashReports`](rehal_devices::CrashReports) are installed before a kernel can run. Default:
    /// false.
    pub report_crashes: bool,
}

/// The source of a module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ModuleSource {
    /// Standard input.
    StandardInput,
    /// A file, or a pipe.
    File(PathBuf),
    /// Bytes in memory.
    Bytes(Arc<[u8]>),
}

/// How module files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModuleMode {
    /// Into memory at the start.
    #[default]
    Preload,
    /// Mapped; pages are read on demand.
    Mmap,
}

/// The capture of a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordingOptions {
    /// The output file, which is created or truncated.
    pub path: NamedPath,
    /// How files are captured, how a replay validates them, and what is recorded of the results.
    pub record: RecordOptions,
    /// The element types of what functions write, if dispatches are watched; the last rule that matches
    /// counts.
    pub element_types: Vec<ElementTypeRule>,
}

/// The parameter files of a program, and how they are read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParameterOptions {
    /// The files. Several of one scope are merged, and the first parameter of a name counts. Default: none.
    pub files: Vec<ParameterFile>,
    /// How the bytes are accessed. Default: read from the file on demand.
    pub mode: FileMode,
    /// Which external files of archives are opened. Default: all.
    pub external_files: ExternalFiles,
}

/// A parameter file (.irpa, .gguf or .safetensors, by its extension) and the scope in which programs find its
/// parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterFile {
    /// The scope; may be empty.
    pub scope: String,
    /// The file.
    pub path: NamedPath,
}

impl ModuleSource {
    /// The path, if the source is a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::StandardInput | Self::Bytes(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

impl RecordingOptions {
    /// A capture at `path` with the default [`RecordOptions`].
    pub fn new(path: impl Into<NamedPath>) -> Self {
        Self { path: path.into(), record: RecordOptions::default(), element_types: Vec::new() }
    }

    /// Starts the capture.
    pub fn create(&self) -> Result<Recorder> {
        let recorder = Recorder::create(self.path.path(), self.record).context(|| self.path.place())?;
        Ok(recorder.watch(DispatchDigests::new(self.element_types.clone())))
    }
}

impl Default for ParameterOptions {
    fn default() -> Self {
        Self { files: Vec::new(), mode: FileMode::Map, external_files: ExternalFiles::All }
    }
}

impl ParameterOptions {
    /// Opens the files and parses their headers.
    #[doc(hidden)]
    pub fn open(&self) -> Result<Scopes> {
        let mut scopes = Scopes::new();
        for file in &self.files {
            // The scope exists even if its file cannot be opened, as in the reference.
            let index = scopes.scope_mut(&file.scope);
            index.set_external_files(self.external_files);
            let added = index.add_file(file.path.path(), self.mode);
            added.context(|| file.path.place())?;
        }
        Ok(scopes)
    }
}

impl ParameterFile {
    /// The file at `path` for a scope, which may be empty.
    pub fn new(scope: impl Into<String>, path: impl Into<NamedPath>) -> Self {
        Self { scope: scope.into(), path: path.into() }
    }
}
