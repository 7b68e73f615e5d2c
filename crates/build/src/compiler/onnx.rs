//! Models of ONNX, which the package of the compiler imports with Python.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, MappedFile, Remedy, Result};
use rehal_jobs::{Job, KeptOutput, TemporaryDirectory};

use super::{Compiler, MAX_MESSAGE_BYTES, failure};
use crate::Shortage;

/// The module that imports.
const IMPORTER: &str = "iree.compiler.tools.import_onnx";

/// An imported model.
pub(super) struct Imported {
    path: PathBuf,
    /// Has the file, if it is not in the cache.
    _directory: Option<TemporaryDirectory>,
}

impl Imported {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether the bytes contain a word.
fn memmem(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|it| it == word)
}

pub(super) fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "onnx")
}

/// Imports a model. The cache keeps it, so that its path is the same for the next compilation.
pub(super) fn import(compiler: &Compiler, model: &Path) -> Result<Imported> {
    let kept = compiler.cache.as_ref().and_then(|cache| {
        let model = MappedFile::open(model).ok()?;
        // The key of tensors in other files, whose contents may change.
        if memmem(model.bytes(), b"location") {
            return None;
        }
        Some(cache.imported(blake3::hash(model.bytes()), &compiler.identity))
    });
    let is_kept = |path: &&PathBuf| compiler.cache.as_ref().is_some_and(|cache| cache.keeps(path));
    if let Some(path) = kept.as_ref().filter(is_kept) {
        return Ok(Imported { path: path.clone(), _directory: None });
    }
    let directory = TemporaryDirectory::in_temp("rehal-import-")?;
    let path = directory.path().join("model.mlir");
    let python = python(compiler);
    let mut job = Job::for_program(&python);
    job.arguments = ["-m", IMPORTER].map(OsString::from).into();
    job.arguments.extend([model.into(), "-o".into(), path.clone().into_os_string()]);
    (job.limits, job.kept) = (compiler.limits, KeptOutput::Last(MAX_MESSAGE_BYTES));
    job.environment.push(("TMPDIR".into(), Some(directory.path().into())));
    let outcome = job
        .run(&mut |_| ControlFlow::Continue(()))
        .map_err(|error| Error::io(format!("starting '{}'", python.display()), &error))
        .advise(|| Remedy::InstallCompiler)?;
    let messages = String::from_utf8_lossy(&outcome.stderr.bytes);
    if !outcome.is_success() {
        if let Some(shortage) = Shortage::find(outcome.end, &messages, Some(directory.path())) {
            let what = format!("importing '{}'", model.display());
            return Err(failure::lacking(shortage, &what, &messages));
        }
        return Err(match missing_module(&messages) {
            Some(module) => {
                let message = format!("importing '{}' needs the Python package {module}", model.display());
                Error::failed_precondition(message).advise(format!(
                    "install it for the Python of the compiler: {} -m pip install {module}",
                    python.display()
                ))
            }
            None => {
                let message =
                    format!("'{}' cannot be imported: Python ended {}", model.display(), outcome.end);
                Error::invalid_argument(format!("{message}\n{}", failure::last_lines(&messages)))
                    .advise("name a model of ONNX")
            }
        });
    }
    if let (Some(cache), Some(kept)) = (&compiler.cache, kept)
        && cache.keep(&path, &kept)
    {
        return Ok(Imported { path: kept, _directory: None });
    }
    Ok(Imported { path, _directory: Some(directory) })
}

/// The Python whose packages the compiler is one of.
fn python(compiler: &Compiler) -> PathBuf {
    // PREFIX/lib/python3.N/site-packages/iree/compiler/_mlir_libs/iree-compile
    let prefix = compiler.path().ancestors().nth(7);
    let own = prefix.map(|it| it.join("bin/python3")).filter(|it| it.is_file());
    own.unwrap_or_else(|| "python3".into())
}

/// The module that Python has not found.
fn missing_module(messages: &str) -> Option<&str> {
    let line = messages.lines().rev().find(|line| line.starts_with("ModuleNotFoundError: "))?;
    // Python names it in quotes, the importer in backquotes.
    let module = line.split(['\'', '`']).nth(1)?;
    Some(if module.starts_with("iree") { "iree-base-compiler" } else { module.split('.').next()? })
}

#[cfg(test)]
mod tests {
    use super::missing_module;

    #[test]
    fn a_missing_package_is_named() {
        let messages = "Traceback:\nModuleNotFoundError: No module named 'onnx'\n";
        assert_eq!(missing_module(messages), Some("onnx"));
        let messages =
            "ModuleNotFoundError: importing requires that the `onnx` Python package is installed (`x`)";
        assert_eq!(missing_module(messages), Some("onnx"));
        let messages = "ModuleNotFoundError: No module named 'iree.compiler'";
        assert_eq!(missing_module(messages), Some("iree-base-compiler"));
        assert_eq!(missing_module("ValueError"), None);
    }
}
