//! The conformance suite: the required behaviour of every HAL driver, as tests that run on any device.
//!
//! A driver's tests implement [`Subject`] (a device, and the suite's kernels in the driver's formats) and run
//! each of [`tests`] as a separate test; the recorder's tests wrap the same subject. It must not depend on
//! any driver, file format or tool.
//!
//! Unsupported features are declared ([`Expected`]), never skipped: a declared test runs and must fail, so
//! that stale declarations are found.

#![deny(unsafe_code)]

mod check;
pub mod discrete;
mod forward;
mod group;
mod harness;
pub mod late;
mod live;
mod script;
mod subject;
mod suite;
mod test;

pub use group::{GroupSubject, GroupTest, group_tests};
pub use subject::{Capability, Expected, Kernel, Subject};
pub use suite::tests;
pub use test::Test;
