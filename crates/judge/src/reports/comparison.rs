//! The comparison of a kernel with a replacement, as JSON.

use serde::Serialize;

use super::{Findings, Rows};
use crate::stats::Interval;
use crate::{
    CacheState, Clock, Comparison, ShapeTiming, SideTiming, Statistic, Stopped, Timing, TimingVerdict,
};

/// How a replacement compares; see the guide of `rehal compare`. All is `None` if it was not compared.
#[derive(Default, Serialize)]
pub struct ComparisonReport<'a> {
    verification: Option<Findings<'a>>,
    memory: Option<Findings<'a>>,
    workgroups: Option<Findings<'a>>,
    after_timing: Option<Findings<'a>>,
    is_same_code: Option<bool>,
    not_reproduced: Option<&'a str>,
    timings: Option<Rows<'a, Timing, TimingRow<'a>>>,
}

impl<'a> ComparisonReport<'a> {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.compare/1";

    /// The report of a comparison.
    pub fn from_comparison(it: &'a Comparison) -> Self {
        Self {
            verification: Some(Findings::from_verification(&it.verification)),
            memory: it.memory.as_ref().map(Findings::from_verification),
            workgroups: it.workgroups.as_ref().map(Findings::from_verification),
            after_timing: it.after_timing.as_ref().map(Findings::from_verification),
            is_same_code: Some(it.is_same_code),
            not_reproduced: it.not_reproduced.as_deref(),
            timings: Some(Rows { of: &it.timings, row: timing }),
        }
    }
}

#[derive(Serialize)]
struct TimingRow<'a> {
    cache: &'static str,
    verdict: TimingVerdict,
    ratio: f64,
    ratio_interval: Option<Interval>,
    margin: f64,
    pair_count: u64,
    preempted_pair_count: u64,
    batch_count: u64,
    resolution_ns: f64,
    statistic: Statistic,
    clock_error: f64,
    timed_by: Clock,
    stopped: Stopped,
    elapsed_ns: u64,
    shapes: Rows<'a, ShapeTiming, ShapeRow<'a>>,
    machine: Machine<'a>,
}

#[derive(Serialize)]
struct ShapeRow<'a> {
    record: u32,
    occurrence: u64,
    count: u64,
    captured_ns: f64,
    replaced_ns: f64,
    captured: SideTiming,
    replaced: SideTiming,
    ratio: f64,
    ratio_interval: Option<Interval>,
    longest_shares: [f64; 2],
    varied_bindings: &'a [u32],
}

#[derive(Serialize)]
struct Machine<'a> {
    frequency_hz: Option<(u64, u64)>,
    steal: Option<f64>,
    other_cpus: Option<f64>,
    migrations: Option<u64>,
    warnings: &'a [String],
}

fn timing(it: &Timing) -> TimingRow<'_> {
    let (judgment, conditions) = (&it.judgment, &it.judgment.conditions);
    TimingRow {
        cache: cache_name(it.cache),
        verdict: it.verdict(),
        ratio: judgment.ratio,
        ratio_interval: judgment.interval,
        margin: judgment.margin,
        pair_count: judgment.pair_count,
        preempted_pair_count: judgment.preempted_count,
        batch_count: judgment.batch_count,
        resolution_ns: judgment.resolution_ns,
        statistic: judgment.statistic,
        clock_error: judgment.clock_error,
        timed_by: judgment.clock,
        stopped: judgment.stopped,
        elapsed_ns: judgment.elapsed.as_nanos() as u64,
        shapes: Rows { of: &it.shapes, row: shape },
        machine: Machine {
            frequency_hz: conditions.frequency_hz,
            steal: conditions.steal,
            other_cpus: conditions.other_cpus,
            migrations: conditions.migrations,
            warnings: &conditions.warnings,
        },
    }
}

fn shape(it: &ShapeTiming) -> ShapeRow<'_> {
    ShapeRow {
        record: it.shape.record,
        occurrence: it.shape.occurrence,
        count: it.shape.count,
        captured_ns: it.timing.captured.ns,
        replaced_ns: it.timing.replaced.ns,
        captured: it.timing.captured,
        replaced: it.timing.replaced,
        ratio: it.timing.ratio,
        ratio_interval: it.timing.interval,
        longest_shares: it.longest_shares,
        varied_bindings: &it.varied_bindings,
    }
}

/// The state of caches in JSON.
pub fn cache_name(cache: CacheState) -> &'static str {
    match cache {
        CacheState::Warm => "warm",
        CacheState::Cold => "cold",
    }
}
