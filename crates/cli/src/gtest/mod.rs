//! A test runner compatible with GoogleTest: selection, order, console output, and XML and JSON reports.
//!
//! The formats are those of GoogleTest 1.17 (<https://google.github.io/googletest/advanced.html>). Flags for
//! features that do not apply here (death tests, breaking into a debugger, C++ exceptions, streaming to a
//! host) are accepted and have no effect.

mod console;
mod file;
mod filter;
mod options;
mod order;
mod run;

pub(crate) use options::{GTEST, Options};
pub(crate) use run::{Suite, Test, run};
