//! The module `rehal._rehal`, over which the Python sources beside it are the package `rehal`.
//!
//! It opens captures, makes columns of their records, and runs jobs: what runs captured code is a process of
//! the `rehal` binary, unless the caller says otherwise. The interpreter's lock is released during all work,
//! and Ctrl-C ends it. It must not depend on flags. A panic becomes an exception: the profile `python`
//! unwinds. Nothing uses it but the package.

#![deny(unsafe_code)]

mod arrow;
mod capture;
mod columns;
mod conversation;
mod errors;
mod interrupt;
mod jobs;

use pyo3::prelude::*;

/// What the package consists of, in Rust.
#[pymodule]
mod _rehal {
    #[pymodule_export]
    use super::capture::Capture;
    #[pymodule_export]
    use super::columns::{Column, Columns};
    #[pymodule_export]
    use super::conversation::Conversation;
    #[pymodule_export]
    use super::jobs::run_job;
    #[pymodule_export]
    use super::{function_results, panics};
}

/// The kinds of the results of a function of a module, such as `ref`. Executes nothing.
#[pyfunction]
fn function_results(
    py: Python<'_>,
    module: std::path::PathBuf,
    function: &str,
) -> PyResult<Vec<&'static str>> {
    use rehal_session::{Error, ModuleMode, ModuleSource, ProgramModule};
    let found = py.detach(|| {
        let module = ProgramModule::read(&ModuleSource::File(module), ModuleMode::default())?;
        let found = module.result_kinds(function);
        let names = found.map(|kinds| kinds.iter().map(|kind| kind.name()).collect());
        names.ok_or_else(|| {
            let names: Vec<_> = module.runnable_functions().collect();
            Error::not_found(format!("module '{}' has no function '{function}'", module.name()))
                .advise(format!("the module has: {}", names.join(", ")))
        })
    });
    found.map_err(|error| errors::exception(py, &error))
}

/// Panics: for the test that a panic becomes an exception.
#[pyfunction]
fn panics() {
    panic!("a panic for a test");
}
