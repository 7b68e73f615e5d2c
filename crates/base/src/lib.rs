//! The ground that every other crate stands on: status codes, errors, checked ranges, a bounded
//! cursor over bytes, memory maps of files, memory that several parties share, element types, the C library's
//! functions of numbers, patterns for names, the name that a typo meant, the kinds of files, and the digest that captures
//! carry.
//!
//! It must never know a device, a tool, or of a file format more than the bytes that tell it from others. Everything in the workspace uses it.

#![deny(unsafe_code)]

pub mod c_math;
mod cursor;
mod element;
mod element_name;
mod error;
mod file_kind;

pub mod fnv;
mod format_error;
pub mod glob;
mod map;
mod memory;
mod nearest;
mod range;
mod status;

pub use cursor::Cursor;
pub use element::{ElementType, Numerical};
pub use error::{Context, Error, Result};
pub use file_kind::FileKind;
pub use format_error::{Fault, FormatError};
pub use map::MappedFile;
pub use memory::HostMemory;
pub use nearest::nearest;
pub use range::{Range, checked_array_bytes};
pub use status::StatusCode;
