//! Times pairs of dispatches: of the captured kernel and of its replacement.

use std::time::{Duration, Instant};

use rehal_base::{Context, Error, Result};
use rehal_bench::Monitor;
use rehal_replay::{FastForward, Observer, Replay, ReplayOptions, Scope};

use super::remembered;
use super::sampling::{Pair, Sampler, Stopped};
use super::slices::ShapeSlice;
use super::spans::DispatchSpans;
use super::{CacheState, CompareOptions, CompareSubject, Comparison};

/// Minimum number of pairs of a batch, so that neither side is disturbed in all of them.
const MIN_PAIRS: usize = 10;
/// Maximum number of pairs of a batch.
const MAX_PAIRS: usize = 100;

/// Times a replacement in each state of the caches.
pub(super) fn time(
    subject: &CompareSubject,
    slices: &[ShapeSlice],
    replaced: &ReplayOptions,
    options: &CompareOptions,
    comparison: &mut Comparison,
) -> Result<()> {
    let shapes: Vec<_> = slices.iter().map(|slice| slice.shape.clone()).collect();
    let begun = Instant::now();
    for (index, cache) in options.caches.iter().enumerate() {
        let left = options.max_time.saturating_sub(begun.elapsed());
        let share = left / (options.caches.len() - index) as u32;
        let begun = Instant::now();
        let mut bench = Bench {
            subject,
            replaced,
            cache: *cache,
            checks: comparison.is_right(),
            spans: DispatchSpans::begin(&subject.devices),
            is_device_time: false,
            random: fastrand::Rng::with_seed(options.seed.wrapping_add(index as u64)),
            deadline: begun.checked_add(share),
        };
        let mut sampler = Sampler::new(&shapes, options.precision);
        let mut monitor = Monitor::begin();
        let stopped = loop {
            let batch = match bench.batch(slices, sampler.batch_count() != 0)? {
                Batch::Pairs(pairs) => pairs,
                Batch::OutOfTime => break Stopped::OutOfTime,
                Batch::NotReproduced(why) => {
                    comparison.not_reproduced = Some(why);
                    comparison.timings.clear();
                    return Ok(());
                }
            };
            monitor.sample();
            if sampler.add(&batch) {
                break Stopped::Precise;
            }
            if bench.is_out_of_time() {
                break Stopped::OutOfTime;
            }
        };
        let mut timing = sampler.finish(*cache, stopped);
        timing.conditions = monitor.end();
        timing.is_device_time = bench.is_device_time;
        timing.elapsed = begun.elapsed();
        bench.spans.end()?;
        comparison.timings.push(timing);
    }
    Ok(())
}

/// A batch of pairs.
enum Batch {
    /// By shape.
    Pairs(Vec<Vec<Pair>>),
    /// The time is up.
    OutOfTime,
    /// The replacement computed something else when it was repeated, or remembered what it had computed.
    NotReproduced(String),
}

struct Bench<'a> {
    subject: &'a CompareSubject,
    replaced: &'a ReplayOptions,
    cache: CacheState,
    /// Whether the replacement must compute the same each time.
    checks: bool,
    spans: DispatchSpans,
    is_device_time: bool,
    random: fastrand::Rng,
    deadline: Option<Instant>,
}

