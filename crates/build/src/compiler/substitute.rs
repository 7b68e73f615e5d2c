//! Substitutes of a program's executables: which of the compiler's ways takes a file, and whether the program
//! can call it. The compiler checks none of that: it leaves a program as it is, crashes, or makes one that
//! corrupts memory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::platform::OsStrExt;
use rehal_base::{Context, Error, Result, listed};
use rehal_jobs::TemporaryDirectory;
use rehal_replay::{ExecutableNames, Named};

use super::gpu_object::{Elf, is_ptx, is_spirv};
use super::text::{self, ExecutableFunction, ExecutableVariant, ProgramExecutable, only_variant};
use super::wrapper::{self, Wrapped};
use super::{Compilation, Compiler, LINK_FLAG};
use crate::KernelDialect;

/// Files that replace executables of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceSubstitutes {
    /// By name.
    pub files: Vec<SubstituteFile>,
    /// Directories whose files replace the executables of their names.
    pub directories: Vec<PathBuf>,
    /// Directories in which files and the objects that they name are searched.
    pub search_paths: Vec<PathBuf>,
}

/// A file that replaces an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubstituteFile {
    /// The name of the executable, or of its only function, perhaps with the prefixes of dumped files.
    pub name: String,
    /// The kind of the file; `None` lets its contents tell.
    pub kind: Option<SubstituteKind>,
    /// The file.
    pub path: PathBuf,
}

/// The kind of a substitute, which decides where the compiler takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubstituteKind {
    /// MLIR before the compiler has decided how it is lowered.
    Source,
    /// MLIR of which the lowering is decided.
    Configuration,
    /// Code for a GPU: PTX, SPIR-V, or an ELF image for AMD.
    Object,
    /// An object file for a CPU.
    CpuObject,
    /// C for a CPU.
    C,
}

/// The kinds, by the names that users give them.
const KINDS: [(&str, SubstituteKind); 5] = [
    ("source", SubstituteKind::Source),
    ("configuration", SubstituteKind::Configuration),
    ("object", SubstituteKind::Object),
    ("cpu-object", SubstituteKind::CpuObject),
    ("c", SubstituteKind::C),
];

/// The flags of the compiler for substitutes, with the files that they name.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SubstituteFlags {
    /// The flags.
    pub flags: Vec<OsString>,
    /// The replacements: the name of an executable, and the file.
    pub replaced: Vec<(String, PathBuf)>,
    /// Libraries of kernels and CUDA C, which the compiler does not take: what each replaces in the compiled
    /// module.
    pub libraries: Vec<(String, PathBuf)>,
    /// Files that the compiler is given in place of those that the user named, with these.
    pub(super) stand_ins: Vec<(PathBuf, PathBuf)>,
    _directory: Option<TemporaryDirectory>,
}

impl SubstituteFile {
    /// Parses `NAME=FILE` or `NAME@KIND=FILE`.
    ///
    /// ```
    /// use rehal_build::{SubstituteFile, SubstituteKind};
    ///
    /// let it = SubstituteFile::parse("add_dispatch_0@c=kernel.txt").unwrap();
    /// assert_eq!((it.name.as_str(), it.kind), ("add_dispatch_0", Some(SubstituteKind::C)));
    /// assert!(SubstituteFile::parse("add_dispatch_0").is_err());
    /// ```
    pub fn parse(text: &(impl AsRef<OsStr> + ?Sized)) -> Result<Self> {
        let bytes = text.as_ref().as_bytes();
        let wrong = |what: &str| {
            let text = String::from_utf8_lossy(bytes);
            Error::invalid_argument(format!("substitute '{text}' {what}"))
                .advise("write NAME=FILE, or NAME@KIND=FILE to say what the file is")
        };
        let at = bytes.iter().position(|it| *it == b'=').ok_or_else(|| wrong("has no '='"))?;
        let name = str::from_utf8(&bytes[..at]).map_err(|_| wrong("has a name that is not UTF-8"))?;
        let path = PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]));
        let (name, kind) = match name.split_once('@') {
            Some((name, word)) => {
                let kind = KINDS.iter().find(|it| it.0 == word).map(|it| it.1);
                let words: Vec<_> = KINDS.iter().map(|it| it.0).collect();
                let expected = format!("is of kind '{word}' (expected {})", words.join(", "));
                (name, Some(kind.ok_or_else(|| wrong(&expected))?))
            }
            None => (name, None),
        };
        if name.is_empty() || path.as_os_str().is_empty() {
            return Err(wrong("has an empty name or file"));
        }
        Ok(Self { name: name.to_owned(), kind, path })
    }
}

