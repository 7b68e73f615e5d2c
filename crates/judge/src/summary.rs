//! Notes after a benchmark: what its samples say beyond their mean, and how far they can be trusted.

use std::fmt::Write as _;
use std::io::Write;

use rehal_base::{Result, plural};

use crate::job::Job;
use crate::judge;
use crate::report::write_to;
use crate::samples::Summary;
use crate::stats::Interval;

/// Outliers that are listed one by one.
const LISTED_OUTLIERS: usize = 3;

/// Writes the summary of a benchmark whose last repetition is done; nothing if none of them has times.
pub(crate) fn write(job: &Job<'_, '_>, notes: &mut dyn Write) -> Result<()> {
    match Summary::from_samples(&job.samples) {
        Some(summary) => write_to(notes, format_args!("{}", text(job, &summary))),
        None => Ok(()),
    }
}

fn text(job: &Job<'_, '_>, summary: &Summary) -> String {
    let time = |seconds: f64| judge::time(seconds * 1e9);
    let mut text = format!("{}: median {}", job.name, time(summary.median_s));
    if let Some(Interval { low, high }) = summary.interval_s {
        let _ = write!(text, " (95 % interval {} to {})", time(low), time(high));
    }
    let (mean, spread) = (time(summary.mean_s), 100.0 * summary.spread);
    let (count, each) = (summary.count(), summary.iterations_per_sample());
    let _ = writeln!(text, ", mean {mean}, spread {spread:.2} % (MAD)");
    let _ = write!(text, "  {} of {}", plural(count as u64, "sample"), plural(each, "iteration"));
    let _ = match job.warmup.iterations {
        0 => writeln!(text, ", no warm-up"),
        warmup => {
            let took = judge::time(job.warmup.time_ns as f64);
            writeln!(text, "; warm-up, not included: {} in {took}", plural(warmup, "iteration"))
        }
    };
    if !summary.outliers.is_empty() {
        let listed = summary.outliers.iter().take(LISTED_OUTLIERS);
        let listed: Vec<_> =
            listed.map(|&index| format!("{} (sample {index})", time(summary.time_s(index)))).collect();
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
