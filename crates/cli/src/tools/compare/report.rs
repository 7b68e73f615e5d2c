//! The report of one replacement.

use std::cmp::Ordering;
use std::time::Duration;

use rehal_base::{Advice, Error, Remedy, StatusCode};
use rehal_judge::{Comparison, ComparisonReport};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::candidates::Candidate;
use super::print;
use crate::advice;
use crate::output::escaped;
use crate::report::Report;
use crate::table::{Column, Layout, Table};

/// The outcome of a comparison; the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tools) enum Outcome {
    Right,
    Wrong,
    /// It ended its process by a signal.
    Crashed,
    /// It was ended, because it took too long.
    TimedOut,
    /// How many workgroups it needs is not known.
    CannotTell,
    /// It does not compile, has another signature, or fails, also if its process ends for a reason that may
    /// not be its own.
    Failed,
}

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::CannotTell => "cannot_tell",
            Self::Failed => "failed",
        }
    }
}

/// The report of a replacement.
#[derive(Clone, Debug)]
pub(in crate::tools) struct CandidateReport {
    pub outcome: Outcome,
    /// `None` if that cannot be told.
    pub is_slower: Option<bool>,
    /// The ratio by which replacements are ranked.
    pub ratio: Option<f64>,
    pub name: String,
    /// A line of a table.
    pub summary: String,
    /// A screen, or what it failed with.
    pub text: String,
    /// As an element of the JSON report.
    pub object: Value,
    /// The comparison, unless it has no result.
    pub comparison: Option<Box<Comparison>>,
    /// Whether it has no result for a reason that is not known to be its own: its process was ended, or the
    /// machine lacks something.
    pub says_nothing: bool,
    /// Whether it lacks the function, or a file is missing.
    pub is_not_found: bool,
}

impl CandidateReport {
    /// A comparison, with the screen that shows it.
    pub(super) fn compared(candidate: &Candidate, comparison: Box<Comparison>, text: String) -> Self {
        Self {
            outcome: if comparison.is_right() { Outcome::Right } else { Outcome::Wrong },
            is_slower: if comparison.is_right() { comparison.is_slower() } else { None },
            ratio: comparison.ratio(),
            name: print::name(candidate),
            summary: print::summary(&comparison),
            text,
            object: row(candidate, &comparison),
            comparison: Some(comparison),
            says_nothing: false,
            is_not_found: false,
        }
    }

    pub(super) fn failed(candidate: &Candidate, error: &Error) -> Self {
        // The messages of a compiler have many lines.
        let first = error.to_string().lines().next().unwrap_or_default().to_owned();
        let says_nothing = matches!(
            error.code(),
            StatusCode::Unavailable | StatusCode::PermissionDenied | StatusCode::ResourceExhausted
        );
        let is_unknown = error.advice() == Some(&Advice::Remedy(Remedy::StateWorkgroups));
        let (outcome, first) = match is_unknown {
            true => (Outcome::CannotTell, error.message().to_owned()),
            false => (Outcome::Failed, first),
        };
        let report = Self::without_result(outcome, candidate, &first, advice::report(error));
        Self { says_nothing, is_not_found: error.code() == StatusCode::NotFound, ..report }
    }

    /// A replacement that ended its process: `how`, and what was printed on standard error.
    pub(super) fn crashed(candidate: &Candidate, how: &str, printed: String) -> Self {
        Self::without_result(Outcome::Crashed, candidate, how, printed)
    }

    /// A replacement whose process ended without a result, for a reason that says nothing about what it
    /// computes.
    pub(super) fn ended(candidate: &Candidate, how: &str, printed: &str) -> Self {
        let printed = printed.trim_end();
        let text = match printed.contains(how) {
            true => printed.to_owned(),
            false => format!("{}: {how}\n{printed}", print::name(candidate)).trim_end().to_owned(),
        };
        Self { says_nothing: true, ..Self::without_result(Outcome::Failed, candidate, how, text) }
    }

    /// A replacement that was ended after `limit`, while it was checked or timed.
    pub(super) fn timed_out(candidate: &Candidate, limit: Duration, is_timing: bool) -> Self {
        let what = if is_timing { "compared" } else { "checked" };
        let how = format!("ended after {:.0} s, in which it should have been {what}", limit.as_secs_f64());
        Self::without_result(Outcome::TimedOut, candidate, &how, how.clone())
    }

    /// A replacement whose checks were interrupted.
    pub(super) fn interrupted(candidate: &Candidate) -> Self {
        let why = "interrupted before it was known what it computes";
        let report = Self::without_result(Outcome::CannotTell, candidate, why, format!("cannot tell: {why}"));
        Self { says_nothing: true, ..report }
    }

    fn without_result(outcome: Outcome, candidate: &Candidate, why: &str, text: String) -> Self {
        let name = print::name(candidate);
        let object = row_without_result(&name, outcome, &text);
        let summary = format!("{}: {why}", outcome.name().replace('_', " "));
        Self {
            outcome,
            is_slower: None,
            ratio: None,
            name,
            summary,
            text,
            object,
            comparison: None,
            says_nothing: false,
            is_not_found: false,
        }
    }

    /// Right ones by their ratio, then the others by outcome.
    pub(super) fn rank(&self, other: &Self) -> Ordering {
        let ratio = |it: &Self| it.ratio.filter(|_| it.outcome == Outcome::Right).unwrap_or(f64::INFINITY);
        self.outcome.cmp(&other.outcome).then(ratio(self).total_cmp(&ratio(other)))
    }
}

