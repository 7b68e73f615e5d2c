//! Code for GPUs as substitutes: whether a program can call it in place of what the compiler makes.

use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use rehal_base::{Context, Error, FileKind, MappedFile, Result, StatusCode};

use super::text::{ExecutableFunction, ProgramExecutable, only_variant};
use super::{Compiler, wrapper};

/// How a function of an object is called; `None` for what its format does not say.
struct ObjectFunction {
    name: String,
    /// Number of bindings and constants.
    parameters: Option<usize>,
    shape: Option<Shape>,
}

/// The bindings, constants and workgroup size of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    bindings: u16,
    constants: u16,
    workgroup_size: [u32; 3],
}

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { bindings, constants, workgroup_size: [x, y, z] } = self;
        write!(f, "(constants={constants} bindings={bindings} workgroup_size=[{x},{y},{z}])")
    }
}

impl ObjectFunction {
    fn named(name: String) -> Self {
        Self { name, parameters: None, shape: None }
    }

    /// The functions of PTX.
    fn of_cuda(bytes: &[u8]) -> Result<Vec<Self>> {
        let functions = rehal_formats::read_cuda(bytes)?.functions.into_iter();
        let parameters = |it: &rehal_formats::Function| it.parameters.as_ref().map(|all| all.len());
        Ok(functions.map(|it| Self { parameters: parameters(&it), ..Self::named(it.name) }).collect())
    }

    /// The functions of SPIR-V, or of an executable for Vulkan.
    fn of_vulkan(bytes: &[u8]) -> Result<Vec<Self>> {
        use rehal_formats::vulkan::{Image, Shader, VulkanFormat, infer, spirv};
        let format = infer(bytes).ok_or_else(|| Error::invalid_argument("not code for Vulkan"))?;
        let function = |name: &str, bindings, constants, workgroup_size| Self {
            shape: Some(Shape { bindings, constants, workgroup_size }),
            ..Self::named(name.into())
        };
        // SPIR-V for the addresses of buffers declares no bindings: the compiler describes them beside it.
        if format == VulkanFormat::BareAddresses.name() {
            let shader = Shader::read(spirv::words(bytes)?, 0)?;
            let functions = shader.entry_points().iter();
            return Ok(functions.map(|it| function(&it.name, 0, 0, it.workgroup_size.value(&[]))).collect());
        }
        let functions = Image::read(format, bytes)?.functions();
        let function = |it: &rehal_formats::Function| {
            let bindings = it.binding_count().unwrap_or_default();
            let size = it.workgroup_size.unwrap_or_default();
            function(&it.name, bindings, it.constant_count.unwrap_or_default(), size)
        };
        Ok(functions.iter().map(function).collect())
    }
}

impl Compiler {
    /// Checks that an object for a GPU is for the target of an executable, and has functions that the program
    /// can call in place of its own. `flags` are those with which the executable is compiled by itself.
    pub(super) fn check_object(
        &self,
        executable: &ProgramExecutable,
        path: &Path,
        flags: &[OsString],
    ) -> Result<()> {
        let variant = only_variant(executable)?;
        let file = MappedFile::open(path)?;
        let (bytes, path) = (file.bytes(), path.display());
        let other = |what: String| {
            Err(Error::invalid_argument(format!("'{path}' is {what}"))
                .advise("name an object for the target of the program"))
        };
        let (what, prefix) = match Elf::of(bytes) {
            _ if is_spirv(bytes) => ("SPIR-V", "vulkan"),
            _ if is_ptx(bytes) => ("PTX", "cuda"),
            Some(elf) if elf.machine == Elf::AMDGPU => ("code for AMD GPUs", "rocm"),
            _ => return other("neither SPIR-V nor PTX nor an ELF image for AMD".into()),
        };
        if !variant.format.starts_with(prefix) {
            return other(format!("{what}, and the program is for '{}'", variant.format));
        }
        let functions = match prefix {
            "vulkan" => ObjectFunction::of_vulkan(bytes).context(|| format!("'{path}'"))?,
            "cuda" => ObjectFunction::of_cuda(bytes).context(|| format!("'{path}'"))?,
            _ => wrapper::defined_symbols(bytes)?.into_iter().map(ObjectFunction::named).collect(),
        };
        let find = |function: &ExecutableFunction| {
            functions.iter().find(|it| it.name == function.name).ok_or_else(|| {
                let names: Vec<_> = functions.iter().map(|it| format!("'{}'", it.name)).collect();
                let has = rehal_base::listed(&names);
                let message = format!("'{path}' has no function '{}', but {has}", function.name);
                Error::invalid_argument(message)
                    .advise("keep the names of the functions: the program calls them")
            })
        };
        let found = variant.functions.iter().map(find).collect::<Result<Vec<_>>>()?;
        let compiled = if prefix == "vulkan" { self.own_functions(executable, flags)? } else { Vec::new() };
        for (function, own) in variant.functions.iter().zip(found) {
            let compiled = compiled.iter().find(|it| it.name == function.name);
            let passed = function.bindings.len() + function.constants as usize;
            check_signature(passed, own, compiled).context(|| format!("'{path}'"))?;
        }
        Ok(())
    }

