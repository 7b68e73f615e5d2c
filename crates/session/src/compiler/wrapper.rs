//! Objects for CPUs as substitutes. The compiler crashes with an object in place of an executable, but links
//! one that a source names: the wrapper is that source. It calls a function of the object once, in a single
//! workgroup, with a pointer to each binding and then the constants.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{FileHeader64, STB_LOCAL, STT_FILE, STT_FUNC, STT_NOTYPE, STT_SECTION};
use object::read::elf::{FileHeader, Sym};
use rehal_base::{Error, MappedFile, Result};
use rehal_tune::{Job, JobLimits, KeptOutput, Runner};

use super::text::{ExecutableFunction, ExecutableVariant, ProgramExecutable};

/// Follows the name of a function, in an object that has several.
const SUFFIX: &str = "_kernel";

/// Nothing but the object is linked: the compiler must not call the C library, and loops must not become
/// calls.
const C_FLAGS: [&str; 9] = [
    "-c",
    "-std=gnu11",
    "-O3",
    "-ffreestanding",
    "-fPIC",
    "-fno-stack-protector",
    "-fno-tree-loop-distribute-patterns",
    "-fno-math-errno",
    "-ffp-contract=off",
];

/// Writes the source that links an object, or the object of a C source, into a directory.
pub(super) fn write(
    executable: &ProgramExecutable,
    variant: &ExecutableVariant,
    path: &Path,
    is_source: bool,
    runner: &dyn Runner,
    limits: JobLimits,
    directory: &Path,
) -> Result<PathBuf> {
    if !variant.format.contains("-elf-") {
        let message =
            format!("'{}' is for CPUs, and the program is for '{}'", path.display(), variant.format);
        return Err(Error::invalid_argument(message).advise("name an object for the target of the program"));
    }
    for function in &variant.functions {
        if let Some(index) = function.binding_offsets.iter().position(Option::is_none) {
            let message = format!(
                "'{}' gets one pointer for binding {index}, of which {} accesses several parts, or one that is decided at run time",
                path.display(),
                function.name
            );
            return Err(Error::invalid_argument(message)
                .advise("replace the dispatch by a source, as the compiler dumps it"));
        }
    }
    let failed = |error| Error::io("writing the wrapper of an object", &error);
    let object = match is_source {
        true => compile(path, variant, runner, limits, &directory.join(format!("{}.o", executable.name)))?,
        false => path.to_owned(),
    };
    let symbols = symbols_for(variant, &object, path)?;
    let wrapper = directory.join(format!("{}.mlir", executable.name));
    fs::write(&wrapper, text(executable, variant, &object, &symbols)).map_err(failed)?;
    Ok(wrapper)
}

/// Compiles C to an object.
fn compile(
    source: &Path,
    variant: &ExecutableVariant,
    runner: &dyn Runner,
    limits: JobLimits,
    object: &Path,
) -> Result<PathBuf> {
    let command = std::env::var("CC").ok().filter(|it| !it.trim().is_empty()).unwrap_or_else(|| "cc".into());
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or("cc");
    let mut job = Job::for_program(program);
    job.arguments = words.map(Into::into).chain(C_FLAGS.map(Into::into)).collect();
    // A function may have the name of the one that the program calls, which the wrapper has as well.
    for function in &variant.functions {
        job.arguments.push(format!("-D{0}={0}{SUFFIX}", function.name).into());
    }
    job.arguments.extend([source.into(), "-o".into(), object.into()]);
    (job.limits, job.kept, job.joins_streams) = (limits, KeptOutput::First(64 << 10), true);
    let outcome = runner.run(&job, &mut |_| ControlFlow::Continue(())).map_err(|error| {
        Error::io(format!("starting the compiler '{program}'"), &error)
            .advise("install the compiler, or name another in the environment: CC=PATH")
    })?;
    if !outcome.is_success() {
        let messages = String::from_utf8_lossy(&outcome.stdout.bytes);
        let message =
            format!("'{}' does not compile: {program} ended {}\n{messages}", source.display(), outcome.end);
        return Err(Error::invalid_argument(message.trim_end()).advise("correct the source"));
    }
    Ok(object.to_owned())
}

