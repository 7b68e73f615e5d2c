//! The files that a tool reads and writes, which must be distinct: checked in one place, before a tool opens
//! any.

mod references;

pub(crate) use references::of as references;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::{Error, FileId, Result};

use crate::flags::{Access, Flags, NamedFile};
use crate::tools::replay_flags::FILE_REMAP;
use crate::{output, output_file};

/// Links between a path and its file: more are a loop.
const MAX_LINKS: usize = 40;

/// Refuses to write to a file that another flag or operand names, or that a file which is read refers to, or
/// to the one that output is printed to. `operands` are the files that are read besides those of flags.
pub(crate) fn check(flags: &Flags, operands: &[PathBuf]) -> Result<()> {
    let named = flags.files();
    let references = OnceCell::new();
    for (index, (flag, file)) in named.iter().enumerate() {
        if !file.access.writes() {
            continue;
        }
        if file.access == Access::Record {
            output_file::refuse_stdout(flag, &file.path, "what is recorded, at several places of a file,")?;
        }
        if matches!(file.access, Access::Write | Access::Record) {
            check_printed(flag, &file.path, file.access)?;
        }
        let Some(place) = FilePlace::from_path(&file.path) else { continue };
        let is_it = |path: &Path| FilePlace::from_path(path).as_ref() == Some(&place);
        if let Some(path) = operands.iter().find(|path| is_it(path)) {
            return Err(same(flag, &file.path, path, "read"));
        }
        for (at, (_, other)) in named.iter().enumerate() {
            if at == index || !conflict((index, file.access), (at, other.access)) || !is_it(&other.path) {
                continue;
            }
            let what = if other.access.writes() { "written as well" } else { "read" };
            return Err(same(flag, &file.path, &other.path, what));
        }
        // What is missing can be neither read nor lost.
        if let FilePlace::File(id) = place {
            let references = references.get_or_init(|| references_of(flags, operands, &named));
            if let Some(it) = references.iter().find(|it| it.id == id) {
                return Err(referenced(flag, &file.path, it));
            }
        }
    }
    Ok(())
}

/// A file to which one that is read refers.
struct Reference {
    id: FileId,
    path: PathBuf,
    from: PathBuf,
}

fn references_of(flags: &Flags, operands: &[PathBuf], named: &[(&'static str, NamedFile)]) -> Vec<Reference> {
    let remaps = match flags.takes(FILE_REMAP.name()) {
        true => flags.list(&FILE_REMAP),
        false => Vec::new(),
    };
    let read = named.iter().filter(|(_, file)| !file.access.writes()).map(|(_, file)| &file.path);
    let mut references = Vec::new();
    for from in operands.iter().chain(read) {
        for path in references::of(from, &remaps) {
            if let Some(id) = FileId::at(&path) {
                references.push(Reference { id, path, from: from.clone() });
            }
        }
    }
    references
}

fn referenced(flag: &str, path: &Path, reference: &Reference) -> Error {
    let (path, other, from) = (path.display(), reference.path.display(), reference.from.display());
    Error::invalid_argument(format!("--{flag}={path} is '{other}', to which '{from}' refers"))
        .advise("name another file to write to")
}

/// Whether writing to a file of `written` loses what `other` reads or writes. Each has its position in the
/// order of flags.
fn conflict((position, written): (usize, Access), (other_position, other): (usize, Access)) -> bool {
    let is_result = matches!(written, Access::WriteResult | Access::AppendResult);
    match other {
        Access::ReadFirst => !is_result,
        // Results are written in order: appending keeps the earlier ones.
        Access::WriteResult | Access::AppendResult if is_result => {
            let later = if position > other_position { written } else { other };
            later == Access::WriteResult
        }
        _ => true,
    }
}

/// Whether a tool writes a file to standard output.
pub(crate) fn write_stdout(flags: &Flags) -> bool {
    flags.files().iter().any(|(_, file)| file.access.writes() && output_file::is_stdout(&file.path))
}

/// Refuses to write to one of `inputs`, or to the file that output is printed to.
pub(crate) fn check_output(flag: &str, path: &Path, inputs: impl IntoIterator<Item = PathBuf>) -> Result<()> {
    check_printed(flag, path, Access::Write)?;
    let Some(output) = FilePlace::from_path(path) else { return Ok(()) };
    match inputs.into_iter().find(|input| FilePlace::from_path(input).as_ref() == Some(&output)) {
        Some(input) => Err(same(flag, path, &input, "read")),
        None => Ok(()),
    }
}

fn check_printed(flag: &str, path: &Path, access: Access) -> Result<()> {
    // What is not recorded may be written to standard output by its name.
    let is_named = access != Access::Record && output_file::is_stdout(path);
    if is_named || output::printed_to(path).is_none() {
        return Ok(());
    }
    let path = path.display();
    let error = Error::invalid_argument(format!("--{flag}={path} is the file that output is printed to"));
    Err(error.advise("name another file to write to"))
}

fn same(flag: &str, path: &Path, other: &Path, what: &str) -> Error {
    let (path, other) = (path.display(), other.display());
    Error::invalid_argument(format!("--{flag}={path} is '{other}', which is {what}"))
        .advise("name another file to write to")
}

/// Identifies a file, so that two paths to it compare equal.
#[derive(PartialEq)]
enum FilePlace {
    /// An existing file: device and inode.
    File(FileId),
    /// A file that does not exist yet: its path, with a canonical directory.
    New(PathBuf),
}

impl FilePlace {
    /// `None` for devices and pipes, which may have several writers, and for paths where no file can exist.
    fn from_path(path: &Path) -> Option<Self> {
        if let Ok(it) = fs::metadata(path) {
            return it.is_file().then(|| FileId::at(path).map(Self::File)).flatten();
        }
        // It, or the file at the end of its links, does not exist yet. Nor may its directory: tools that
        // write records or reports create it.
        let path = links(path).last().filter(|it| !it.is_symlink())?;
        let directory = directory_of(&path);
        let directory = fs::canonicalize(directory).or_else(|_| std::path::absolute(directory)).ok()?;
        Some(Self::New(directory.join(path.file_name()?)))
    }
}

/// A path, and what it names as long as that is a link: the last one is that of the file, unless there are
/// too many.
pub(crate) fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |path: &PathBuf| fs::read_link(path).ok().map(|target| directory_of(path).join(target));
    std::iter::successors(Some(path.to_owned()), next).take(MAX_LINKS)
}

/// The directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
