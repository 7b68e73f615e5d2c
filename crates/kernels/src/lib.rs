//! One kernel: found in a capture, recorded as files, run by itself, compared with what its device can do.
//!
//! - [`Kernels`] lists the kernels of a capture.
//! - A [`KernelRecorder`] writes dispatches that a replay performs as files that stand by themselves, each
//!   with a [`KernelDescriptor`]; a [`KernelReplay`] runs them.
//! - [`LoadedExecutable`] loads an executable by itself and dispatches its functions.
//! - A [`Disassembly`] has the machine code of a function, with the constants that it loads.
//! - A [`MachineRoof`] is what a device can do at most; [`Roofs`] say how near to that kernels come.
//!
//! The crate must not depend on flags or a terminal.

#![deny(unsafe_code)]

mod disassembly;
pub mod fuzzing;
mod kernel_record;
mod kernel_replay;
mod kernels;
mod loaded_executable;
mod roof;

pub use disassembly::{Caller, CapturedCode, CodeDispatch, CodeFunction, Constant, Disassembly, Instruction};
pub use kernel_record::{
    DescribedBinding, DescribedFiles, DescribedSource, KernelDescriptor, KernelRecordOptions, KernelRecorder,
    SnapshotDifference, StagedKernelRecords, compare_snapshot,
};
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
pub use roof::{BytesSource, KernelRoof, MachineDescription, MachineRoof, RoofConditions, Roofs};
