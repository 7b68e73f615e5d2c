//! Executables: the code of a capture or a module, loaded and callable.
//!
//! ```text
//! bytes --format--> elf | dylib --query--> library --imports from plugins--> dispatch
//! vmvx: a VM program, verified instead of trusted
//! ```
//!
//! [`Library`] is the entry point; `local_executable` is the driver's view of it. Reading bytes
//! ([`elf::Image::parse`]) is safe for any bytes; loading and dispatching execute them and are `unsafe`: the
//! caller states why it trusts them.

#![allow(unsafe_code, reason = "loads and calls machine code; see docs/unsafe.md")]

pub mod abi;
pub mod check;
pub mod dylib;
pub mod elf;
pub mod format;
pub mod imports;
pub mod library;
pub mod link;
pub(crate) mod perf;
pub mod plugin;
pub mod plugin_abi;
pub mod processor;

mod vmvx;

mod code;
mod cost;
mod debug_info;
mod dispatch;
mod image_cache;
mod local_executable;
mod query;
mod running;
mod schedule;
mod static_memory;

pub use crate::place::MemorySpan;
pub use code::{ElfCode, FunctionCode};
pub(crate) use dispatch::DispatchArguments;
pub use dispatch::{Dispatch, STACK_BYTES, Share, WorkgroupFailure, workgroup_total};
pub use format::{infer as infer_format, is_supported};
pub(crate) use image_cache::clear as drop_kept_images;
pub use imports::{ImportProvider, ImportRequest};
pub use library::{Library, LoadOptions};
pub(crate) use local_executable::{ExecutableOptions, LocalExecutable};
#[doc(hidden)]
pub use perf::open as open_perf_files;
pub use plugin::{Plugin, Plugins};
pub use processor::query as query_processor;
pub use static_memory::StaticMemory;

/// The architecture of this machine, as in the names of formats.
pub const ARCHITECTURE: &str = crate::platform::ARCHITECTURE;
