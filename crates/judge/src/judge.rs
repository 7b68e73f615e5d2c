//! Is one side faster or slower than another? Samples of times become a ratio, its interval and a verdict.
//!
//! All that compares times does so here: kernels, replays with and without replacements, runs
//! of several processes, profiles. So a difference is judged in one way, whatever measured it.
//!
//! - [`measure`] takes pairs of samples of two sides that are at hand, interleaved in random order. It has
//!   both sides placed again in memory for each batch, since a placement can make one side faster, and
//!   batches are the samples of the interval (`sampler.rs`, docs/decisions/026). `coarse.rs` has the
//!   statistics of clocks with few steps in a sample, `modes.rs` those of kernels that take one of two
//!   times.
//! - [`judge_processes`] compares times of two sets of processes, such as those of two histories. A process
//!   has one placement, so that each is one sample.
//!
//! A [`Sample`] says whether its thread was preempted, and whether the time excludes that. A sample that
//! includes it is never part of an interval. The statistics have no clock, so that their tests run on
//! simulated machines.

mod coarse;
mod modes;
mod processes;
mod sampler;
mod turns;

use std::time::Duration;

use rehal_base::number_or_nan;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Conditions;
use crate::stats::Interval;

pub use self::coarse::LONGEST_STEP_NS;
pub use self::modes::Modes;
pub use self::processes::{ProcessJudgment, check_times, judge_processes};
pub use self::sampler::FAR;
pub use self::turns::{Batch, Flow, JudgeOptions, Parts, Side, Subject, measure};

/// The way in which a time counts that in which the threads that did the work were preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preemption {
    /// They were not preempted.
    #[default]
    None,
    /// They were, and the time is without it. What the other threads left in the caches is still in it.
    Excluded,
    /// They were, and it is in the time.
    Included,
}

/// A time of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// In nanoseconds.
    pub ns: f64,
    /// Whether its threads were preempted.
    pub preemption: Preemption,
}

impl Sample {
    /// A time that nothing preempted, in nanoseconds.
    pub fn clean(ns: f64) -> Self {
        Self { ns, preemption: Preemption::None }
    }
}

/// The source of the times of a [`Judgment`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The host's: what a thread waits is in it.
    #[default]
    Wall,
    /// The processor's, of the threads that do the work.
    Processor,
    /// The device's own.
    Device,
}

impl Clock {
    /// The clock in a sentence, after "by".
    pub fn told(self) -> &'static str {
        match self {
            Self::Wall => "the wall clock",
            Self::Processor => "the CPU time of all threads",
            Self::Device => "the device's clock",
        }
    }
}

/// The result that a comparison of times proves. Of processes ([`judge_processes`]), faster and slower are
/// proved to be so by more than the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimingVerdict {
    /// The interval of the ratio ends below 1.
    Faster,
    /// The interval ends at or above 1, and below 1 plus the [margin](Judgment::margin).
    NotSlower,
    /// The interval begins above 1, and ends at or above 1 plus the margin.
    Slower,
    /// The interval begins at or below 1 and ends at or above 1 plus the margin, or there is no interval.
    CannotTell,
}

impl TimingVerdict {
    /// The verdict that an interval of a ratio proves, with this [margin](Judgment::margin).
    pub fn of(interval: Option<Interval>, margin: f64) -> Self {
        match interval {
            Some(Interval { high, .. }) if high < 1.0 => Self::Faster,
            Some(Interval { high, .. }) if high < 1.0 + margin => Self::NotSlower,
            Some(Interval { low, .. }) if low > 1.0 => Self::Slower,
            _ => Self::CannotTell,
        }
    }

    /// The verdict in a text.
    pub fn told(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::NotSlower => "not slower",
            Self::Slower => "slower",
            Self::CannotTell => "cannot tell",
        }
    }

    /// The exit status of a tool: 0 if it is proved not to be slower, 3 if it is slower, 4 if that cannot be
    /// told.
    pub fn status(self) -> u8 {
        match self {
            Self::Faster | Self::NotSlower => 0,
            Self::Slower => 3,
            Self::CannotTell => 4,
        }
    }
}

/// The reason for the end of the sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stopped {
    /// The interval is narrow enough.
    #[serde(rename = "precision")]
    Precise,
    /// The replacement is so much slower that more precision is of no use.
    #[serde(rename = "far_slower")]
    FarSlower,
    /// The time is up.
    #[serde(rename = "max_time")]
    OutOfTime,
    /// The pulse of the options ended it.
    #[serde(rename = "interrupted")]
    Interrupted,
}

impl Stopped {
    /// The reason for the end of the sampling, in a text.
    pub fn told(self) -> &'static str {
        match self {
            Self::Precise => "stopped because the interval is narrow enough",
            Self::FarSlower => "stopped because it takes many times as long",
            Self::OutOfTime => "stopped because the time was up",
            Self::Interrupted => "interrupted",
        }
    }
}

