//! Lists of executables, with their functions, of modules and captures.

use rehal_base::{FileKind, Result};
use rehal_devices::{drivers, find_format};
use rehal_hal::FunctionInfo;
use rehal_replay::{ExecutableNames, ExecutableRecord, Plan};
use rehal_vm::ModuleFile;
use serde::Serialize;

use super::{ModuleExecutable, replaced_functions};

/// An executable of a module or of a capture.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ListedExecutable {
    /// Its number in a module, its id in a capture.
    pub id: u64,
    /// Its name; in captures, which have none, that of its first function.
    pub name: String,
    /// Its format.
    pub format: String,
    /// The processor that it is compiled for, such as `sm_80`, if its format or its code tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its size in bytes.
    pub bytes: u64,
    /// The name of its file in a directory of binaries, such as `4_abs_dispatch_0.so`.
    pub file: String,
    /// `None` if they are unknown.
    pub functions: Option<Vec<ListedFunction>>,
    /// Why its functions are not known.
    pub unknown: Option<String>,
    /// Its code.
    #[serde(skip)]
    pub code: Vec<u8>,
}

/// A function of an executable.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ListedFunction {
    /// Its ordinal in the executable.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// The number of its bindings.
    pub bindings: u16,
    /// The number of its constants, 32 bits each.
    pub constants: u16,
    /// Its workgroup size; zeros if it is not known.
    pub workgroup_size: [u32; 3],
    /// The name of the file with which rehal substitute has replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

impl ListedExecutable {
    /// The executables of a module.
    pub fn of_module(module: &ModuleFile) -> Result<Vec<Self>> {
        let listed = |it: &ModuleExecutable| {
            let (name, code) = (it.name(), it.code(module).to_vec());
            Self::new(it.number, name, it.format.clone(), it.functions(module), code)
        };
        Ok(ModuleExecutable::list(module)?.iter().map(listed).collect())
    }

    /// The executables of a capture.
    pub fn of_plan(plan: &Plan) -> Vec<Self> {
        let listed = |it: ExecutableRecord<'_>| {
            let infos = it.function_infos();
            let name = infos.first().map_or_else(String::new, |info| info.name.clone());
            let format = String::from_utf8_lossy(it.format).into_owned();
            Self::new(it.id, name, format, Ok(infos), it.data.to_vec())
        };
        plan.executables().map(listed).collect()
    }

    fn new(id: u64, name: String, format: String, infos: Result<Vec<FunctionInfo>>, code: Vec<u8>) -> Self {
        let stem = ExecutableNames::file_stem(id, &name);
        let target = find_format(&drivers(), &format).and_then(|it| (it.target)(&format, &code));
        let extension = FileKind::from_head(&code).map_or("bin", FileKind::extension);
        Self {
            id,
            name,
            format,
            target,
            bytes: code.len() as u64,
            file: format!("{stem}.{extension}"),
            unknown: infos.as_ref().err().map(|error| error.message().to_owned()),
            functions: infos.ok().map(|infos| functions(&infos, &code)),
            code,
        }
    }
}

fn functions(infos: &[FunctionInfo], code: &[u8]) -> Vec<ListedFunction> {
    let replaced = replaced_functions(code);
    let function = |(ordinal, info): (usize, &FunctionInfo)| ListedFunction {
        ordinal: ordinal as u32,
        name: info.name.clone(),
        bindings: info.binding_count,
        constants: info.constant_count,
        workgroup_size: info.workgroup_size,
        replaced_by: replaced.iter().find(|it| it.0 == ordinal as u32).map(|it| it.1.clone()),
    };
    infos.iter().enumerate().map(function).collect()
}
