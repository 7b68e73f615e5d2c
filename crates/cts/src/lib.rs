//! The conformance suite: what every driver of the HAL must do, as tests that run on any device.
//!
//! A driver's tests implement [`Subject`] (a device, the suite's kernels in the driver's formats)
//! and run each of [`tests`] as a test of its own; the recorder's tests wrap the same subject. It
//! must never know which drivers exist, a file format, or a tool.
//!
//! What a driver does not do is declared ([`Expected`]), never skipped: a declared test runs and
//! must fail, so that a declaration which is out of date is found.

#![deny(unsafe_code)]

mod check;
pub mod discrete;
mod harness;
mod live;
mod script;
mod subject;
mod suite;
mod test;

pub use subject::{Capability, Expected, Kernel, Subject};
pub use suite::tests;
pub use test::Test;
