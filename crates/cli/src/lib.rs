//! The command-line tools: flags, output and exit statuses.
//!
//! Each tool is a [`Tool`]: a table of flags, help, a guide and a function over the libraries. One program is
//! all of them: it acts by its first argument, or by the name that it is called by (`names.rs`). This is the
//! only crate that parses flags or prints. It must not depend on the internals of formats, devices or
//! replays, and no crate depends on it.
//!
//! `--device` is resolved once, after all flags are parsed (`devices.rs`). `output.rs` is standard output: it
//! flushes C's stdio first, so that the output of native code precedes that of the tool. A flag whose value
//! names a file says so in its entry (`.files(…)`), and `files.rs` compares all of them before a tool runs.
//! Tools that write a file have the flag of `output_file.rs`, which replaces a file once the new one is
//! complete. Files made from a capture are as private as the capture (`captures::open`). Commands with two
//! words, such as `rehal profile timeline`, are tools of their own.

#![deny(unsafe_code)]

mod advice;
mod captures;
mod devices;
#[cfg(test)]
mod discrete_tests;
mod files;
mod findings;
pub mod flags;
mod gtest;
mod kernel_recording;
mod names;
mod output;
mod output_file;
mod parameters;
mod platform;
mod profiling;
mod program;
mod progress;
mod report;
mod roff;
mod sandbox;
mod shells;
mod table;
mod tool;
pub mod tools;

use rehal_jobs::interrupts;

pub use names::IREE_NAMES;
pub use platform::main_without_runtime;
pub use tool::{Invocation, Operands, Tool, main};
