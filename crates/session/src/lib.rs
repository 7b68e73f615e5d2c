//! What a program that embeds rehal calls: open devices, record what is done with them, replay captures, survey them.
//!
//! Options are plain structs with documented defaults; errors are [`Error`]s with a status code, a message, where it
//! happened and what to do. This crate must never know a flag, print, or end the process. The tools and the bindings to
//! other languages are thin layers over it, and it re-exports all that a program needs.

#![deny(unsafe_code)]

mod capture_file;
mod crash;
mod devices;
mod scope_timer;
mod survey;
mod verdict;

pub use capture_file::{CaptureFile, CaptureOptions, DumpError};
pub use crash::CrashReports;
pub use devices::DeviceOptions;
pub use scope_timer::{ScopeTimer, find_scope};
pub use survey::{ExecutableSurvey, ExternalFile, FunctionSurvey, ScopeSurvey, Survey, SurveyedBytes};
pub use verdict::{FileState, Verdict};

pub use rehal_base::{Error, Result, StatusCode};
pub use rehal_capture::{CaptureBytes, Tear, Version};
pub use rehal_hal::{Device, DeviceGroup};
pub use rehal_replay::dump::{Format, Progress};
pub use rehal_replay::{
    CaptureSink, DEFAULT_BYTES_LIMIT, ExecutableRecord, FilePolicy, FileRecord, FileRemap, FileSource,
    FileValidation, HostRead, HostReadLog, Observer, OpenScope, Place, Plan, RecordOptions, Recorder, Replay,
    ReplayOptions, Scope, Selector, Substitution, Validation,
};

/// Buffers, queues and the other objects of devices, for programs that drive devices themselves.
pub use rehal_hal as hal;
