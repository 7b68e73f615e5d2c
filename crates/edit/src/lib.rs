//! Captures to captures: what differs between two, and what is left of one.
//!
//! - [`diff_captures`] tells what differs between two captures; it runs nothing.
//! - [`redact`] writes a capture with random numbers in place of its data.
//! - [`reduce`] reduces a capture to what a check needs.
//!
//! The crate must not depend on devices, flags or a terminal.

#![forbid(unsafe_code)]

mod diff;
pub mod fuzzing;
mod redact;
mod reduce;

pub use diff::DiffReport;
pub use diff::{
    CaptureDiff, ChangeKind, DataDifference, DiffError, DiffOptions, DiffedCapture, DiffedExecutable,
    ExecutableChange, FieldChange, FieldName, FieldValue, FunctionChange, ObjectKind, Occurrence,
    OperationChange, ScopeChange, ScopePath, diff_captures,
};
pub use redact::{
    ChangedCount, DataRange, DataSelector, KeptData, RedactDecision, RedactOptions, RedactRule,
    RedactedContent, RedactedData, RedactedNames, RedactedRange, Redaction, UnknownType, WorkgroupCounts,
    check_redacted, redact, workgroup_count_functions,
};
pub use reduce::{
    ReduceHost, ReduceOptions, ReduceProgress, ReduceSize, ReduceStop, Reduction, SlicedDispatch,
    WrongDispatch, WrongResult, has_wrong_result, reduce, wrong_result,
};
