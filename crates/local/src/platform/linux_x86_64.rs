//! Linux on x86-64.

mod affinity;
mod cpu;
mod dot_products;
mod kernel_stack;
mod library_file;
mod memory;
mod open_library;
mod vectors;
mod watched_pages;

pub(crate) use affinity::{Processors, allowed_processors, pin_thread, processor_id};
pub(crate) use cpu::{KernelMode, features, with_flushed_denormals};
pub(crate) use dot_products::{add_dot_products, has_dot_products};
pub(crate) use kernel_stack::{KernelStack, is_overflow as is_stack_overflow};
pub(crate) use library_file::LibraryFile;
pub(crate) use memory::{Mapping, PAGE_BYTES, WritableMapping, announce_to_perf};
pub(crate) use open_library::open_library;
pub(crate) use vectors::{has_fused_vectors, with_vectors};
pub(crate) use watched_pages::WatchedPages;

/// This machine's architecture, as in executable formats.
pub(crate) const ARCHITECTURE: &str = "x86_64";
/// Whether native executables can run.
pub(crate) const RUNS_EXECUTABLES: bool = true;
