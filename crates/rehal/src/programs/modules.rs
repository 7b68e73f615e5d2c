//! The modules of a program.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rehal_base::platform::{OsStrExt, is_device};
use rehal_base::{Context, Error, FileKind, HostMemory, MappedFile, Range, Remedy, Result};
use rehal_vm::{Module, ModuleFile, ValueKind};

use super::options::{ModuleMode, ModuleSource, ProgramOptions};

/// Advice about a file that is not a module.
const NO_MODULE: &str = "name a module written by iree-compile";

/// A module of a program: read and verified, not linked yet.
#[derive(Clone)]
pub struct ProgramModule {
    /// Its dependencies and function attributes.
    file: ModuleFile,
    /// The executable module.
    module: Module,
}

/// Loads the modules of the options, in order.
pub(super) fn load(options: &ProgramOptions) -> Result<Vec<ProgramModule>> {
    options.modules.iter().map(|source| ProgramModule::read(source, options.module_mode)).collect()
}

#[cold]
pub(super) fn no_module() -> Error {
    Error::invalid_argument("no module is given").advise("name a module written by iree-compile")
}

/// The bytes of a module.
fn read(source: &ModuleSource, mode: ModuleMode) -> Result<HostMemory> {
    let advice = || NO_MODULE;
    Ok(match source {
        ModuleSource::StandardInput => read_standard_input()?,
        ModuleSource::Bytes(bytes) => HostMemory::constant(bytes)?,
        ModuleSource::File(path) if is_system_library(path) => {
            // The reference's ABI for native modules changes with each release, and the file does not state
            // its version.
            let error = Error::unimplemented("modules in native code (.so) are not in this build");
            return Err(error.advise(Remedy::CompileModule));
        }
        ModuleSource::File(path) => match mode {
            ModuleMode::Mmap => {
                let file = Arc::new(MappedFile::open(path).advise(advice)?);
                let whole = Range { offset: 0, length: file.bytes().len() as u64 };
                HostMemory::over_file(file, whole)?
            }
            ModuleMode::Preload => read_file(path).advise(advice)?,
        },
    })
}

/// Whether the reference would load the file as a native module, by its extension.
fn is_system_library(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    let path = path.split(|&byte| byte == b'@').next().unwrap_or(path);
    [".so", ".dylib", ".dll"].iter().any(|extension| path.ends_with(extension.as_bytes()))
}

/// Reads a file into memory, so that later changes of the file have no effect.
fn read_file(path: &Path) -> Result<HostMemory> {
    let shown = path.display();
    let failed = |error| Error::io(format_args!("opening '{shown}'"), &error);
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::invalid_argument(format!("'{shown}' is a directory")));
    }
    if is_device(&metadata) {
        // Some devices are endless.
        return Err(Error::invalid_argument(format!("'{shown}' is a character or block device")));
    }
    if !metadata.is_file() {
        // The length of a pipe is unknown.
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.map_err(|error| Error::io(format_args!("reading '{shown}'"), &error))?;
        return HostMemory::constant(&bytes);
    }
    let memory = HostMemory::allocate(metadata.len())?;
    let read = memory.read_file_at(&file, 0, memory.whole())?;
    read.map_err(|error| Error::io(format_args!("reading '{shown}'"), &error))?;
    memory.into_constant()
}

fn read_standard_input() -> Result<HostMemory> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Error::io("reading a module from standard input", &error))?;
    HostMemory::constant(&bytes)
}

impl ProgramModule {
    /// Reads and verifies a module. Errors name its source.
    pub fn read(source: &ModuleSource, mode: ModuleMode) -> Result<Self> {
        let place = match source {
            ModuleSource::StandardInput => "a module on standard input".into(),
            ModuleSource::File(path) => format!("'{}'", path.display()),
            ModuleSource::Bytes(_) => "a module in memory".into(),
        };
        Self::verify(source, mode).map_err(|error| match error.message().contains(&place) {
            true => error,
            false => error.context(place),
        })
    }

    fn verify(source: &ModuleSource, mode: ModuleMode) -> Result<Self> {
        let memory = Arc::new(read(source, mode)?);
        let file = ModuleFile::read(memory.clone()).map_err(|error| {
            let shown = source.path().map_or("it".into(), |path| format!("'{}'", path.display()));
            let length = memory.length().min(FileKind::HEAD_BYTES as u64);
            let head = memory.bytes(Range { offset: 0, length }).unwrap_or_default();
            let other = FileKind::Module.refuse_other(&head, &shown);
            other.unwrap_or_else(|| Error::from(error).advise(NO_MODULE))
        })?;
        let module = Module::bytecode(file.clone())?;
        Ok(Self { file, module })
    }

    /// Its name, which qualifies the names of its functions.
    pub fn name(&self) -> &str {
        self.file.name()
    }

    /// Its file, with dependencies, exports and attributes.
    #[doc(hidden)]
    pub fn file(&self) -> &ModuleFile {
        &self.file
    }

    /// The executable module.
    #[doc(hidden)]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The functions that may be called by name, in order, without those that the compiler generated for
    /// itself.
    pub fn runnable_functions(&self) -> impl Iterator<Item = &str> {
        self.file
            .exports()
            .map(|export| export.local_name)
            .filter(|name| !name.starts_with("__") && !name.contains('$'))
    }

    /// The kinds of the results of a function; `None` if it is not exported.
    pub fn result_kinds(&self, function: &str) -> Option<&[ValueKind]> {
        let export = self.module.exports().iter().find(|export| *export.name == *function)?;
        Some(export.convention.results())
    }

    /// Whether a function takes a wait fence and a signal fence after its inputs.
    pub fn is_async(&self, function: &str) -> bool {
        self.attribute(function, "iree.abi.model") == Some("coarse-fences")
    }

    /// The attribute `key` of a function, such as `iree.abi.declaration`.
    pub fn attribute(&self, function: &str, key: &str) -> Option<&str> {
        let export = self.file.exports().find(|export| export.local_name == function)?;
        self.file.signature(export.function)?.attribute(key)
    }
}
