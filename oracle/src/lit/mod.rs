//! The `RUN` lines of the reference's own tool tests (<https://llvm.org/docs/TestingGuide.html>): shell
//! commands whose output FileCheck (<https://llvm.org/docs/CommandGuide/FileCheck.html>) compares with
//! patterns in the same file.
//!
//! The tests are read from the checkout of the reference's source in `REHAL_IREE_SOURCE`; none are part of
//! this repository. Each command runs twice, with the release's tools and with ours on `PATH`; the compiler
//! is the release's in both runs.
//!
//! Patterns leave much open, so FileCheck's input must also be equal, except for times, help texts and the
//! current processor. FileCheck is the Python port that `cargo xtask setup` installs. Plugins and objects of
//! the samples are compiled from the checkout, with `cc` and the release's linker, into `target/lit`. The
//! release has no `iree-run-mlir`: a script runs the compiler, then `iree-run-module`. The name of a test
//! says how its command runs:
//!
//! - `lit::FILE:LINE` runs with both.
//! - `lit::ours_alone::` calls `iree-check-module`, which the release lacks.
//! - `lit::fails_with_release::` fails with the release's own tools, with the error listed in `known.rs`.
//! - `lit::other_words::` requires a sentence of the reference's help text: all patterns before it must
//!   match.
//! - `lit::compiler_only::` is ignored, as it calls no tool of ours.
//! - `lit::without_NAME::` is ignored: it needs a device, a program or a kind of module that is not
//!   implemented.

mod command;
mod known;
mod objects;
mod programs;
mod requirements;
mod sandbox;
mod test_file;

pub use command::Command;
pub use known::known_failure;
pub use sandbox::{Sandbox, Tools};

use programs::Programs;
use std::fs;
use std::io;
use std::path::Path;
use test_file::TestFile;

/// The directories of the source tree with tests of tools that rehal implements.
const DIRECTORIES: [&str; 6] = [
    "tools/test",
    "samples",
    "tests/e2e",
    "tests/transform_dialect",
    "runtime/src/iree/modules/check/test",
    "compiler/src/iree/compiler/Modules/IO/Parameters/Transforms/test",
];

/// How a command is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The command runs.
    Run {
        /// Whether it runs with the release's tools first; false if it calls a tool that the release lacks.
        by_release: bool,
    },
    /// The command cannot run, or calls no tool of ours. The reason becomes part of the test's name.
    Ignored(String),
}

/// Every command of the tests in `source`, by file and line.
pub fn commands(source: &Path) -> io::Result<Vec<(Command, Verdict)>> {
    let programs = Programs::new();
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

/// The files under `directory` that may contain tests, sorted.
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
