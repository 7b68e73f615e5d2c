//! A comparison as a table, as JSON and as CSV.

use std::fmt::Write;

use rehal_base::plural;
use rehal_judge::{
    ChangeVerdict, FunctionChange, FunctionTotals, Interval, ProfileComparison, ProfileSide, TimingVerdict,
    time,
};

use crate::output::escaped;
use crate::report::{Report, csv_field};
use crate::table::{Column, Layout, Table};

/// The comparison for people.
fn text(comparison: &ProfileComparison, layout: Layout) -> String {
    let ProfileComparison { before, after, changes, .. } = comparison;
    let mut text = String::new();
    for (label, side) in [("before", before), ("after ", after)] {
        let _ = writeln!(
            text,
            "{label}  {}: {} in {}, {}",
            paths(side),
            time(side.total_ns),
            plural(side.dispatch_count, "dispatch"),
            plural(side.function_count as u64, "function")
        );
    }
    text.push_str(&counts(comparison));
    let _ = writeln!(text, "all     {}", weight(comparison, comparison.change_ns));
    if changes.is_empty() {
        return layout.wrap(&text);
    }
    let has_counts = !comparison.has_common_counts();
    if has_counts {
        let parts = [
            ("the numbers of dispatches", comparison.count_change_ns),
            ("their mean times", comparison.mean_change_ns),
        ];
        let parts = parts.map(|(what, ns)| format!("{} by {what}", weight(comparison, ns)));
        let _ = writeln!(text, "        {}", parts.join(", "));
    }
    let mut columns = vec![Column::right("of all")];
    if has_counts {
        columns.extend([Column::right("by number").optional(5), Column::right("by mean").optional(5)]);
    }
    columns.extend([
        Column::right("change"),
        Column::right("interval").optional(1),
        Column::right("verdict"),
        Column::right("before").optional(4),
        Column::right("after").optional(3),
        Column::right("dispatches").optional(2),
        Column::names("function"),
    ]);
    let mut table = Table::new("", columns);
    changes.iter().for_each(|change| table.row(row(comparison, change, has_counts)));
    layout.wrap(&text) + "\n" + &table.text(layout) + &layout.wrap(&notes(changes))
}

/// The profiles of a side: of several, their number and the first.
fn paths(side: &ProfileSide) -> String {
    match &side.paths[..] {
        [only] => escaped(only),
        paths => format!("{} ({}, ...)", plural(paths.len() as u64, "profile"), escaped(&paths[0])),
    }
}

/// A note about different numbers of dispatches.
fn counts(comparison: &ProfileComparison) -> String {
    let ProfileComparison { before, after, common_factor, .. } = comparison;
    let count_factor = comparison.count_factor;
    if count_factor != 1.0 {
        let which = match comparison.has_common_counts() {
            true => "all functions",
            false => "functions with most of the time",
        };
        return format!(
            "counts  {which} were dispatched {} times as often: the time before counts as often, {}\n",
            factor(count_factor),
            time(comparison.scaled_before_ns())
        );
    }
    if comparison.has_common_counts() || before.dispatch_count == 0 || after.dispatch_count == 0 {
        return String::new();
    }
    let differ = match common_factor {
        Some(_) => "the numbers of dispatches of some functions differ",
        None => "the numbers of dispatches differ, by no factor in common",
    };
    format!("counts  {differ}: what they changed is apart\n")
}

