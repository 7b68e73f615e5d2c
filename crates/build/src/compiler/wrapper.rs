//! Objects for CPUs as substitutes. The compiler crashes with an object in place of an executable, but links
//! one that a source names: the wrapper is that source. It calls a function of the object once, in a single
//! workgroup, with a pointer to each binding and then the constants.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{FileHeader64, STB_GLOBAL, STB_LOCAL, STT_FILE, STT_FUNC, STT_NOTYPE, STT_SECTION};
use object::read::elf::{FileHeader, Sym};
use rehal_base::{Error, MappedFile, Result, listed};
use rehal_jobs::{Job, JobLimits, KeptOutput};

use super::text::{ExecutableFunction, ExecutableVariant, ProgramExecutable};
use crate::KernelDialect;

/// Follows the name of a function, in an object that has several.
const SUFFIX: &str = "_kernel";

/// Nothing but the object is linked: the compiler must not call the C library, and loops must not become
/// calls.
const C_FLAGS: [&str; 8] = [
    "-std=gnu11",
    "-O3",
    "-ffreestanding",
    "-fPIC",
    "-fno-stack-protector",
    "-fno-tree-loop-distribute-patterns",
    "-fno-math-errno",
    "-ffp-contract=off",
];

/// An object that a wrapper links.
pub(super) struct Linked {
    /// The file that the user named.
    path: PathBuf,
    /// The symbols that it alone may define.
    defined: Vec<String>,
    /// The functions that the wrapper calls, each with its numbers of bindings and constants.
    called: Vec<(String, usize, u32)>,
}

/// Fails if two objects define one symbol. The linker takes the first definition for both, without a word.
pub(super) fn check_apart(all: &[Linked]) -> Result<()> {
    let calls_alike = |left: &Linked, right: &Linked| {
        let differs =
            |it: &(String, usize, u32)| right.called.iter().any(|other| other.0 == it.0 && other != it);
        !left.called.iter().any(differs)
    };
    for (index, left) in all.iter().enumerate() {
        for right in &all[index + 1..] {
            // One file may have the functions of several executables.
            if left.path == right.path && calls_alike(left, right) {
                continue;
            }
            if let Some(name) = left.defined.iter().find(|it| right.defined.contains(it)) {
                let (left, right) = (left.path.display(), right.path.display());
                let message = format!("'{left}' and '{right}' both define '{name}', and are linked together");
                return Err(Error::invalid_argument(message).advise(
                    "give one another name, declare it static if only its file calls it, or add --iree-hal-link-executables=false",
                ));
            }
        }
    }
    Ok(())
}

/// How a file replaces an executable.
pub(super) enum Wrapped {
    /// By a source that links it.
    Source(PathBuf, Linked),
    /// It is a library of kernels, which is put into the compiled module.
    Library,
}

/// Writes the source that links an object, or the object of a C source, into a directory.
pub(super) fn write(
    executable: &ProgramExecutable,
    variant: &ExecutableVariant,
    path: &Path,
    is_source: bool,
    limits: JobLimits,
    directory: &Path,
) -> Result<Wrapped> {
    if !variant.format.contains("-elf-") {
        let message =
            format!("'{}' is for CPUs, and the program is for '{}'", path.display(), variant.format);
        return Err(Error::invalid_argument(message).advise("name an object for the target of the program"));
    }
    let failed = |error| Error::io("writing the wrapper of an object", &error);
    let file = |extension: &str| directory.join(format!("{}.{extension}", executable.name));
    let object = if is_source { file("o") } else { path.to_owned() };
    let c = C { source: path, variant, limits };
    if is_source {
        c.run(&["-c".into(), path.into(), "-o".into(), object.clone().into()])?;
    }
    if KernelDialect::of(MappedFile::open(&object)?.bytes())? == KernelDialect::Library {
        return Ok(Wrapped::Library);
    }
    let (symbols, defined) = symbols_for(variant, &object, path)?;
    if is_source {
        for (function, symbol) in variant.functions.iter().zip(&symbols) {
            let call = file("c");
            fs::write(&call, call_in_c(function, symbol)).map_err(failed)?;
            c.check_call(function, symbol, &call)?;
        }
    }
    let wrapper = file("mlir");
    fs::write(&wrapper, text(executable, variant, &object, &symbols)).map_err(failed)?;
    let called = variant.functions.iter().zip(symbols);
    let called = called.map(|(it, symbol)| (symbol, it.bindings.len(), it.constants)).collect();
    Ok(Wrapped::Source(wrapper, Linked { path: path.to_owned(), defined, called }))
}

