//! rehal held against the reference release.
//!
//! What is here finds the reference's tools, enumerates captures with what their programs printed, and compares
//! outputs. It must never read a capture's bytes itself or run code in this process: both sides are run as separate
//! programs, so that what is compared is what a user gets.
//!
//! Used by the tests in `oracle/tests` and by `xtask` (set-up, fixtures, benchmarks).
#![forbid(unsafe_code)]

pub mod captures;
pub mod e2e;
pub mod help;
pub mod lit;
pub mod printed;
pub mod reads;
pub mod reference;
pub mod tool;
