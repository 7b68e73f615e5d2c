//! Foundations of every other crate: status codes, errors, checked ranges, a bounded cursor over bytes,
//! mapped files, FlatBuffers, identity and kinds of files, shared memory, what each system can do and
//! tells, element types, math functions of the C library, numbers as it prints them, terms of integers, work
//! on all processors, glob patterns, suggestions for misspelt names, text for terminals, words of messages,
//! and the digest of captures.
//!
//! It must not depend on a device or a tool, nor on more of a file format than its first bytes. Every crate
//! of the workspace uses it.
//!
//! `Error` is one boxed word: status code, message, context (innermost first) and advice. `FormatError` is
//! the error of readers: cause, offset, record, field, expected and found. Advice is a sentence or a
//! `Remedy`, which each interface puts into its own words: libraries name no flags. `FileKind` detects the
//! type of a file by its first bytes, so that a reader which fails can name the kind of the file and what
//! accepts it. With `MappedFile::forget`, a reader of a file of any size keeps its memory flat.
//!
//! Only `HostMemory` accesses bytes that a device or another thread may access at the same time. Every access
//! copies, so a data race of a program yields a mix of bytes, never undefined behaviour. Constant memory is
//! lent as slices, and only uniquely owned memory can become constant. `HostMemory::foreign` is the only
//! function that wraps memory mapped by a driver or lent by a caller; the memory is released when its keeper
//! is dropped.

#![deny(unsafe_code)]

mod advice;
pub mod c_math;
mod cursor;
mod element;
mod element_name;
mod error;
mod file_id;
mod file_kind;
mod file_refusal;
pub mod flatbuffer;
pub mod fnv;
mod format_error;
pub mod glob;
mod json;
mod layouts;
mod map;
mod memory;
mod nearest;
mod padded;
pub mod parallel;
#[doc(hidden)]
pub mod platform;
pub mod printf;
mod range;
mod setters;
mod status;
mod terminal;
pub mod terms;
mod words;

pub use advice::{Advice, Remedy};
pub use cursor::Cursor;
pub use element::{ElementType, Numerical};
pub use error::{Context, Error, Result};
pub use file_id::FileId;
pub use file_kind::FileKind;
pub use format_error::{Fault, FormatError, FormatPart};
pub use json::number_or_nan;
pub use map::{MappedFile, mapped_file_at};
pub use memory::{HostMemory, Overrun, OwnBytes, evict, keep_freed_memory};
pub use nearest::nearest;
pub use padded::{Align, padded};
pub use platform::{
    Ability, describe_abilities, load_average, memory_bytes, page_bytes, remove_directory, thread_id,
};
pub use range::{Range, checked_array_bytes};
pub use status::StatusCode;
pub use terminal::{TextWriter, escaped, escaped_lines, is_shown};
pub use words::{alternatives, listed, listed_by, plural, shortened};
