//! Files of a program's executables, as the compiler dumps them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result, StatusCode, listed};
use rehal_jobs::TemporaryDirectory;

use super::text::{ExecutableVariant, ProgramExecutable};
use super::{Compilation, Compiler, LINK_FLAG, key};

/// The files that the compiler dumps of a program's executables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpKind {
    /// MLIR before the compiler has decided how it is lowered.
    Sources,
    /// MLIR of which the lowering is decided.
    Configurations,
    /// Programs that call one function each; none for functions of dynamic shapes.
    Benchmarks,
    /// The binaries that the target loads, a file for each executable.
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
    /// The compiler's standard error.
    pub messages: String,
}

impl DumpedExecutables {
    /// The files among `files` that are of a variant of an executable.
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
    /// Writes files of the program's executables to directories, which are created. The cache keeps them as
    /// it keeps output. Files that have other contents, such as edited ones, are replaced only if `replaces`:
    /// otherwise, nothing is written.
    pub fn dump(
        &self,
        compilation: &Compilation,
        to: &[(DumpKind, PathBuf)],
        replaces: bool,
    ) -> Result<DumpedExecutables> {
        let (module, executables) = self.executables(compilation)?;
        let mut dumped =
            DumpedExecutables { module, executables, files: Vec::new(), messages: String::new() };
        if to.is_empty() {
            return Ok(dumped);
        }
        let (kinds, directories): (Vec<_>, Vec<_>) = to.iter().cloned().unzip();
        let mut files = self.dumped_files(compilation, &kinds)?;
        let all = || directories.iter().zip(&files.directories);
        if !replaces {
            let named = all().flat_map(|(to, files)| files.iter().map(|it| (to.join(&it.name), &*it.bytes)));
            check_unchanged(named)?;
        }
        for (directory, files) in all() {
            write(files, directory)?;
        }
        dumped.messages = std::mem::take(&mut files.messages);
        let names = |files: &Vec<DumpedFile>| files.iter().map(|it| it.name.clone()).collect();
        dumped.files = files.directories.iter().map(names).collect();
        Ok(dumped)
    }

    /// The files of each kind, from the cache if they are there.
    fn dumped_files(&self, compilation: &Compilation, kinds: &[DumpKind]) -> Result<DumpedFiles> {
        let mut keyed = compilation.clone();
        // Not a flag: it tells this from the output of the compilation.
        let words: Vec<_> = kinds.iter().map(|it| it.word()).collect();
        keyed.flags.push(format!("files of executables: {}", words.join(" ")).into());
        let cached = self
            .cache
            .as_ref()
            .and_then(|cache| Some((cache, key::key(&keyed, &self.identity, &self.version)?)));
        if let Some((cache, key)) = &cached
            && let Some((output, _, messages)) = cache.get(key)
            && let Some(directories) = unpacked(output.bytes(), kinds.len())
        {
            return Ok(DumpedFiles { directories, messages });
        }
        let files = self.dump_files(compilation, kinds)?;
        if let Some((cache, key)) = &cached {
            cache.put(key, &[], &files.messages, &packed(&files.directories));
        }
        Ok(files)
    }

    fn dump_files(&self, compilation: &Compilation, kinds: &[DumpKind]) -> Result<DumpedFiles> {
        let temporary = TemporaryDirectory::in_temp("rehal-dump-")?;
        let mut flags = compilation.flags.clone();
        for kind in kinds {
            let mut flag = OsString::from(format!("--iree-hal-dump-executable-{}-to=", kind.word()));
            flag.push(temporary.path().join(kind.word()));
            flags.push(flag);
        }
        match kinds.contains(&DumpKind::Binaries) {
            // Otherwise one binary has the functions of all.
            true if compilation.value_of(LINK_FLAG).is_none() => {
                flags.push(format!("--{LINK_FLAG}=false").into());
            }
            true => {}
            // No time is spent on code.
            false => flags.push("--compile-to=executable-configurations".into()),
        }
        let messages = self.compile(&Compilation::new(&compilation.input, flags))?.messages;
        let read = |kind: &DumpKind| read(&temporary.path().join(kind.word()));
        Ok(DumpedFiles { directories: kinds.iter().map(read).collect::<Result<_>>()?, messages })
    }
}

/// The files of each kind, and what the compiler printed.
struct DumpedFiles {
    directories: Vec<Vec<DumpedFile>>,
    messages: String,
}

/// A file that the compiler has dumped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DumpedFile {
    name: String,
    bytes: Vec<u8>,
}

