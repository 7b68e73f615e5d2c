//! The result of a search as text and as JSON.

use std::fmt::Write;
use std::path::Path;

use rehal_base::plural;
use rehal_build::{Measured, SearchResult, SearchStop, Trial, TrialOutcome};
use rehal_judge::time;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::output::escaped;
use crate::report::Report;
use crate::table::{Column, Layout, Table};

/// The exit status if the best is slower than the captured kernel.
pub(super) const SLOWER: u8 = 3;

#[derive(Serialize)]
pub(super) struct Tuned<'a> {
    function: &'a str,
    space: String,
    stopped: SearchStop,
    trial_count: usize,
    /// The number of the best trial; `None` if no candidate is right.
    best: Option<u64>,
    /// Where the best was written.
    pub best_path: Option<String>,
    second: Option<u64>,
    against_captured: Option<&'a Measured>,
    against_second: Option<&'a Measured>,
    /// The axes whose values compile to the same code.
    unchanging_axes: &'a [String],
    /// The flags of the compiler that the best needs.
    best_flags: &'a [String],
    trials: &'a [Trial],
    #[serde(skip)]
    result: &'a SearchResult,
    /// Whether the sampler has all points of the space.
    #[serde(skip)]
    pub has_all_points: bool,
}

/// How the best compares, as text.
fn told(measured: &Measured, than: &str) -> String {
    let ratio = measured.ratio.map_or_else(String::new, |it| format!(": {it:.4} of its time"));
    let interval = match measured.ratio_interval {
        Some([low, high]) => format!(" (95 % interval {low:.4} to {high:.4})"),
        None => " (too few batches for an interval)".into(),
    };
    let verdict = match measured.outcome {
        TrialOutcome::CannotTell => format!("cannot tell whether it is faster than {than}"),
        outcome => format!("{} than {than}", outcome.told()),
    };
    format!("{verdict}{ratio}{interval}")
}

impl<'a> Tuned<'a> {
    pub(super) fn new(
        function: &'a str,
        space: &Path,
        result: &'a SearchResult,
        stopped: SearchStop,
    ) -> Self {
        let number = |index: Option<usize>| index.map(|it| result.trials[it].trial);
        Self {
            function,
            space: space.display().to_string(),
            stopped,
            trial_count: result.trials.len(),
            best: number(result.best),
            best_path: None,
            second: number(result.second),
            against_captured: result.against_captured.as_ref(),
            against_second: result.against_second.as_ref(),
            unchanging_axes: &result.unchanging_axes,
            best_flags: &result.best_flags,
            trials: &result.trials,
            result,
            has_all_points: true,
        }
    }

    /// The exit status, as that of `rehal compare` for several replacements, but for a best one that is not
    /// proved to be faster.
    pub(super) fn status(&self) -> u8 {
        const FAILED: u8 = 1;
        const WRONG: u8 = 2;
        const CANNOT_TELL: u8 = 4;
        let has = |outcome| self.trials.iter().any(|it| it.outcome == outcome);
        let Some(best) = self.result.best else {
            return match self.trials.is_empty() {
                true => CANNOT_TELL,
                false if has(TrialOutcome::Wrong) || has(TrialOutcome::Crashed) => WRONG,
                false => FAILED,
            };
        };
        let of_trial = match self.trials[best].outcome {
            // It has the best of many ratios, which is too good.
            TrialOutcome::Faster => TrialOutcome::CannotTell,
            outcome => outcome,
        };
        match self.against_captured.as_ref().map_or(of_trial, |it| it.outcome) {
            TrialOutcome::Faster => 0,
            TrialOutcome::Slower => SLOWER,
            _ => CANNOT_TELL,
        }
    }

