//! The embedding API of rehal: opens devices, runs programs on them, and records, replays and surveys
//! captures.
//!
//! - [`CaptureFile`] opens a capture: surveys it, checks whether it can be replayed here, dumps it, plans it,
//!   and compares it with another.
//! - [`Replay`] runs a plan on devices and notifies [`Observer`]s.
//! - A [`Dialogue`] lets another process, or another language, see and steer a replay.
//! - [`Program`] loads compiled modules, calls their functions, and records their device work.
//! - [`LoadedExecutable`] loads an executable by itself and dispatches its functions.
//! - [`ProfileFile`] opens a device profile, prints reports of it and writes its timeline.
//! - [`Kernels`] lists the kernels of a capture; an [`ObservedKernel`] is written as a source without a body,
//!   which [`build_kernel`] compiles to a library that replaces the kernel in a replay.
//! - [`KernelRecording`] writes each kernel of a replay as files that stand by themselves, which
//!   [`KernelReplay`] runs.
//! - A [`MachineRoof`] is what a device can do at most; [`Roofs`] say how near to that kernels come.
//! - [`KernelComparer`] tells whether a replacement of a kernel computes the same, and whether it is faster.
//! - [`LedgerWriter`] writes what a replay writes and reads into a ledger; [`verify_against`] compares a
//!   replay with a [`Ledger`], [`verify_lockstep`] two replays with each other, [`watch_memory`] finds
//!   accesses outside of bindings.
//! - A [`Search`] tries variants of a kernel for the fastest one.
//! - [`redact`] writes a capture with random numbers in place of the data of its program.
//! - [`reduce`] reduces a capture to what a check needs.
//! - [`Compiler`] compiles programs.
//! - [`Recorder`] records a program that drives devices itself.
//!
//! Options are plain structs with documented defaults; errors are [`Error`]s with a status code, a message,
//! context and advice. The crate must not depend on flags, and never prints or ends the process. The tools
//! and the bindings to other languages are thin layers over it, and it re-exports everything that a program
//! needs.
//!
//! Everything is `Send`, and objects own what they need. A `Function` shares its program and keeps its
//! globals alive; they are freed when the program is closed, which fails while functions are alive. Crash
//! reports are installed only on request. Naming a plugin is the only unsafe function.

#![deny(unsafe_code)]

mod capture_activity;
mod capture_file;
mod compiler;
mod crash;
mod devices;
mod dialogue;
#[cfg(feature = "vulkan")]
mod executable_code;
mod executable_functions;
mod kernel_replay;
mod kernels;
mod loaded_executable;
mod named_path;
mod profile_file;
mod profiling;
mod program;
mod record_table;
mod records;
mod reports;
mod roof;
mod scope_timer;
mod static_memory;
mod survey;
mod verdict;
mod written_bindings;

