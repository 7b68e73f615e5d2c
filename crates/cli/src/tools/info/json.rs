//! A report as one JSON object.

use std::path::Path;

use serde_json::{Value, json};

use super::Report;
use crate::advice;
use rehal_session::{CaptureFile, ChecksumState, Damage, ExecutableSurvey, ExternalFile, Survey};

/// The report for programs: sizes in bytes, names as text.
pub(super) fn show(report: &Report<'_>) -> String {
    let (survey, verdict) = (&report.survey, &report.verdict);
    let mut object = contents(report.path, report.capture, survey);
    // Files are shown with their state on this machine.
    object["external_files"] = survey.external_files.iter().map(|file| external_file(report, file)).collect();
    object["replay"] = json!({
        "device": verdict.device,
        "possible": verdict.reasons.is_empty(),
        "executables_loaded": verdict.is_loaded,
        "reasons": verdict.reasons.iter().map(reason).collect::<Vec<_>>(),
    });
    format!("{object:#}\n")
}

/// What a capture contains, whatever the machine.
pub(in crate::tools) fn contents(path: &Path, capture: &CaptureFile, survey: &Survey) -> Value {
    let version = capture.version();
    let mut bytes: serde_json::Map<String, Value> =
        survey.bytes.rows().into_iter().map(|(name, count)| (name.replace(' ', "_"), count.into())).collect();
    bytes.insert("records".into(), (capture.length_bytes() - survey.bytes.total()).into());
    json!({
        "path": path.to_string_lossy(),
        "version": format!("{}.{}", version.major, version.minor),
        "size_bytes": capture.total_bytes(),
        "closed": capture.is_closed(),
        "tear": capture.tear().map(|tear| json!({
            "offset": tear.offset,
            "record_count": tear.record_count,
            "lost_bytes": tear.lost_bytes,
        })),
        "checksums": {
            "state": match capture.checksums() {
                ChecksumState::Absent => "absent",
                ChecksumState::Missing => "missing",
                ChecksumState::Present => "present",
            },
            "damage": capture.damage().unwrap_or_default().iter().map(damage).collect::<Vec<_>>(),
        },
        "counts": {
            "records": survey.record_count,
            "operations": survey.operation_count,
            "objects": survey.object_count,
            "failed_operations": survey.failed_count,
            "unsupported_operations": survey.unsupported_count,
            "devices": survey.device_count,
            "submissions": survey.submission_count,
            "dispatches": survey.dispatch_count,
        },
        "failed_operations": survey.failed.iter()
            .map(|it| json!({ "ordinal": it.ordinal, "operation": it.operation, "status": it.status }))
            .collect::<Vec<_>>(),
        "records": survey.record_kinds.iter()
            .map(|it| json!({ "type": it.record_type, "name": it.name, "count": it.count, "size_bytes": it.bytes }))
            .collect::<Vec<_>>(),
        "scopes": survey.scopes.iter()
            .map(|scope| json!({ "name": text(&scope.name), "count": scope.count }))
            .collect::<Vec<_>>(),
        "executables": survey.executables.iter().map(executable).collect::<Vec<_>>(),
        "bytes": bytes,
        "external_files": survey.external_files.iter().map(file).collect::<Vec<_>>(),
    })
}

fn reason(error: &rehal_base::Error) -> Value {
    json!({
        "status": error.code().name(),
        "message": error.message(),
        "at": error.context_lines(),
        "advice": advice::of(error),
    })
}

fn damage(it: &Damage) -> Value {
    json!({
        "offset": it.offset,
        "length": it.length,
        "first_record": it.records.map(|(first, _)| first),
        "last_record": it.records.map(|(_, last)| last),
    })
}

fn executable(it: &ExecutableSurvey) -> Value {
    let functions = it.functions.iter().zip(0u32..).map(|(function, ordinal)| {
        json!({
            "ordinal": ordinal,
            "name": text(&function.name),
            "constants": function.constant_count,
            "bindings": function.binding_count,
            "dispatches": function.dispatch_count,
            "workgroup_counts": function.workgroup_counts,
        })
    });
    json!({
        "id": it.id,
        "format": text(&it.format),
        "size_bytes": it.code_bytes,
        "functions": functions.collect::<Vec<_>>(),
    })
}

fn file(file: &ExternalFile) -> Value {
    json!({
        "id": file.id,
        "path": text(&file.path),
        "size_bytes": file.length_bytes,
        "validation": file.validation,
        "writes": file.is_written,
    })
}

fn external_file(report: &Report<'_>, external: &ExternalFile) -> Value {
    let state = report.verdict.file(external.id);
    let mut object = file(external);
    object["path_here"] = json!(state.map(|state| state.path.to_string_lossy()));
    object["problem"] = json!(state.and_then(|state| state.problem.as_ref()).map(reason));
    object
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