impl Bench<'_> {
    fn is_out_of_time(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Times pairs of each shape, with buffers and executables of their own. Without a batch before it, it is not ended early, so that
    /// there is at least one.
    fn batch(&mut self, slices: &[ShapeSlice], may_end: bool) -> Result<Batch> {
        let mut all = Vec::with_capacity(slices.len());
        for slice in slices {
            match self.pairs(slice, may_end)? {
                Batch::Pairs(pairs) => all.extend(pairs),
                other => return Ok(other),
            }
        }
        Ok(Batch::Pairs(all))
    }

    fn pairs(&mut self, slice: &ShapeSlice, may_end: bool) -> Result<Batch> {
        let begun = Instant::now();
        let replays = [self.replay(slice, &self.subject.replay)?, self.replay(slice, self.replaced)?];
        let mut sides = self.sides(&replays)?;
        let prepared = begun.elapsed();
        let begun = Instant::now();
        let mut pairs = Vec::with_capacity(MAX_PAIRS);
        while pairs.len() < MAX_PAIRS && (pairs.len() < MIN_PAIRS || begun.elapsed() < prepared) {
            if self.is_out_of_time() {
                if may_end {
                    return Ok(Batch::OutOfTime);
                }
                if !pairs.is_empty() {
                    break;
                }
            }
            let mut times = [0.0; 2];
            for side in self.order() {
                times[side] = self.repeat(&mut sides[side])?;
                if !sides[side].is_reproduced()? {
                    match side {
                        0 => return Err(captured_differs()),
                        _ if self.checks => return Ok(not_reproduced(pairs.len())),
                        _ => {}
                    }
                }
            }
            pairs.push(Pair { captured_ns: times[0], replaced_ns: times[1] });
        }
        let [captured, replaced] = &mut sides;
        captured.check_unchanged().context(|| "the captured kernel".into())?;
        if self.checks {
            if replaced.check_unchanged().is_err() {
                return Ok(not_reproduced(pairs.len()));
            }
            if remembered::is_remembered(captured, replaced) {
                return Ok(Batch::NotReproduced(
                    "it remembers its results: with other inputs it writes what it wrote before".into(),
                ));
            }
        }
        Ok(Batch::Pairs(vec![pairs]))
    }

    fn replay(&self, slice: &ShapeSlice, options: &ReplayOptions) -> Result<Replay> {
        let cold_scope = (self.cache == CacheState::Cold).then(|| self.subject.function.clone().into_bytes());
        slice.replay(&self.subject.devices, &ReplayOptions { cold_scope, ..options.clone() })
    }

    /// Dispatches both sides once; which one first, and so which one has which memory, is random.
    fn sides<'r>(&mut self, replays: &'r [Replay; 2]) -> Result<[FastForward<'r>; 2]> {
        let subject = self.subject;
        let scope = subject.function.as_bytes();
        let begin = |side: usize| replays[side].fast_forward(scope, &mut []);
        let [first, second] = self.order();
        let (one, other) = (begin(first)?, begin(second)?);
        Ok(if first == 0 { [one, other] } else { [other, one] })
    }

    /// The two sides in random order.
    fn order(&mut self) -> [usize; 2] {
        if self.random.bool() { [0, 1] } else { [1, 0] }
    }

    /// Restores the inputs and dispatches the kernel; returns its time in nanoseconds.
    fn repeat(&mut self, side: &mut FastForward<'_>) -> Result<f64> {
        if self.cache == CacheState::Warm {
            side.restore()?;
            side.repeat(&mut [])?;
        }
        side.restore()?;
        self.spans.take();
        let mut timer = Timer::default();
        side.repeat(&mut [&mut timer])?;
        let spans = self.spans.take();
        self.is_device_time = !spans.is_empty();
        let device_ns: i64 = spans.iter().map(|(start, end)| end.saturating_sub(*start)).sum();
        let time_ns = if self.is_device_time { device_ns as f64 } else { timer.elapsed.as_nanos() as f64 };
        // A clock may not advance during a very short kernel.
        Ok(time_ns.max(1.0))
    }
}

fn not_reproduced(pair: usize) -> Batch {
    Batch::NotReproduced(format!(
        "repetition {} with restored inputs wrote other bytes than the first dispatch",
        pair + 1
    ))
}

fn captured_differs() -> Error {
    Error::failed_precondition(
        "the captured kernel cannot be timed: repeated with the same inputs, it writes other bytes",
    )
    .advise("its workgroups may race: time it on a device that runs them one after another")
}

/// The time of the scope, for devices that do not report spans.
#[derive(Default)]
struct Timer {
    begun: Option<Instant>,
    elapsed: Duration,
}

impl Observer for Timer {
    fn scope_begin(&mut self, _scope: &Scope<'_>) -> Result<()> {
        self.begun = Some(Instant::now());
        Ok(())
    }

    fn times_scope(&self, _scope: &Scope<'_>) -> bool {
        true
    }

    fn scope_end(&mut self, _scope: &Scope<'_>) -> Result<()> {
        if let Some(begun) = self.begun.take() {
            self.elapsed += begun.elapsed();
        }
        Ok(())
    }
}
