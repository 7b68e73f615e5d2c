//! A test runner compatible with GoogleTest: selection, and console output.
//!
//! The output is that of GoogleTest 1.17 (<https://google.github.io/googletest/advanced.html>). Flags for
//! features that do not apply here (death tests, breaking into a debugger, C++ exceptions, streaming to a
//! host) are accepted and have no effect; those that would change the order, the number of runs or the files
//! written are refused.

mod console;
mod filter;
mod options;
mod run;
mod suite;

pub(crate) use options::{GTEST, Options};
pub(crate) use run::run;
pub(crate) use suite::{Suite, Test};
