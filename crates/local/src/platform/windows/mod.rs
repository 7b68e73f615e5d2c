//! Windows on x86-64: embedded executables run; system libraries do not.

mod kernel_stack;
mod memory;

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use windows_sys::Win32::System::Threading::GetCurrentProcessorNumber;

pub(crate) use kernel_stack::{KernelStack, is_overflow as is_stack_overflow};
pub(crate) use memory::{Mapping, WritableMapping};

fn unsupported(what: &str) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, format!("{what} is not in this build for Windows"))
}

/// A set of logical processors: none is known.
#[derive(Clone, Copy)]
pub(crate) struct Processors(Infallible);

impl Processors {
    pub(crate) fn contains(&self, _processor: u32) -> bool {
        match self.0 {}
    }
}

/// Not known here.
pub(crate) fn allowed_processors() -> Option<Processors> {
    None
}

/// The logical processor that the calling thread currently runs on.
pub(crate) fn processor_id() -> u32 {
    // SAFETY: takes no arguments and does not access our memory.
    unsafe { GetCurrentProcessorNumber() }
}

/// Fails.
pub(crate) fn pin_thread(_processors: &[u32]) -> io::Result<()> {
    Err(unsupported("pinning threads to processors"))
}

/// Fails.
pub(crate) fn announce_to_perf(_file: &File) -> io::Result<()> {
    Err(unsupported("a jitdump file"))
}

/// A shared library in memory: there is none.
pub(crate) struct LibraryFile(Infallible);

impl LibraryFile {
    pub(crate) fn new(_bytes: &[u8]) -> io::Result<Self> {
        Err(unsupported("a system library"))
    }

    pub(crate) fn path(&self) -> &Path {
        match self.0 {}
    }

    pub(crate) fn remove_from_disk(&mut self) {
        match self.0 {}
    }
}

/// Opens a library.
///
/// # Safety
/// Runs the library's initializers: the caller trusts its code as it trusts its own.
pub(crate) unsafe fn open_library(path: &OsStr) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the caller trusts the library.
    unsafe { libloading::Library::new(path) }
}

/// Pages that tell whether they are accessed: there are none.
pub(crate) struct WatchedPages(Infallible);

impl WatchedPages {
    pub(crate) fn new(_length: usize) -> Option<Arc<Self>> {
        None
    }

    pub(crate) fn memory(self: &Arc<Self>) -> rehal_base::HostMemory {
        match self.0 {}
    }

    pub(crate) fn watch(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn accessed(&self) -> io::Result<Vec<Range<usize>>> {
        match self.0 {}
    }
}
