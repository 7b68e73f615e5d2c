//! The output while a capture is reduced, and at the end.

use std::time::Duration;

use rehal_base::plural;
use rehal_edit::{ReduceProgress, ReduceSize, ReduceStop, Reduction};
use serde::Serialize;

use crate::report::Report;
use crate::table::{Column, Layout, Table};
use crate::{output, progress};

/// Prints a line for each stage that made checks, and on a terminal how fast checks are.
pub(super) struct Progress {
    /// The checks before the stage.
    check_count: u64,
    /// All checks.
    checked: u64,
    /// The smallest capture so far.
    size: Option<ReduceSize>,
    live: progress::Progress,
}

impl Progress {
    pub(super) fn begin() -> Self {
        Self { check_count: 0, checked: 0, size: None, live: progress::Progress::new("reducing") }
    }

    /// A check begins.
    pub(super) fn check(&mut self) {
        self.checked += 1;
        let size = self.size;
        self.live.count(self.checked, "check", || match size {
            Some(size) => format!(": {}, {}", plural(size.dispatches, "dispatch"), bytes(size.bytes)),
            None => String::new(),
        });
    }

    pub(super) fn tell(&mut self, it: &ReduceProgress) {
        self.size = Some(it.size);
        if !it.has_ended || it.check_count == self.check_count {
            return;
        }
        let checks = plural(it.check_count - self.check_count, "check");
        self.check_count = it.check_count;
        self.live.clear();
        output::note(&format!("{:<15} {:>11}: {}", it.stage, checks, line(&it.size)));
    }
}

fn line(size: &ReduceSize) -> String {
    let parts = [
        plural(size.scopes, "scope"),
        plural(size.submissions, "submission"),
        plural(size.commands, "command"),
        plural(size.dispatches, "dispatch"),
        bytes(size.bytes),
    ];
    parts.join(", ")
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
    rehal_judge::time(time.as_nanos() as f64)
}

/// Facts of a report besides the result.
pub(super) struct Run {
    pub description: String,
    pub elapsed: Duration,
    pub timeout_count: u64,
}

/// The report of a reduction.
#[derive(Serialize)]
pub(super) struct Reduced<'a> {
    check: &'a str,
    before: ReduceSize,
    after: ReduceSize,
    check_count: u64,
    rejected_count: u64,
    timeout_count: u64,
    seconds: f64,
    is_slice: bool,
    is_minimal: bool,
    stop: Option<&'static str>,
    byte_range: usize,
    #[serde(skip)]
    of: (&'a Reduction, &'a Run),
}

impl<'a> Reduced<'a> {
    pub(super) fn new(it: &'a Reduction, run: &'a Run) -> Self {
        Self {
            check: &run.description,
            before: it.before,
            after: it.after,
            check_count: it.check_count,
            rejected_count: it.rejected_count,
            timeout_count: run.timeout_count,
            seconds: run.elapsed.as_secs_f64(),
            is_slice: it.is_slice,
            is_minimal: it.stop.is_none(),
            stop: it.stop.map(|stop| match stop {
                ReduceStop::Checks => "max_checks",
                ReduceStop::Time => "max_time",
                ReduceStop::Interrupted => "interrupted",
                ReduceStop::Unstable => "unstable",
            }),
            byte_range: it.byte_range,
            of: (it, run),
        }
    }
}

impl Report for Reduced<'_> {
    const SCHEMA: &'static str = "rehal.reduce/1";
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        let (it, run) = self.of;
        let table = sizes(&self.before, &self.after).text(layout);
        let mut text = String::new();
        text.push_str(&format!("looked for: {}\n", run.description));
        let timeouts = match run.timeout_count {
            0 => String::new(),
            count => format!(", {count} ended by the time limit"),
        };
        text.push_str(&format!(
            "{}{timeouts}, {} that could not be replayed, {}\n",
            plural(it.check_count, "check"),
            plural(it.rejected_count, "candidate"),
            time(run.elapsed)
        ));
        if it.is_slice {
            text.push_str("it is a slice of one dispatch: its inputs are stored\n");
        }
        text.push_str(&match it.stop {
            None => format!(
                "minimal: no scope, submission, command, call of the host, object or range of {} can be left out by itself\n",
                plural(it.byte_range as u64, "byte")
            ),
            Some(stop) => format!("not minimal: {}\n", reason(stop)),
        });
        table + &layout.wrap(&text)
    }
}

/// A row for each number.
fn sizes(before: &ReduceSize, after: &ReduceSize) -> Table {
    let rows = |it: &ReduceSize| {
        [
            ("bytes", it.bytes),
            ("records", it.records),
            ("scopes", it.scopes),
            ("submissions", it.submissions),
            ("commands", it.commands),
            ("dispatches", it.dispatches),
            ("host accesses", it.host_accesses),
            ("objects", it.objects),
            ("nonzero data bytes", it.data_bytes),
        ]
    };
    let columns = [Column::left("number of").untitled(), Column::right("capture"), Column::right("result")];
    let mut table = Table::new("", columns);
    for ((name, before), (_, after)) in rows(before).into_iter().zip(rows(after)) {
        table.row([name.to_owned(), before.to_string(), after.to_string()]);
    }
    table
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
