//! Captures: what a program gave to its devices.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path =
//! #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
//! use rehal::capture::{CaptureFile, CaptureOptions, RecordColumns};
//! use rehal::device::DeviceOptions;
//!
//! let capture = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?;
//! let survey = capture.survey()?;
//! // Record by record, or as columns.
//! let columns = capture.record_columns(&mut |_| {})?;
//! let dispatches = columns.function.iter().filter(|function| **function != RecordColumns::NONE).count();
//! println!("{} records, {dispatches} of which dispatch", survey.record_count);
//! assert!(capture.verdict(&DeviceOptions::default().open()?, &[]).is_replayable());
//! # Ok(())
//! # }
//! ```

pub use rehal_session::{
    CaptureBytes, CaptureFile, CaptureOptions, DispatchRow, ExecutableSurvey, ExternalFile, FunctionSurvey,
    RecordColumns, RecordRow, Records, ScopeSurvey, Survey, Verdict,
};
