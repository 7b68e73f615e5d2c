//! Tests in GoogleTest's shape: which run and in what order, what the console shows, and reports as XML and JSON that
//! its users already read.
//!
//! The shapes are those of GoogleTest 1.17. What it has and has no meaning here (death tests, debugger breaks, C++
//! exceptions, streams to a host) is taken and without effect.

mod console;
mod file;
mod filter;
mod options;
mod order;
mod run;

pub(crate) use options::{GTEST, Options};
pub(crate) use run::{Suite, Test, run};