pub use capture_activity::{BufferSummary, CaptureActivity};
pub use capture_file::{CaptureFile, CaptureOptions, DumpError};
pub use compiler::{
    Compilation, Compiled, CompiledDispatch, Compiler, CompilerSetup, CompilerVersion, DumpKind,
    DumpedExecutables, ExecutableFunction, ExecutableVariant, ProgramExecutable, SourceSubstitutes,
    SubstituteFile, SubstituteFlags, SubstituteKind, check_unchanged, compile_dispatches, is_program_source,
    target_flags,
};
pub use crash::CrashReports;
pub use devices::{
    DRIVER_PARAMETERS, DeviceOptions, DeviceSpec, compiler_targets, driver_of_files, driver_of_format,
    drivers, drivers_with, find_driver,
};
pub use dialogue::{
    Answer, AnsweredRead, AskedBinding, AskedDispatch, AskedExecutable, AskedHostRead, AskedPlace, Dialogue,
    Question, ReplayQuestions,
};
#[cfg(feature = "vulkan")]
pub use executable_code::{SpirvFunction, spirv_functions};
pub use executable_functions::executable_functions;
pub use kernel_replay::{KernelFiles, KernelReplay, KernelReplayOptions};
pub use kernels::{
    BindingFile, DispatchFile, DispatchFiles, FunctionCost, FunctionNames, FunctionTiming, Kernel,
    KernelBinding, KernelOptions, KernelProcessor, KernelRecording, KernelRecords, KernelScaling, Kernels,
    RecordedKernel, ReplayComparison, check_kernel_records, compare_replays, dispatch_clock, function_costs,
};
pub use loaded_executable::{
    EntryPoint, ExecutableSource, LaunchArguments, LaunchBinding, Launches, LoadOptions, LoadedExecutable,
    MAX_LAUNCHES,
};
pub use named_path::NamedPath;
pub use profile_file::ProfileFile;
pub use profiling::{ProfiledRecords, Profiling, ProfilingOptions, RequestedData};
pub use program::{
    Batch, Calls, Expected, Function, MappedValue, ModuleExecutable, ModuleMode, ModuleSource, ModuleTest,
    ModuleTests, Offer, ParameterFile, ParameterOptions, PendingCall, PreparedBatch, Program, ProgramModule,
    ProgramOptions, RecordingOptions, SubstituteBuilder, SubstitutedExecutable, TestOutcome, TextSink,
    ValueText, format_value, input_of_bytes, replaced_functions, substitute_executables, type_of_value,
    with_value_bytes, with_value_memory,
};
pub use record_table::{RecordTable, TextColumn, record_table};
pub use records::{DispatchRow, RecordCheck, RecordFilter, RecordRow, Records};
pub use reports::{ComparisonReport, DiffReport, Findings, Rows, VerifyReport, cache_name};
pub use roof::{BytesSource, KernelRoof, MachineDescription, MachineRoof, RoofConditions, Roofs};
pub use scope_timer::{ScopeTimer, dispatch_scope, find_scope};
pub use static_memory::StaticMemoryWatch;
pub use survey::{
    ExecutableSurvey, ExternalFile, FailedOperation, FunctionSurvey, MAX_FAILED, MAX_WORKGROUP_COUNTS,
    RecordKind, ScopeSurvey, Survey, SurveyedBytes,
};
pub use verdict::{FileState, Verdict};
pub use written_bindings::written_bindings;

pub use rehal_base::terms::{Formula, FormulaFault};
pub use rehal_base::{
    Advice, Context, ElementType, Error, FileKind, HostMemory, Numerical, Range, Remedy, Result, StatusCode,
    keep_freed_memory,
};
pub use rehal_capture::{CaptureBytes, ChecksumState, Damage, Tear, Version};
pub use rehal_hal::profile::process_cpu_ns;
pub use rehal_hal::profile::{ProfileData, ProfileFilter};
pub use rehal_hal::{Device, DeviceGroup, NeededWorkgroups, WorkgroupSchedule};
pub use rehal_local::executable::{ElfCode, FunctionCode, infer_format};
pub use rehal_local::watch_buffer;
pub use rehal_local::{LOCAL_TASK, LocalSyncOptions, LocalTaskOptions, Topology, WorkerOptions, Workers};
pub use rehal_params::{ExternalFiles, FileMode};
pub use rehal_profile::Tear as ProfileTear;
pub use rehal_profile::activity;
pub use rehal_profile::report::{Format as ReportFormat, Report, ReportOptions};
pub use rehal_profile::timeline::TimelineSummary;
pub use rehal_profile::times::{DispatchTimes, FunctionTimes, TimedBy};
pub use rehal_replay::dump::{Format, Progress};
pub use rehal_replay::{
    AccessKind, CalledFunction, DispatchedFunction, Incomplete, LiveBuffers, MAX_RACES, Overlap, PlanOptions,
    Race, RaceOperation, RaceOptions, Races, WrittenBindings,
};
pub use rehal_replay::{
    AccessedRange, Candidate, CaptureSink, Code, Cut, DEFAULT_BYTES_LIMIT, DispatchOperation, ExecutableCode,
    ExecutableNames, ExecutableRecord, FastForward, FileContents, FileIdentity, FilePolicy, FileRecord,
    FileRemap, FileSource, FileValidation, FileWrites, FindWritten, HostRead, HostReadLog, LedgerRecording,
    Named, Observer, OpenScope, Operation, Plan, PlannedBinding, PlannedDispatch, RecordLocation,
    RecordOptions, Recorder, Replacement, Replay, ReplayOptions, ReplayOrder, ResolvedSubstitutions, Scope,
    Selector, Slice, SliceCheck, SliceOptions, SliceSet, SlicedRead, Substitute, Substitution, Validation,
    WatchBuffer, resolve_path,
};
pub use rehal_roof::{Bandwidth, CacheLevel, Peak, Rate};