/// A source in C, and how it is compiled.
struct C<'a> {
    source: &'a Path,
    variant: &'a ExecutableVariant,
    limits: JobLimits,
}

impl C<'_> {
    /// Compiles with more arguments.
    fn run(&self, arguments: &[OsString]) -> Result<()> {
        let command = std::env::var("CC").ok().filter(|it| !it.trim().is_empty());
        let command = command.unwrap_or_else(|| "cc".into());
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or("cc");
        let mut job = Job::for_program(program);
        job.arguments = words.map(Into::into).chain(C_FLAGS.map(Into::into)).collect();
        // A function may have the name of the one that the program calls, which the wrapper has as well.
        for function in &self.variant.functions {
            job.arguments.push(format!("-D{0}={0}{SUFFIX}", function.name).into());
        }
        // Whatever the name of the file is.
        job.arguments.extend(["-x", "c"].map(Into::into));
        job.arguments.extend(arguments.iter().cloned());
        (job.limits, job.kept, job.joins_streams) = (self.limits, KeptOutput::First(64 << 10), true);
        let outcome = job.run(&mut |_| ControlFlow::Continue(())).map_err(|error| {
            Error::io(format!("starting the compiler '{program}'"), &error)
                .advise("install the compiler, or name another in the environment: CC=PATH")
        })?;
        if outcome.is_success() {
            return Ok(());
        }
        let (source, messages) = (self.source.display(), String::from_utf8_lossy(&outcome.stdout.bytes));
        let message = format!("'{source}' does not compile: {program} ended {}\n{messages}", outcome.end);
        Err(Error::invalid_argument(message.trim_end()).advise("correct the source"))
    }

    /// Checks that a function can be called with its bindings and constants.
    fn check_call(&self, function: &ExecutableFunction, symbol: &str, call: &Path) -> Result<()> {
        let arguments = ["-w", "-fsyntax-only", "-include"].map(Into::into).into_iter();
        let arguments: Vec<_> = arguments.chain([self.source.into(), call.into()]).collect();
        self.run(&arguments).map_err(|error| {
            let source = self.source.display();
            let message =
                format!("function '{symbol}' of '{source}' has other parameters\n{}", error.message());
            Error::new(error.code(), message).advise(format!("define {}", prototype(function, symbol)))
        })
    }
}

/// C that calls a function with its bindings and constants.
fn call_in_c(function: &ExecutableFunction, symbol: &str) -> String {
    let arguments = vec!["0"; function.bindings.len() + function.constants as usize];
    format!("void rehal_call(void) {{ {symbol}({}); }}\n", arguments.join(", "))
}