    /// The functions that the compiler makes of an executable: its source does not say how the work is
    /// divided. Empty if it does not compile without the rest of the program, such as its constants.
    fn own_functions(
        &self,
        executable: &ProgramExecutable,
        flags: &[OsString],
    ) -> Result<Vec<ObjectFunction>> {
        let text = executable.text.replacen("hal.executable private", "hal.executable public", 1);
        match self.compile_dispatch(&text, flags) {
            Ok(compiled) => ObjectFunction::of_vulkan(&compiled.bytes),
            Err(error) if matches!(error.code(), StatusCode::InvalidArgument | StatusCode::Internal) => {
                Ok(Vec::new())
            }
            Err(error) => Err(error.context("the program's own code")),
        }
    }
}

/// Checks that a program that passes this number of bindings and constants can call a function of an object,
/// with what the compiler makes of its own one, if that is known.
fn check_signature(passed: usize, own: &ObjectFunction, compiled: Option<&ObjectFunction>) -> Result<()> {
    let mismatch = |program_has: String, substitute_has: String| {
        let message = format!(
            "signature mismatch of function '{}': program={program_has} substitute={substitute_has}",
            own.name
        );
        Err(Error::failed_precondition(message).advise(
            "compile the object from the same dispatch, with the same bindings, constants and workgroup size",
        ))
    };
    if let Some(count) = own.parameters
        && count > passed
    {
        return mismatch(format!("{passed} parameters"), format!("{count} parameters"));
    }
    // A function need not declare what it does not use.
    match (own.shape, compiled.and_then(|it| it.shape)) {
        (Some(own), Some(program))
            if own.bindings > program.bindings
                || own.constants > program.constants
                || own.workgroup_size != program.workgroup_size =>
        {
            mismatch(program.to_string(), own.to_string())
        }
        _ => Ok(()),
    }
}

pub(super) fn is_spirv(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x03, 0x02, 0x23, 0x07])
}

pub(super) fn is_ptx(bytes: &[u8]) -> bool {
    FileKind::from_head(bytes) == Some(FileKind::Ptx)
}

/// The header of an ELF image, as far as it is read.
#[derive(Clone, Copy)]
pub(super) struct Elf {
    pub(super) kind: u16,
    pub(super) machine: u16,
}

impl Elf {
    pub(super) const RELOCATABLE: u16 = 1;
    pub(super) const AMDGPU: u16 = 224;

    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        bytes.starts_with(b"\x7FELF").then_some(())?;
        Some(Self { kind: number(16)?, machine: number(18)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_signature_of_the_program() {
        let shape = |bindings, constants, workgroup_size| ObjectFunction {
            shape: Some(Shape { bindings, constants, workgroup_size }),
            ..ObjectFunction::named("f".into())
        };
        let check = |object: &ObjectFunction| {
            check_signature(3, object, Some(&shape(2, 1, [64, 1, 1])))
                .map_err(|error| error.message().to_owned())
        };
        // It need not use everything.
        for fits in [shape(2, 1, [64, 1, 1]), shape(1, 0, [64, 1, 1]), ObjectFunction::named("f".into())] {
            assert_eq!(check(&fits), Ok(()));
        }
        let program_has = "program=(constants=1 bindings=2 workgroup_size=[64,1,1])";
        for (other, has) in [
            (shape(6, 1, [64, 1, 1]), "(constants=1 bindings=6 workgroup_size=[64,1,1])"),
            (shape(2, 3, [64, 1, 1]), "(constants=3 bindings=2 workgroup_size=[64,1,1])"),
            (shape(2, 1, [8, 1, 1]), "(constants=1 bindings=2 workgroup_size=[8,1,1])"),
        ] {
            let message = format!("signature mismatch of function 'f': {program_has} substitute={has}");
            assert_eq!(check(&other), Err(message));
        }
        let with = |parameters| ObjectFunction { parameters, ..ObjectFunction::named("f".into()) };
        assert_eq!((check(&with(Some(3))), check(&with(Some(2)))), (Ok(()), Ok(())));
        assert!(check(&with(Some(4))).unwrap_err().contains("program=3 parameters substitute=4 parameters"));
    }

    #[test]
    fn kernels_are_read_from_ptx() {
        let ptx = ".version 7.0\n.target sm_80\n.visible .entry f_1(\n.param .u64 a\n) {}\n.entry g ( ) {}\n\
                   .entry h(.param .u64 a,.param .u64 b) { ld.param (x) }";
        assert!(is_ptx(ptx.as_bytes()) && !is_ptx(b".version 1\n"));
        let found = ObjectFunction::of_cuda(ptx.as_bytes()).unwrap();
        let found: Vec<_> = found.iter().map(|it| (&*it.name, it.parameters)).collect();
        assert_eq!(found, [("f_1", Some(1)), ("g", Some(0)), ("h", Some(2))]);
    }
}
