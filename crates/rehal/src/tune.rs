//! Kernels and results compared: with a ledger, with another replay, with a replacement.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path =
//! #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
//! use rehal::capture::{CaptureFile, CaptureOptions};
//! use rehal::device::{DeviceOptions, DeviceSpec};
//! use rehal::replay::{Replay, ReplayOptions};
//! use rehal::tune::{Outcome, VerifyOptions, VerifySides, verify_lockstep};
//!
//! let plan = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?.plan()?;
//! let replay = |device: &str| {
//!     let devices = DeviceOptions::for_devices(vec![DeviceSpec::find(device)?]).open()?;
//!     Replay::new(plan.clone(), &devices, &ReplayOptions::default())
//! };
//! let (expected, actual) = (replay("local-sync")?, replay("local-task")?);
//! let (expected_observers, observers) = (&mut [], &mut []);
//! let sides = VerifySides { expected: &expected, actual: &actual, expected_observers, observers };
//! assert_eq!(verify_lockstep(sides, &VerifyOptions::default())?.outcome(), Outcome::Same);
//! # Ok(())
//! # }
//! ```

pub use rehal_edit::DiffReport;
pub use rehal_judge::{
    CacheState, CheckedKernel, CompareOptions, CompareSubject, Comparison, ComparisonReport, Conditions,
    Difference, DispatchPlace, InferredType, KernelComparer, Ledger, LedgerContents, LedgerOptions,
    LedgerWriter, NumberSummary, OutOfBoundsWrite, Outcome, Place, RoundedFunction, RoundingError,
    ShapeTiming, StaticWrite, Stopped, Timing, TimingVerdict, Tolerance, TypeSource, Unmatched, Verification,
    VerifyOptions, VerifySides, verify_against, verify_captures, verify_lockstep, watch_memory,
};