/// The function of an object that each function of a variant calls.
fn symbols_for(variant: &ExecutableVariant, object: &Path, shown: &Path) -> Result<Vec<String>> {
    let file = MappedFile::open(object)?;
    let (defined, undefined) = symbols(file.bytes())?;
    let shown = shown.display();
    if !undefined.is_empty() {
        let message =
            format!("'{shown}' needs {}: kernels are linked without a library", undefined.join(", "));
        return Err(Error::invalid_argument(message)
            .advise("define these functions in the file, or leave out their calls"));
    }
    let is_abi = |name: &String| name == "iree_hal_executable_library_query";
    if defined.iter().any(is_abi) {
        let message = format!("'{shown}' is a library of kernels (iree_hal_executable_library_query)");
        return Err(Error::invalid_argument(message).advise(
            "write a function of the bindings and constants, or replace the executable in a replay or in the compiled program",
        ));
    }
    let one = |function: &ExecutableFunction| {
        let named = format!("{}{SUFFIX}", function.name);
        match &defined[..] {
            _ if defined.contains(&named) => Ok(named),
            [only] if variant.functions.len() == 1 && *only != function.name => Ok(only.clone()),
            [] => Err(Error::invalid_argument(format!("'{shown}' defines no function"))
                .advise(format!("define {}", prototype(function, &named)))),
            _ => {
                let message = format!("'{shown}' defines {}, not {named}", defined.join(", "));
                Err(Error::invalid_argument(message)
                    .advise(format!("define {}", prototype(function, &named))))
            }
        }
    };
    variant.functions.iter().map(one).collect()
}

/// How the function of an object is declared in C.
fn prototype(function: &ExecutableFunction, name: &str) -> String {
    let bindings = function.bindings.iter().enumerate().map(|(index, binding)| {
        let is_read = binding.contains("ReadOnly");
        format!("{}void *binding_{index}", if is_read { "const " } else { "" })
    });
    let constants = (0..function.constants).map(|index| format!("uint32_t constant_{index}"));
    format!("void {name}({})", bindings.chain(constants).collect::<Vec<_>>().join(", "))
}

/// The functions that an object defines for others, and the symbols that it needs.
fn symbols(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>)> {
    let wrong = |_| Error::invalid_argument("not an object file (ELF, 64-bit)").advise("compile it again");
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(wrong)?;
    let endian = header.endian().map_err(wrong)?;
    let sections = header.sections(endian, bytes).map_err(wrong)?;
    let table = sections.symbols(endian, bytes, object::elf::SHT_SYMTAB).map_err(wrong)?;
    let (mut defined, mut undefined) = (Vec::new(), Vec::new());
    for symbol in table.iter() {
        if symbol.st_bind() == STB_LOCAL || matches!(symbol.st_type(), STT_FILE | STT_SECTION) {
            continue;
        }
        let Ok(name) = table.symbol_name(endian, symbol) else { continue };
        let name = String::from_utf8_lossy(name).into_owned();
        if symbol.is_undefined(endian) {
            // The linker provides it.
            if !name.is_empty() && name != "_GLOBAL_OFFSET_TABLE_" {
                undefined.push(name);
            }
        } else if matches!(symbol.st_type(), STT_FUNC | STT_NOTYPE) {
            defined.push(name);
        }
    }
    Ok((defined, undefined))
}

/// The functions of an ELF image for a GPU.
pub(super) fn defined_symbols(bytes: &[u8]) -> Result<Vec<String>> {
    Ok(symbols(bytes)?.0)
}

