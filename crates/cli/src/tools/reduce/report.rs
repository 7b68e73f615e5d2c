//! What is printed while a capture is reduced, and at the end.

use std::time::Duration;

use rehal_session::{ReduceProgress, ReduceSize, ReduceStop, Reduction};
use serde_json::{Value, json};

use crate::output;

/// Prints a line for each stage that made checks.
#[derive(Default)]
pub(super) struct Progress {
    /// The checks before the stage.
    check_count: u64,
}

impl Progress {
    pub(super) fn tell(&mut self, it: &ReduceProgress) {
        if !it.has_ended || it.check_count == self.check_count {
            return;
        }
        let checks = counted(it.check_count - self.check_count, "check");
        self.check_count = it.check_count;
        output::note(&format!("{:<15} {:>11}: {}", it.stage, checks, line(&it.size)));
    }
}

fn line(size: &ReduceSize) -> String {
    let parts = [
        counted(size.scopes, "scope"),
        counted(size.submissions, "submission"),
        counted(size.commands, "command"),
        counted(size.dispatches, "dispatch"),
        bytes(size.bytes),
    ];
    parts.join(", ")
}

fn counted(count: u64, what: &str) -> String {
    let ending = if what.ends_with('h') { "es" } else { "s" };
    format!("{count} {what}{}", if count == 1 { "" } else { ending })
}

fn bytes(count: u64) -> String {
    match count {
        0..10_240 => format!("{count} B"),
        10_240..10_485_760 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// A time with its unit.
pub(super) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.1} s"),
    }
}

/// What a report says besides the result.
pub(super) struct Run {
    pub description: String,
    pub elapsed: Duration,
    pub timeout_count: u64,
}

/// A line of a report: its name as text and in JSON, and its number.
type Row = (&'static str, &'static str, fn(&ReduceSize) -> u64);

const ROWS: [Row; 9] = [
    ("bytes", "bytes", |it| it.bytes),
    ("records", "records", |it| it.records),
    ("scopes", "scopes", |it| it.scopes),
    ("submissions", "submissions", |it| it.submissions),
    ("commands", "commands", |it| it.commands),
    ("dispatches", "dispatches", |it| it.dispatches),
    ("host accesses", "host_accesses", |it| it.host_accesses),
    ("objects", "objects", |it| it.objects),
    ("nonzero data bytes", "nonzero_data_bytes", |it| it.data_bytes),
];

pub(super) fn text(it: &Reduction, run: &Run) -> String {
    let mut text = format!("{:<18} {:>12} {:>12}\n", "", "capture", "result");
    for (name, _, value) in ROWS {
        text.push_str(&format!("{name:<18} {:>12} {:>12}\n", value(&it.before), value(&it.after)));
    }
    text.push_str(&format!("looked for: {}\n", run.description));
    let timeouts = match run.timeout_count {
        0 => String::new(),
        count => format!(", {count} ended by the time limit"),
    };
    text.push_str(&format!(
        "{}{timeouts}, {} that could not be replayed, {}\n",
        counted(it.check_count, "check"),
        counted(it.rejected_count, "candidate"),
        time(run.elapsed)
    ));
    if it.is_slice {
        text.push_str("it is a slice of one dispatch: its inputs are stored\n");
    }
    text.push_str(&match it.stop {
        None => format!(
            "minimal: no scope, submission, command, call of the host, object or range of {} can be left out by itself\n",
            counted(it.byte_range as u64, "byte")
        ),
        Some(stop) => format!("not minimal: {}\n", reason(stop)),
    });
    text
}

fn reason(stop: ReduceStop) -> &'static str {
    match stop {
        ReduceStop::Checks => "--max_checks is reached",
        ReduceStop::Time => "--max_time is over",
        ReduceStop::Interrupted => "interrupted",
        ReduceStop::Unstable => {
            "the check passed for a capture and then failed for the same one: it does not always give the same answer"
        }
    }
}

pub(super) fn json(it: &Reduction, run: &Run) -> Value {
    let size = |size: &ReduceSize| {
        Value::Object(ROWS.iter().map(|(_, name, value)| (name.to_string(), json!(value(size)))).collect())
    };
    json!({
        "check": run.description,
        "before": size(&it.before),
        "after": size(&it.after),
        "check_count": it.check_count,
        "rejected_count": it.rejected_count,
        "timeout_count": run.timeout_count,
        "seconds": run.elapsed.as_secs_f64(),
        "is_slice": it.is_slice,
        "is_minimal": it.stop.is_none(),
        "stop": it.stop.map(|stop| match stop {
            ReduceStop::Checks => "max_checks",
            ReduceStop::Time => "max_time",
            ReduceStop::Interrupted => "interrupted",
            ReduceStop::Unstable => "unstable",
        }),
        "byte_range": it.byte_range,
    })
}
