//! Comparisons as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use rehal_base::plural;
use rehal_judge::stats::Interval;
use rehal_judge::{
    Clock, CompareOptions, Comparison, Conditions, Judgment, PartTiming, ShapeTiming, Statistic, Timing,
    Verification, time,
};

use super::candidates::Candidate;
use crate::output::escaped;
use crate::tools::verify;

/// The verdict on the same code, byte for byte.
pub(in crate::tools) const SAME_CODE: &str = "the same code";

/// Shapes that the text lists.
const MAX_SHAPES: usize = 10;

/// The comparison of one replacement with a base: `captured` or `baseline`.
pub(super) fn screen(
    function: &str,
    candidate: &Candidate,
    comparison: &Comparison,
    options: &CompareOptions,
    base: &str,
) -> String {
    let mut text = format!("{} for {}\n", name(candidate), escaped(function));
    check(&mut text, comparison);
    for timing in &comparison.timings {
        add_timing(&mut text, timing, comparison, options, base);
    }
    let is_of_processor = comparison.timings.iter().any(|it| it.judgment.clock == Clock::Processor);
    if is_of_processor && !comparison.is_same_code {
        line(
            &mut text,
            "",
            "code stays at its address modulo 4096: what another would do is not in an interval",
        );
    }
    text
}

fn line(text: &mut String, label: &str, what: &str) {
    let _ = writeln!(text, "{label:<8} {what}");
}

fn check(text: &mut String, comparison: &Comparison) {
    if let Some(reason) = &comparison.not_reproduced {
        line(text, "wrong", &not_reproduced(reason));
    } else if let Some(memory) = wrong_memory(comparison) {
        line(text, "wrong", verify::memory_report(memory).trim_end());
    } else if let Some(verification) = comparison.wrong_verification() {
        let when = case(comparison, verification);
        line(text, "wrong", &format!("{when}{}", verify::report(verification).trim_end()));
    } else {
        let verified = &comparison.verification;
        line(
            text,
            "right",
            &format!(
                "{} and {} are the same{}",
                plural(verified.dispatch_count, "dispatch"),
                plural(verified.read_count, "host read"),
                verify::within(verified)
            ),
        );
        verify::tolerated(verified).for_each(|it| line(text, "", &it));
        if comparison.is_same_code {
            line(text, "", "the same code, byte for byte: times differ only by what its address does");
        }
    }
}

/// Why a replacement is wrong although it computed the same at first, with the flag that may allow it.
fn not_reproduced(reason: &str) -> String {
    let advice = if reason.ends_with("rounding explains") { "; --tolerance allows more" } else { "" };
    format!("{reason}{advice}")
}

/// In which case a replacement is wrong, if not in a replay of the capture.
fn case(comparison: &Comparison, wrong: &Verification) -> &'static str {
    let cases = [
        (
            &comparison.workgroups,
            "workgroups depend on each other (a race, but of atomic operations: --atomics), in reverse order, or with half of them: ",
        ),
        (&comparison.after_timing, "when verified again after timing: "),
    ];
    let is_wrong = |it: &&Verification| std::ptr::eq(*it, wrong);
    cases.iter().find(|(it, _)| it.as_ref().filter(is_wrong).is_some()).map_or("", |(_, case)| case)
}

/// The memory errors of a replacement, if it has some.
fn wrong_memory(comparison: &Comparison) -> Option<&Verification> {
    comparison.memory.as_ref().filter(|it| it.outcome() != rehal_judge::Outcome::Same)
}

fn add_timing(
    text: &mut String,
    timing: &Timing,
    comparison: &Comparison,
    options: &CompareOptions,
    base: &str,
) {
    let judgment = &timing.judgment;
    let verdict = if comparison.is_same_code { SAME_CODE } else { timing.verdict().told() };
    line(text, timing.cache.name(), &ratio(judgment, verdict, base));
    if timing.is_uneven() {
        let [captured, replaced] = timing.longest_shares().map(|it| 100.0 * it);
        let most =
            format!("one thread had {replaced:.0} % of the CPU time, with the {base} kernel {captured:.0} %");
        line(text, "", &format!("{most}: whether it is slower cannot be told"));
    }
    measured(judgment).iter().for_each(|it| line(text, "", it));
    add_clock(text, judgment, options);
    if timing.shapes.len() > 1 {
        add_shapes(text, &timing.shapes);
    }
    line(text, "", &varied(timing, comparison.changes_inputs));
    line(text, "", &machine(&judgment.conditions));
    for warning in &judgment.conditions.warnings {
        line(text, "", &format!("warning: {warning}"));
    }
}

/// The text of a judgment, in a line, after its verdict.
pub(in crate::tools) fn ratio(judgment: &Judgment, verdict: &str, base: &str) -> String {
    if judgment.ratio.is_nan() {
        return match judgment.preempted_count {
            0 => format!("{verdict}: no pair counted within the time"),
            _ => format!("{verdict}: threads were preempted in each pair, and for how long is not known"),
        };
    }
    let captured_ns: f64 = judgment.parts.iter().map(|it| it.captured.ns * it.count as f64).sum();
    let interval = match judgment.interval {
        Some(Interval { low, high }) => format!("95 % interval {low:.4} to {high:.4}"),
        None => "too few batches for an interval".into(),
    };
    format!(
        "{verdict}: {:.4} of the {base} time ({interval}), {} instead of {}",
        judgment.ratio,
        time(captured_ns * judgment.ratio),
        time(captured_ns)
    )
}

