//! A report as one screen of text.

use std::fmt::Write;

use rehal::capture::{ExecutableSurvey, FunctionSurvey, MAX_WORKGROUP_COUNTS};
use rehal_base::plural;
use rehal_capture::ChecksumState;

use super::contents::{Checksums, Contents, File, Info};
use crate::advice;
use crate::report::Report;
use crate::table::{Column, Layout, Table};

/// Buffers of fewer bytes in all are not worth a line.
const LARGE_BYTES: u64 = 64 << 20;

/// Maximum number of rows of a list, so that the report fits one screen.
const MAX_ROWS: usize = 24;

impl Report for Info<'_> {
    const SCHEMA: &'static str = "rehal.info/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let mut text = String::new();
        head(&mut text, &self.contents);
        verdict(&mut text, self);
        substitutes(&mut text, self);
        scopes(&mut text, &self.contents, layout);
        executables(&mut text, &self.contents, layout);
        bytes(&mut text, &self.contents, layout);
        outside(&mut text, &self.contents, layout);
        text
    }
}

fn head(text: &mut String, it: &Contents<'_>) {
    let counts = &it.counts;
    let _ = writeln!(text, "{}", it.path.display());
    let _ = writeln!(text, "  capture {}, {}, {}", it.version, human_bytes(it.size_bytes), state(it));
    let _ = writeln!(
        text,
        "  {} of {}, {}, {} on queues, {}",
        plural(counts.records, "record"),
        plural(counts.objects, "object"),
        plural(counts.devices, "device"),
        plural(counts.submissions, "submission"),
        plural(counts.dispatches, "dispatch"),
    );
    let _ = writeln!(text, "  checksums: {}", checksums(&it.checksums, it.closed));
    if counts.failed_operations > 0 {
        let failed = plural(counts.failed_operations, "operation");
        let _ = writeln!(text, "  {failed} had failed and will be skipped");
        for failed in it.failed_operations.iter().take(MAX_ROWS) {
            let _ = writeln!(text, "    #{} {} {}", failed.ordinal, failed.operation, failed.status);
        }
        more(text, counts.failed_operations as usize, MAX_ROWS);
    }
    if counts.unsupported_operations > 0 {
        let unsupported = plural(counts.unsupported_operations, "operation");
        let _ = writeln!(text, "  {unsupported} could not be captured");
    }
}

/// Whether the capture was closed, and where it is truncated.
fn state(it: &Contents<'_>) -> String {
    let closed = if it.closed { "truncated" } else { "never closed" };
    match it.tear {
        None if it.closed => "closed".into(),
        None => "never closed, complete up to its last record".into(),
        Some(tear) => {
            format!("{closed}: ends at offset {} after {}", tear.offset, plural(tear.record_count, "record"))
        }
    }
}

/// Whether the capture matches its checksums.
fn checksums(it: &Checksums<'_>, is_closed: bool) -> String {
    match it.state {
        ChecksumState::Present if it.damage.is_empty() => "all match".into(),
        ChecksumState::Present => {
            let parts: Vec<_> = it.damage.iter().take(MAX_ROWS).map(ToString::to_string).collect();
            format!("do not match: {}", parts.join(", "))
        }
        ChecksumState::Missing if is_closed => "missing from the end of the file".into(),
        ChecksumState::Missing => "none: they are added when a capture is closed".into(),
        ChecksumState::Absent => "none in this capture, so damage may go undetected".into(),
    }
}

fn verdict(text: &mut String, info: &Info<'_>) {
    let (replay, contents) = (&info.replay, &info.contents);
    let device = replay.device;
    let devices = match contents.counts.devices {
        0 | 1 => String::new(),
        count => format!(" (--device={device} given {count} times)"),
    };
    if replay.possible {
        // Problems that only loading the code reveals are not known yet.
        let is_unknown = !contents.executables.is_empty() && !replay.executables_loaded;
        let loaded = if is_unknown { " (kernels not loaded)" } else { "" };
        let warned = if replay.warnings.is_empty() { "" } else { ", with warnings" };
        let _ = writeln!(text, "\nReplay here: yes{loaded}, on {device}{devices}{warned}");
        for warning in replay.warnings.iter().take(MAX_ROWS) {
            let _ = writeln!(text, "  {warning}");
        }
        more(text, replay.warnings.len(), MAX_ROWS);
        if let Some(memory) = replay.memory.filter(|it| it.largest_bytes >= LARGE_BYTES) {
            let [own, mapped] = [memory.own_bytes, memory.mapped_bytes].map(human_bytes);
            let _ =
                writeln!(text, "  its buffers need at most {own} of memory, and {mapped} mapped from files");
        }
        let _ = writeln!(text, "  its code is confined: {}", replay.confinement);
        return;
    }
    let _ = writeln!(text, "\nReplay here: no, not on {device}{devices}");
    for reason in replay.reasons.iter().take(MAX_ROWS) {
        for line in advice::report(reason).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    more(text, replay.reasons.len(), MAX_ROWS);
}

fn substitutes(text: &mut String, info: &Info<'_>) {
    let Some(substitutes) = &info.substitutes else { return };
    let _ = writeln!(text, "\nSubstitutes: {}", if substitutes.accepted { "accepted" } else { "refused" });
    for line in substitutes
        .error
        .iter()
        .flat_map(|it| advice::report(it).lines().map(str::to_owned).collect::<Vec<_>>())
    {
        let _ = writeln!(text, "  {line}");
    }
}

fn scopes(text: &mut String, it: &Contents<'_>, layout: Layout) {
    if it.scopes.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nScopes");
    let mut table = Table::new("  ", [Column::left("").shortened(), Column::left("")]);
    for scope in it.scopes.iter().take(MAX_ROWS) {
        let entered = format!("entered {}", plural(scope.count, "time"));
        table.row([scope.name.escape_ascii().to_string(), entered]);
    }
    text.push_str(&table.text(layout));
    more(text, it.scopes.len(), MAX_ROWS);
}

fn executables(text: &mut String, it: &Contents<'_>, layout: Layout) {
    let executables = it.executables;
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
        left -= functions(text, executable, left, layout);
    }
    let all: usize = executables.iter().map(|it| it.functions.len()).sum();
    more(text, all, MAX_ROWS);
}

