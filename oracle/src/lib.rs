//! rehal held against the reference release.
//!
//! What is here finds the reference's tools, enumerates captures with what their programs printed, and compares
//! outputs. It never reads a capture's bytes itself and never runs code in this process: both tools are run as
//! separate programs, so that what is compared is what a user gets.
//!
//! Used by the tests in `oracle/tests` and by `xtask` (set-up, fixtures, benchmarks).
#![forbid(unsafe_code)]

pub mod reference;