/// How a judgment was measured, in lines.
pub(in crate::tools) fn measured(judgment: &Judgment) -> Vec<String> {
    let mut lines = vec![format!(
        "{} in {} by {}; {} after {:.1} s",
        plural(judgment.pair_count, "pair"),
        plural(judgment.batch_count, "batch"),
        judgment.clock.told(),
        judgment.stopped.told(),
        judgment.elapsed.as_secs_f64()
    )];
    for it in &judgment.parts {
        for (name, side) in [("captured", &it.captured), ("replaced", &it.replaced)] {
            if let Some(modes) = side.modes {
                lines.push(format!(
                    "two modes of the {name} side: {} and {}, {:.0} % of the calls take longer{}",
                    time(modes.fast_ns),
                    time(modes.slow_ns),
                    100.0 * modes.slow_share,
                    if judgment.statistic == Statistic::Mean { "; means decide" } else { "" }
                ));
            }
        }
    }
    if judgment.preempted_count != 0 {
        let count = plural(judgment.preempted_count, "pair");
        lines.push(format!("{count} in which a thread was preempted, for an unknown time: left out"));
    }
    lines
}

/// Which inputs had fresh values in each pair.
fn varied(timing: &Timing, changes_inputs: bool) -> String {
    let varied: BTreeSet<u32> =
        timing.shapes.iter().flat_map(|it| it.varied_bindings.iter().copied()).collect();
    let ordinals: Vec<_> = varied.iter().map(u32::to_string).collect();
    match (ordinals.len(), changes_inputs) {
        (0, true) => "inputs as captured: none has a known element type (--element_type)".into(),
        (0, false) => "inputs as captured: with others, a process crashed".into(),
        (1, _) => format!("each pair had fresh values in binding {}", ordinals[0]),
        (_, _) => format!("each pair had fresh values in bindings {}", ordinals.join(", ")),
    }
}

/// The effect of the clock's steps on times that take few of them.
fn add_clock(text: &mut String, timing: &Judgment, options: &CompareOptions) {
    let step = time(timing.resolution_ns);
    let (error, precision) = (100.0 * timing.clock_error, options.precision * 100.0);
    if timing.statistic == Statistic::MeanOfShortest {
        let times = timing.parts.iter().map(|it| it.captured.ns.min(it.replaced.ns));
        let part = 100.0 * timing.resolution_ns / times.fold(f64::INFINITY, f64::min);
        line(
            text,
            "",
            &format!("the clock advances in steps of {step}, {part:.1} % of a dispatch: times are means"),
        );
    }
    if timing.clock_error > options.precision {
        let warning = format!(
            "warning: with so few pairs, a clock with steps of {step} has a precision of {error:.2} %, not {precision} %"
        );
        line(text, "", &warning);
    }
}

/// The shapes that take the most time.
fn add_shapes(text: &mut String, shapes: &[ShapeTiming]) {
    let mut shapes: Vec<&ShapeTiming> = shapes.iter().collect();
    let weight = |it: &ShapeTiming| it.timing.captured.ns * it.shape.count as f64;
    shapes.sort_by(|left, right| weight(right).total_cmp(&weight(left)));
    for it in shapes.iter().take(MAX_SHAPES) {
        let PartTiming { captured, replaced, ratio, interval, .. } = &it.timing;
        let interval = interval.map(|it| format!(" ({:.3} to {:.3})", it.low, it.high)).unwrap_or_default();
        let count = plural(it.shape.count, "dispatch");
        let times = format!("{} instead of {}", time(replaced.ns), time(captured.ns));
        line(text, "", &format!("  record #{}, {count}: {ratio:.3}{interval}, {times}", it.shape.record));
    }
    if let Some(more @ 1..) = shapes.len().checked_sub(MAX_SHAPES) {
        line(text, "", &format!("  and {more} more"));
    }
}

/// The conditions of the machine, in a line.
pub(in crate::tools) fn machine(conditions: &Conditions) -> String {
    let unknown = || "unknown".to_owned();
    let frequency = match conditions.frequency_hz {
        Some((low, high)) if low == high => format!("{:.2} GHz", low as f64 / 1e9),
        Some((low, high)) => format!("{:.2} to {:.2} GHz", low as f64 / 1e9, high as f64 / 1e9),
        None => "unknown frequency".into(),
    };
    let steal = conditions.steal.map_or_else(unknown, |it| format!("{:.1} %", it * 100.0));
    let others = conditions.other_cpus.map_or_else(unknown, |it| format!("{it:.1} CPUs"));
    let migrations = conditions.migrations.map_or_else(unknown, |it| it.to_string());
    format!("{frequency}, steal time {steal}, other processes {others}, migrations {migrations}")
}

/// A comparison in a line.
pub(super) fn summary(comparison: &Comparison) -> String {
    if !comparison.is_right() {
        return format!("wrong: {}", difference(comparison));
    }
    let timings = comparison.timings.iter().map(|timing| {
        let Judgment { ratio, interval, .. } = &timing.judgment;
        let interval = interval.map(|it| format!(" ({:.3} to {:.3})", it.low, it.high)).unwrap_or_default();
        let verdict = if comparison.is_same_code { SAME_CODE } else { timing.verdict().told() };
        format!("{} {ratio:.3}{interval} {verdict}", timing.cache.name())
    });
    timings.collect::<Vec<_>>().join("; ")
}

/// Why a replacement is wrong, in a line.
fn difference(comparison: &Comparison) -> String {
    let verified = || {
        let wrong = comparison.wrong_verification()?;
        verify::first_difference(wrong).map(|it| format!("{}{it}", case(comparison, wrong)))
    };
    let memory = || wrong_memory(comparison).and_then(verify::first_memory_error);
    comparison
        .not_reproduced
        .as_deref()
        .map(not_reproduced)
        .or_else(verified)
        .or_else(memory)
        .unwrap_or_default()
}

pub(super) fn name(candidate: &Candidate) -> String {
    escaped(&candidate.path.display().to_string())
}