impl SubstituteFlags {
    /// Adds the flags to a compilation. What the compiler says of them names the files of the user.
    pub fn add_to(&self, compilation: &mut Compilation) {
        compilation.flags.extend(self.flags.iter().cloned());
        compilation.stand_ins.extend(self.stand_ins.iter().cloned());
    }
}

impl SourceSubstitutes {
    /// Substitutes files by name, and the files of directories.
    /// `all` as the name of a directory is short for it as one of `directories`.
    pub fn new(files: Vec<SubstituteFile>, directories: Vec<PathBuf>, search_paths: Vec<PathBuf>) -> Self {
        let is_all = |it: &SubstituteFile| it.name == "all" && it.path.is_dir();
        let (all, files): (Vec<_>, Vec<_>) = files.into_iter().partition(is_all);
        let directories = directories.into_iter().chain(all.into_iter().map(|it| it.path)).collect();
        Self { files, directories, search_paths }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty()
    }
}

impl Compiler {
    /// The executables that the compiler cuts out of a program with these flags, and the name of its module.
    pub fn executables(&self, compilation: &Compilation) -> Result<(String, Vec<ProgramExecutable>)> {
        let mut flags = without(&compilation.flags, &["iree-hal-dump-", "iree-hal-substitute-"]);
        flags.extend(["--compile-to=executable-sources", "--mlir-print-local-scope"].map(OsString::from));
        let compiled = self.compile(&Compilation { flags, ..compilation.clone() })?;
        let text = String::from_utf8_lossy(compiled.bytes());
        Ok((text::module_name(&text), text::executables(&text)))
    }

    /// Checks substitutes against the program, and returns the flags that make the compiler use them.
    pub fn substitute(
        &self,
        compilation: &Compilation,
        substitutes: &SourceSubstitutes,
    ) -> Result<SubstituteFlags> {
        check_flags(compilation, substitutes)?;
        let own = own_files(compilation, substitutes)?;
        if substitutes.is_empty() && own.is_empty() {
            return Ok(SubstituteFlags { flags: search_flags(substitutes), ..SubstituteFlags::default() });
        }
        let program = match self.executables(compilation) {
            Ok((module, executables)) => Program::new(module, executables, &compilation.flags),
            // The compiler says what is wrong with the program, or begins after the phase that has these.
            Err(_) if substitutes.is_empty() => {
                return Ok(SubstituteFlags {
                    flags: search_flags(substitutes),
                    ..SubstituteFlags::default()
                });
            }
            Err(error) => return Err(error),
        };
        for it in &own {
            self.check_own(&program, it).context(|| format!("--{}", it.flag))?;
        }
        let mut chosen: BTreeMap<&str, (PathBuf, Option<SubstituteKind>)> = BTreeMap::new();
        let mut files = substitutes.files.clone();
        for directory in &substitutes.directories {
            files.extend(files_of(directory)?);
        }
        for file in &files {
            let path = found(&file.path, &substitutes.search_paths)?;
            let executable = program.find(&file.name)?;
            if let Some((other, _)) = chosen.insert(&executable.name, (path.clone(), file.kind)) {
                let (name, other, path) = (&executable.name, other.display(), path.display());
                return Err(Error::invalid_argument(format!(
                    "executable '{name}' is substituted twice: by '{other}' and by '{path}'"
                ))
                .advise("name one file for each executable"));
            }
        }
        let mut result = SubstituteFlags { flags: search_flags(substitutes), ..SubstituteFlags::default() };
        let directory = TemporaryDirectory::in_temp("rehal-substitutes-")?;
        let mut linked = Vec::new();
        for (name, (path, kind)) in chosen {
            let executable = program.find(name)?;
            let place = || format!("the substitute for '{name}'");
            // As for a library, what is compiled is put into the module.
            if kind.is_none() && path.extension().is_some_and(|it| it == "cu") {
                result.libraries.push((name.to_owned(), path));
                continue;
            }
            let (flag, file) = match kind.map_or_else(|| self.kind_of(&path), Ok).context(place)? {
                kind @ (SubstituteKind::CpuObject | SubstituteKind::C) => {
                    let wrapped = self.wrapped(executable, &path, kind, directory.path()).context(place)?;
                    let Wrapped::Source(wrapper, object) = wrapped else {
                        result.libraries.push((name.to_owned(), path));
                        continue;
                    };
                    linked.push(object);
                    result.stand_ins.push((wrapper.clone(), path.clone()));
                    ("source", wrapper)
                }
                kind => (self.checked(&program, executable, &path, kind).context(place)?, path.clone()),
            };
            let mut argument = OsString::from(format!("--iree-hal-substitute-executable-{flag}={name}="));
            argument.push(file);
            result.flags.push(argument);
            result.replaced.push((name.to_owned(), path));
        }
        if compilation.value_of(LINK_FLAG).is_none_or(|it| !matches!(&*it.to_lowercase(), "false" | "0")) {
            wrapper::check_apart(&linked)?;
        }
        result._directory = Some(directory);
        Ok(result)
    }

