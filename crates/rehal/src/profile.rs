//! Profiles of what devices do (`.ireeprof`).
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path =
//! #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
//! # let directory = tempfile::tempdir().unwrap();
//! # let output = directory.path().join("run.ireeprof");
//! use rehal::capture::{CaptureFile, CaptureOptions};
//! use rehal::device::DeviceOptions;
//! use rehal::profile::{ProfileData, ProfileFile, Profiling, ProfilingOptions, Report, ReportOptions};
//! use rehal::replay::{Replay, ReplayOptions};
//!
//! let plan = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?.plan()?;
//! let devices = DeviceOptions::default().open()?;
//! let replay = Replay::new(plan, &devices, &ReplayOptions::default())?;
//! let options = ProfilingOptions::new(&output, ProfileData::QUEUE_EVENTS | ProfileData::HOST_EXECUTION);
//! let profiling = Profiling::begin(&devices, &options)?;
//! replay.run(&mut [&mut profiling.records()])?;
//! profiling.end()?;
//!
//! let mut text = Vec::new();
//! ProfileFile::open(&output)?.print(&ReportOptions::default().report(Report::Dispatch), &mut text)?;
//! assert!(!text.is_empty());
//! # Ok(())
//! # }
//! ```

pub use rehal_devices::{ProfileFile, ProfiledRecords, Profiling, ProfilingOptions, RequestedData};
pub use rehal_hal::profile::{ProfileData, ProfileFilter};
pub use rehal_profile::{
    Tear as ProfileTear,
    report::{Format as ReportFormat, Report, ReportOptions},
    timeline::TimelineSummary,
    times::{DispatchTimes, FunctionTimes, TimedBy},
};