    /// The trials in the order of the table: right ones by their ratio, then the others by outcome.
    fn ranked(&self) -> Vec<&Trial> {
        let mut trials: Vec<_> = self.trials.iter().collect();
        let rank = |it: &Trial| match it.outcome.is_right() {
            true => (TrialOutcome::Faster, it.ratio.unwrap_or(f64::INFINITY)),
            false => (it.outcome, 0.0),
        };
        trials.sort_by(|one, other| {
            let (one, other) = (rank(one), rank(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        trials
    }

    fn result(&self) -> String {
        let mut text = String::new();
        let Some(best) = self.result.best.map(|it| &self.trials[it]) else {
            return "no variant is right\n".into();
        };
        let is_changing = |name: &String| !self.unchanging_axes.contains(name);
        let changing = best.point.iter().filter(|(name, _)| is_changing(name));
        let changing: Map<String, Value> =
            changing.map(|(name, value)| (name.clone(), value.clone())).collect();
        let colon = if changing.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "best     trial {}{colon}{}", best.trial, point(&changing));
        if let Some(rounded) = rounded(best) {
            let _ = writeln!(text, "         {rounded}");
        }
        let _ = match (&self.against_captured, best.ratio) {
            (Some(pair), _) => writeln!(text, "         {}", told(pair, "the captured kernel")),
            (None, Some(ratio)) => writeln!(
                text,
                "         not proved: {ratio:.3} of the time of the captured kernel in its trial, the best of those measured"
            ),
            (None, None) => writeln!(text, "         not proved: it was not timed"),
        };
        if let (Some(pair), Some(second)) = (&self.against_second, self.second) {
            let _ = writeln!(text, "         {}", told(pair, &format!("the second, trial {second}")));
        }
        if !self.best_flags.is_empty() {
            let _ = writeln!(text, "         flags of the compiler: {}", escaped(&self.best_flags.join(" ")));
        }
        match &self.best_path {
            Some(path) => {
                let _ = writeln!(text, "         written to {}", escaped(path));
            }
            None if changing.is_empty() => {
                let _ = writeln!(text, "         no axis changes the code");
            }
            None => {
                let _ = writeln!(text, "         {}", escaped(&best.command));
            }
        }
        for axis in self.unchanging_axes {
            let _ = writeln!(
                text,
                "axis '{}' changes nothing: its values compile to the same code",
                escaped(axis)
            );
        }
        text
    }
}

impl Report for Tuned<'_> {
    const SCHEMA: &'static str = "rehal.tune/1";
    const IS_ON_A_LINE: bool = true;

    fn text(&self, layout: Layout) -> String {
        let mut table = Table::new(
            "",
            [
                Column::right("trial"),
                Column::left("point").shortened(),
                Column::left("outcome"),
                Column::right("ratio"),
                Column::left("interval").optional(2),
                Column::right("time").optional(1),
                Column::left("why").shortened().optional(3),
            ],
        );
        for trial in self.ranked() {
            let number = |value: Option<f64>| value.map_or_else(String::new, |it| format!("{it:.3}"));
            let interval =
                trial.ratio_interval.map_or_else(String::new, |[low, high]| format!("{low:.3} to {high:.3}"));
            let same = same_code(trial).or_else(|| rounded(trial));
            let why = same.as_deref().or(trial.error.as_deref().map(reason)).unwrap_or_default();
            table.row([
                trial.trial.to_string(),
                point(&trial.point),
                trial.outcome.told().to_owned(),
                number(trial.ratio),
                interval,
                trial.candidate_ns.map(time).unwrap_or_default(),
                escaped(why),
            ]);
        }
        let stopped = match self.stopped {
            SearchStop::Points if self.has_all_points => "all points were tried",
            SearchStop::Points => "no more points",
            SearchStop::Trials => "stopped by --trials",
            SearchStop::Time => "stopped by --max_time",
            SearchStop::Interrupted => "interrupted",
            SearchStop::Error => "ended by an error",
        };
        let count = plural(self.trial_count as u64, "trial");
        let head = format!("{count} of {}; {stopped}\n", escaped(self.function));
        let table = if self.trials.is_empty() { String::new() } else { table.text(layout) };
        head + &table + &layout.wrap(&self.result())
    }
}

/// The note on a trial that has the code of an earlier one.
pub(super) fn same_code(trial: &Trial) -> Option<String> {
    trial.same_code_as.map(|number| format!("the same code as trial {number}"))
}

/// How far the results of a trial are from the captured ones, if they are right up to rounding.
fn rounded(trial: &Trial) -> Option<String> {
    let of = |name: &str| trial.rounding.as_ref()?[0][name].as_f64();
    let (multiple, ulps) = (of("multiple")?, of("scale_ulps")?);
    Some(format!("right up to rounding: {multiple:.2} times its scale of {ulps:.2} ULPs"))
}

/// Why a variant is not right, in a line: of the messages of a compiler, the first error.
pub(super) fn reason(error: &str) -> &str {
    let first = error.lines().find_map(|line| line.find("error: ").map(|at| &line[at..]));
    first.or_else(|| error.lines().next()).unwrap_or_default()
}

/// The values of a point in a line.
pub(super) fn point(values: &Map<String, Value>) -> String {
    let value = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        escaped(&format!("{name}={value}"))
    };
    values.iter().map(value).collect::<Vec<_>>().join(" ")
}
