//! The `RUN` lines of the reference's own tool tests: commands of a shell whose output FileCheck compares with the
//! patterns in the same file.
//!
//! The tests are read from a checkout of the reference's source that `REHAL_IREE_SOURCE` names; nothing of them is part
//! of this repository. Each command runs twice, by a shell that finds its tools first in the release and then in our
//! directory: what passes there has to pass here. The compiler is the release's both times.

mod command;
mod known;
mod objects;
mod programs;
mod requirements;
mod sandbox;
mod test_file;

pub use command::Command;
pub use known::{known_failure, other_words};
pub use programs::DRIVER;
pub use sandbox::{Sandbox, Tools};

use programs::Programs;
use std::fs;
use std::io;
use std::path::Path;
use test_file::TestFile;

/// The directories of the source tree whose tests call tools that we have.
const DIRECTORIES: [&str; 6] = [
    "tools/test",
    "samples",
    "tests/e2e",
    "tests/transform_dialect",
    "runtime/src/iree/modules/check/test",
    "compiler/src/iree/compiler/Modules/IO/Parameters/Transforms/test",
];

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is run.
    Run {
        /// By the release's tools first; otherwise it calls a tool of ours that the release lacks.
        by_release: bool,
        /// With the device that is built in place of one that is not.
        replaces_device: bool,
    },
    /// It cannot be run, or calls no tool of ours. The reason is fit for a test's name.
    Ignored(String),
}

/// Every command of the tests in `source`, in the order of files and lines, with what becomes of it.
pub fn commands(source: &Path) -> io::Result<Vec<(Command, Verdict)>> {
    let programs = Programs::find()?;
    let mut found = Vec::new();
    for directory in DIRECTORIES {
        let mut files = Vec::new();
        test_files(&source.join(directory), &mut files)?;
        for path in files {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let name = path.strip_prefix(source).unwrap_or(&path).display().to_string();
            let file = TestFile::parse(&text).map_err(|what| io::Error::other(format!("{name}: {what}")))?;
            for at in 0..file.commands.len() {
                let command = Command::new(&name, &path, &file, at);
                let verdict = match file.ignored() {
                    Some(reason) => Verdict::Ignored(reason),
                    None => programs.verdict(&command),
                };
                found.push((command, verdict));
            }
        }
    }
    Ok(found)
}

/// The files below `directory` that can hold tests, sorted.
fn test_files(directory: &Path, found: &mut Vec<std::path::PathBuf>) -> io::Result<()> {
    let entries = fs::read_dir(directory)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            test_files(&path, found)?;
        } else if path.extension().is_some_and(|end| ["mlir", "td", "txt"].iter().any(|known| end == *known))
        {
            found.push(path);
        }
    }
    Ok(())
}
