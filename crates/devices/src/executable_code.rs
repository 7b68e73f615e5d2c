//! SPIR-V in executables for Vulkan, for disassemblers.

use std::sync::Arc;

use rehal_base::{Error, Result};
use rehal_formats::vulkan::{Image, infer};

/// A function in SPIR-V.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpirvFunction {
    /// Its name, which is that of the entry point.
    pub name: String,
    /// The module that it is in, which may have others.
    pub words: Arc<[u32]>,
}

/// The functions of an executable for Vulkan, or of a SPIR-V module by itself, by ordinal. `format` is the
/// one that a capture states.
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
