//! `rehal compile`: compiles a program with IREE's compiler, and checks the substitutes of its executables.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rehal::program::substitute_executables;
use rehal_base::{Error, FileKind, Result};
use rehal_build::{Compilation, Compiled, SourceSubstitutes, SubstituteFile, SubstituteFlags};
use rehal_jobs::TemporaryDirectory;
use rehal_replay::{Replacement, Selector, Substitution};
use rehal_vm::ModuleFile;

use super::compiler_flags::{
    COMPILER, COMPILER_MEMORY, COMPILER_TIMEOUT, NO_CACHE, SubstituteCompiler, TARGET, compile, compiler,
};
use crate::flags::{Access, Flags, Group, List, read_path};
use crate::output_file::{OUTPUT, OutputFile};
use crate::{Invocation, Operands, Tool, interrupts, output};

/// See the [module](self).
pub const COMPILE: Tool = Tool {
    name: "rehal compile",
    verb: "compile",
    summary: "compiles a program, and substitutes its executables",
    about: "Compiles a program of MLIR (text or bytecode) or a model of ONNX with IREE's compiler, iree-compile, which runs as a \
            process of its own. Flags that are not listed here are the compiler's: --help=WORD prints those whose name or \
            description has the word. Values follow '='.\n\n\
            Files that replace executables of the program are checked first: names, functions, bindings, constants, \
            workgroup counts, targets.",
    operands: Operands::Forwarded {
        what: "program",
        form: "PROGRAM.mlir|.mlirbc|.onnx [-o OUT.vmfb]",
        takes_value,
    },
    groups: &[&COMPILATION, &SUBSTITUTES],
    examples: &[
        ("Compile for this machine's processor", "{tool} --target=cpu model.mlir -o model.vmfb"),
        ("Find flags of the compiler", "{tool} --help=substitute"),
        ("Stop after a phase", "{tool} --target=cpu --compile-to=flow model.mlir -o flow.mlir"),
        (
            "Write the sources of the executables, and compile with an edited one",
            "{tool} --target=cpu --iree-hal-dump-executable-sources-to=sources model.mlir -o model.vmfb\n\
             {tool} --target=cpu --substitute=main_dispatch_0=sources/module_main_dispatch_0.mlir model.mlir -o edited.vmfb",
        ),
        (
            "Use a kernel in C",
            "{tool} --target=cpu --substitute=main_dispatch_0=kernel.c model.mlir -o edited.vmfb",
        ),
    ],
    guide: include_str!("../guides/compile.md"),
    answer,
    run,
};

const COMPILATION: Group = Group {
    title: "Compilation",
    flags: &[&OUTPUT, &TARGET, &COMPILER, &NO_CACHE, &COMPILER_TIMEOUT, &COMPILER_MEMORY],
};

const SUBSTITUTE: List<SubstituteFile> = List::parsed(
    "substitute",
    "NAME[@KIND]=FILE",
    "NAME=FILE or NAME@KIND=FILE",
    |value| Ok(SubstituteFile::parse(value)?),
    "Replaces an executable by a file: MLIR as the compiler dumps it before (source) or after (configuration) it decides how it \
     is lowered, PTX, SPIR-V or an ELF image for AMD (object), an object file (cpu-object) or C (c) for the CPU. The \
     contents of the file tell which, unless KIND does. NAME may have the prefixes of dumped files.",
)
.files(|substitute, _| vec![Access::Read.to(&substitute.path)]);

const SUBSTITUTE_FROM: List<PathBuf> = List::paths(
    "substitute_from",
    "PATH",
    "Replaces executables by the files of a directory, each that of its name. May be repeated.",
)
.files(read_path);

const SEARCH_PATH: List<PathBuf> = List::paths(
    "search_path",
    "PATH",
    "A directory in which files of --substitute, and the objects that sources name, are searched. May be repeated.",
)
.files(read_path);

const SUBSTITUTES: Group =
    Group { title: "Substitutes", flags: &[&SUBSTITUTE, &SUBSTITUTE_FROM, &SEARCH_PATH] };

/// The flags of the compiler that have a word.
fn answer(query: &str, word: &str, flags: &Flags) -> Option<Result<String>> {
    let help = || {
        let compiler = compiler(flags)?;
        let found = compiler.help(word)?;
        if found.is_empty() {
            return Err(Error::not_found(format!("no flag of the compiler has '{word}'"))
                .advise("--help=iree prints all flags with that word; --help those of this tool"));
        }
        Ok(format!("Flags of {}, version {}:\n{found}", compiler.path().display(), compiler.version()))
    };
    (query == "help").then(help)
}