/// The source of an executable that calls functions of an object.
fn text(
    executable: &ProgramExecutable,
    variant: &ExecutableVariant,
    object: &Path,
    symbols: &[String],
) -> String {
    let mut out = String::new();
    let object = object.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    let (target, name) = (&variant.target, &variant.name);
    let _ = write!(
        out,
        "hal.executable public @{} {{\nhal.executable.variant public @{name} target({target}) \
         objects([#hal.executable.object<{{path = \"{object}\"}}>]) {{\n",
        executable.name
    );
    for function in &variant.functions {
        let _ = writeln!(out, "{}", function.text);
    }
    out.push_str("builtin.module {\n");
    for (function, symbol) in variant.functions.iter().zip(symbols) {
        call(&mut out, function, symbol);
    }
    out.push_str("}\n}\n}\n");
    out
}

/// A function that passes its bindings and constants to one of an object.
fn call(out: &mut String, function: &ExecutableFunction, symbol: &str) {
    let bindings = function.bindings.len();
    let types: Vec<_> = std::iter::repeat_n("memref<1xi8>", bindings)
        .chain(std::iter::repeat_n("i32", function.constants as usize))
        .collect();
    let types = types.join(", ");
    let layout = &function.layout;
    let _ = write!(
        out,
        "func.func private @{symbol}({types}) attributes {{hal.import.static, llvm.bareptr = true}}\n\
         func.func @{}() {{\n%c0 = arith.constant 0 : index\n",
        function.name
    );
    for (index, binding) in function.bindings.iter().enumerate() {
        let flags = binding.split_once(", ").map_or(String::new(), |(_, flags)| format!(" flags({flags})"));
        let offset = function.binding_offsets.get(index).copied().flatten().unwrap_or(0);
        let mut name = "%c0".to_owned();
        if offset != 0 {
            name = format!("%o{index}");
            let _ = writeln!(out, "{name} = arith.constant {offset} : index");
        }
        let _ = writeln!(
            out,
            "%b{index} = hal.interface.binding.subspan layout({layout}) binding({index}) alignment(64) \
             offset({name}){flags} : memref<1xi8>"
        );
    }
    for index in 0..function.constants {
        let _ =
            writeln!(out, "%k{index} = hal.interface.constant.load layout({layout}) ordinal({index}) : i32");
    }
    let values =
        (0..bindings).map(|it| format!("%b{it}")).chain((0..function.constants).map(|it| format!("%k{it}")));
    let values = values.collect::<Vec<_>>().join(", ");
    let _ = write!(out, "func.call @{symbol}({values}) : ({types}) -> ()\nreturn\n}}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapper_passes_bindings_and_constants() {
        let function = ExecutableFunction {
            name: "f".into(),
            ordinal: 0,
            constants: 1,
            bindings: vec!["storage_buffer, \"ReadOnly|Indirect\"".into(), "storage_buffer".into()],
            workload: 0,
            workgroup_count: String::new(),
            binding_bytes: Vec::new(),
            element_bits: Vec::new(),
            binding_offsets: vec![Some(0), Some(320)],
            text: "EXPORT".into(),
            layout: "<L>".into(),
        };
        assert_eq!(
            prototype(&function, "g"),
            "void g(const void *binding_0, void *binding_1, uint32_t constant_0)"
        );
        let mut out = String::new();
        call(&mut out, &function, "g");
        for line in [
            "func.func private @g(memref<1xi8>, memref<1xi8>, i32) attributes {hal.import.static, llvm.bareptr = true}",
            "%b0 = hal.interface.binding.subspan layout(<L>) binding(0) alignment(64) offset(%c0) flags(\"ReadOnly|Indirect\") : memref<1xi8>",
            "%o1 = arith.constant 320 : index",
            "%b1 = hal.interface.binding.subspan layout(<L>) binding(1) alignment(64) offset(%o1) : memref<1xi8>",
            "%k0 = hal.interface.constant.load layout(<L>) ordinal(0) : i32",
            "func.call @g(%b0, %b1, %k0) : (memref<1xi8>, memref<1xi8>, i32) -> ()",
        ] {
            assert!(out.lines().any(|it| it == line), "{line}\n{out}");
        }
        assert!(symbols(b"\x7FELF").is_err());
    }
}
