use std::sync::Arc;

use rehal_base::{Context as _, Error, MappedFile, Result};

use crate::program::Program;
use crate::{Convention, ExportedFunction, ModuleFile, NativeModule};

/// A module that contexts can instantiate: verified bytecode, or native functions.
///
/// Cheap to clone, and immutable.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    name: Box<str>,
    version: u32,
    exports: Box<[ExportedFunction]>,
    /// Ordinals of the exports, by name.
    by_name: Box<[u32]>,
    kind: ModuleKind,
}

pub(crate) enum ModuleKind {
    Native(Box<dyn NativeModule>),
    Bytecode {
        program: Box<Program>,
        /// The function of each export.
        functions: Box<[u32]>,
    },
}

impl Module {
    /// A native module. Fails if an export has a malformed convention or a duplicate name.
    pub fn native(module: impl NativeModule) -> Result<Self> {
        let mut exports = Vec::with_capacity(module.exports().len());
        for export in module.exports() {
            let convention = Convention::parse(export.convention)
                .context(|| format!("export '{}' of native module '{}'", export.name, module.name()))?;
            exports.push(ExportedFunction { name: export.name.into(), convention });
        }
        Self::new(module.name().into(), module.version(), exports, ModuleKind::Native(Box::new(module)))
    }

    /// A bytecode module. Verifies and lowers all of its bytecode; uses the file's constant data zero-copy.
    pub fn bytecode(file: ModuleFile) -> Result<Self> {
        let (name, version) = (file.name().into(), file.version());
        let program = Program::load(file)?;
        let (exports, functions): (Vec<_>, Vec<_>) =
            program.tables.exports(&program.file).into_iter().unzip();
        Self::new(
            name,
            version,
            exports,
            ModuleKind::Bytecode { program: Box::new(program), functions: functions.into() },
        )
    }

    /// A program in a mapped file (`.vmfb`).
    pub fn map(file: Arc<MappedFile>) -> Result<Self> {
        let path = file.path().display().to_string();
        Self::bytecode(ModuleFile::map(file)?).context(|| format!("'{path}'"))
    }

    fn new(name: Box<str>, version: u32, exports: Vec<ExportedFunction>, kind: ModuleKind) -> Result<Self> {
        let mut by_name: Box<[u32]> = (0..exports.len() as u32).collect();
        by_name.sort_by_key(|ordinal| &exports[*ordinal as usize].name);
        for pair in by_name.windows(2) {
            let [a, b] = [&exports[pair[0] as usize].name, &exports[pair[1] as usize].name];
            if a == b {
                return Err(Error::invalid_argument(format!("module '{name}' has duplicate export '{a}'")));
            }
        }
        Ok(Self(Arc::new(Inner { name, version, exports: exports.into(), by_name, kind })))
    }

    /// The name that other modules import it by.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its version; importers name the minimum they need.
    pub fn version(&self) -> u32 {
        self.0.version
    }

    /// The exported functions in order of their ordinals.
    pub fn exports(&self) -> &[ExportedFunction] {
        &self.0.exports
    }

    /// The ordinal of the export `name`.
    pub fn export(&self, name: &str) -> Option<usize> {
        let exports = self.exports();
        let found = self.0.by_name.binary_search_by(|ordinal| (*exports[*ordinal as usize].name).cmp(name));
        found.ok().map(|at| self.0.by_name[at] as usize)
    }

    /// The file of a bytecode module; `None` for a native module.
    pub fn file(&self) -> Option<&ModuleFile> {
        match &self.0.kind {
            ModuleKind::Native(_) => None,
            ModuleKind::Bytecode { program, .. } => Some(&program.file),
        }
    }

    pub(crate) fn kind(&self) -> &ModuleKind {
        &self.0.kind
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "module {} version {}", self.name(), self.version())
    }
}