/// Whether the compiler says that its flag of this name has a value.
fn takes_value(flags: &Flags, name: &str) -> Result<bool> {
    let help = compiler(flags)?.help(name)?;
    let declared = format!("--{}=<", name.replace('_', "-"));
    Ok(help.lines().any(|line| line.trim_start().starts_with(&declared)))
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    if invocation.files().is_empty() {
        let printed = compiler(flags)?.query(flags.forwarded())?;
        return output::print(&String::from_utf8_lossy(&printed));
    }
    // Standard output by default, as the compiler does.
    let output = OutputFile::new(OUTPUT.name(), flags.get(&OUTPUT).unwrap_or_else(|| "-".into()))?;
    let input = Input::of(invocation.operand())?;
    let compiler = compiler(flags)?;
    let targets = flags.get(&TARGET).into_iter().map(OsString::from);
    let mut compilation = Compilation::new(&input.path, targets.chain(flags.forwarded().iter().cloned()));
    compilation.is_stdin = input.directory.is_some();
    let directories = flags.list(&SUBSTITUTE_FROM);
    let substitutes = SourceSubstitutes::new(flags.list(&SUBSTITUTE), directories, flags.list(&SEARCH_PATH));
    let substituted = compiler.substitute(&compilation, &substitutes)?;
    substituted.add_to(&mut compilation);
    let dumped = DumpedBefore::read(&compilation.flags);
    let compiled = compile(&compiler, &compilation);
    dumped.keep()?;
    let compiled = compiled?;
    let cached = if compiled.is_cached() { ", from the cache" } else { "" };
    output::note(&format!("compiled by {} {}{cached}", compiler.path().display(), compiler.version()));
    let linked = put_libraries(flags, &compiled, &substituted)?;
    let bytes = linked.as_deref().unwrap_or(compiled.bytes());
    output.write(|sink| {
        sink.write_all(bytes).map_err(|error| Error::io("writing the compiled program", &error))
    })?;
    match compiled.printed.is_empty() {
        true => Ok(()),
        false => output::print(&String::from_utf8_lossy(&compiled.printed)),
    }
}

/// The files in directories to which the compiler dumps, with their contents before it does: it overwrites
/// sources that were edited.
struct DumpedBefore(Vec<(PathBuf, Vec<u8>)>);

impl DumpedBefore {
    fn read(flags: &[OsString]) -> Self {
        let directory = |flag: &OsString| {
            let (name, directory) = flag.to_str()?.trim_start_matches('-').split_once('=')?;
            (name.starts_with("iree-hal-dump-executable-") && name.ends_with("-to"))
                .then(|| directory.to_owned())
        };
        let files = flags.iter().filter_map(directory).filter_map(|it| fs::read_dir(it).ok());
        let files = files.flat_map(|it| it.flatten().map(|it| it.path()));
        Self(
            files.filter(|it| it.is_file()).filter_map(|it| Some((it.clone(), fs::read(it).ok()?))).collect(),
        )
    }

    /// Writes what was overwritten by something else beside it, and says so.
    fn keep(&self) -> Result<()> {
        let is_other = |(path, before): &&(PathBuf, Vec<u8>)| fs::read(path).is_ok_and(|it| it != *before);
        for (path, before) in self.0.iter().filter(is_other) {
            let mut kept = path.clone().into_os_string();
            kept.push(".before");
            let failed = |error| Error::io(format!("writing '{}'", Path::new(&kept).display()), &error);
            fs::write(&kept, before).map_err(failed)?;
            let (path, kept) = (path.display(), Path::new(&kept).display());
            output::note(&format!("note: '{path}' had other contents, which are now in '{kept}'"));
        }
        Ok(())
    }
}

/// Puts libraries of kernels and CUDA C into the compiled module, if there are any.
fn put_libraries(
    flags: &Flags,
    compiled: &Compiled,
    substituted: &SubstituteFlags,
) -> Result<Option<Vec<u8>>> {
    let Some((_, first)) = substituted.libraries.first() else { return Ok(None) };
    if FileKind::from_head(compiled.bytes()) != Some(FileKind::Module) {
        let message = format!(
            "'{}' is a library of kernels or CUDA C, which is put into a compiled module, and the output is something else",
            first.display()
        );
        return Err(Error::invalid_argument(message).advise(
            "leave out --compile-to and --output-format, or write a function of the bindings and constants",
        ));
    }
    let module = ModuleFile::copy(compiled.bytes())?;
    let substitution = |(name, path): &(String, PathBuf)| {
        Substitution::new(Selector::Name(name.clone()), Replacement::file(path.clone()))
    };
    let substitutions: Vec<_> = substituted.libraries.iter().map(substitution).collect();
    let compiler = SubstituteCompiler::for_kernels(flags);
    let build = |resolved: &mut _| compiler.build_for_module(resolved);
    Ok(Some(substitute_executables(&module, &substitutions, &build)?.0))
}

/// The program; standard input is copied to a file.
struct Input {
    path: PathBuf,
    /// Has the copy.
    directory: Option<TemporaryDirectory>,
}

impl Input {
    fn of(path: PathBuf) -> Result<Self> {
        if path.as_os_str() != "-" {
            return Ok(Self { path, directory: None });
        }
        interrupts::handle();
        let directory = TemporaryDirectory::in_temp("rehal-compile-")?;
        let path = directory.path().join("stdin.mlir");
        let copied = File::create(&path).and_then(|mut file| io::copy(&mut io::stdin().lock(), &mut file));
        copied.map_err(|error| Error::io("reading the program from standard input", &error))?;
        Ok(Self { path, directory: Some(directory) })
    }
}
