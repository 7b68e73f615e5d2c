//! The tools: what flags mean, what is printed where, and exit statuses.
//!
//! Each tool is a [`Tool`]: a table of flags, help, a guide and a function over the libraries. The
//! binaries in `src/bin` only start one. This crate holds no logic of formats, devices or replay,
//! and it is the only one that parses flags or prints; nothing depends on it.

#![forbid(unsafe_code)]

mod devices;
pub mod flags;
mod input;
mod output;
mod progress;
mod tool;
pub mod tools;

pub use tool::{Invocation, Tool, main, main_of_verbs};