/// A factor with as many digits as it needs, up to four.
fn factor(factor: f64) -> String {
    let text = format!("{factor:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The meaning of the verdicts and the intervals.
fn notes(changes: &[FunctionChange]) -> String {
    let unknown = changes.iter().filter(|it| it.verdict == ChangeVerdict::Judged(TimingVerdict::CannotTell));
    let (with, without): (Vec<_>, Vec<_>) = unknown.partition(|it| it.ratio_interval.is_some());
    let functions = |of: &[&FunctionChange]| plural(of.len() as u64, "function");
    let mut text = String::new();
    if !with.is_empty() {
        let _ =
            writeln!(text, "\ncannot tell: {} may differ as processes of one version do", functions(&with));
    }
    if !without.is_empty() {
        let _ = writeln!(
            text,
            "\ncannot tell: too few profiles of {}. The memory of a process may make a function some percent \
             slower: record several processes of each version ('before-*.ireeprof')",
            functions(&without)
        );
    }
    if changes.iter().any(|change| change.ratio_interval.is_some()) {
        text.push_str(
            "\nintervals: 95 %, between the profiles of a side, corrected for the number of functions\n",
        );
    }
    text
}

fn row(comparison: &ProfileComparison, change: &FunctionChange, has_counts: bool) -> Vec<String> {
    let median = |times: Option<FunctionTotals>| times.map_or_else(|| "-".into(), |it| time(it.median_ns));
    let counts = match (change.before, change.after) {
        (Some(before), Some(after)) if before.count == after.count => before.count.to_string(),
        (before, after) => {
            let count = |times: Option<FunctionTotals>| times.map_or(0, |times| times.count);
            format!("{} -> {}", count(before), count(after))
        }
    };
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let ratio = change.ratio.map_or_else(|| "-".into(), percent);
    let interval = change.ratio_interval.map_or_else(String::new, |Interval { low, high }| {
        format!("{:+.1} to {:+.1} %", (low - 1.0) * 100.0, (high - 1.0) * 100.0)
    });
    let name = match change.timed_by {
        rehal_profile::times::TimedBy::Host => change.name.clone(),
        rehal_profile::times::TimedBy::Device => format!("{} (device)", change.name),
    };
    let mut cells = vec![weight(comparison, change.change_ns)];
    if has_counts {
        cells.extend([added(change), signed_time(change.mean_change_ns)]);
    }
    cells.extend([
        ratio,
        interval,
        change.verdict.name().into(),
        median(change.before),
        median(change.after),
        counts,
        escaped(&name),
    ]);
    cells
}

/// The dispatches that the factor does not explain, with their time.
fn added(change: &FunctionChange) -> String {
    match change.added_count {
        0.0 => "-".into(),
        count => format!("{} ({count:+.0})", signed_time(change.count_change_ns)),
    }
}

/// A change with its part of the whole.
fn weight(comparison: &ProfileComparison, change_ns: f64) -> String {
    signed_time(change_ns) + &share(comparison, change_ns)
}

/// A change as a fraction of the time of all dispatches before, as often as after, if that is not zero.
fn share(comparison: &ProfileComparison, change_ns: f64) -> String {
    match comparison.scaled_before_ns() {
        total if total > 0.0 => format!(" ({:+.1} %)", change_ns / total * 100.0),
        _ => String::new(),
    }
}

fn signed_time(ns: f64) -> String {
    let sign = if ns < 0.0 { "" } else { "+" };
    format!("{sign}{}", time(ns))
}

impl Report for ProfileComparison {
    const SCHEMA: &'static str = "rehal.profile.compare/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        text(self, layout)
    }
}

/// The comparison as CSV (RFC 4180), with empty fields for what is not known.
pub(super) fn csv(comparison: &ProfileComparison) -> String {
    let mut text = String::from(
        "name,timed_by,verdict,change_ns,count_change_ns,mean_change_ns,raw_change_ns,ratio,ratio_low,ratio_high,before_count,before_total_ns,before_mean_ns,\
         before_median_ns,after_count,after_total_ns,after_mean_ns,after_median_ns\n",
    );
    let number = |value: Option<f64>| value.map(|it| it.to_string()).unwrap_or_default();
    let ends =
        |interval: Option<Interval>| [number(interval.map(|it| it.low)), number(interval.map(|it| it.high))];
    for change in &comparison.changes {
        let mut fields = vec![
            csv_field(&change.name),
            change.timed_by.name().into(),
            change.verdict.name().into(),
            change.change_ns.to_string(),
            change.count_change_ns.to_string(),
            change.mean_change_ns.to_string(),
            change.raw_change_ns.to_string(),
            number(change.ratio),
        ];
        fields.extend(ends(change.ratio_interval));
        for times in [change.before, change.after] {
            fields.push(times.map_or_else(|| "0".into(), |it| it.count.to_string()));
            fields.push(number(times.map(|it| it.total_ns)));
            fields.push(number(times.map(|it| it.mean_ns)));
            fields.push(number(times.map(|it| it.median_ns)));
        }
        let _ = writeln!(text, "{}", fields.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use rehal_profile::times::{FunctionTimes, TimedBy};

    use super::*;

    #[test]
    fn changes_have_a_sign() {
        assert_eq!([1.5e6, 2e9, -3_000.0].map(signed_time), ["+1.50 ms", "+2.00 s", "-3.00 us"]);
    }

    #[test]
    fn counts_are_singular_and_plural() {
        let function = |name: &str| FunctionTimes {
            name: name.into(),
            timed_by: TimedBy::Host,
            times_ns: vec![2.0],
            thread_time_ns: 2.0,
        };
        let printed = |functions: &[FunctionTimes]| {
            let side = || ProfileSide::new(vec![("a\u{1b}".into(), functions.to_vec())]);
            text(&ProfileComparison::from_sides(side(), side(), 0.03), Layout::PIPE)
        };
        let one = printed(&[function("f")]);
        assert!(one.starts_with("before  a\\u{1b}: 2.00 ns in 1 dispatch, 1 function\n"), "{one}");
        assert!(one.contains("\ncannot tell: too few profiles of 1 function."), "{one}");
        let two = printed(&[function("f"), function("g")]);
        assert!(two.starts_with("before  a\\u{1b}: 4.00 ns in 2 dispatches, 2 functions\n"), "{two}");
        assert!(two.contains("\ncannot tell: too few profiles of 2 functions."), "{two}");
    }

    #[test]
    fn what_was_done_about_numbers_of_dispatches_is_said() {
        let function = |name: &str, times_ns: Vec<f64>| FunctionTimes {
            name: name.into(),
            timed_by: TimedBy::Host,
            thread_time_ns: times_ns.iter().sum(),
            times_ns,
        };
        let printed = |before, after| {
            let sides = [("a", before), ("b", after)]
                .map(|(path, it)| ProfileSide::new(vec![(path.into(), vec![it])]));
            let [before, after] = sides;
            text(&ProfileComparison::from_sides(before, after, 0.03), Layout::PIPE)
        };
        let (fifty, hundred) = (vec![10.0; 50], vec![8.0; 100]);
        let scaled = printed(function("f", fifty.clone()), function("f", hundred));
        let counts = "counts  all functions were dispatched 2 times as often: the time before counts as often, 1.00 us\n";
        assert!(scaled.contains(counts), "{scaled}");
        assert!(scaled.contains("\nall     -200 ns (-20.0 %)\n\n"), "{scaled}");
        let same = printed(function("f", fifty.clone()), function("f", fifty.clone()));
        assert!(!same.contains("counts "), "{same}");
        let sides = [("a", vec![10.0; 50], vec![10.0; 60]), ("b", vec![10.0; 100], vec![10.0; 20])];
        let [before, after] = sides.map(|(path, f, g)| {
            ProfileSide::new(vec![(path.into(), vec![function("f", f), function("g", g)])])
        });
        let apart = text(&ProfileComparison::from_sides(before, after, 0.03), Layout::PIPE);
        assert!(
            apart.contains("counts  the numbers of dispatches differ, by no factor in common"),
            "{apart}"
        );
        assert!(
            apart.contains("+100 ns (+9.1 %) by the numbers of dispatches, +0.00 ns (+0.0 %) by their"),
            "{apart}"
        );
        assert!(apart.contains("+500 ns (+50)") && apart.contains("-400 ns (-40)"), "{apart}");
        // One is renamed: the others, with most of the time, were dispatched as often.
        let renamed = |name: &str| {
            ProfileSide::new(vec![(
                "a".into(),
                vec![function("f", vec![10.0; 50]), function(name, vec![1.0; 50])],
            )])
        };
        let renamed = text(&ProfileComparison::from_sides(renamed("g"), renamed("h"), 0.03), Layout::PIPE);
        let counts =
            "counts  the numbers of dispatches of some functions differ: what they changed is apart\n";
        assert!(renamed.contains(counts), "{renamed}");
        assert_eq!([2.0, 1.8036, 0.3333333].map(factor), ["2", "1.8036", "0.3333"]);
    }

    #[test]
    fn a_terminal_of_80_columns_is_wide_enough() {
        let function = |index: u32, times_ns: [f64; 3]| FunctionTimes {
            name: format!("Model from PaddlePaddle.$async_dispatch_{index}_conv_320x320x24x2x2_f32"),
            timed_by: TimedBy::Host,
            thread_time_ns: 60.0,
            times_ns: times_ns.repeat(40),
        };
        let side = |path: &str, factor: f64| {
            let profile = |number: u32| {
                let functions = (0..9).map(|it| function(it, [1.1e7, 1e7, 1.2e7].map(|ns| ns * factor)));
                (
                    format!("/a/directory/with/a/long/name/of/profiles/{path}.{number}.ireeprof"),
                    functions.collect(),
                )
            };
            ProfileSide::new((0..8).map(profile).collect())
        };
        let after = side("after", 123.4);
        let comparison = ProfileComparison::from_sides(side("before", 1.0), after, 0.05);
        let text = text(&comparison, Layout::of_width(80));
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{text}");
        assert!(text.contains("  +12240.0 %  ") && text.contains("  slower  '*_3_conv"), "{text}");
    }

    #[test]
    fn names_are_quoted_and_escaped() {
        assert_eq!(csv_field("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(csv_field("plain"), "plain");
        assert_eq!(escaped("a\tb\u{1b}é"), "a\\tb\\u{1b}é");
    }
}
