//! Files of a program's executables, as the compiler dumps them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result};
use rehal_tune::TemporaryDirectory;

use super::text::{ExecutableVariant, ProgramExecutable};
use super::{Compilation, Compiler};

/// What the compiler dumps of a program's executables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpKind {
    /// MLIR before the compiler has decided how it is lowered.
    Sources,
    /// MLIR of which the lowering is decided.
    Configurations,
    /// Programs that call one function each; none for functions of dynamic shapes.
    Benchmarks,
    /// What the target loads, a file for each executable.
    Binaries,
}

impl DumpKind {
    /// The word for it in flags.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sources => "sources",
            Self::Configurations => "configurations",
            Self::Benchmarks => "benchmarks",
            Self::Binaries => "binaries",
        }
    }
}

/// The executables of a program, and the files that the compiler dumped of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct DumpedExecutables {
    /// The name of the program's module.
    pub module: String,
    /// The executables.
    pub executables: Vec<ProgramExecutable>,
    /// The names of the files of each directory, in order.
    pub files: Vec<Vec<String>>,
    /// What the compiler printed on standard error.
    pub messages: String,
}

impl DumpedExecutables {
    /// Those of `files` that are of a variant of an executable.
    pub fn files_of<'a>(
        &'a self,
        files: &'a [String],
        executable: &ProgramExecutable,
        variant: &ExecutableVariant,
    ) -> Vec<&'a str> {
        // Binaries of some targets have the name of a function instead.
        let is_of_variant = |rest: &str| {
            rest.starts_with(&*variant.name) || variant.functions.iter().any(|it| rest == it.name)
        };
        let is_of = |file: &&str| {
            let stem = file.rsplit_once('.').map_or(*file, |(stem, _)| stem);
            let stem = stem.strip_prefix("configured_").unwrap_or(stem);
            let Some(name) = stem.strip_prefix(&*self.module).and_then(|it| it.strip_prefix('_')) else {
                return false;
            };
            // The name of one executable may be the beginning of another's.
            let rest = |it: &ProgramExecutable| {
                let rest = name.strip_prefix(&*it.name)?;
                (rest.is_empty() || rest.starts_with('_')).then_some(it.name.len())
            };
            let longest = self.executables.iter().filter_map(rest).max();
            let behind = name.get(executable.name.len()..).unwrap_or_default();
            rest(executable).is_some()
                && rest(executable) == longest
                && behind.strip_prefix('_').is_none_or(is_of_variant)
        };
        files.iter().map(String::as_str).filter(is_of).collect()
    }
}

impl Compiler {
    /// Writes files of the program's executables to directories, which are created. The executables come from
    /// the cache if they are there; files are dumped again each time.
    pub fn dump(&self, compilation: &Compilation, to: &[(DumpKind, PathBuf)]) -> Result<DumpedExecutables> {
        let (module, executables) = self.executables(compilation)?;
        let mut dumped =
            DumpedExecutables { module, executables, files: Vec::new(), messages: String::new() };
        if to.is_empty() {
            return Ok(dumped);
        }
        let temporary = TemporaryDirectory::in_temp("rehal-dump-")?;
        let mut flags = compilation.flags.clone();
        for (kind, _) in to {
            let mut flag = OsString::from(format!("--iree-hal-dump-executable-{}-to=", kind.word()));
            flag.push(temporary.path().join(kind.word()));
            flags.push(flag);
        }
        const LINK: &str = "--iree-hal-link-executables";
        match to.iter().any(|(kind, _)| *kind == DumpKind::Binaries) {
            // Otherwise one binary has the functions of all.
            true if !flags.iter().any(|it| it.as_bytes().starts_with(LINK.as_bytes())) => {
                flags.push(format!("{LINK}=false").into());
            }
            true => {}
            // No time is spent on code.
            false => flags.push("--compile-to=executable-configurations".into()),
        }
        dumped.messages = self.compile(&Compilation::new(&compilation.input, flags))?.messages;
        for (kind, directory) in to {
            dumped.files.push(copy(&temporary.path().join(kind.word()), directory)?);
        }
        Ok(dumped)
    }
}

/// Copies the files of a directory, so that older files of the other one are not taken for them. Returns
/// their names.
fn copy(from: &Path, to: &Path) -> Result<Vec<String>> {
    let writing = |error| Error::io(format!("writing to '{}'", to.display()), &error);
    fs::create_dir_all(to).map_err(writing)?;
    let mut names = Vec::new();
    // The compiler makes no directory if it has no files for it.
    let entries = match from.is_dir() {
        true => fs::read_dir(from).map_err(writing)?.collect::<Result<Vec<_>, _>>().map_err(writing)?,
        false => Vec::new(),
    };
    for entry in entries {
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(writing)?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
