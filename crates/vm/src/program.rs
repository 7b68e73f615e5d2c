use std::sync::Arc;

use rehal_base::{Context as _, Error, HostMemory, Range, Result};

use crate::code::Code;
use crate::lower::lower;
use crate::module_file::ModuleFile;
use crate::tables::Tables;
use crate::verify::{Frame, verify};
use crate::{Buffer, Ref};

/// A bytecode module that has been verified and lowered.
pub(crate) struct Program {
    pub(crate) file: ModuleFile,
    pub(crate) tables: Tables,
    /// The functions in order of their ordinals.
    pub(crate) codes: Arc<[Code]>,
    /// The registers that each function uses.
    frames: Box<[Frame]>,
    /// Buffers over the constant data, zero-copy.
    pub(crate) rodata: Box<[Ref]>,
}

impl Program {
    /// Verifies and lowers every function.
    pub(crate) fn load(file: ModuleFile) -> Result<Self> {
        let tables = Tables::read(&file)?;
        if tables.types.len() > 1 << 16 {
            return Err(Error::resource_exhausted("the module has more than 65536 types"));
        }
        let frames = tables.functions.iter().enumerate().map(|(ordinal, function)| {
            let bytecode = file.function_bytecode(ordinal).unwrap_or_default();
            verify(&tables, function, bytecode)
                .context(|| format!("{}.{}", file.name(), function_name(&file, ordinal)))
        });
        let frames = frames.collect::<Result<Box<[Frame]>>>()?;
        let codes = lower_all(&file, &tables, &frames, true)?;
        let rodata = file.rodata_segments().map(|segment| {
            let range = Range { offset: segment.range.start as u64, length: segment.range.len() as u64 };
            Ok(Ref::new(Buffer::constant(Arc::new(HostMemory::part(file.memory(), range)?))))
        });
        let rodata = rodata.collect::<Result<_>>()?;
        Ok(Self { tables, codes, frames, rodata, file })
    }

    /// A program with other functions than those of the file.
    #[cfg(test)]
    pub(crate) fn from_parts(file: ModuleFile, tables: Tables, codes: Arc<[Code]>) -> Self {
        Self { file, tables, codes, frames: [].into(), rodata: [].into() }
    }

    /// The functions lowered without optimization, so that each instruction of the bytecode can be traced.
    pub(crate) fn traceable(&self) -> Result<Arc<[Code]>> {
        lower_all(&self.file, &self.tables, &self.frames, false)
    }
}

fn lower_all(file: &ModuleFile, tables: &Tables, frames: &[Frame], optimizes: bool) -> Result<Arc<[Code]>> {
    let codes = frames.iter().enumerate().map(|(ordinal, frame)| {
        let bytecode = file.function_bytecode(ordinal).unwrap_or_default();
        lower(tables, ordinal as u32, *frame, bytecode, optimizes)
            .context(|| format!("{}.{}", file.name(), function_name(file, ordinal)))
    });
    codes.collect()
}

/// The name of a function in errors: that of an export, else its ordinal.
pub(crate) fn function_name(file: &ModuleFile, ordinal: usize) -> String {
    match file.exports().find(|export| export.function == ordinal) {
        Some(export) => export.local_name.into(),
        None => format!("@{ordinal}"),
    }
}
