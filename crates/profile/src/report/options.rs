//! Reports, their forms and their filters.

use rehal_base::{Error, Remedy, Result, glob};

/// A report.
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

/// The form of a report.
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

/// The report to print, with its form and filters.
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

    /// The name on the command line.
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

    /// The name on the command line.
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
            return reject(message, Remedy::SetOption { name: "format".into(), value: first.to_owned() });
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
                return reject(message, Remedy::OmitOption { name: name.into() });
            }
            if is_set && needs_jsonl && format != Format::Jsonl {
                let message = format!("the option {name} requires the format jsonl");
                return reject(
                    message,
                    Remedy::SetOption { name: "format".into(), value: "jsonl".to_owned() },
                );
            }
        }
        Ok(())
    }

    /// Whether the filter selects a name.
    pub(super) fn selects(&self, name: &[u8]) -> bool {
        self.filter.is_empty() || self.filter == "*" || glob::matches_bytes(self.filter.as_bytes(), name)
    }

    /// The id to print, if one is selected.
    fn selected_id(&self) -> Option<u64> {
        u64::try_from(self.id).ok()
    }

    /// Whether the options select one of `ids`.
    pub(super) fn selects_id(&self, ids: &[u64]) -> bool {
        self.selected_id().is_none_or(|id| ids.contains(&id))
    }

    pub(super) fn is_text(&self) -> bool {
        self.format == Format::Text
    }
}
