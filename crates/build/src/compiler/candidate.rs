//! Variants of a dispatch that are compiled by themselves, of which the text is in memory.

use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result};
use rehal_hal::NeededWorkgroups;
use rehal_jobs::TemporaryDirectory;
use rehal_replay::Replacement;

use super::count::needed_workgroups;
use super::{Compilation, Compiler};

/// A dispatch that was compiled by itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompiledDispatch {
    /// The binary of its target.
    pub bytes: Vec<u8>,
    /// The compiler's messages, such as warnings.
    pub messages: String,
    /// The workgroups that its functions need, which depend on how the compiler divides the work.
    pub workgroups: Vec<(String, NeededWorkgroups)>,
}

impl CompiledDispatch {
    /// As a replacement of a captured executable. `name` is that of its source.
    pub fn into_replacement(self, name: impl Into<String>) -> Replacement {
        let mut replacement = Replacement::bytes(self.bytes).keep_missing().named(name);
        let needed = self.workgroups.into_iter();
        replacement.workgroups = needed.map(|(function, it)| (Some(function), it)).collect();
        replacement
    }
}

/// The flags for the text before and after the pass that decides workgroup counts, and its first words.
/// Before, functions say which constants are the workload.
const DECIDED: [&str; 2] = [
    "--mlir-print-ir-before=iree-hal-translate-target-executable-variants",
    "--mlir-print-ir-after=iree-hal-translate-target-executable-variants",
];
const DUMPS: [&str; 2] = ["// -----// IR Dump Before ", "// -----// IR Dump After "];

impl Compiler {
    /// Compiles the text of a dispatch, as the compiler dumps it, to the binary of its target. The text is
    /// kept in the cache, since the path of a source is a part of the output.
    pub fn compile_dispatch(
        &self,
        text: &str,
        flags: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<CompiledDispatch> {
        let (path, _directory) = self.place(text)?;
        self.compile_dispatch_file(&path, flags)
    }

    /// The same of a file.
    pub(super) fn compile_dispatch_file(
        &self,
        path: &Path,
        flags: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<CompiledDispatch> {
        let flags = flags.into_iter().map(Into::into);
        let own = iter::once("--compile-mode=hal-executable").chain(DECIDED).map(OsString::from);
        let compiled = self.compile(&Compilation::new(path, own.chain(flags)))?;
        let (messages, [before, after]) = split(&compiled.messages);
        Ok(CompiledDispatch {
            bytes: compiled.bytes().to_vec(),
            workgroups: needed_workgroups(&before, &after),
            messages,
        })
    }

    /// A file with this text.
    fn place(&self, text: &str) -> Result<(PathBuf, Option<TemporaryDirectory>)> {
        if let Some(path) = self.cache.as_ref().and_then(|cache| cache.keep_source(text)) {
            return Ok((path, None));
        }
        let directory = TemporaryDirectory::in_temp("rehal-candidate-")?;
        let path = directory.path().join("candidate.mlir");
        std::fs::write(&path, text)
            .map_err(|error| Error::io(format!("writing '{}'", path.display()), &error))?;
        Ok((path, Some(directory)))
    }
}

/// The messages of the compiler without what it printed before and after the pass, and these: each from the
/// line that announces it to a brace without indentation.
fn split(printed: &str) -> (String, [String; 2]) {
    let (mut messages, mut dumps) = (String::new(), [String::new(), String::new()]);
    let mut dumped = None;
    for line in printed.lines() {
        dumped = DUMPS.iter().position(|it| line.starts_with(it)).or(dumped);
        let to = dumped.map_or(&mut messages, |it| &mut dumps[it]);
        to.push_str(line);
        to.push('\n');
        dumped = dumped.filter(|_| line != "}");
    }
    (messages.trim().to_owned(), dumps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_after_the_pass_is_not_a_message() {
        let dump = "// -----// IR Dump After X //----- //\nhal.executable.variant {\n  a\n}\n".to_owned();
        let before = dump.replace("After", "Before").replace("  a", "  b");
        let (messages, dumped) = split(&format!("{before}warning: 1\n{dump}\nwarning: 2\n"));
        assert_eq!((messages.as_str(), dumped), ("warning: 1\n\nwarning: 2", [before, dump]));
        assert_eq!(split(""), Default::default());
    }
}