pub use rehal_judge::{JudgeOptions, ProcessJudgment, Side, check_times, judge_processes};
pub use rehal_replay::{DataKind, NameKind, Rewritten};
pub use rehal_tune::{
    Asker, Job, JobEnd, JobLimits, JobOutcome, JobProgram, JobProgress, KeptOutput, LocalRunner, Printed,
    Runner, Worker,
};
pub use rehal_tune::{
    BaseKind, BuiltPoint, GridSampler, ListSampler, Measured, PointSource, RandomSampler, Sampler, Search,
    SearchAxis, SearchEffort, SearchHost, SearchOptions, SearchPoint, SearchResult, SearchSpace, SearchStop,
    Trial, TrialOutcome, TrialPair,
};
pub use rehal_tune::{
    CacheState, CheckedKernel, Clock, CompareOptions, CompareSubject, ComparedShape, Comparison, Conditions,
    Interval, Judgment, KernelComparer, Modes, PartTiming, ShapeTiming, SideTiming, Statistic, Stopped,
    Timing, TimingVerdict,
};
pub use rehal_tune::{
    CaptureDiff, ChangeKind, DataDifference, DiffOptions, DiffedCapture, DiffedExecutable, ExecutableChange,
    FieldChange, FieldName, FieldValue, FunctionChange, ObjectKind, Occurrence, OperationChange, ScopeChange,
    ScopePath,
};
pub use rehal_tune::{
    ChangedCount, DataRange, DataSelector, KeptData, RedactDecision, RedactOptions, RedactRule,
    RedactedContent, RedactedData, RedactedNames, RedactedRange, Redaction, UnknownType, WorkgroupCounts,
    check_redacted, redact, workgroup_count_functions,
};
pub use rehal_tune::{
    CompilerOptions, KernelDialect, KernelLanguage, KernelLibrary, ObservedBinding, ObservedKernel,
    ObservedShape, TemporaryDirectory, TemporaryFile, build_kernel, build_substitutes, check_kernel_flags,
    kernel_compiler_version, substitute_sources,
};
pub use rehal_tune::{
    DescribedBinding, DescribedFiles, DescribedSource, KernelDescriptor, KernelRecordOptions,
    SnapshotDifference,
};
pub use rehal_tune::{
    Difference, DispatchPlace, ElementDifference, ElementDifferences, ElementTypeRule, Histogram,
    HistogramBin, InferredType, Ledger, LedgerContents, LedgerOptions, LedgerWriter, NumberSummary,
    OutOfBoundsWrite, Outcome, Place, REDZONE_BYTES, RoundedFunction, RoundingError, StaticWrite, Tolerance,
    TypeSource, Unmatched, Verification, VerifyOptions, VerifySides, capture_digest, type_in_name,
    verify_against, verify_captures, verify_elements, verify_lockstep, watch_memory,
};
pub use rehal_tune::{
    ReduceHost, ReduceOptions, ReduceProgress, ReduceSize, ReduceStop, Reduction, SlicedDispatch,
    WrongDispatch, WrongResult, has_wrong_result, reduce, wrong_result,
};
pub use rehal_values::{Equality, TensorType};
pub use rehal_vm::{Value, ValueKind};
#[cfg(feature = "vulkan")]
pub use rehal_vulkan::{
    DebugMessage, DebugSeverity, DebugSink, DispatchAbis, VulkanDriverOptions, VulkanOptions,
};

/// Buffers, queues and other device objects, for programs that drive devices themselves.
pub use rehal_hal as hal;

/// The workers of CPU devices: their selection and placement.
pub use rehal_local::topology;

/// Modules, values and invocations, for programs that provide their own modules.
pub use rehal_vm as vm;