/// Adds the functions, the most dispatched first; returns the number of rows.
fn functions(text: &mut String, executable: &ExecutableSurvey, limit: usize, layout: Layout) -> usize {
    let mut functions: Vec<_> = executable.functions.iter().collect();
    functions.sort_by_key(|function| (u64::MAX - function.dispatch_count, function.ordinal));
    functions.truncate(limit);
    let columns = [
        Column::right(""),
        Column::names("function").untitled(),
        Column::right(""),
        Column::right("workgroups").untitled().optional(1),
        Column::right("bindings").untitled().optional(2),
        Column::right("constants").untitled().optional(3),
    ];
    let mut table = Table::new("  ", columns);
    for function in &functions {
        let name = match &function.name[..] {
            b"" => "(no name)".into(),
            name => name.escape_ascii().to_string(),
        };
        table.row([
            format!("  #{}", function.ordinal),
            name,
            plural(function.dispatch_count, "dispatch"),
            workgroups(function),
            plural(function.binding_count.into(), "binding"),
            plural(function.constant_count.into(), "constant"),
        ]);
    }
    text.push_str(&table.text(layout));
    functions.len().max(1).min(limit)
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

fn bytes(text: &mut String, it: &Contents<'_>, layout: Layout) {
    let _ = writeln!(text, "\nBytes");
    let data = &it.bytes.data;
    let total = (data.total() + it.bytes.records).max(1);
    let mut table = Table::new("  ", [Column::left(""), Column::right(""), Column::right("")]);
    let rows = data.rows().into_iter().filter(|(_, count)| *count > 0);
    for (name, count) in rows.chain([("records", it.bytes.records)]) {
        let share = format!("{:.1} %", count as f64 / total as f64 * 100.0);
        table.row([name.to_string(), human_bytes(count), share]);
    }
    text.push_str(&table.text(layout));
}

fn outside(text: &mut String, it: &Contents<'_>, layout: Layout) {
    let mut files: Vec<_> = it.external_files.iter().collect();
    // Those that are written come first, and all of them are shown.
    files.sort_by_key(|it| !it.file.is_written);
    let written_count = files.iter().filter(|it| it.file.is_written).count();
    let shown = MAX_ROWS.max(written_count);
    if files.is_empty() {
        let _ = writeln!(text, "\nNeeds from outside: nothing");
        return;
    }
    let _ = writeln!(text, "\nNeeds from outside");
    let columns = [
        Column::left("").shortened(),
        Column::right(""),
        Column::left("validation").untitled().optional(1),
        Column::left("").shortened(),
        Column::left(""),
    ];
    let mut table = Table::new("  ", columns);
    for it in files.iter().take(shown) {
        let validation = it.file.validation;
        table.row([
            it.file.path.escape_ascii().to_string(),
            human_bytes(it.file.length_bytes),
            format!("validated by {}", if validation == "none" { "length" } else { validation }),
            file_state(it),
            if it.file.is_written { "WRITES" } else { "" }.into(),
        ]);
    }
    text.push_str(&table.text(layout));
    more(text, files.len(), shown);
    if written_count > 0 {
        let _ = writeln!(
            text,
            "  The capture WRITES to files: a replay to private copies of them, unless --replay_file_writes says otherwise."
        );
    }
}

fn file_state(it: &File<'_>) -> String {
    match it.state {
        None => "not checked".into(),
        Some(state) => {
            let moved = state.path.as_os_str().as_encoded_bytes() != it.file.path;
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
