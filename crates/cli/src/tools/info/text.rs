//! A report as one screen of text.

use std::fmt::Write;

use super::Report;
use crate::advice;
use crate::output::plural;
use crate::table::table;
use rehal_base::Align::{Left, Right};
use rehal_session::{ChecksumState, ExecutableSurvey, ExternalFile, FunctionSurvey, MAX_WORKGROUP_COUNTS};

/// Maximum number of rows of a list, so that the report fits one screen.
const MAX_ROWS: usize = 24;

/// The report for people.
pub(super) fn show(report: &Report<'_>) -> String {
    let mut text = String::new();
    head(&mut text, report);
    verdict(&mut text, report);
    scopes(&mut text, report);
    executables(&mut text, report);
    bytes(&mut text, report);
    outside(&mut text, report);
    text
}

fn head(text: &mut String, report: &Report<'_>) {
    let (capture, survey) = (report.capture, &report.survey);
    let version = capture.version();
    let _ = writeln!(text, "{}", report.path.display());
    let _ = writeln!(
        text,
        "  capture {}.{}, {}, {}",
        version.major,
        version.minor,
        human_bytes(capture.total_bytes()),
        state(report)
    );
    let _ = writeln!(
        text,
        "  {} of {}, {}, {} on queues, {}",
        plural(survey.record_count, "record"),
        plural(survey.object_count, "object"),
        plural(survey.device_count, "device"),
        plural(survey.submission_count, "submission"),
        plural(survey.dispatch_count, "dispatch"),
    );
    let _ = writeln!(text, "  checksums: {}", checksums(report));
    if survey.failed_count > 0 {
        let _ =
            writeln!(text, "  {} had failed and will be skipped", plural(survey.failed_count, "operation"));
        for failed in survey.failed.iter().take(MAX_ROWS) {
            let _ = writeln!(text, "    #{} {} {}", failed.ordinal, failed.operation, failed.status);
        }
        more(text, survey.failed_count as usize, MAX_ROWS);
    }
    if survey.unsupported_count > 0 {
        let _ = writeln!(text, "  {} could not be captured", plural(survey.unsupported_count, "operation"));
    }
}

/// Whether the capture was closed, and where it is truncated.
pub(super) fn state(report: &Report<'_>) -> String {
    let closed = if report.capture.is_closed() { "truncated" } else { "never closed" };
    match report.capture.tear() {
        None if report.capture.is_closed() => "closed".into(),
        None => "never closed, complete up to its last record".into(),
        Some(tear) => {
            format!("{closed}: ends at offset {} after {}", tear.offset, plural(tear.record_count, "record"))
        }
    }
}

/// Whether the capture matches its checksums.
fn checksums(report: &Report<'_>) -> String {
    let damage = report.capture.damage().unwrap_or_default();
    match report.capture.checksums() {
        ChecksumState::Present if damage.is_empty() => "all match".into(),
        ChecksumState::Present => {
            let parts: Vec<_> = damage.iter().take(MAX_ROWS).map(ToString::to_string).collect();
            format!("do not match: {}", parts.join(", "))
        }
        ChecksumState::Missing if report.capture.is_closed() => "missing from the end of the file".into(),
        ChecksumState::Missing => "none: they are added when a capture is closed".into(),
        ChecksumState::Absent => "none in this capture, so damage may go undetected".into(),
    }
}

