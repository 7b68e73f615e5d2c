//! The code of executables, for disassemblers: of modules, and SPIR-V in executables for Vulkan.

use std::path::Path;
use std::sync::Arc;

use rehal_base::{Error, FileKind, MappedFile, Result};
use rehal_vm::ModuleFile;
use rehal_vulkan::executable::format::{Image, infer};

/// The executables of a compiled module, for every target that it was compiled for.
pub struct ModuleExecutables {
    file: ModuleFile,
}

impl ModuleExecutables {
    /// Opens a module. None of its code is checked.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { file: ModuleFile::map(Arc::new(MappedFile::open(path)?))? })
    }

    /// The segments of the module's data that contain machine code or SPIR-V, by ordinal. Modules state the
    /// format of an executable only in the code that creates it, so that they are known by their first bytes.
    pub fn all(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let bytes = self.file.bytes();
        let data = move |(ordinal, range)| Some((ordinal, bytes.get(range)?));
        let segments = self.file.rodata_segments().map(|it| it.range).enumerate();
        segments.filter_map(data).filter(|(_, data)| FileKind::of(data).is_some_and(FileKind::is_code))
    }
}

/// A function in SPIR-V.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpirvFunction {
    /// Its name, which is that of the entry point.
    pub name: String,
    /// The module that it is in, which may have others.
    pub words: Arc<[u32]>,
}

/// The functions of an executable for Vulkan, or of a SPIR-V module by itself, by ordinal. `format` is the one
/// that a capture states.
pub fn spirv_functions(format: Option<&str>, data: &[u8]) -> Result<Vec<SpirvFunction>> {
    let format = format.or_else(|| infer(data));
    let format = format.ok_or_else(|| Error::incompatible("the bytes are not an executable for Vulkan"))?;
    let image = Image::read(format, data)?;
    let shaders: Vec<Arc<[u32]>> = image.shaders.iter().map(|shader| shader.words().into()).collect();
    let functions = image.pipelines.iter().filter_map(|it| {
        Some(SpirvFunction { name: it.entry_point.clone(), words: shaders.get(it.shader)?.clone() })
    });
    Ok(functions.collect())
}
