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

#[doc(hidden)]
pub use crate::capture_activity::{BufferColumns, BufferSummary, CaptureActivity};
pub use crate::capture_file::{CaptureFile, CaptureOptions, DumpError};
#[doc(hidden)]
pub use crate::record_table::record_table;
pub use crate::record_table::{RecordTable, TextColumn};
#[doc(hidden)]
pub use crate::records::RecordCheck;
pub use crate::records::{DispatchRow, RecordFilter, RecordRow, Records};
pub use crate::survey::{
    ExecutableSurvey, ExternalFile, FailedOperation, FunctionSurvey, RecordKind, ScopeSurvey, Survey,
    SurveyedBytes,
};
#[doc(hidden)]
pub use crate::survey::{MAX_FAILED, MAX_WORKGROUP_COUNTS};
pub use crate::verdict::{FileState, Verdict, memory_warning};
pub use rehal_capture::{CaptureBytes, ChecksumState, Damage, Tear, Version};
pub use rehal_edit::{
    CaptureDiff, ChangeKind, DataDifference, DiffOptions, DiffedCapture, DiffedExecutable, ExecutableChange,
    FieldChange, FieldName, FieldValue, FunctionChange, ObjectKind, Occurrence, OperationChange, ScopeChange,
    ScopePath,
};
pub use rehal_judge::{ElementDifference, ElementDifferences, Histogram, HistogramBin};
pub use rehal_replay::MemoryNeeds;
pub use rehal_replay::dump::{Format, Progress};