/// How long the replaced side takes, compared with the captured one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judgment {
    /// The time of all parts, as often as they count, as a fraction of the captured; not a number if no pair
    /// counts.
    #[serde(deserialize_with = "number_or_nan")]
    pub ratio: f64,
    /// Its interval; `None` with too few batches. With 97.5 %, all intervals of a measurement contain the
    /// ratio, however many times it is looked at; with 96 % if one part has two modes.
    #[serde(rename = "ratio_interval")]
    pub interval: Option<Interval>,
    /// By which fraction of the captured time the replaced side may be slower.
    pub margin: f64,
    /// The source of the times.
    #[serde(rename = "timed_by")]
    pub clock: Clock,
    /// The parts, as they were given.
    #[serde(skip)]
    pub parts: Vec<PartTiming>,
    /// Number of pairs whose times are without preemption.
    pub pair_count: u64,
    /// Number of pairs of which one includes the time in which a thread was preempted. They never count.
    #[serde(rename = "preempted_pair_count")]
    pub preempted_count: u64,
    /// Number of batches that count. Each has a placement of its own.
    pub batch_count: u64,
    /// The steps in which the clock of the times advances, in nanoseconds.
    #[serde(deserialize_with = "number_or_nan")]
    pub resolution_ns: f64,
    /// Which statistic of the times of a batch decides.
    pub statistic: Statistic,
    /// Half of the narrowest interval that so many pairs can have with this clock, as a fraction of the
    /// ratio.
    #[serde(deserialize_with = "number_or_nan")]
    pub clock_error: f64,
    /// The reason for the end of the sampling.
    pub stopped: Stopped,
    /// The time of the measurement.
    #[serde(rename = "elapsed_ns", serialize_with = "nanoseconds", deserialize_with = "from_nanoseconds")]
    pub elapsed: Duration,
    /// The conditions of the machine meanwhile.
    #[serde(rename = "machine")]
    pub conditions: Conditions,
}

fn nanoseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_nanos() as u64)
}

fn from_nanoseconds<'d, D: Deserializer<'d>>(from: D) -> Result<Duration, D::Error> {
    Ok(Duration::from_nanos(u64::deserialize(from)?))
}

impl Judgment {
    /// The verdict that the times prove.
    pub fn verdict(&self) -> TimingVerdict {
        TimingVerdict::of(self.interval, self.margin)
    }
}

