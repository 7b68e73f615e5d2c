//! Differential tests of rehal against the reference release.
//!
//! This library finds the reference's tools, enumerates captures with their programs' output, and compares
//! outputs. It must not depend on the capture reader or run code in this process: both sides run as separate
//! programs, so that the comparison covers what a user gets.
//!
//! Used by the tests in `oracle/tests` and by `xtask` (setup, fixtures, benchmarks).
#![forbid(unsafe_code)]

pub mod captures;
pub mod e2e;
pub mod help;
pub mod lit;
pub mod printed;
pub mod reads;
pub mod reference;
pub mod tool;
