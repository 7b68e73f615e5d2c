//! Kernels as source files: stubs with the ABI of a captured function, and their compilation to libraries
//! that the CPU drivers load in place of an executable.
//!
//! A template (`stub.c.in`, `stub.rs.in`) is filled with the signature of a function and with what a catalog
//! says of its dispatches. It declares the structures of the library ABI and asserts their sizes, so that the
//! source needs no other file. A source or an object may also have plain functions (`dialect.rs`). A file
//! is compiled before a replay is created and then is a replacement in memory, so `replay` and the drivers
//! know nothing of sources. Signatures are compared where all replacements are (`replay/src/prepare.rs`).

mod compile;
mod dialect;
mod gpu_stub;
mod shortage;
mod stub;

use std::path::Path;

use rehal_base::Range;
use rehal_hal::FunctionInfo;
use rehal_judge::stats::Interval;
use serde::Serialize;

pub use compile::{
    CompilerOptions, KernelLibrary, build_kernel, build_substitutes, check_kernel_flags,
    kernel_compiler_version, substitute_sources,
};
pub use dialect::KernelDialect;
pub use gpu_stub::GpuLanguage;
pub use shortage::{Shortage, memory_limit};

/// The language of a kernel's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelLanguage {
    /// C, compiled by the system's compiler.
    C,
    /// Rust, compiled by `rustc`.
    Rust,
}

/// A function of a capture, and what was observed of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObservedKernel {
    /// The ids of the executables that have it, all with the same signature.
    pub executable_ids: Vec<u64>,
    /// Whether a replacement is selected by the id of the executable, which is then the only one. Otherwise
    /// it is selected by the name of the function.
    pub is_selected_by_id: bool,
    /// Their format, such as `embedded-elf-x86_64`.
    pub format: String,
    /// The driver to replay it on, if libraries for CPUs cannot replace its executables there.
    pub driver: Option<String>,
    /// The processor that they are compiled for, such as `sm_80`, if their format or their code tells.
    pub target: Option<String>,
    /// The extensions of files with code that may replace it.
    pub extensions: &'static [&'static str],
    /// Its signature.
    pub function: FunctionInfo,
    /// The specialization constants of the executables.
    pub specialization_constants: Vec<u32>,
    /// Its distinct dispatches.
    pub shapes: Vec<ObservedShape>,
}

/// Dispatches with the same workgroups, constants and bindings.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ObservedShape {
    /// Number of dispatches.
    pub count: u64,
    /// The ordinal of the record of the first.
    pub record: u32,
    /// Number of workgroups in x, y and z, if it is known.
    pub workgroup_count: Option<[u32; 3]>,
    /// Dynamic workgroup-local memory in bytes.
    pub dynamic_local_memory: u32,
    /// 32-bit constants.
    pub constants: Vec<u32>,
    /// The bindings, by ordinal.
    pub bindings: Vec<ObservedBinding>,
    /// Time of all of them in nanoseconds, if measured: the lower quartile of replays.
    pub time_ns: Option<u64>,
    /// Its 95 % interval, if there were enough replays.
    pub interval_ns: Option<Interval>,
    /// Number of replays that were timed.
    pub sample_count: u64,
}

/// A binding of an [`ObservedShape`].
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ObservedBinding {
    /// Number of bytes.
    pub length: u64,
    /// The first binding with some of the same bytes, by ordinal.
    pub alias_of: Option<u32>,
    /// Whether a dispatch changed bytes of it, if that is known.
    pub is_written: Option<bool>,
    /// From the first to the last byte of it that a dispatch changed.
    pub changed: Option<Range>,
    /// The elements or bytes that it changed, in order, if they are known.
    #[serde(skip)]
    pub changed_ranges: Option<Vec<Range>>,
    /// The pages of it that a dispatch accessed, in order, if they are known.
    #[serde(skip)]
    pub accessed_ranges: Option<Vec<Range>>,
}

impl KernelLanguage {
    /// The language of a file, by its extension: `.c` or `.rs`.
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "c" => Some(Self::C),
            "rs" => Some(Self::Rust),
            _ => None,
        }
    }

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Rust => "rs",
        }
    }
}

impl ObservedKernel {
    /// A function without dispatches.
    pub fn new(executable_ids: Vec<u64>, format: impl Into<String>, function: FunctionInfo) -> Self {
        Self {
            executable_ids,
            is_selected_by_id: false,
            format: format.into(),
            driver: None,
            target: None,
            extensions: &[],
            function,
            specialization_constants: Vec::new(),
            shapes: Vec::new(),
        }
    }

    /// Whether bytes of a binding changed in some dispatch; `None` if that is unknown and did not in the
    /// others.
    fn is_written(&self, binding: usize) -> Option<bool> {
        let mut seen =
            self.shapes.iter().filter_map(|shape| shape.bindings.get(binding)).map(|it| it.is_written);
        let first = seen.next()?;
        seen.fold(first, |all, it| match (all, it) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        })
    }

    /// From the first to the last byte of a binding that some dispatch changed.
    fn changed(&self, binding: usize) -> Option<Range> {
        let ranges = self.shapes.iter().filter_map(|shape| shape.bindings.get(binding)?.changed);
        ranges.reduce(|one, other| {
            let offset = one.offset.min(other.offset);
            Range { offset, length: one.end().max(other.end()) - offset }
        })
    }

    /// Whether some bindings had bytes in common in some dispatch.
    fn overlaps(&self) -> bool {
        self.shapes.iter().any(|shape| shape.bindings.iter().any(|it| it.alias_of.is_some()))
    }
}
