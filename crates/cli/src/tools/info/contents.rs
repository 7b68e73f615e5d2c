//! The report: what a capture contains, and whether it can be replayed here.

use std::path::Path;

use rehal::capture::{
    CaptureFile, ExecutableSurvey, ExternalFile, FailedOperation, FileState, MemoryNeeds, RecordKind,
    ScopeSurvey, Survey, SurveyedBytes, Verdict,
};
use rehal_base::Error;
use rehal_capture::{ChecksumState, Damage, Tear, Version};
use serde::{Serialize, Serializer};

use crate::advice;

/// The report on a capture: sizes in bytes, names as text.
#[derive(Serialize)]
pub(super) struct Info<'a> {
    #[serde(flatten)]
    pub contents: Contents<'a>,
    pub replay: Replayability<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub substitutes: Option<Substitutes>,
}

/// Whether replays would accept the replacements that flags name.
#[derive(Clone, Serialize)]
pub(in crate::tools) struct Substitutes {
    pub accepted: bool,
    #[serde(serialize_with = "reason")]
    pub error: Option<Error>,
}

/// The contents of a capture, whatever the machine.
#[derive(Serialize)]
pub(in crate::tools) struct Contents<'a> {
    #[serde(serialize_with = "path")]
    pub path: &'a Path,
    pub version: Version,
    pub size_bytes: u64,
    pub closed: bool,
    pub tear: Option<Tear>,
    pub checksums: Checksums<'a>,
    pub counts: Counts,
    pub failed_operations: &'a [FailedOperation],
    pub records: &'a [RecordKind],
    pub scopes: &'a [ScopeSurvey],
    pub executables: &'a [ExecutableSurvey],
    pub bytes: Bytes,
    pub external_files: Vec<File<'a>>,
}

#[derive(Serialize)]
pub(in crate::tools) struct Checksums<'a> {
    pub state: ChecksumState,
    pub damage: &'a [Damage],
}

#[derive(Serialize)]
pub(in crate::tools) struct Counts {
    pub records: u64,
    pub operations: u64,
    pub objects: u64,
    pub failed_operations: u64,
    pub unsupported_operations: u64,
    pub devices: u64,
    pub submissions: u64,
    pub dispatches: u64,
}

#[derive(Serialize)]
pub(in crate::tools) struct Bytes {
    #[serde(flatten)]
    pub data: SurveyedBytes,
    /// The framing of records.
    pub records: u64,
}

/// An external file, and its state on this machine if that was checked.
#[derive(Serialize)]
pub(in crate::tools) struct File<'a> {
    #[serde(flatten)]
    pub file: &'a ExternalFile,
    #[serde(flatten, serialize_with = "file_state")]
    pub state: Option<&'a FileState>,
}

#[derive(Serialize)]
pub(super) struct Replayability<'a> {
    pub device: &'a str,
    pub possible: bool,
    pub executables_loaded: bool,
    #[serde(serialize_with = "reasons")]
    pub reasons: &'a [Error],
    pub warnings: &'a [String],
    pub memory: Option<MemoryNeeds>,
    /// The confinement of its code on this machine, in words.
    pub confinement: &'a str,
}

impl<'a> Info<'a> {
    pub(super) fn new(
        path: &'a Path,
        capture: &'a CaptureFile,
        survey: &'a Survey,
        verdict: &'a Verdict,
        confinement: &'a str,
    ) -> Self {
        let mut contents = Contents::from_survey(path, capture, survey);
        for it in &mut contents.external_files {
            it.state = verdict.file(it.file.id);
        }
        let replay = Replayability {
            device: &verdict.device,
            possible: verdict.reasons.is_empty(),
            executables_loaded: verdict.is_loaded,
            reasons: &verdict.reasons,
            warnings: &verdict.warnings,
            memory: verdict.memory,
            confinement,
        };
        Self { contents, replay, substitutes: None }
    }
}

impl<'a> Contents<'a> {
    pub(in crate::tools) fn from_survey(
        path: &'a Path,
        capture: &'a CaptureFile,
        survey: &'a Survey,
    ) -> Self {
        Self {
            path,
            version: capture.version(),
            size_bytes: capture.total_bytes(),
            closed: capture.is_closed(),
            tear: capture.tear(),
            checksums: Checksums { state: capture.checksums(), damage: capture.damage().unwrap_or_default() },
            counts: Counts {
                records: survey.record_count,
                operations: survey.operation_count,
                objects: survey.object_count,
                failed_operations: survey.failed_count,
                unsupported_operations: survey.unsupported_count,
                devices: survey.device_count,
                submissions: survey.submission_count,
                dispatches: survey.dispatch_count,
            },
            failed_operations: &survey.failed,
            records: &survey.record_kinds,
            scopes: &survey.scopes,
            executables: &survey.executables,
            bytes: Bytes { data: survey.bytes, records: capture.length_bytes() - survey.bytes.total() },
            external_files: survey.external_files.iter().map(|file| File { file, state: None }).collect(),
        }
    }
}

fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

fn file_state<S: Serializer>(state: &Option<&FileState>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        path_here: Option<String>,
        problem: Option<Reason<'a>>,
    }
    let row = Row {
        path_here: state.map(|state| state.path.to_string_lossy().into_owned()),
        problem: state.and_then(|state| state.problem.as_ref()).map(Reason::from_error),
    };
    row.serialize(serializer)
}

#[derive(Serialize)]
struct Reason<'a> {
    status: &'static str,
    message: &'a str,
    at: &'a [String],
    advice: Option<String>,
}

impl<'a> Reason<'a> {
    fn from_error(error: &'a Error) -> Self {
        let (status, message) = (error.code().name(), error.message());
        Self { status, message, at: error.context_lines(), advice: advice::of(error) }
    }
}

fn reason<S: Serializer>(error: &Option<Error>, serializer: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(Reason::from_error).serialize(serializer)
}

fn reasons<S: Serializer>(errors: &[Error], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(Reason::from_error))
}