    /// Checks a file that the compiler takes as it is, and returns the flag for it.
    fn checked(
        &self,
        program: &Program,
        executable: &ProgramExecutable,
        path: &Path,
        kind: SubstituteKind,
    ) -> Result<&'static str> {
        if kind == SubstituteKind::Object {
            self.check_object(executable, path, &program.flags)?;
            return Ok("object");
        }
        check_replacement(executable, &self.replacing_text(path)?, path, Checks::All)?;
        Ok(if kind == SubstituteKind::Configuration { "configuration" } else { "source" })
    }

    /// Writes the source that links an object for CPUs, or C.
    fn wrapped(
        &self,
        executable: &ProgramExecutable,
        path: &Path,
        kind: SubstituteKind,
        directory: &Path,
    ) -> Result<Wrapped> {
        let variant = only_variant(executable)?;
        let is_source = kind == SubstituteKind::C;
        wrapper::write(executable, variant, path, is_source, self.limits, directory)
    }

    /// The text of MLIR that replaces an executable.
    fn replacing_text(&self, path: &Path) -> Result<String> {
        let file = rehal_base::MappedFile::open(path)?;
        if is_spirv(file.bytes()) || is_ptx(file.bytes()) || Elf::of(file.bytes()).is_some() {
            let message = format!("'{}' is code, not MLIR before it is compiled", path.display());
            return Err(Error::invalid_argument(message)
                .advise("substitute it as an object, or name it in the objects(...) of a dumped source"));
        }
        self.text(path)
    }

    /// Checks a file of the compiler's own flags, which take names and files as the compiler does, for what
    /// makes it crash, or compile a program that corrupts memory.
    fn check_own(&self, program: &Program, it: &OwnFile) -> Result<()> {
        let SubstituteFile { name, kind, path } = &it.file;
        let Some(executable) = program.named_by_compiler(name, it.is_of_directory) else {
            let meant = program.find(name)?;
            let message = format!("the compiler does not take '{name}' for executable '{}'", meant.name);
            return Err(Error::invalid_argument(message).advise(format!(
                "name it {}, or substitute a file for it, which takes the names of dumped files",
                meant.name
            )));
        };
        match kind {
            Some(SubstituteKind::Object) => {
                let variant = only_variant(executable)?;
                if is_for_host(variant) {
                    let message = format!("the compiler crashes with an object for '{}'", variant.format);
                    return Err(Error::invalid_argument(message).advise(
                        "substitute an object file (.o) or C for the function, which a wrapper calls",
                    ));
                }
                self.check_object(executable, path, &program.flags)
            }
            _ => check_replacement(executable, &self.replacing_text(path)?, path, Checks::Calls),
        }
    }

    /// The kind of a file, from its contents.
    fn kind_of(&self, path: &Path) -> Result<SubstituteKind> {
        let bytes = rehal_base::MappedFile::open(path)?;
        let bytes = bytes.bytes();
        let refused = |what: &str, advice: &str| {
            Err(Error::invalid_argument(format!("'{}' is {what}", path.display())).advise(advice))
        };
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        if bytes.starts_with(b"ML\xEFR") || matches!(extension, "mlir" | "mlirbc") {
            // The attribute that configures a function.
            let is_configured =
                self.text(path)?.contains("translation_info = #iree_codegen.translation_info");
            return Ok(match is_configured {
                true => SubstituteKind::Configuration,
                false => SubstituteKind::Source,
            });
        }
        if let Some(elf) = Elf::of(bytes) {
            return match elf {
                Elf { machine: Elf::AMDGPU, .. } => Ok(SubstituteKind::Object),
                Elf { kind: Elf::RELOCATABLE, .. } => Ok(SubstituteKind::CpuObject),
                _ if KernelDialect::of(bytes)? == KernelDialect::Library => Ok(SubstituteKind::CpuObject),
                Elf { .. } => refused(
                    "a shared library, which the compiler cannot link",
                    "name the object file (.o) that it is linked from, or a library of kernels",
                ),
            };
        }
        if is_spirv(bytes) || is_ptx(bytes) {
            return Ok(SubstituteKind::Object);
        }
        match extension {
            "c" => Ok(SubstituteKind::C),
            _ if bytes.starts_with(b"BC\xC0\xDE") => {
                refused("LLVM bitcode, with which the compiler crashes", "compile it to an object file (.o)")
            }
            _ => refused(
                "not a substitute of a known kind",
                "name MLIR, an object file (.o), C, PTX, SPIR-V or an ELF image for AMD; NAME@KIND=FILE says which it is",
            ),
        }
    }
}

