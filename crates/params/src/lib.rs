//! Parameter files: archives of named tensors as data, read with every offset and size checked, and written.
//!
//! A file is parsed according to its [`Format`] into descriptions of its parameters, which an [`Index`]
//! stores together with the file; [`Scopes`] are the indices of a program. Data is not loaded: an [`Entry`]
//! has the location of its bytes. [`irpa::Archive`] lays out and writes `.irpa` files.
//!
//! Used by `modules` to load parameters for programs, and by the parameter tools. It must not depend on
//! devices or programs.
//!
//! The reader of a format parses headers into a list of entries, bounded by the size of the file, and never
//! reads data. An archive is laid out before it is written, because tables precede data.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "an error ends the parsing of a file; not a hot path")]

mod entry;
mod file;
mod format;
pub mod fuzzing;
mod gguf;
mod index;
pub mod irpa;
mod nearest;
mod pattern;
mod safetensors;
pub mod sample;
mod scopes;

pub use entry::{Entry, Location, Parsed, Storage};
pub use file::{Contents, ExternalFiles, FileMode, ParameterFile};
pub use format::Format;
pub use index::Index;
pub use pattern::Pattern;
pub use scopes::Scopes;
