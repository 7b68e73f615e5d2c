use rehal_base::{Context as _, Error, Result};

use crate::list::ElementKind;
use crate::module_file::{FunctionDescriptor, ModuleFile};
use crate::{Convention, ExportedFunction};

/// The tables of a module file that instructions refer to by ordinal, parsed.
pub(crate) struct Tables {
    pub(crate) types: Box<[ElementKind]>,
    pub(crate) imports: Box<[Import]>,
    pub(crate) functions: Box<[Function]>,
    pub(crate) global_bytes: usize,
    pub(crate) global_refs: usize,
    pub(crate) rodata_count: usize,
}

/// A function that the module imports.
pub(crate) struct Import {
    /// Qualified with the module's name ("hal.buffer.assert").
    pub(crate) full_name: Box<str>,
    pub(crate) convention: Convention,
    pub(crate) is_optional: bool,
}

/// A function that the module defines.
pub(crate) struct Function {
    pub(crate) convention: Convention,
    pub(crate) descriptor: FunctionDescriptor,
}

impl Tables {
    /// Reads the tables of `file` that instructions need.
    pub(crate) fn read(file: &ModuleFile) -> Result<Self> {
        let imports = file.imports().map(|import| {
            let text = import.signature.calling_convention.unwrap_or_default();
            let convention = Convention::parse(text).context(|| format!("import '{}'", import.full_name))?;
            Ok(Import { full_name: import.full_name.into(), convention, is_optional: import.optional })
        });
        let functions = (0..file.function_count()).map(|ordinal| {
            let signature = file.signature(ordinal);
            let text = signature.and_then(|signature| signature.calling_convention).unwrap_or_default();
            let convention = Convention::parse(text).context(|| format!("function {ordinal}"))?;
            if convention.is_variadic() {
                let error = Error::invalid_argument("bytecode functions cannot take spans");
                return Err(error.context(format!("function {ordinal}")));
            }
            Ok(Function { convention, descriptor: file.function(ordinal).unwrap_or_default() })
        });
        Ok(Self {
            types: file.types().map(type_of).collect::<Result<_>>()?,
            imports: imports.collect::<Result<_>>()?,
            functions: functions.collect::<Result<_>>()?,
            global_bytes: file.global_bytes(),
            global_refs: file.global_ref_count(),
            rodata_count: file.rodata_count(),
        })
    }

    /// The exports of `file` in order.
    pub(crate) fn exports(&self, file: &ModuleFile) -> Vec<(ExportedFunction, u32)> {
        let read = |export: crate::module_file::Export<'_>| {
            let convention = self.functions.get(export.function).map(|function| function.convention.clone());
            let function = ExportedFunction {
                name: export.local_name.into(),
                convention: convention.unwrap_or_default(),
            };
            (function, export.function as u32)
        };
        file.exports().map(read).collect()
    }
}

/// A type by its full name. Object types are defined by native modules, so any name is valid.
fn type_of(name: &str) -> Result<ElementKind> {
    Ok(match name {
        "i8" => ElementKind::I8,
        "i16" => ElementKind::I16,
        "i32" => ElementKind::I32,
        "i64" => ElementKind::I64,
        "f32" => ElementKind::F32,
        "f64" => ElementKind::F64,
        "!vm.opaque" => ElementKind::Variant,
        "!vm.ref<?>" => ElementKind::AnyRef,
        name => match name.strip_prefix('!') {
            // List element types are checked on access.
            Some(list) if list.starts_with("vm.list") => ElementKind::Ref("vm.list".into()),
            Some(object) => ElementKind::Ref(object.into()),
            None => return Err(Error::not_found(format!("the module uses an unknown type '{name}'"))),
        },
    })
}