/// The function of an object that each function of a variant calls, and what the object alone may define.
fn symbols_for(
    variant: &ExecutableVariant,
    object: &Path,
    shown: &Path,
) -> Result<(Vec<String>, Vec<String>)> {
    let file = MappedFile::open(object)?;
    let Symbols { functions: defined, unique, undefined } = symbols(file.bytes())?;
    let shown = shown.display();
    if !undefined.is_empty() {
        let message = format!("'{shown}' needs {}: kernels are linked without a library", listed(undefined));
        return Err(Error::invalid_argument(message)
            .advise("define these functions in the file, or leave out their calls"));
    }
    // An inline function of C++ is not what the program calls.
    let own: Vec<_> = defined.iter().filter(|it| unique.contains(it)).cloned().collect();
    let candidates = if own.is_empty() { &defined } else { &own };
    let one = |function: &ExecutableFunction| {
        let named = format!("{}{SUFFIX}", function.name);
        match &candidates[..] {
            _ if defined.contains(&named) => Ok(named),
            [only] if variant.functions.len() == 1 && *only != function.name => Ok(only.clone()),
            [] => Err(Error::invalid_argument(format!("'{shown}' defines no function"))
                .advise(format!("define {}", prototype(function, &named)))),
            _ => {
                let message = format!("'{shown}' defines {}, not {named}", listed(&defined));
                Err(Error::invalid_argument(message)
                    .advise(format!("define {}", prototype(function, &named))))
            }
        }
    };
    let called = variant.functions.iter().map(one).collect::<Result<_>>()?;
    Ok((called, unique))
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

/// The symbols of an object.
#[derive(Default)]
struct Symbols {
    /// The functions that it defines for others.
    functions: Vec<String>,
    /// All that it defines for others and that may be defined once. Others may be merged, such as inline
    /// functions of C++.
    unique: Vec<String>,
    /// The symbols that it needs.
    undefined: Vec<String>,
}

fn symbols(bytes: &[u8]) -> Result<Symbols> {
    let wrong = |_| Error::invalid_argument("not an object file (ELF, 64-bit)").advise("compile it again");
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(wrong)?;
    let endian = header.endian().map_err(wrong)?;
    let sections = header.sections(endian, bytes).map_err(wrong)?;
    let table = sections.symbols(endian, bytes, object::elf::SHT_SYMTAB).map_err(wrong)?;
    let mut all = Symbols::default();
    for symbol in table.iter() {
        if symbol.st_bind() == STB_LOCAL || matches!(symbol.st_type(), STT_FILE | STT_SECTION) {
            continue;
        }
        let Ok(name) = table.symbol_name(endian, symbol) else { continue };
        let name = String::from_utf8_lossy(name).into_owned();
        if symbol.is_undefined(endian) {
            // The linker provides it.
            if !name.is_empty() && name != "_GLOBAL_OFFSET_TABLE_" {
                all.undefined.push(name);
            }
            continue;
        }
        if symbol.st_bind() == STB_GLOBAL {
            all.unique.push(name.clone());
        }
        if matches!(symbol.st_type(), STT_FUNC | STT_NOTYPE) {
            all.functions.push(name);
        }
    }
    Ok(all)
}

/// The functions of an ELF image for a GPU.
pub(super) fn defined_symbols(bytes: &[u8]) -> Result<Vec<String>> {
    Ok(symbols(bytes)?.functions)
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

/// A function that passes the starts of its bindings, and its constants, to one of an object.
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
        let _ = writeln!(
            out,
            "%b{index} = hal.interface.binding.subspan layout({layout}) binding({index}) alignment(64) \
             offset(%c0){flags} : memref<1xi8>"
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
            "%b1 = hal.interface.binding.subspan layout(<L>) binding(1) alignment(64) offset(%c0) : memref<1xi8>",
            "%k0 = hal.interface.constant.load layout(<L>) ordinal(0) : i32",
            "func.call @g(%b0, %b1, %k0) : (memref<1xi8>, memref<1xi8>, i32) -> ()",
        ] {
            assert!(out.lines().any(|it| it == line), "{line}\n{out}");
        }
        assert!(symbols(b"\x7FELF").is_err());
    }

    #[test]
    fn objects_that_are_linked_define_different_symbols() {
        let linked = |path: &str, defined: &str, bindings| Linked {
            path: path.into(),
            defined: vec!["helper".to_owned(), defined.to_owned()],
            called: vec![(defined.to_owned(), bindings, 0)],
        };
        let check = |left, right| check_apart(&[left, right]).map_err(|error| error.message().to_owned());
        let both = "'a.o' and 'b.o' both define 'helper', and are linked together".to_owned();
        assert_eq!(check(linked("a.o", "f", 2), linked("b.o", "g", 2)), Err(both));
        // One file for both.
        assert_eq!(check(linked("a.o", "f", 2), linked("a.o", "g", 3)), Ok(()));
        assert_eq!(check(linked("a.o", "f", 2), linked("a.o", "f", 2)), Ok(()));
        assert!(check(linked("a.o", "f", 2), linked("a.o", "f", 3)).is_err());
    }
}
