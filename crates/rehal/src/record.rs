//! Recordings of the work of this program.
//!
//! A [`Recorder`] wraps devices: work that is given to the wrapped ones is performed, and recorded. A
//! [`Program`](crate::program::Program) records itself by
//! [`ProgramOptions::recording`](crate::program::ProgramOptions).
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! use rehal::capture::{CaptureFile, CaptureOptions};
//! use rehal::device::{BufferParams, DeviceOptions, QUEUE_AFFINITY_ANY};
//! use rehal::record::{FilePolicy, RecordOptions, Recorder};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("work.ireereplay");
//! let recorder = Recorder::create(&path, RecordOptions::default().file_policy(FilePolicy::CaptureAll))?;
//! let devices = recorder.wrap(&DeviceOptions::default().open()?)?;
//! {
//!     let _scope = recorder.scope("execute")?;
//!     let device = &devices.devices()[0];
//!     let buffer = device.allocate_buffer(BufferParams::default().mappable(), 16)?;
//!     let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, Default::default())?;
//!     device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).fill(&buffer, &[7], 0)?;
//!     done.wait(1, None)?;
//! }
//! // Reports the first error of the recording.
//! recorder.close()?;
//! let capture = CaptureFile::open(&path, &CaptureOptions::default())?;
//! assert_eq!(capture.survey()?.scopes[0].name, b"execute");
//! # Ok(())
//! # }
//! ```

pub use crate::program::RecordingOptions;
pub use rehal_judge::ElementTypeRule;
pub use rehal_replay::{
    CaptureSink, FilePolicy, FileValidation, LedgerRecording, OpenScope, RecordOptions, Recorder,
};
