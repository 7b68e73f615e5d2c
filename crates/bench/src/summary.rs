//! Notes after a benchmark: what its samples say beyond their mean, and how far they can be trusted.

use std::fmt::Write as _;
use std::io::Write;

use rehal_base::{Result, plural};

use crate::TimeUnit;
use crate::job::Job;
use crate::number::general;
use crate::run::write_to;
use crate::samples::Summary;
use crate::stats::Interval;

/// Outliers that are listed one by one.
const LISTED_OUTLIERS: usize = 3;

/// Writes the summary of a benchmark whose last repetition is done; nothing if none of them has times.
pub(crate) fn write(job: &Job<'_, '_>, unit: TimeUnit, notes: &mut dyn Write) -> Result<()> {
    match Summary::from_samples(&job.samples) {
        Some(summary) => write_to(notes, format_args!("{}", text(job, &summary, unit))),
        None => Ok(()),
    }
}

fn text(job: &Job<'_, '_>, summary: &Summary, unit: TimeUnit) -> String {
    let name = unit.name();
    let time = |seconds: f64| significant(seconds * unit.per_second());
    let mut text = format!("{}: median {} {name}", job.name, time(summary.median_s));
    if let Some(Interval { low, high }) = summary.interval_s {
        let _ = write!(text, " (95 % interval {} to {})", time(low), time(high));
    }
    let (mean, spread) = (time(summary.mean_s), significant(100.0 * summary.spread));
    let (count, each) = (summary.count(), summary.iterations_per_sample());
    let _ = writeln!(text, ", mean {mean} {name}, spread {spread} % (MAD)");
    let _ = write!(text, "  {} of {}", plural(count as u64, "sample"), plural(each, "iteration"));
    let _ = match job.warmup.iterations {
        0 => writeln!(text, ", no warm-up"),
        warmup => {
            let seconds = general(rounded(job.warmup.time_ns as f64 / 1e9));
            writeln!(text, "; warm-up, not included: {} in {seconds} s", plural(warmup, "iteration"))
        }
    };
    if !summary.outliers.is_empty() {
        let listed = summary.outliers.iter().take(LISTED_OUTLIERS);
        let listed: Vec<_> =
            listed.map(|&index| format!("{} {name} (sample {index})", time(summary.time_s(index)))).collect();
        let more = if summary.outliers.len() > LISTED_OUTLIERS { ", ..." } else { "" };
        let _ = writeln!(
            text,
            "  {}: {}{more}",
            plural(summary.outliers.len() as u64, "outlier"),
            listed.join(", ")
        );
    }
    if summary.interval_s.is_none() {
        text += "  too few samples for an interval: measure longer, or raise --benchmark_repetitions\n";
    }
    if let Some((slow, factor)) = summary.slow_start() {
        let _ = writeln!(
            text,
            "***WARNING*** the first {} took {factor:.1} times as long as the rest; --benchmark_min_warmup_time=0.5 \
             runs these before the measurement",
            if slow == 1 { "sample".into() } else { format!("{slow} samples") }
        );
    }
    for warning in job.interference.warnings() {
        let _ = writeln!(text, "***WARNING*** {warning}");
    }
    text
}

/// Four significant digits: no fewer than the interval needs, no more than a measurement has.
fn significant(value: f64) -> String {
    general(rounded(value))
}

fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}
