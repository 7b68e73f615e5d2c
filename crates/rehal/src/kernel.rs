//! Kernels: those of a capture, and executables by themselves.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path =
//! #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
//! use rehal::capture::{CaptureFile, CaptureOptions};
//! use rehal::device::DeviceOptions;
//! use rehal::kernel::{Cut, KernelOptions, Kernels, SliceOptions};
//! use rehal::replay::{Replay, ReplayOptions};
//!
//! let plan = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?.plan()?;
//! // Without running it: distinct dispatches. `Kernels::from_replay` also measures them.
//! let kernels = Kernels::from_plan(&plan, &KernelOptions::default())?;
//! let kernel = &kernels.kernels[0];
//!
//! // A capture of the first dispatch of this kernel alone, with what it reads.
//! let replay = Replay::new(plan, &DeviceOptions::default().open()?, &ReplayOptions::default())?;
//! let cut = Cut::Dispatch { record: kernel.location.ordinal, occurrence: kernel.occurrence };
//! # let sink = tempfile::tempfile().unwrap();
//! let slice = replay.slice(&cut, &SliceOptions::default(), sink, &mut [])?;
//! assert_eq!(slice.name, kernel.name);
//! # Ok(())
//! # }
//! ```

pub use rehal_judge::{ComparedShape, Interval};
pub use rehal_kernels::{
    Caller, CapturedCode, CodeDispatch, CodeFunction, Constant, Disassembly, EntryPoint, ExecutableSource,
    Instruction, Kernel, KernelBinding, KernelOptions, KernelProcessor, KernelScaling, Kernels,
    LaunchArguments, LaunchBinding, Launches, LoadOptions, LoadedExecutable,
};
pub use rehal_replay::{Cut, Slice, SliceCheck, SliceOptions, SlicedRead};
