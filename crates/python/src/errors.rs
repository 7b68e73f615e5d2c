//! Errors as exceptions.

use pyo3::prelude::*;
use rehal_base::{Advice, Error};

/// The `rehal.Error` of an error.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let advice = error.advice().map(|advice| match advice {
        Advice::Text(text) => text.to_string(),
        Advice::Remedy(remedy) => remedy.to_string(),
    });
    let context = error.context_lines().to_vec();
    let made = py
        .import("rehal._errors")
        .and_then(|module| module.getattr("Error"))
        .and_then(|class| class.call1((error.code().name(), error.message(), context, advice)));
    made.map_or_else(|failed| failed, PyErr::from_value)
}
