//! Parameter files: archives of named tensors as data, read with every offset and size checked, and written.
//!
//! A file is read by its format ([`Format`]) into what it says about each parameter, which an [`Index`]
//! keeps together with the file, and [`Scopes`] keep the indices of a program. Data is never held: an
//! [`Entry`] knows where its bytes are. [`irpa::Archive`] lays out and writes `.irpa` files.
//!
//! Used by `modules` to answer what programs load, and by the parameter tools. It must never know devices or programs.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "an error ends the reading of a file; it is not on a hot path")]

pub mod check;
mod entry;
mod file;
mod format;
mod gguf;
mod index;
pub mod irpa;
mod nearest;
mod pattern;
mod safetensors;
pub mod sample;
mod scopes;

pub use entry::{Entry, Storage};
pub use file::{Contents, FileMode, ParameterFile};
pub use format::{Format, Parsed, Place};
pub use index::Index;
pub use pattern::Pattern;
pub use scopes::Scopes;
