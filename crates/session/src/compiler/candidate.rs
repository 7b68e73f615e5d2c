//! Variants of a dispatch that are compiled by themselves, of which the text is in memory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result};
use rehal_replay::Replacement;
use rehal_tune::TemporaryDirectory;

use super::text;
use super::{Compilation, Compiler};

/// A dispatch that was compiled by itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompiledDispatch {
    /// The binary of its target.
    pub bytes: Vec<u8>,
    /// What the compiler printed, such as warnings.
    pub messages: String,
    /// The workgroups with which a program dispatches its functions, if that does not depend on values of the
    /// program: they depend on how the compiler divides the work.
    pub workgroup_counts: Vec<(String, [u32; 3])>,
}

impl CompiledDispatch {
    /// As a replacement of a captured executable. `name` is that of its source.
    pub fn into_replacement(self, name: impl Into<String>) -> Replacement {
        let mut replacement = Replacement::bytes(self.bytes).keep_missing().named(name);
        replacement.workgroup_counts = self.workgroup_counts;
        replacement
    }
}

/// The pass after which workgroup counts are decided, and the first words of what is printed then.
const DECIDED: &str = "--mlir-print-ir-after=iree-hal-translate-target-executable-variants";
const DUMP: &str = "// -----// IR Dump After ";

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
        let own = ["--compile-mode=hal-executable", DECIDED].map(OsString::from);
        let compiled = self.compile(&Compilation::new(path, own.into_iter().chain(flags)))?;
        let (messages, dumped) = split(&compiled.messages);
        Ok(CompiledDispatch {
            bytes: compiled.bytes().to_vec(),
            workgroup_counts: text::workgroup_counts(&dumped),
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

/// The messages of the compiler without what it printed after the pass, and that: from the line that
/// announces it to a brace without indentation.
fn split(printed: &str) -> (String, String) {
    let (mut messages, mut dumped) = (String::new(), String::new());
    let mut is_dumped = false;
    for line in printed.lines() {
        is_dumped |= line.starts_with(DUMP);
        let to = if is_dumped { &mut dumped } else { &mut messages };
        to.push_str(line);
        to.push('\n');
        is_dumped &= line != "}";
    }
    (messages.trim().to_owned(), dumped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_after_the_pass_is_not_a_message() {
        let dump = "// -----// IR Dump After X //----- //\nhal.executable.variant {\n  a\n}\n";
        let (messages, dumped) = split(&format!("warning: 1\n{dump}\nwarning: 2\n"));
        assert_eq!((messages.as_str(), dumped.as_str()), ("warning: 1\n\nwarning: 2", dump));
        assert_eq!(split(""), (String::new(), String::new()));
    }
}
