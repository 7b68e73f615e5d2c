//! Checks the numbers of replays: ledgers of what each dispatch wrote and each host read saw, and their
//! comparison; makes kernels that replace captured ones; and compares captures.
//!
//! - A [`LedgerWriter`] observes a trusted replay and writes a ledger, which a [`Ledger`] reads.
//! - [`verify_against`] compares a replay with a ledger, [`verify_lockstep`] two replays with each other,
//!   dispatch by dispatch, [`verify_captures`] those of two captures of one program; each returns a
//!   [`Verification`], which names the first difference.
//! - An [`ObservedKernel`] is written as a source file without a body; [`build_kernel`] compiles such a file
//!   to a library that replaces the function in a replay, and [`build_substitutes`] those that substitutions
//!   name.
//! - A [`KernelRecorder`] writes dispatches that a replay performs as files that stand by themselves, each
//!   with a [`KernelDescriptor`].
//! - [`diff_captures`] tells what differs between two captures; it runs nothing.
//! - [`redact`] writes a capture with random numbers in place of its data.
//! - [`reduce`] reduces a capture to what a check needs.
//! - A [`KernelComparer`] tells whether a replacement computes the same as a captured kernel, and whether it
//!   is faster.
//! - A [`Search`] tries the points of a [`SearchSpace`], variants of a source, for the fastest one.
//!
//! The first two are observers of `replay`, and use only what it passes to every observer. Used by `session`;
//! the crate must not depend on drivers, flags or a terminal.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "an error ends the reading of a file; not a hot path")]

mod bytes;
mod compare;
mod diff;
mod element_types;
mod elements;
mod float_format;
pub mod fuzzing;
mod kernel;
mod kernel_record;
mod ledger;
mod new_memory;
mod number_summary;
mod redact;
mod reduce;
mod runner;
mod search;
mod tolerance;
mod verify;

pub use compare::{
    CacheState, CheckedKernel, Clock, CompareOptions, CompareSubject, ComparedShape, Comparison, Conditions,
    DispatchSpans, DispatchTime, Interval, Judgment, KernelComparer, Modes, PartTiming, RunningCode,
    ShapeTiming, SideTiming, Statistic, Stopped, Timing, TimingVerdict, displace,
};
pub use diff::{
    CaptureDiff, ChangeKind, DataDifference, DiffError, DiffOptions, DiffedCapture, DiffedExecutable,
    ExecutableChange, FieldChange, FieldName, FieldValue, FunctionChange, ObjectKind, Occurrence,
    OperationChange, ScopeChange, ScopePath, diff_captures,
};
pub use element_types::type_in_name;
pub use elements::{ElementDifference, ElementDifferences, Histogram, HistogramBin};
pub use kernel::{
    CompilerOptions, KernelDialect, KernelLanguage, KernelLibrary, ObservedBinding, ObservedKernel,
    ObservedShape, Shortage, TemporaryDirectory, TemporaryFile, build_kernel, build_substitutes,
    check_kernel_flags, kernel_compiler_version, memory_limit, substitute_sources,
};
pub use kernel_record::{
    DescribedBinding, DescribedFiles, DescribedSource, KernelDescriptor, KernelRecordOptions, KernelRecorder,
    SnapshotDifference, compare_snapshot,
};
pub use ledger::{
    DispatchDigests, Entries, Entry, EntryKind, EntryRange, Ledger, LedgerContents, LedgerOptions,
    LedgerWriter, Piece, capture_digest,
};
pub use number_summary::NumberSummary;
pub use redact::{
    ChangedCount, DataRange, DataSelector, KeptData, RedactDecision, RedactOptions, RedactRule,
    RedactedContent, RedactedData, RedactedNames, RedactedRange, Redaction, UnknownType, WorkgroupCounts,
    check_redacted, redact, workgroup_count_functions,
};
pub use reduce::{
    ReduceHost, ReduceOptions, ReduceProgress, ReduceSize, ReduceStop, Reduction, SlicedDispatch,
    WrongDispatch, WrongResult, has_wrong_result, reduce, wrong_result,
};
pub use runner::{
    Asker, Job, JobEnd, JobLimits, JobOutcome, JobProgram, JobProgress, KeptOutput, LocalRunner, Printed,
    Runner, Worker,
};
pub use search::{
    BaseKind, BuiltPoint, GridSampler, ListSampler, Measured, PointSource, RandomSampler, Sampler, Search,
    SearchAxis, SearchEffort, SearchHost, SearchOptions, SearchPoint, SearchResult, SearchSpace, SearchStop,
    Trial, TrialOutcome, TrialPair,
};
pub use tolerance::{ElementTypeRule, Tolerance};
pub use verify::{
    Difference, DispatchPlace, InferredType, OutOfBoundsWrite, Outcome, Place, REDZONE_BYTES,
    RoundedFunction, RoundingError, StaticWrite, TypeSource, Unmatched, Verification, VerifyOptions,
    VerifySides, verify_against, verify_captures, verify_elements, verify_lockstep, watch_memory,
};
