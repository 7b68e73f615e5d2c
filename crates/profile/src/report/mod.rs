//! What `iree-profile` prints of a bundle, byte for byte.
//!
//! A report reads the records once or twice and keeps totals per group, and references to the rows that it
//! prints in another order than the file's: memory is proportional to the bundle.
//!
//! `Table`s keep totals in the order of insertion. `dispatches`, `memory` and `summary` have the totals that
//! several reports share. `clock.rs` maps ticks of a device to the time of the host by one line, as the
//! reference's reports do; timelines follow the drift between clock samples (`timeline/clocks.rs`).

mod cat;
mod command;
mod counter;
mod dispatch;
mod dispatches;
mod executable;
mod explain;
mod export;
pub(crate) mod memory;
mod memory_text;
mod out;
mod queue;
mod statistics;
mod statistics_text;
mod summary;
mod summary_text;

use std::io::Write;

use rehal_base::{Error, Remedy, Result, glob};

use crate::Bundle;
use crate::model::Model;
use out::Out;

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// Every record, without its rows.
    #[default]
    Cat,
    /// Counts of everything, and the clocks and dispatch times of devices.
    Summary,
    /// Totals per operation and function.
    Statistics,
    /// Bottlenecks, with evidence.
    Explain,
    /// Executables, their functions, and the times of these.
    Executable,
    /// Functions with the times of their dispatches.
    Dispatch,
    /// Command buffers, their commands and executions.
    Command,
    /// Hardware counters and their samples.
    Counter,
    /// Allocations and high-water marks.
    Memory,
    /// Submissions to queues.
    Queue,
    /// All rows, for other programs.
    Export,
}

/// In what form to print it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    #[default]
    Text,
    /// JSON objects, one per line.
    Jsonl,
    /// JSON objects of a versioned schema, one per line.
    IreeperfJsonl,
}

/// What to print, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReportOptions {
    /// The report.
    pub report: Report,
    /// Its form.
    pub format: Format,
    /// Pattern of the names to print, with `*` and `?`; all if empty.
    pub filter: String,
    /// The id to print, if not negative; which one depends on the report.
    pub id: i64,
    /// Print each dispatch instead of totals.
    pub dispatch_events: bool,
    /// Print each sample besides totals.
    pub counter_samples: bool,
    /// Total the functions of executables with the same code as one, such as those that a benchmark loads
    /// again in each iteration.
    pub merge_executables: bool,
}

rehal_base::setters!(ReportOptions {
    report: Report,
    format: Format,
    filter: String,
    id: i64,
    dispatch_events: bool,
    counter_samples: bool,
    merge_executables: bool,
});

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            report: Report::default(),
            format: Format::default(),
            filter: "*".to_owned(),
            id: -1,
            dispatch_events: false,
            counter_samples: false,
            merge_executables: false,
        }
    }
}

impl Report {
    /// All reports, in the order in which help lists them.
    pub const ALL: &'static [Self] = &[
        Self::Summary,
        Self::Statistics,
        Self::Explain,
        Self::Executable,
        Self::Dispatch,
        Self::Command,
        Self::Counter,
        Self::Memory,
        Self::Queue,
        Self::Export,
        Self::Cat,
    ];

    /// What the command line calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cat => "cat",
            Self::Summary => "summary",
            Self::Statistics => "statistics",
            Self::Explain => "explain",
            Self::Executable => "executable",
            Self::Dispatch => "dispatch",
            Self::Command => "command",
            Self::Counter => "counter",
            Self::Memory => "memory",
            Self::Queue => "queue",
            Self::Export => "export",
        }
    }

    /// The report with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|report| report.name() == name)
    }

    /// The formats that it supports.
    pub const fn formats(self) -> &'static [Format] {
        match self {
            Self::Export => &[Format::IreeperfJsonl],
            _ => &[Format::Text, Format::Jsonl],
        }
    }

    const fn projects_dispatches(self) -> bool {
        matches!(self, Self::Executable | Self::Dispatch | Self::Command | Self::Queue)
    }

    const fn filters(self) -> bool {
        self.projects_dispatches() || matches!(self, Self::Explain | Self::Counter | Self::Memory)
    }
}

impl Format {
    /// All formats.
    pub const ALL: &'static [Self] = &[Self::Text, Self::Jsonl, Self::IreeperfJsonl];

    /// What the command line calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Jsonl => "jsonl",
            Self::IreeperfJsonl => "ireeperf-jsonl",
        }
    }
}