/// A program whose executables are substituted.
struct Program {
    module: String,
    executables: Vec<ProgramExecutable>,
    /// Ids are indices.
    names: ExecutableNames,
    /// The flags with which an executable is compiled by itself.
    flags: Vec<OsString>,
}

impl Program {
    fn new(module: String, executables: Vec<ProgramExecutable>, flags: &[OsString]) -> Self {
        let mut names = ExecutableNames::for_modules([module.clone()]);
        for (id, executable) in (0..).zip(&executables) {
            for variant in &executable.variants {
                let functions = variant.functions.iter().map(|it| it.name.clone());
                names.add(id, &executable.name, &variant.format, functions);
            }
        }
        const OF_PROGRAMS: [&str; 4] =
            ["iree-hal-dump-", "iree-hal-substitute-", "compile-", "output-format"];
        Self { module, executables, names, flags: without(flags, &OF_PROGRAMS) }
    }

    /// The executable that the compiler takes a name for: of a file in a directory, the module's name may
    /// precede it.
    fn named_by_compiler(&self, name: &str, is_of_directory: bool) -> Option<&ProgramExecutable> {
        let plain = name.strip_prefix(&*self.module).and_then(|it| it.strip_prefix('_'));
        let names = [Some(name), plain.filter(|_| is_of_directory)];
        self.executables.iter().find(|it| names.contains(&Some(&*it.name)))
    }

    /// The executable that a name means.
    fn find(&self, name: &str) -> Result<&ProgramExecutable> {
        let has = |executable: &&ProgramExecutable, function: &str| {
            executable.variants.iter().flat_map(|it| &it.functions).any(|it| it.name == function)
        };
        let found = self.names.find(name)?.and_then(|named| match named {
            Named::Executable(id) => self.executables.get(id as usize),
            Named::Function(name) | Named::Own(name) => self.executables.iter().find(|it| has(it, &name)),
        });
        found.ok_or_else(|| {
            let error = Error::not_found(format!("the program has no executable '{}'", name.escape_debug()));
            error.advise(self.names.advice(name))
        })
    }
}

/// How much of a replacement is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// That the compiler makes the same calls and the same target of it.
    All,
    /// That what it is called with fits. Targets and workgroup counts may be others.
    Calls,
}

/// A file that one of the compiler's own flags names.
struct OwnFile {
    flag: String,
    file: SubstituteFile,
    /// Whether the flag names its directory.
    is_of_directory: bool,
}

