//! The replacements that flags name.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rehal_base::{Error, Result};
use rehal_build::{CompilerOptions, is_program_source};
use rehal_replay::{CalledFunction, Plan, Replacement, Selector, Substitution};

use super::KERNELS;
use crate::tools::compiler_flags::{SubstituteCompiler, state_workgroups};

/// Advice about a file that is not a replacement.
pub(super) const NAME_REPLACEMENT: &str = "name a source (.c, .rs, .cu), a dispatch as the compiler dumps it (.mlir), an object (.o), a shared library, a compiled executable, a SPIR-V module for Vulkan (.spv), or PTX (.ptx)";

/// A replacement.
pub(in crate::tools) struct Candidate {
    pub path: PathBuf,
}

impl Candidate {
    /// Whether it is compiled first.
    pub(super) fn is_source(&self) -> bool {
        Replacement::file(&self.path).is_kernel_source() || is_program_source(&self.path)
    }

    /// Its code: compiled for the function of a capture, if it is a source. It is read once, so that it may
    /// be saved meanwhile.
    pub(super) fn build(
        &self,
        plan: &Plan,
        function: &str,
        compiler: &SubstituteCompiler,
    ) -> Result<Replacement> {
        check_file(&self.path, &metadata(&self.path)?)?;
        if !self.is_source() {
            let shown = self.path.display().to_string();
            let bytes =
                fs::read(&self.path).map_err(|error| Error::io(format!("reading '{shown}'"), &error))?;
            let read = Replacement::bytes(bytes).named(shown);
            let mut substitutions = [Substitution::new(Selector::Name(function.to_owned()), read)];
            state_workgroups(&compiler.workgroups, &mut substitutions)?;
            let [Substitution { replacement, .. }] = substitutions;
            return Ok(replacement);
        }
        let mut substitutions = [self.substitution(function)];
        let mut options = CompilerOptions::default();
        options.functions = CalledFunction::in_plan(plan);
        compiler.compile(&mut substitutions, &options)?;
        let [Substitution { replacement, .. }] = substitutions;
        Ok(replacement)
    }

    fn substitution(&self, function: &str) -> Substitution {
        let replacement = Replacement::file(self.path.clone());
        Substitution::new(Selector::Name(function.to_owned()), replacement)
    }
}

/// The replacements, those of a directory by name. Fails if a path does not exist, or a directory has none.
pub(super) fn find(with: &[PathBuf]) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for path in with {
        let metadata = metadata(path)?;
        if !metadata.is_dir() {
            check_file(path, &metadata)?;
            found.push(Candidate { path: path.clone() });
            continue;
        }
        let files = files_in(path)
            .map_err(|error| Error::io(format!("reading the directory '{}'", path.display()), &error))?;
        if files.is_empty() {
            let message = format!("the directory '{}' has no replacements", path.display());
            return Err(
                Error::not_found(message).advise(format!("their extensions are .{}", KERNELS.join(", .")))
            );
        }
        found.extend(files.into_iter().map(|path| Candidate { path }));
    }
    Ok(found)
}

fn metadata(path: &Path) -> Result<Metadata> {
    fs::metadata(path).map_err(|error| {
        Error::io(format!("opening '{}'", path.display()), &error).advise("name a replacement that exists")
    })
}

/// Refuses devices and pipes, which may have no end.
fn check_file(path: &Path, metadata: &Metadata) -> Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!("'{}' is not a regular file", path.display()))
            .advise(NAME_REPLACEMENT)),
    }
}

fn files_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|it| it.to_str());
        if extension.is_some_and(|it| KERNELS.contains(&it)) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The state of the files, which changes if a replacement is saved, added or removed.
pub(super) fn states(with: &[PathBuf]) -> Vec<(PathBuf, Option<(SystemTime, u64)>)> {
    let mut states = Vec::new();
    for path in with {
        let files = if path.is_dir() { files_in(path).unwrap_or_default() } else { vec![path.clone()] };
        for path in files {
            let state = fs::metadata(&path).ok().and_then(|it| Some((it.modified().ok()?, it.len())));
            states.push((path, state));
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::KERNELS;

    #[test]
    fn the_help_lists_the_extensions() {
        let (last, others) = KERNELS.split_last().unwrap();
        let plain: Vec<_> = others.iter().map(|it| format!(".{it}")).collect();
        let help = super::super::COMPARE.help("rehal compare", true).replace("\n# ", " ");
        assert!(help.contains(&format!("extensions {} and .{last}.", plain.join(", "))), "{help}");
    }
}