impl ReportOptions {
    /// Fails if the report does not support one of the options.
    pub fn check(&self) -> Result<()> {
        let (report, format) = (self.report, self.format);
        let report_name = report.name();
        let reject = |message: String, remedy: Remedy| Err(Error::invalid_argument(message).advise(remedy));
        if !report.formats().contains(&format) {
            let known: Vec<_> = report.formats().iter().map(|format| format.name()).collect();
            let (other, first, known) = (format.name(), known[0], known.join(" or "));
            let message = format!("'{report_name}' does not support the format {other} (expected {known})");
            return reject(message, Remedy::SetOption { name: "format", value: first.to_owned() });
        }
        let has_filter = !self.filter.is_empty() && self.filter != "*";
        let options = [
            (has_filter, report.filters(), false, "filter"),
            (self.id >= 0, report.filters(), false, "id"),
            (self.dispatch_events, report.projects_dispatches(), true, "dispatch_events"),
            (self.counter_samples, report == Report::Counter, true, "counter_samples"),
            (
                self.merge_executables,
                matches!(report, Report::Explain | Report::Dispatch),
                false,
                "merge_executables",
            ),
        ];
        for (is_set, is_supported, needs_jsonl, name) in options {
            if is_set && !is_supported {
                let message = format!("'{report_name}' does not support the option {name}");
                return reject(message, Remedy::OmitOption { name });
            }
            if is_set && needs_jsonl && format != Format::Jsonl {
                let message = format!("the option {name} requires the format jsonl");
                return reject(message, Remedy::SetOption { name: "format", value: "jsonl".to_owned() });
            }
        }
        Ok(())
    }

    /// Whether the filter selects a name.
    fn selects(&self, name: &[u8]) -> bool {
        self.filter.is_empty() || self.filter == "*" || glob::matches_bytes(self.filter.as_bytes(), name)
    }

    /// The id to print, if one is selected.
    fn selected_id(&self) -> Option<u64> {
        u64::try_from(self.id).ok()
    }

    /// Whether the options select one of `ids`.
    fn selects_id(&self, ids: &[u64]) -> bool {
        self.selected_id().is_none_or(|id| ids.contains(&id))
    }

    fn is_text(&self) -> bool {
        self.format == Format::Text
    }
}

/// Prints a report of `bundle` to `sink`.
///
/// Fails if the report does not support an option, if a record or row that it reads is malformed or refers to
/// something that the bundle does not describe, or if the sink fails. What was printed before the error
/// remains printed.
pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, sink: &mut dyn Write) -> Result<()> {
    options.check()?;
    let mut out = Out::new(sink);
    let printed = match options.report {
        Report::Cat => cat::print(bundle, options, &mut out),
        Report::Summary => summary::print(bundle, options, &mut out),
        Report::Statistics => statistics::print(bundle, options, &mut out),
        Report::Explain => explain::print(bundle, options, &mut out),
        Report::Executable | Report::Dispatch | Report::Command | Report::Queue => {
            dispatches::print(bundle, options, &mut out)
        }
        Report::Counter => counter::print(bundle, options, &mut out),
        Report::Memory => memory::print(bundle, options, &mut out),
        Report::Export => export::print(bundle, &mut out),
    };
    let finished = out.finish();
    printed.and(finished)
}

/// The metadata of a bundle.
fn model<'a>(bundle: &Bundle<'a>) -> Result<Model<'a>> {
    let mut model = Model::default();
    for record in bundle.records() {
        model.add(&record?)?;
    }
    Ok(model)
}

/// What the reference calls a status code.
pub(crate) fn status_name(code: u32) -> &'static str {
    rehal_base::StatusCode::from_u32(code).map_or("UNKNOWN_STATUS", rehal_base::StatusCode::name)
}

/// The ticks of a device's event, unless they are missing or reversed.
pub(crate) fn ticks(start: u64, end: u64) -> Option<u64> {
    if start == 0 || end == 0 { None } else { end.checked_sub(start) }
}

/// The nanoseconds of a host event, unless they are missing or reversed.
pub(crate) fn nanoseconds(start: i64, end: i64) -> Option<i64> {
    if start < 0 { None } else { end.checked_sub(start).filter(|ns| *ns >= 0) }
}

/// Adds to a total, and fails if it overflows.
fn add(total: &mut u64, value: u64) -> Result<()> {
    *total =
        total.checked_add(value).ok_or_else(|| Error::out_of_range("a total of the profile overflows"))?;
    Ok(())
}

/// The square root as the reference approximates it: 32 steps of Newton's method.
fn square_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    (0..32).fold(value.max(1.0), |estimate, _| 0.5 * (estimate + value / estimate))
}

/// Mean and sum of squared deviations, updated value by value (Welford).
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// The sample standard deviation.
    fn standard(&self) -> f64 {
        if self.count > 1 { square_root(self.squares / (self.count - 1) as f64) } else { 0.0 }
    }
}
