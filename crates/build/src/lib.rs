//! Sources to executables, and the search over them.
//!
//! - A [`Compiler`] compiles programs and their dispatches, and caches what it compiled.
//! - An [`ObservedKernel`] is written as a source file without a body; [`build_kernel`] compiles such a file
//!   to a library that replaces the function in a replay, and [`build_substitutes`] those that substitutions
//!   name.
//! - A [`Search`] tries the points of a [`SearchSpace`], variants of a source, for the fastest one.
//!
//! The crate must not depend on kernels of captures, flags or a terminal.

#![forbid(unsafe_code)]

mod compiler;
mod kernel;
mod platform;
mod search;

pub use compiler::{
    Compilation, Compiled, CompiledDispatch, Compiler, CompilerSetup, CompilerVersion, DumpKind,
    DumpedExecutables, ExecutableFunction, ExecutableVariant, ProgramExecutable, SourceSubstitutes,
    SubstituteFile, SubstituteFlags, SubstituteKind, cache_directory, check_unchanged, compile_dispatches,
    is_program_source, target_flags,
};
pub use kernel::{
    CompilerOptions, GpuLanguage, KernelDialect, KernelLanguage, KernelLibrary, ObservedBinding,
    ObservedKernel, ObservedShape, Shortage, build_kernel, build_substitutes, check_kernel_flags,
    kernel_compiler_version, memory_limit, substitute_sources,
};
pub use search::{
    BaseKind, BuiltPoint, GridSampler, ListSampler, Measured, PointSource, RandomSampler, Sampler, Search,
    SearchAxis, SearchEffort, SearchHost, SearchOptions, SearchPoint, SearchResult, SearchSpace, SearchStop,
    Trial, TrialFile, TrialOutcome, TrialPair,
};
