//! The flags that name parameter files, and the table that lists their parameters.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use rehal::program::{ParameterFile, ParameterOptions};
use rehal_devices::NamedPath;
use rehal_params::{Entry, ExternalFiles, FileMode, Index, Storage};

use crate::flags::{Access, Flag, Flags, Group, List, Refusal, split_once, text};

const FILES: List<ParameterFile> = List::parsed(
    "parameters",
    "[SCOPE=]PATH",
    "a path, or a scope and a path",
    parse_file,
    "A parameter file: .irpa, .gguf or .safetensors, by its extension. Programs find its parameters in \
     SCOPE, or in the scope without a name. Repeat it for more files; several files of one scope are merged, \
     and the first parameter of a name counts. The files are not opened unless the program takes parameters.",
)
.files(|file, _| vec![Access::Read.to(file.path.path())])
.endings(&["irpa", "gguf", "safetensors"]);

const MODE: Flag<FileMode> = Flag::choice(
    "parameter_mode",
    "map",
    &[
        ("map", FileMode::Map),
        ("file", FileMode::File),
        ("mmap", FileMode::Mmap),
        ("preload", FileMode::Preload),
    ],
    "How the bytes are accessed. map: as file, but CPU devices map what is read, from 1 MiB on: it takes no memory until it is written, \
     and a file that changes during the run is an error at its end. file: read from the file on demand. mmap: mapped memory, which devices that support it use without a copy. preload: memory into which whole \
     files are read at the start.",
);

const ALLOW_EXTERNAL: Flag<bool> = Flag::switch(
    "allow_external_paths",
    false,
    "Copies data also from files that an archive names by an absolute path or outside of its own directory: into parameter files, and \
     into captures that store what programs read. An archive could otherwise take along any file that you may read. Programs \
     whose data is not stored always read them.",
);

/// The parameter files, and how they are read.
pub(crate) const PARAMETERS: Group = Group { title: "Parameters", flags: &[&FILES, &MODE, &ALLOW_EXTERNAL] };

/// The options set by the flags of [`PARAMETERS`], for tools that copy the data.
pub(crate) fn copied(flags: &Flags) -> ParameterOptions {
    let mut options = options(flags);
    if !flags.get(&ALLOW_EXTERNAL) {
        options.external_files = ExternalFiles::BesideArchive;
    }
    options
}

/// The options set by the flags of [`PARAMETERS`].
pub(crate) fn options(flags: &Flags) -> ParameterOptions {
    let mut options = ParameterOptions::default();
    options.files = flags.list(&FILES);
    options.mode = flags.get(&MODE);
    options
}

/// Parses `PATH` or `SCOPE=PATH`.
fn parse_file(value: &OsStr) -> Result<ParameterFile, Refusal> {
    match split_once(value, b'=') {
        Some((scope, path)) => {
            let (scope, path) = (text(scope)?, NamedPath::from(path));
            let name = match &*scope {
                "" => format!("--parameters={}", path.path().display()),
                scope => format!("--parameters={scope}={}", path.path().display()),
            };
            Ok(ParameterFile::new(scope, path.named(name)))
        }
        None => {
            let name = format!("--parameters={}", Path::new(value).display());
            Ok(ParameterFile::new("", NamedPath::from(value).named(name)))
        }
    }
}

/// A line of a [`listing`].
pub(crate) struct Line<'a> {
    /// The parameter's name.
    pub name: &'a str,
    /// Its length in bytes.
    pub length: u64,
    /// Offset of its data in its file; `None` for splats.
    pub offset: Option<u64>,
    /// The file, if it is not the archive itself.
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