/// The files of the compiler's own flags. Fails if one does not exist.
fn own_files(compilation: &Compilation, substitutes: &SourceSubstitutes) -> Result<Vec<OwnFile>> {
    let flags = || compilation.flags.iter().map(|it| it.to_string_lossy().into_owned());
    let valued = |flag: &str| {
        let (name, value) = flag.trim_start_matches('-').split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let mut search_paths = substitutes.search_paths.clone();
    search_paths.extend(flags().filter_map(|it| valued(&it)).filter_map(|(name, value)| {
        (name == "iree-hal-executable-object-search-path").then(|| value.into())
    }));
    let mut files = Vec::new();
    for (flag, value) in flags().filter_map(|it| valued(&it)) {
        let Some(what) = flag.strip_prefix("iree-hal-substitute-executable-") else { continue };
        let (kind, is_of_directory) = match what {
            "source" => (SubstituteKind::Source, false),
            "sources-from" => (SubstituteKind::Source, true),
            "configuration" => (SubstituteKind::Configuration, false),
            "configurations-from" => (SubstituteKind::Configuration, true),
            "object" => (SubstituteKind::Object, false),
            "objects-from" => (SubstituteKind::Object, true),
            _ => continue,
        };
        let place = || format!("--{flag}");
        if is_of_directory {
            let all = files_of(Path::new(&value)).context(place)?.into_iter();
            // As the compiler reads it.
            let is_mlir =
                |it: &SubstituteFile| it.path.extension().is_some_and(|it| it == "mlir" || it == "mlirbc");
            let taken = all.filter(|it| is_mlir(it) != (kind == SubstituteKind::Object));
            files.extend(taken.map(|file| OwnFile {
                flag: flag.clone(),
                file: SubstituteFile { kind: Some(kind), ..file },
                is_of_directory,
            }));
        } else {
            let (name, path) = value.split_once('=').ok_or_else(|| {
                Error::invalid_argument(format!("--{flag}={value} names no file")).advise("write NAME=FILE")
            })?;
            let path = found(Path::new(path), &search_paths).context(place)?;
            let file = SubstituteFile { name: name.to_owned(), kind: Some(kind), path };
            files.push(OwnFile { flag: flag.clone(), file, is_of_directory });
        }
    }
    Ok(files)
}

/// Refuses directories that are both written and read: a dump replaces the edits before they are read; and
/// names for which the compiler would use the last of several files.
fn check_flags(compilation: &Compilation, substitutes: &SourceSubstitutes) -> Result<()> {
    let valued = |flag: &OsString| {
        let text = flag.to_string_lossy().into_owned();
        let (name, value) = text.split_once('=')?;
        Some((name.trim_start_matches('-').to_owned(), value.to_owned()))
    };
    let flags: Vec<_> = compilation.flags.iter().filter_map(valued).collect();
    let canonical = |path: &Path| fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok();
    let mut read: Vec<PathBuf> = substitutes.directories.clone();
    let parent = |path: &Path| {
        let path = found(path, &substitutes.search_paths).ok()?;
        Some(path.parent()?.to_owned())
    };
    read.extend(substitutes.files.iter().filter_map(|it| parent(&it.path)));
    let mut names: Vec<(&str, &str)> = Vec::new();
    for (flag, value) in flags.iter().filter(|it| it.0.starts_with("iree-hal-substitute-executable-")) {
        match value.split_once('=') {
            Some((name, file)) => {
                read.extend(parent(Path::new(file)));
                let entry = (flag.as_str(), name);
                if names.contains(&entry) {
                    let message =
                        format!("--{flag} names several files for '{name}', of which the last would count");
                    return Err(Error::invalid_argument(message).advise("name one file for each executable"));
                }
                names.push(entry);
            }
            None => read.push(value.into()),
        }
    }
    for (flag, value) in flags.iter().filter(|it| it.0.starts_with("iree-hal-dump-executable-")) {
        let written = canonical(Path::new(value));
        if written.is_some() && read.iter().any(|it| canonical(it) == written) {
            let message = format!("--{flag}={value} would overwrite the substitutes in that directory");
            return Err(Error::invalid_argument(message).advise("write to another directory"));
        }
    }
    Ok(())
}

/// Flags, except for those whose names begin with one of these words.
fn without(flags: &[OsString], beginnings: &[&str]) -> Vec<OsString> {
    let is_kept = |flag: &&OsString| {
        let flag = flag.to_string_lossy();
        !beginnings.iter().any(|it| flag.trim_start_matches('-').starts_with(it))
    };
    flags.iter().filter(is_kept).cloned().collect()
}

fn search_flags(substitutes: &SourceSubstitutes) -> Vec<OsString> {
    let flag = |path: &PathBuf| {
        let mut flag = OsString::from("--iree-hal-executable-object-search-path=");
        flag.push(path);
        flag
    };
    substitutes.search_paths.iter().map(flag).collect()
}

/// A file, here or in one of the directories; its absolute path.
fn found(path: &Path, search_paths: &[PathBuf]) -> Result<PathBuf> {
    let candidates = std::iter::once(path.to_owned()).chain(search_paths.iter().map(|it| it.join(path)));
    match candidates.into_iter().find(|it| it.is_file()) {
        Some(found) => {
            std::path::absolute(&found).map_err(|error| Error::io(format!("'{}'", found.display()), &error))
        }
        None => {
            let message = match path.is_dir() {
                true => format!("'{}' is a directory", path.display()),
                false => format!("'{}' does not exist", path.display()),
            };
            Err(Error::not_found(message).advise("name a file, here or in a directory that is searched"))
        }
    }
}

/// The files of a directory, each a substitute for the executable of its name.
fn files_of(directory: &Path) -> Result<Vec<SubstituteFile>> {
    let failed = |error| Error::io(format!("reading '{}'", directory.display()), &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed).advise(|| "name a directory of substitutes")? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        let is_substitute = matches!(extension, "mlir" | "mlirbc" | "o" | "c" | "ptx" | "spv" | "hsaco");
        if let (true, Some(name)) =
            (is_substitute && path.is_file(), path.file_stem().and_then(OsStr::to_str))
        {
            files.push(SubstituteFile { name: name.to_owned(), kind: None, path: path.clone() });
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    match files.is_empty() {
        true => Err(Error::not_found(format!("'{}' has no substitutes", directory.display()))
            .advise("name a directory with files such as NAME.mlir, NAME.o, NAME.c, NAME.ptx or NAME.spv")),
        false => Ok(files),
    }
}

/// Checks that a program can call the MLIR that replaces an executable.
fn check_replacement(executable: &ProgramExecutable, text: &str, path: &Path, checks: Checks) -> Result<()> {
    let replacements = text::executables(text);
    let path = path.display();
    let Some(replacement) = replacements.iter().find(|it| it.name == executable.name) else {
        let names: Vec<_> = replacements.iter().map(|it| format!("'{}'", it.name)).collect();
        let message = match names.is_empty() {
            true => format!("'{path}' has no executable"),
            false => format!("'{path}' has no executable '{}', but {}", executable.name, listed(names)),
        };
        return Err(Error::invalid_argument(message)
            .advise("keep the names of the dumped source, or name the executable that it is for"));
    };
    for variant in &executable.variants {
        let Some(other) = replacement.variants.iter().find(|it| it.name == variant.name) else {
            let names: Vec<_> = replacement.variants.iter().map(|it| format!("'{}'", it.name)).collect();
            let message = format!("'{path}' has no variant '{}', but {}", variant.name, listed(names));
            return Err(Error::invalid_argument(message)
                .advise("dump the sources again, with the flags with which the program is compiled"));
        };
        if checks == Checks::All && other.target != variant.target {
            let message = format!(
                "'{path}' is for another target than the program: {}",
                difference(&other.target, &variant.target)
            );
            return Err(Error::invalid_argument(message)
                .advise("dump the sources again, with the flags with which the program is compiled"));
        }
        check_bodies(other, &path)?;
        for function in &variant.functions {
            let Some(it) = other.functions.iter().find(|it| it.name == function.name) else {
                let names: Vec<_> = other.functions.iter().map(|it| format!("'{}'", it.name)).collect();
                let message = format!("'{path}' has no function '{}', but {}", function.name, listed(names));
                return Err(Error::invalid_argument(message)
                    .advise("keep the names of the functions: the program calls them"));
            };
            check_function(function, it, other.has_objects || checks == Checks::Calls)
                .context(|| format!("function '{}' of '{path}'", function.name))?;
        }
    }
    Ok(())
}

/// Checks that a variant defines the functions that it exports: the compiler takes one that does not.
pub(super) fn check_bodies(variant: &ExecutableVariant, path: &dyn Display) -> Result<()> {
    let Some(name) = variant.missing_body() else { return Ok(()) };
    let bodies = variant.bodies.iter().map(|it| format!("'{it}'"));
    let defined = if variant.bodies.is_empty() { "no function".into() } else { listed(bodies) };
    let message = format!("'{path}' exports function '{name}', and defines {defined}");
    Err(Error::invalid_argument(message).advise("keep the names of the functions: the program calls them"))
}

/// Checks that a function is called as the program calls it. Objects have a workgroup count of their own.
fn check_function(
    program: &ExecutableFunction,
    file: &ExecutableFunction,
    has_own_count: bool,
) -> Result<()> {
    let refused = |message: String| {
        Err(Error::invalid_argument(message).advise("keep the export of the dumped source as it is"))
    };
    if file.ordinal != program.ordinal {
        return refused(format!("it has ordinal {}, the program's {}", file.ordinal, program.ordinal));
    }
    if file.constants != program.constants {
        return refused(format!(
            "it has {} constants, and the program passes {}",
            file.constants, program.constants
        ));
    }
    if file.bindings.len() != program.bindings.len() {
        return refused(format!(
            "it has {} bindings, and the program passes {}",
            file.bindings.len(),
            program.bindings.len()
        ));
    }
    for (index, (own, other)) in program.bindings.iter().zip(&file.bindings).enumerate() {
        if own != other {
            return refused(format!("its binding {index} is <{other}>, the program's <{own}>"));
        }
    }
    if file.workload != program.workload {
        return refused(format!(
            "its workgroup count depends on {} values, and the program passes {}",
            file.workload, program.workload
        ));
    }
    if !has_own_count && file.workgroup_count != program.workgroup_count {
        return refused("its workgroup count is another than the program's".into());
    }
    let sizes = |it: &ExecutableFunction| {
        it.binding_bytes.iter().copied().zip(it.element_bits.iter().copied()).collect::<Vec<_>>()
    };
    for (index, sizes) in sizes(program).into_iter().zip(sizes(file)).enumerate() {
        let message = match sizes {
            ((Some(own), _), (Some(other), _)) if own != other => {
                format!("it accesses {other} bytes of binding {index}, where the program has {own}")
            }
            // Elements of another type may have the same bytes, if their number is known.
            ((own, Some(own_bits)), (other, Some(other_bits)))
                if (own.is_none() || other.is_none()) && own_bits != other_bits =>
            {
                format!(
                    "it accesses binding {index} as elements of {other_bits} bits, where the program has {own_bits}"
                )
            }
            _ => continue,
        };
        return Err(Error::invalid_argument(message).advise("write it for the shapes of this program"));
    }
    Ok(())
}

/// Where two texts differ, with what is around it.
fn difference(file: &str, program: &str) -> String {
    let same = file.chars().zip(program.chars()).take_while(|(left, right)| left == right).count();
    let part = |text: &str| text.chars().skip(same.saturating_sub(20)).take(60).collect::<String>();
    format!("'...{}...', the program's '...{}...'", part(file), part(program))
}

/// Whether the compiler makes code for the CPU from a variant, which it does not take as an object.
fn is_for_host(variant: &ExecutableVariant) -> bool {
    variant.format.contains("-elf-") || variant.format.starts_with("vmvx")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> ExecutableFunction {
        ExecutableFunction {
            name: name.into(),
            ordinal: 0,
            constants: 1,
            bindings: vec!["storage_buffer, ReadOnly".into(), "storage_buffer".into()],
            workload: 2,
            workgroup_count: "a".into(),
            binding_bytes: vec![Some(16), None],
            element_bits: vec![Some(32); 2],
            text: String::new(),
            layout: String::new(),
        }
    }

    fn program() -> Program {
        let executable = |name: &str| ProgramExecutable {
            name: name.into(),
            text: String::new(),
            variants: vec![ExecutableVariant {
                name: "v".into(),
                target: "t".into(),
                format: "f".into(),
                has_objects: false,
                bodies: vec![format!("{name}_add_f32")],
                functions: vec![function(&format!("{name}_add_f32"))],
            }],
        };
        Program::new("my".into(), ["main_dispatch_0", "main_dispatch_1"].map(executable).into(), &[])
    }

    /// Without it, a substitute may be compiled as a file of another kind.
    #[test]
    fn names_of_substitutes_may_have_a_kind() {
        let parsed = |text: &str| {
            let parsed =
                SubstituteFile::parse(text).map(|it| (it.name, it.kind, it.path.display().to_string()));
            parsed.map_err(|error| error.message().to_owned())
        };
        for (name, kind) in KINDS {
            assert_eq!(
                parsed(&format!("a{name}@{name}=b=c")),
                Ok((format!("a{name}"), Some(kind), "b=c".into()))
            );
        }
        assert_eq!(parsed("a=b@c"), Ok(("a".into(), None, "b@c".into())));
        let expected = "(expected source, configuration, object, cpu-object, c)";
        for (text, why) in [
            ("a@d=b", format!("is of kind 'd' {expected}")),
            ("a@c@c=b", format!("is of kind 'c@c' {expected}")),
            ("a", "has no '='".into()),
            ("=b", "has an empty name or file".into()),
            ("@c=b", "has an empty name or file".into()),
            ("a=", "has an empty name or file".into()),
        ] {
            assert_eq!(parsed(text), Err(format!("substitute '{text}' {why}")));
        }
    }

    #[test]
    fn names_may_have_the_prefixes_of_dumps() {
        let program = program();
        for name in [
            "main_dispatch_1",
            "my_main_dispatch_1",
            "configured_my_main_dispatch_1",
            "main_dispatch_1_add_f32",
            "my_main_dispatch_1_main_dispatch_1_add_f32",
        ] {
            assert_eq!(program.find(name).unwrap().name, "main_dispatch_1", "{name}");
        }
        let error = program.find("main_dispatch_2").unwrap_err().report();
        assert!(error.contains("did you mean main_dispatch_"), "{error}");
        assert!(error.contains("it has main_dispatch_0, main_dispatch_1"), "{error}");
        assert!(program.find("other").unwrap_err().report().contains("try: it has "));
    }

    #[test]
    fn each_difference_of_a_function_is_refused() {
        let own = function("f");
        let check = |change: &dyn Fn(&mut ExecutableFunction), has_objects| {
            let mut file = own.clone();
            change(&mut file);
            check_function(&own, &file, has_objects).map_err(|error| error.message().to_owned())
        };
        assert!(check(&|_| (), false).is_ok());
        type Change = dyn Fn(&mut ExecutableFunction);
        let refused: [(&Change, &str); 8] = [
            (&|it| it.ordinal = 1, "it has ordinal 1, the program's 0"),
            (&|it| it.constants = 3, "it has 3 constants, and the program passes 1"),
            (&|it| drop(it.bindings.pop()), "it has 1 bindings, and the program passes 2"),
            (
                &|it| it.bindings[0] = "storage_buffer".into(),
                "its binding 0 is <storage_buffer>, the program's <storage_buffer, ReadOnly>",
            ),
            (&|it| it.workload = 0, "its workgroup count depends on 0 values, and the program passes 2"),
            (&|it| it.workgroup_count = "b".into(), "its workgroup count is another than the program's"),
            (
                &|it| it.binding_bytes[0] = Some(32),
                "it accesses 32 bytes of binding 0, where the program has 16",
            ),
            (
                &|it| it.element_bits[1] = Some(64),
                "it accesses binding 1 as elements of 64 bits, where the program has 32",
            ),
        ];
        for (change, message) in refused {
            assert_eq!(check(change, false).unwrap_err(), message);
        }
        // Of objects, only their author knows the count.
        assert!(check(&|it| it.workgroup_count = "b".into(), true).is_ok());
        assert!(check(&|it| it.binding_bytes[1] = Some(32), false).is_ok());
        // The same bytes as elements of another type.
        assert!(check(&|it| it.element_bits[0] = Some(8), false).is_ok());
    }

    #[test]
    fn directories_that_are_written_are_not_read() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("main_dispatch_0.mlir");
        fs::write(&file, "").unwrap();
        let shown = scratch.path().display();
        let dump = format!("--iree-hal-dump-executable-sources-to={shown}/.");
        let check = |flags: &[String], substitutes: &SourceSubstitutes| {
            check_flags(&Compilation::new("a.mlir", flags), substitutes).map_err(|it| it.message().to_owned())
        };
        let none = SourceSubstitutes::default();
        let directory = SourceSubstitutes { directories: vec![scratch.path().into()], ..none.clone() };
        let named = SubstituteFile { name: "x".into(), kind: None, path: file.clone() };
        let named = SourceSubstitutes { files: vec![named], ..none.clone() };
        for substitutes in [&directory, &named] {
            assert!(check(&[], substitutes).is_ok());
            assert!(check(std::slice::from_ref(&dump), substitutes).unwrap_err().contains("would overwrite"));
        }
        let from = format!("--iree-hal-substitute-executable-sources-from={shown}");
        assert!(check(&[dump.clone(), from.clone()], &none).is_err());
        assert!(check(&[from], &none).is_ok());
        let one = format!("--iree-hal-substitute-executable-source=x={}", file.display());
        assert!(check(&[dump, one.clone()], &none).is_err());
        assert!(check(&[one.clone(), one], &none).unwrap_err().contains("several files for 'x'"));
    }
}
