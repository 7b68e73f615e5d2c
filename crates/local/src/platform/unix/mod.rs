//! Systems of the Unix family.

mod kernel_stack;
mod library_file;
mod memory;
mod open_library;
mod watched_pages;

pub(crate) use kernel_stack::{KernelStack, is_overflow as is_stack_overflow};
pub(crate) use library_file::LibraryFile;
pub(crate) use memory::{Mapping, WritableMapping, announce_to_perf};
pub(crate) use open_library::open_library;
pub(crate) use watched_pages::WatchedPages;