fn verdict(text: &mut String, report: &Report<'_>) {
    let verdict = &report.verdict;
    let devices = match report.survey.device_count {
        0 | 1 => String::new(),
        count => format!(" (--device={} given {count} times)", verdict.device),
    };
    if verdict.reasons.is_empty() {
        // Problems that only loading the code reveals are not known yet.
        let loaded = if report.survey.executables.is_empty() { "" } else { " (kernels not loaded)" };
        let _ = writeln!(text, "\nReplay here: yes{loaded}, on {}{devices}", verdict.device);
        return;
    }
    let _ = writeln!(text, "\nReplay here: no, not on {}{devices}", verdict.device);
    for reason in verdict.reasons.iter().take(MAX_ROWS) {
        for line in advice::report(reason).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    more(text, verdict.reasons.len(), MAX_ROWS);
}

fn scopes(text: &mut String, report: &Report<'_>) {
    let scopes = &report.survey.scopes;
    if scopes.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nScopes");
    let rows = scopes.iter().take(MAX_ROWS).map(|scope| {
        vec![scope.name.escape_ascii().to_string(), format!("entered {}", plural(scope.count, "time"))]
    });
    text.push_str(&table("  ", &[Left, Left], &rows.collect::<Vec<_>>()));
    more(text, scopes.len(), MAX_ROWS);
}

fn executables(text: &mut String, report: &Report<'_>) {
    let executables = &report.survey.executables;
    let _ = writeln!(text, "\nExecutables{}", if executables.is_empty() { ": none" } else { "" });
    let mut left = MAX_ROWS;
    for executable in executables {
        if left == 0 {
            break;
        }
        let _ = writeln!(
            text,
            "  {}  {}, {}, {}",
            executable.id,
            executable.format.escape_ascii(),
            human_bytes(executable.code_bytes),
            plural(executable.functions.len() as u64, "function")
        );
        left -= functions(text, executable, left);
    }
    let all: usize = executables.iter().map(|it| it.functions.len()).sum();
    more(text, all, MAX_ROWS);
}

/// Adds the functions, the most dispatched first; returns the number of rows.
fn functions(text: &mut String, executable: &ExecutableSurvey, limit: usize) -> usize {
    let mut functions: Vec<_> = executable.functions.iter().zip(0..).collect();
    functions.sort_by_key(|(function, ordinal)| (u64::MAX - function.dispatch_count, *ordinal));
    functions.truncate(limit);
    let rows = functions.iter().map(|(function, ordinal)| {
        let name = match &function.name[..] {
            b"" => "(no name)".into(),
            name => name.escape_ascii().to_string(),
        };
        vec![
            format!("  #{ordinal}"),
            name,
            plural(function.dispatch_count, "dispatch"),
            workgroups(function),
            plural(function.binding_count.into(), "binding"),
            plural(function.constant_count.into(), "constant"),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let count = rows.len().max(1);
    text.push_str(&table("  ", &[Right, Left, Right, Right, Right, Right], &rows));
    count.min(limit)
}

/// The workgroup count of a function's dispatches, or the number of different ones.
fn workgroups(function: &FunctionSurvey) -> String {
    match &function.workgroup_counts[..] {
        [] => "-".into(),
        [None] => "indirect workgroups".into(),
        [Some([x, y, z])] => format!("{x}x{y}x{z} workgroups"),
        counts if counts.len() == MAX_WORKGROUP_COUNTS => format!("{MAX_WORKGROUP_COUNTS}+ workgroup counts"),
        counts => format!("{} workgroup counts", counts.len()),
    }
}

fn bytes(text: &mut String, report: &Report<'_>) {
    let _ = writeln!(text, "\nBytes");
    let bytes = &report.survey.bytes;
    let framing = report.capture.length_bytes() - bytes.total();
    let rows = bytes.rows().into_iter().filter(|(_, count)| *count > 0).chain([("records", framing)]);
    let rows = rows.map(|(name, count)| vec![name.to_string(), human_bytes(count), share(count, report)]);
    text.push_str(&table("  ", &[Left, Right, Right], &rows.collect::<Vec<_>>()));
}

fn share(count: u64, report: &Report<'_>) -> String {
    let total = report.capture.length_bytes().max(1);
    format!("{:.1} %", count as f64 / total as f64 * 100.0)
}

fn outside(text: &mut String, report: &Report<'_>) {
    let mut files: Vec<_> = report.survey.external_files.iter().collect();
    // Those that are written come first, and all of them are shown.
    files.sort_by_key(|file| !file.is_written);
    let written_count = files.iter().filter(|file| file.is_written).count();
    let shown = MAX_ROWS.max(written_count);
    if files.is_empty() {
        let _ = writeln!(text, "\nNeeds from outside: nothing");
        return;
    }
    let _ = writeln!(text, "\nNeeds from outside");
    let rows = files.iter().take(shown).map(|file| {
        vec![
            file.path.escape_ascii().to_string(),
            human_bytes(file.length_bytes),
            format!("validated by {}", if file.validation == "none" { "length" } else { file.validation }),
            file_state(report, file),
            if file.is_written { "WRITES" } else { "" }.into(),
        ]
    });
    text.push_str(&table("  ", &[Left, Right, Left, Left, Left], &rows.collect::<Vec<_>>()));
    more(text, files.len(), shown);
    if written_count > 0 {
        let _ = writeln!(
            text,
            "  The capture WRITES to files: a replay to private copies of them, unless --replay_file_writes says otherwise."
        );
    }
}

fn file_state(report: &Report<'_>, file: &ExternalFile) -> String {
    match report.verdict.file(file.id) {
        None => "not checked".into(),
        Some(state) => {
            let moved = state.path.as_os_str().as_encoded_bytes() != file.path;
            let place = if moved { format!("at {}", state.path.display()) } else { "here".into() };
            match &state.problem {
                None => place,
                Some(error) if error.code() == rehal_base::StatusCode::NotFound => format!("not {place}"),
                Some(_) => format!("another one is {place}"),
            }
        }
    }
}

fn more(text: &mut String, count: usize, shown: usize) {
    if count > shown {
        let _ = writeln!(text, "  ... and {} more (--format=json has all)", count - shown);
    }
}

fn human_bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (3 << 30, "3.0 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(human_bytes(count), text);
        }
    }
}
