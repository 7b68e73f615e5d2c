//! The parameter files that a tool works with: the flags that name them, and how they are listed.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result};
use rehal_params::{Entry, FileMode, Index, Scopes, Storage};

use crate::flags::{Flag, Flags, Group};
use crate::{Invocation, output};

/// Which parameter files, and how they are read.
pub(crate) const PARAMETERS: Group = Group {
    title: "Parameters",
    flags: &[
        Flag::list(
            "parameters",
            "[SCOPE=]PATH",
            "A parameter file: .irpa, .gguf or .safetensors, by the ending of its name. Programs find its \
             parameters in SCOPE, or, where none is named, in the scope without a name. Repeat it for more \
             files; those of one scope are one, and of two parameters of a name the first counts. Where a \
             program takes no parameters the files are not looked at.",
        ),
        Flag::text(
            "parameter_mode",
            "MODE",
            "file",
            "How the bytes are reached. file: read from the file when they are wanted. mmap: as mapped \
             memory, of which devices that can use it take what they want without a copy. preload: as \
             memory that whole files are read into at the start.",
        ),
    ],
};

/// The parameters that the flags of [`PARAMETERS`] name.
pub(crate) fn from_flags(flags: &Flags) -> Result<Scopes> {
    let mode = mode(flags)?;
    let mut scopes = Scopes::new();
    for flag in flags.list("parameters") {
        scopes.add(flag, mode).context(|| format!("--parameters={flag}"))?;
    }
    Ok(scopes)
}

/// How parameters are reached, whether or not there are some.
pub(crate) fn mode(flags: &Flags) -> Result<FileMode> {
    match flags.text("parameter_mode") {
        "file" => Ok(FileMode::File),
        "mmap" => Ok(FileMode::Mmap),
        "preload" => Ok(FileMode::Preload),
        other => Err(Error::invalid_argument(format!("unrecognized --parameter_mode= value '{other}'"))
            .advise("file, mmap or preload")),
    }
}

/// Refuses what stands behind the flags: files are named by flags.
pub(crate) fn refuse_operands(invocation: &Invocation) -> Result<()> {
    match invocation.flags.positionals() {
        [] => Ok(()),
        [first, ..] => Err(Error::invalid_argument("no positional arguments expected")
            .context(format!("given: '{}'", first.display()))
            .advise("name parameter files with --parameters=FILE, once for each")),
    }
}

/// Refuses to write to a file that is read, or that the tool prints to.
pub(crate) fn check_output<'a>(
    flag: &str,
    path: &str,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    if output::is_printed_to(Path::new(path)) {
        let error = Error::invalid_argument(format!("--{flag}={path} is what is printed to"));
        return Err(error.advise("name another file to write to"));
    }
    check_input(flag, path, inputs)
}

/// Refuses to write to a file that is read.
pub(crate) fn check_input<'a>(
    flag: &str,
    path: &str,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    refuse_same(flag, path, inputs, "read")
}

/// Refuses to write to a file that something else is written to.
pub(crate) fn check_outputs<'a>(
    flag: &str,
    path: &str,
    outputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    refuse_same(flag, path, outputs, "written as well")
}

fn refuse_same<'a>(
    flag: &str,
    path: &str,
    others: impl IntoIterator<Item = &'a Path>,
    what: &str,
) -> Result<()> {
    let Some(output) = FilePlace::of(Path::new(path)) else { return Ok(()) };
    match others.into_iter().find(|other| FilePlace::of(other).as_ref() == Some(&output)) {
        Some(other) => {
            Err(Error::invalid_argument(format!("--{flag}={path} is '{}', which is {what}", other.display()))
                .advise("name another file to write to"))
        }
        None => Ok(()),
    }
}

/// By what two paths are known to lead to one file.
#[derive(PartialEq)]
enum FilePlace {
    /// Device and inode of a file that is there.
    File(u64, u64),
    /// Where one would be made.
    New(PathBuf),
}

impl FilePlace {
    /// `None` for devices and pipes, which several may write to, and where no file can be.
    fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(it) => it.is_file().then(|| Self::File(it.dev(), it.ino())),
            Err(_) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
                Some(Self::New(folder.join(path.file_name()?)))
            }
        }
    }
}

/// A line of a [`listing`].
pub(crate) struct Line<'a> {
    /// The parameter's name.
    pub name: &'a str,
    /// Its length in bytes.
    pub length: u64,
    /// Where its data starts in its file; `None` for what has none.
    pub offset: Option<u64>,
    /// The file, where it is another one than the archive that lists it.
    pub file: Option<String>,
}

impl<'a> From<&'a Entry> for Line<'a> {
    fn from(entry: &'a Entry) -> Self {
        let (offset, file) = match &entry.storage {
            Storage::Splat(_) => (None, None),
            Storage::File { file, offset } => {
                (Some(*offset), file.is_external().then(|| file.path().display().to_string()))
            }
        };
        Self { name: &entry.name, length: entry.length, offset, file }
    }
}

/// The parameters of an index as [`listing`] prints them.
pub(crate) fn lines(index: &Index) -> Vec<Line<'_>> {
    index.entries().iter().map(Line::from).collect()
}

/// The table of a scope's parameters, as the reference prints it.
pub(crate) fn listing(scope: &str, lines: &[Line<'_>]) -> String {
    let shown = if scope.is_empty() { "<global>".to_string() } else { format!("`{scope}`") };
    let total: u128 = lines.iter().map(|line| u128::from(line.length)).sum();
    let bar = "-".repeat(47);
    let mut text = format!(
        "//==={}===//\n\
         // Parameter scope {shown} ({} entries, {total} total bytes)\n\
         //===------------+------------------+------------------+------------{bar}===//\n\
         //         Start |              End |           Length | Key\n\
         //---------------+------------------+------------------+------------{bar}---//\n",
        "-".repeat(110),
        lines.len()
    );
    for line in lines {
        // Writing to a string cannot fail.
        let _ = match line.offset {
            Some(offset) => {
                let end = u128::from(offset) + u128::from(line.length);
                write!(text, "{offset:16} | {end:16} | {:16} | `{}`", line.length, line.name)
            }
            None => write!(text, "{:>16} | {:>16} | {:16} | `{}`", "-", "-", line.length, line.name),
        };
        if let Some(file) = &line.file {
            let _ = write!(text, " in `{file}`");
        }
        text.push('\n');
    }
    text.push('\n');
    text
}
