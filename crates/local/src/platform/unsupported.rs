//! Fallback for all other platforms: it compiles, and fails with `Unsupported`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::platform::{Protection, VectorWork};

/// This machine's architecture, as in executable formats.
pub(crate) const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"aarch64" => "arm_64",
    b"arm" => "arm_32",
    b"x86" => "x86_32",
    _ => std::env::consts::ARCH,
};
/// Whether native executables can run.
pub(crate) const RUNS_EXECUTABLES: bool = false;

fn unsupported(what: &str) -> io::Error {
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("{what} is supported only on Linux on x86-64 and aarch64; this is {os} on {architecture}"),
    )
}

#[derive(Clone, Copy)]
pub(crate) enum Processors {}

impl Processors {
    pub(crate) fn contains(&self, _processor: u32) -> bool {
        match *self {}
    }
}

pub(crate) fn allowed_processors() -> Option<Processors> {
    None
}

pub(crate) fn pin_thread(_processors: &[u32]) -> io::Result<()> {
    Err(unsupported("pinning threads to processors"))
}

pub(crate) fn has_fused_vectors(_lanes: usize) -> bool {
    false
}

pub(crate) fn tile_of_f32() -> [i64; 3] {
    [8, 8, 4]
}

pub(crate) fn tile_of_i8() -> [i64; 3] {
    [8, 8, 4]
}

pub(crate) fn with_vectors<W: VectorWork>(work: W) -> W::Output {
    work.run(false)
}

pub(crate) enum WritableMapping {}

impl WritableMapping {
    pub(crate) fn new(_length: usize) -> io::Result<Self> {
        Err(unsupported("loading native executables"))
    }

    pub(crate) fn address(&self) -> usize {
        match *self {}
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match *self {}
    }

    pub(crate) fn protect(self, _runs: &[(Range<usize>, Protection)]) -> io::Result<Mapping> {
        match self {}
    }
}

pub(crate) fn announce_to_perf(_file: &File) -> io::Result<()> {
    Err(unsupported("a jitdump file"))
}

pub(crate) enum Mapping {}

impl Mapping {
    pub(crate) fn address(&self) -> usize {
        match *self {}
    }

    pub(crate) fn length(&self) -> usize {
        match *self {}
    }
}

pub(crate) enum LibraryFile {}

impl LibraryFile {
    pub(crate) fn new(_bytes: &[u8]) -> io::Result<Self> {
        Err(unsupported("loading system libraries from memory"))
    }

    pub(crate) fn path(&self) -> &Path {
        match *self {}
    }

    pub(crate) fn remove_from_disk(&mut self) {
        match *self {}
    }
}

/// # Safety
/// Runs the library's initializers: the caller trusts its code as it trusts its own.
pub(crate) unsafe fn open_library(path: &OsStr) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the caller trusts the library.
    unsafe { libloading::Library::new(path) }
}

pub(crate) fn features() -> Vec<(u32, &'static str, bool)> {
    Vec::new()
}

pub(crate) fn processor_id() -> u32 {
    0
}

/// Denormals are kept here.
pub(crate) struct KernelMode;

impl KernelMode {
    pub(crate) fn enter(_flushes: bool) -> Self {
        Self
    }
}

/// No code that could lack a feature runs here.
pub(crate) fn missing_feature(_code: &[u8], _features: &[(u32, &str, bool)]) -> Option<&'static str> {
    None
}

pub(crate) struct KernelStack(());

impl KernelStack {
    pub(crate) fn take(_bytes: usize) -> io::Result<Self> {
        Ok(Self(()))
    }

    pub(crate) fn give_back(self) {}

    pub(crate) fn run<F: FnOnce()>(&mut self, work: F) {
        work();
    }
}

pub(crate) fn is_stack_overflow(_address: usize, _stack_pointer: usize) -> bool {
    false
}

pub(crate) enum WatchedPages {}

impl WatchedPages {
    pub(crate) fn new(_length: usize) -> Option<std::sync::Arc<Self>> {
        None
    }

    pub(crate) fn memory(self: &std::sync::Arc<Self>) -> rehal_base::HostMemory {
        match **self {}
    }

    pub(crate) fn watch(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn accessed(&self) -> io::Result<Vec<Range<usize>>> {
        match *self {}
    }
}
