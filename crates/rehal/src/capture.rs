//! Captures: what a program gave to its devices.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path =
//! #     concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
//! use rehal::capture::{CaptureFile, CaptureOptions, RecordFilter};
//! use rehal::device::DeviceOptions;
//!
//! let capture = CaptureFile::open(path.as_ref(), &CaptureOptions::default())?;
//! let survey = capture.survey()?;
//! // Record by record, or as columns; both with filters.
//! let mut dispatches = RecordFilter::default();
//! dispatches.function = Some("*".into());
//! let table = capture.table(&dispatches)?;
//! println!("{} records, {} of which dispatch", survey.record_count, table.row_count());
//! assert!(capture.verdict(&DeviceOptions::default().open()?, &[]).is_replayable());
//! # Ok(())
//! # }
//! ```

pub use rehal_session::{
    CaptureBytes, CaptureDiff, CaptureFile, CaptureOptions, ChangeKind, ChecksumState, Damage,
    DataDifference, DiffOptions, DiffedCapture, DiffedExecutable, DispatchRow, DumpError, ElementDifference,
    ElementDifferences, ExecutableChange, ExecutableSurvey, ExternalFile, FailedOperation, FieldChange,
    FieldName, FieldValue, FileState, Format, FunctionChange, FunctionSurvey, Histogram, HistogramBin,
    ObjectKind, Occurrence, OperationChange, Progress, RecordFilter, RecordKind, RecordRow, RecordTable,
    Records, ScopeChange, ScopePath, ScopeSurvey, Survey, SurveyedBytes, Tear, TextColumn, Verdict, Version,
};