/// The report of several replacements, or of one.
#[derive(Serialize)]
pub(super) struct Compared<'a> {
    pub function: &'a str,
    #[serde(rename = "candidates", serialize_with = "objects")]
    pub reports: &'a [CandidateReport],
}

fn objects<S: Serializer>(reports: &[CandidateReport], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(reports.iter().map(|it| &it.object))
}

impl Report for Compared<'_> {
    const SCHEMA: &'static str = ComparisonReport::SCHEMA;
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        match self.reports {
            [only] => match only.outcome {
                Outcome::Right | Outcome::Wrong => layout.wrap(&only.text),
                Outcome::Crashed | Outcome::TimedOut | Outcome::CannotTell => {
                    layout.wrap(&format!("{}  {}\n", only.name, only.summary))
                }
                // What it failed with is on standard error.
                Outcome::Failed => String::new(),
            },
            all => table(self.function, all, layout),
        }
    }
}

/// A replacement in the JSON report.
#[derive(Serialize)]
struct Row<'a> {
    path: &'a str,
    outcome: &'static str,
    is_slower: Option<bool>,
    /// `None` if it was compared; the fields below are `None` if it was not.
    error: Option<&'a str>,
    #[serde(flatten)]
    comparison: ComparisonReport<'a>,
}

/// The row of a replacement that was compared.
fn row(candidate: &Candidate, comparison: &Comparison) -> Value {
    let is_right = comparison.is_right();
    let row = Row {
        path: &print::name(candidate),
        outcome: if is_right { Outcome::Right } else { Outcome::Wrong }.name(),
        is_slower: if is_right { comparison.is_slower() } else { None },
        error: None,
        comparison: ComparisonReport::from_comparison(comparison),
    };
    // Its keys are strings, and numbers that JSON does not have are null.
    serde_json::to_value(row).unwrap_or_default()
}

/// The row of a replacement that could not be compared.
fn row_without_result(path: &str, outcome: Outcome, error: &str) -> Value {
    let row = Row {
        path,
        outcome: outcome.name(),
        is_slower: None,
        error: Some(error),
        comparison: ComparisonReport::default(),
    };
    serde_json::to_value(row).unwrap_or_default()
}

/// A line for each replacement, the best first.
fn table(function: &str, reports: &[CandidateReport], layout: Layout) -> String {
    let columns = [Column::left("replacement").untitled(), Column::left("outcome").untitled()];
    let mut table = Table::new("", columns);
    reports.iter().for_each(|it| table.row([it.name.clone(), it.summary.clone()]));
    format!("{} replacements of {}\n{}", reports.len(), escaped(function), table.text(layout))
}

/// The exit status for several replacements.
pub(super) fn status(reports: &[CandidateReport]) -> u8 {
    /// No replacement could be compared.
    const FAILED: u8 = 1;
    /// No replacement is right: one is wrong or crashes.
    const WRONG: u8 = 2;
    /// The replacements that are right are slower.
    const SLOWER: u8 = 3;
    /// It cannot be told whether one that is right is slower, or whether one is right.
    const CANNOT_TELL: u8 = 4;
    let has = |outcome: Outcome| reports.iter().any(|it| it.outcome == outcome);
    let right: Vec<_> =
        reports.iter().filter(|it| it.outcome == Outcome::Right).map(|it| it.is_slower).collect();
    match right.is_empty() {
        _ if right.contains(&Some(false)) => 0,
        _ if right.contains(&None) => CANNOT_TELL,
        false => SLOWER,
        true if has(Outcome::Wrong) || has(Outcome::Crashed) => WRONG,
        true if has(Outcome::CannotTell) => CANNOT_TELL,
        true => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome, is_slower: Option<bool>, ratio: Option<f64>) -> CandidateReport {
        let candidate = Candidate { path: "a \" b.c".into() };
        let mut report = CandidateReport::crashed(&candidate, "why", "two\nlines".into());
        (report.outcome, report.is_slower, report.ratio) = (outcome, is_slower, ratio);
        report
    }

    #[test]
    fn the_best_is_first_and_decides() {
        let [fast, unknown, slow] = [(Some(false), 0.5), (None, 1.0), (Some(true), 2.0)]
            .map(|(is_slower, ratio)| report(Outcome::Right, is_slower, Some(ratio)));
        // Timed although it is wrong.
        let wrong = report(Outcome::Wrong, None, Some(0.1));
        let crashed = report(Outcome::Crashed, None, None);
        let uncounted = report(Outcome::CannotTell, None, None);
        let failed = report(Outcome::Failed, None, None);
        let ranked = [&fast, &unknown, &slow, &wrong, &crashed, &uncounted, &failed];
        let mut sorted = ranked.map(Clone::clone);
        sorted.reverse();
        sorted.sort_by(CandidateReport::rank);
        let ends = |all: &[&CandidateReport]| all.iter().map(|it| (it.outcome, it.ratio)).collect::<Vec<_>>();
        assert_eq!(ends(&sorted.each_ref()), ends(&ranked));
        for (from, expected) in [(0, 0), (1, 4), (2, 3), (3, 2), (4, 2), (5, 4), (6, 1)] {
            assert_eq!(status(&sorted[from..]), expected, "{from}");
        }
    }
}