/// A time in nanoseconds as a text: three or four digits, in the unit that fits.
pub fn time(ns: f64) -> String {
    // What rounds to a thousand has the next unit.
    let (value, unit) = match ns.abs() {
        it if it < 999.5 => (ns, "ns"),
        it if it < 999.5e3 => (ns / 1e3, "us"),
        it if it < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = match value.abs() {
        it if it >= 99.95 => 0,
        it if it >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Which statistic of the times of a batch decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The shortest: what else the machine does only lengthens a time.
    #[default]
    Shortest,
    /// The mean of those near the shortest, of times with so few steps of the clock that the shortest times
    /// of different kernels are the same.
    MeanOfShortest,
    /// The mean of all, of a side that takes one of two times.
    Mean,
}

/// The times of one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartTiming {
    /// How often it counts.
    #[serde(skip)]
    pub count: u64,
    /// The captured side.
    pub captured: SideTiming,
    /// The replaced side.
    pub replaced: SideTiming,
    /// The median over batches of the ratio.
    #[serde(deserialize_with = "number_or_nan")]
    pub ratio: f64,
    /// Its interval.
    #[serde(rename = "ratio_interval")]
    pub interval: Option<Interval>,
}

/// The times of one side of a part, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideTiming {
    /// The median over batches of the [statistic](Judgment::statistic).
    #[serde(deserialize_with = "number_or_nan")]
    pub ns: f64,
    /// The median of all times.
    #[serde(deserialize_with = "number_or_nan")]
    pub median_ns: f64,
    /// Their mean.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_ns: f64,
    /// Their upper quartile.
    #[serde(deserialize_with = "number_or_nan")]
    pub upper_quartile_ns: f64,
    /// The two times of which it takes one, if it does.
    pub modes: Option<Modes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgment_without_a_pair_is_a_message() {
        let side = SideTiming { ns: f64::NAN, median_ns: 2.5, ..SideTiming::default() };
        let interval = Some(Interval { low: 0.25, high: f64::INFINITY });
        let part = PartTiming { count: 3, captured: side, replaced: side, ratio: f64::NAN, interval };
        let judgment = Judgment {
            ratio: f64::NAN,
            interval,
            margin: 0.05,
            clock: Clock::Device,
            parts: vec![part],
            pair_count: 0,
            preempted_count: 7,
            batch_count: 1,
            resolution_ns: 10.0,
            statistic: Statistic::Mean,
            clock_error: f64::INFINITY,
            stopped: Stopped::OutOfTime,
            elapsed: Duration::from_nanos(1_500_000_001),
            conditions: Conditions { steal: Some(0.5), ..Conditions::default() },
        };
        let again: Judgment = serde_json::from_str(&serde_json::to_string(&judgment).unwrap()).unwrap();
        assert!(again.ratio.is_nan() && again.clock_error.is_nan());
        assert!(again.interval.is_some_and(|it| it.low == 0.25 && it.high.is_nan()));
        let text = serde_json::to_string(&judgment.parts[0]).unwrap();
        let again_part: PartTiming = serde_json::from_str(&text).unwrap();
        assert!(again_part.captured.ns.is_nan() && again_part.captured.median_ns == 2.5);
        assert_eq!(
            (again.stopped, again.statistic, again.clock),
            (judgment.stopped, judgment.statistic, judgment.clock)
        );
        assert_eq!(again.verdict(), TimingVerdict::CannotTell);
        assert_eq!((again.elapsed, again.conditions), (judgment.elapsed, judgment.conditions));
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!(
            [0.0, 999.0, 1_234.0, 56_780.0, 999_000.0, 999_700.0, 9_996.0, 2e9, -1.5e6].map(time),
            ["0.00 ns", "999 ns", "1.23 us", "56.8 us", "999 us", "1.00 ms", "10.0 us", "2.00 s", "-1.50 ms"]
        );
    }

    /// The numbers of a report as texts of eight digits: the last ones are those of a library of mathematics.
    fn shortened(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Array(values) => values.iter_mut().for_each(shortened),
            serde_json::Value::Object(values) => values.values_mut().for_each(shortened),
            serde_json::Value::Number(number) if number.is_f64() => {
                *value = format!("{:.7e}", number.as_f64().unwrap()).into();
            }
            _ => {}
        }
    }

    /// Of two shapes, the second of which is dispatched ten times as often, in two states of the caches.
    /// Without this test, the sides, shapes, states or statistics of the report may be mixed up.
    #[test]
    fn the_report_of_a_comparison_has_the_numbers_of_its_samples() {
        use super::sampler::{Limits, OUTSIDE, PartBatch, Sampler};
        use crate::ComparisonReport;
        use crate::{CacheState, ComparedShape, Comparison, ShapeTiming, Timing, Verification};
        let limits = || Limits { precision: 0.01, margin: 0.05, far: FAR, parts_outside: OUTSIDE };
        let timing = |cache, resolution_ns, [first, second]: [[f64; 2]; 2]| {
            let (mut sampler, mut stopped) = (Sampler::new(&[1, 10], limits(), resolution_ns), None);
            for placed in 0..8 {
                // The captured side gets slower from batch to batch, and the replaced side faster; each has
                // four times.
                let times = |[captured, replaced]: [f64; 2]| {
                    let of = |longer: f64| {
                        (
                            captured * (1.0 + 0.001 * f64::from(placed) + longer),
                            replaced * (1.007 - 0.001 * f64::from(placed) + longer),
                        )
                    };
                    let pairs =
                        [0.02, 0.0, 0.01, 0.03].map(of).map(|(one, other)| [one, other].map(Sample::clean));
                    PartBatch { pairs: pairs.to_vec(), others: Vec::new() }
                };
                stopped = sampler.add(&[times(first), times(second)], false);
            }
            let mut judgment = sampler.finish(Clock::Processor, stopped.unwrap());
            (judgment.elapsed, judgment.conditions.migrations) = (Duration::from_nanos(123), Some(4));
            let shapes =
                judgment.parts.iter().zip([(7, 0, 1), (9, 2, 10)]).map(|(part, shape)| ShapeTiming {
                    shape: ComparedShape { record: shape.0, occurrence: shape.1, count: shape.2 },
                    timing: part.clone(),
                    varied_bindings: vec![0],
                    longest_shares: [1.0, 0.5],
                });
            Timing { cache, shapes: shapes.collect(), judgment }
        };
        let verified = |dispatch_count| Verification { dispatch_count, ..Verification::default() };
        let comparison = Comparison {
            verification: verified(31),
            memory: Some(verified(30)),
            workgroups: None,
            after_timing: Some(verified(2)),
            is_same_code: false,
            changes_inputs: true,
            not_reproduced: None,
            timings: vec![
                // Together 2,000 ns become 2,300.
                timing(CacheState::Warm, 0.01, [[1_000.0, 900.0], [100.0, 140.0]]),
                // 8,000 ns become 4,000, by a clock of longer steps.
                timing(CacheState::Cold, 1.0, [[4_000.0, 2_000.0], [400.0, 200.0]]),
            ],
        };
        let ratios: Vec<_> =
            comparison.timings.iter().map(|it| (it.judgment.ratio * 100.0).round()).collect();
        assert_eq!((ratios, comparison.is_slower()), (vec![115.0, 50.0], Some(true)));
        let mut report = serde_json::to_value(ComparisonReport::from_comparison(&comparison)).unwrap();
        shortened(&mut report);
        let text = serde_json::to_string_pretty(&report).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/two_shapes.compare.json");
        testing::assert_golden(path.as_ref(), &text);
    }
}
