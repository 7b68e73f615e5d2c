//! Linux on x86-64.

mod affinity;
mod c_stdio;
mod cpu;
mod dot_products;
mod fault;
mod interrupt;
mod kernel_stack;
mod library_file;
mod memory;
mod open_library;
mod temporary_files;
mod transpose;
mod vectors;
mod watched_pages;

pub(crate) use affinity::{Processors, allowed_processors, current_processor, pin_thread};
pub(crate) use c_stdio::{flush_after_crash, flush_c_streams};
pub(crate) use cpu::{FlushDenormals, processor_data, processor_id, with_flushed_denormals};
pub(crate) use dot_products::{add_dot_products, has_dot_products};
pub(crate) use fault::{
    abort_now, announce_exits, arm_thread, exit_now, install_fault_handler, thread_name, write_stderr,
};
pub(crate) use interrupt::{install_interrupt_handler, interrupt_thread, thread_id};
pub(crate) use kernel_stack::KernelStack;
pub(crate) use library_file::LibraryFile;
pub(crate) use memory::{Mapping, PAGE_BYTES, WritableMapping};
pub(crate) use open_library::open_library;
pub(crate) use temporary_files::RemovedFile;
pub(crate) use transpose::{has_transpositions, transpose_block};
pub(crate) use vectors::{has_fused_vectors, with_vectors};
pub(crate) use watched_pages::WatchedPages;

/// This machine's architecture, as in executable formats.
pub(crate) const ARCHITECTURE: &str = "x86_64";
/// Whether native executables can run.
pub(crate) const RUNS_EXECUTABLES: bool = true;
