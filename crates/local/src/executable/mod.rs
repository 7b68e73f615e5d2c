//! Executables: what a capture or a module holds as machine code, loaded and callable.
//!
//! ```text
//! bytes --format--> elf | dylib --query--> library --imports from plugins--> dispatch
//! ```
//!
//! [`Library`] is the way in. Reading bytes ([`elf::Image::parse`]) is safe for any bytes; loading
//! and dispatching run them and are `unsafe`: the caller says why it trusts them.

pub mod abi;
pub mod check;
pub mod dylib;
pub mod elf;
pub mod format;
pub mod guard;
pub mod imports;
pub mod library;
pub mod plugin;
pub mod plugin_abi;
pub mod processor;

mod dispatch;
mod query;

pub use dispatch::{Binding, Dispatch};
pub use imports::{ImportProvider, ImportRequest};
pub use library::{FunctionInfo, FunctionParameter, Library, LoadOptions, SourceLocation};
pub use plugin::{Plugin, Plugins};
