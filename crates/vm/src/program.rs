use std::sync::Arc;

use rehal_base::{Context as _, Error, HostMemory, Range, Result};

use crate::code::Code;
use crate::lower::lower;
use crate::module_file::ModuleFile;
use crate::tables::Tables;
use crate::verify::verify;
use crate::{Buffer, Ref};

/// A bytecode module that has been verified and decoded.
pub(crate) struct Program {
    pub(crate) file: ModuleFile,
    pub(crate) tables: Tables,
    /// The functions in order of their ordinals.
    pub(crate) codes: Box<[Code]>,
    /// Buffers over the constant data, which is not copied.
    pub(crate) rodata: Box<[Ref]>,
}

impl Program {
    /// Verifies every function and decodes it.
    pub(crate) fn load(file: ModuleFile) -> Result<Self> {
        let tables = Tables::read(&file)?;
        if tables.types.len() > 1 << 16 {
            return Err(Error::resource_exhausted("a module may have 65536 types and no more"));
        }
        let mut codes = Vec::with_capacity(tables.functions.len());
        for (ordinal, function) in tables.functions.iter().enumerate() {
            let bytecode = file.function_bytecode(ordinal).unwrap_or_default();
            let code = verify(&tables, function, bytecode)
                .and_then(|frame| lower(&tables, function, frame, bytecode, false));
            codes.push(code.context(|| format!("{}.{}", file.name(), function_name(&file, ordinal)))?);
        }
        let rodata = file.rodata_segments().map(|segment| {
            let range = Range { offset: segment.range.start as u64, length: segment.range.len() as u64 };
            Ok(Ref::new(Buffer::constant(Arc::new(HostMemory::part(file.memory(), range)?))))
        });
        let rodata = rodata.collect::<Result<_>>()?;
        Ok(Self { tables, codes: codes.into(), rodata, file })
    }
}

/// What a function is called in errors: by an export, or by its ordinal.
pub(crate) fn function_name(file: &ModuleFile, ordinal: usize) -> String {
    match file.exports().find(|export| export.function == ordinal) {
        Some(export) => export.local_name.into(),
        None => format!("@{ordinal}"),
    }
}