/// The files in an entry of the cache: of each directory their number, of each file its name and its bytes,
/// with their lengths before them.
fn packed(directories: &[Vec<DumpedFile>]) -> Vec<u8> {
    let mut out = Vec::new();
    for files in directories {
        out.extend((files.len() as u64).to_le_bytes());
        for part in files.iter().flat_map(|it| [it.name.as_bytes(), &it.bytes]) {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend(part);
        }
    }
    out
}

/// The files of `count` directories; `None` if the entry has something else.
fn unpacked(mut bytes: &[u8], count: usize) -> Option<Vec<Vec<DumpedFile>>> {
    let number = |bytes: &mut &[u8]| {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        usize::try_from(u64::from_le_bytes(*first)).ok()
    };
    let part = |bytes: &mut &[u8]| {
        let length = number(bytes)?;
        let (part, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(part.to_vec())
    };
    let mut directories = Vec::new();
    for _ in 0..count {
        let mut files = Vec::new();
        for _ in 0..number(&mut bytes)? {
            let name = String::from_utf8(part(&mut bytes)?).ok()?;
            files.push(DumpedFile { name, bytes: part(&mut bytes)? });
        }
        directories.push(files);
    }
    bytes.is_empty().then_some(directories)
}

/// The files of a directory, by name.
fn read(directory: &Path) -> Result<Vec<DumpedFile>> {
    let reading = |error| Error::io(format!("reading '{}'", directory.display()), &error);
    // The compiler makes no directory if it has no files for it.
    let entries = match directory.is_dir() {
        true => fs::read_dir(directory).map_err(reading)?.collect::<Result<Vec<_>, _>>().map_err(reading)?,
        false => Vec::new(),
    };
    let mut files = Vec::new();
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        files.push(DumpedFile { name, bytes: fs::read(path).map_err(reading)? });
    }
    files.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(files)
}

/// Fails if one of these files exists with other contents, which writing it would lose.
pub fn check_unchanged<'b>(files: impl IntoIterator<Item = (PathBuf, &'b [u8])>) -> Result<()> {
    let differs = |(path, bytes): &(PathBuf, &[u8])| fs::read(path).is_ok_and(|found| found != *bytes);
    let changed: Vec<_> = files.into_iter().filter(differs).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let names = listed(changed.iter().map(|(path, _)| format!("'{}'", path.display())));
    Err(Error::new(StatusCode::AlreadyExists, format!("files that exist have other contents: {names}")))
}

/// Writes files to a directory. What was there before stays; an error removes what was not.
fn write(files: &[DumpedFile], to: &Path) -> Result<()> {
    let writing = |error| Error::io(format!("writing to '{}'", to.display()), &error);
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<_> = to.ancestors().take_while(is_missing).collect();
    let mut created = Vec::new();
    let mut all = || {
        fs::create_dir_all(to)?;
        files.iter().try_for_each(|it| {
            let path = to.join(&it.name);
            created.extend((!path.exists()).then(|| path.clone()));
            fs::write(path, &it.bytes)
        })
    };
    let written = all();
    if written.is_err() {
        created.iter().for_each(|path| drop(fs::remove_file(path)));
        // Only empty ones.
        missing.iter().for_each(|path| drop(fs::remove_dir(path)));
    }
    written.map_err(writing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_other_contents_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = |number: usize| directory.path().join(format!("{number:02}.mlir"));
        check_unchanged([(file(0), &b"new"[..])]).unwrap();
        (0..12).for_each(|number| fs::write(file(number), "text").unwrap());
        check_unchanged((0..12).map(|number| (file(number), &b"text"[..]))).unwrap();
        let error = check_unchanged((0..12).map(|number| (file(number), &b"edited"[..]))).unwrap_err();
        assert_eq!(error.code(), StatusCode::AlreadyExists);
        assert!(error.message().ends_with("09.mlir' and 2 more"), "{error}");
    }

    #[test]
    fn dumped_files_are_the_same_from_the_cache() {
        let file = |name: &str, bytes: &[u8]| DumpedFile { name: name.into(), bytes: bytes.into() };
        let directories = vec![
            vec![file("a.mlir", b"text"), file("b.so", b"\x7FELF\xff\0")],
            Vec::new(),
            vec![file("", b"")],
        ];
        let bytes = packed(&directories);
        assert_eq!(unpacked(&bytes, 3).unwrap(), directories);
        assert_eq!(unpacked(&bytes, 2), None);
        for end in 0..bytes.len() {
            assert_eq!(unpacked(&bytes[..end], 3), None, "{end}");
        }
    }
}
