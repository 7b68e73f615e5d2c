//! What a VM program may import: the `hal`, `io_parameters` and `check` modules.
//!
//! Used by the tools. It must never know a file format of its own, a flag, or whether it is being recorded.
#![deny(unsafe_code)]

pub mod check;
pub mod hal;
pub mod io_parameters;
mod transfer;

pub use transfer::{READABLE, to_host};
