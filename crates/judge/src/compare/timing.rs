//! Times pairs of dispatches: of the captured kernel and of its replacement.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rehal_base::{Error, HostMemory, Result};
use rehal_hal::DeviceGroup;
use rehal_hal::profile::{ProcessorTime, resolution_ns};
use rehal_replay::{FastForward, Observer, Replay, ReplayOptions, Scope};

use super::fresh_inputs::{FreshBindings, FreshSide, difference};
use super::slices::ShapeSlice;
use super::spans::{DispatchSpans, DispatchTime};
use super::{CacheState, CompareOptions, CompareSubject, Comparison, ShapeTiming, Timing};
use crate::{
    Batch, Clock, Flow, JudgeOptions, LONGEST_STEP_NS, Parts, Preemption, Pulse, Sample, Side, Stopped,
    Subject, measure, stats,
};
use crate::{Tolerance, tolerance::tolerance_of};

/// Calls before the first pair of a placement, a random number below this and in this time.
const MOST_CALLS: u32 = 32;
const LONGEST_CALLS: Duration = Duration::from_millis(10);
/// One pair in so many compares what both kernels compute with fresh values, besides the first of each batch.
const COMPARED_PAIRS: u32 = 16;

/// Times a replacement in each state of the caches, up to one in which it is far slower.
pub(super) fn time(
    subject: &CompareSubject,
    slices: &[ShapeSlice],
    replaced: &ReplayOptions,
    options: &CompareOptions,
    comparison: &mut Comparison,
) -> Result<()> {
    let parts = [Parts { counts: slices.iter().map(|it| it.shape.count).collect(), are_judged: false }];
    let function = &subject.function;
    let fresh = |slice: &ShapeSlice| match options.changes_inputs {
        true => slice.fresh_bindings(&options.verify, function).into(),
        false => Arc::default(),
    };
    let tolerance_of = |it| tolerance_of(&options.verify.tolerances, function.as_bytes(), it);
    let tolerance = options.verify.element_type_of(function).and_then(tolerance_of);
    let begun = Instant::now();
    for (index, cache) in options.caches.iter().enumerate() {
        let left = options.max_time.saturating_sub(begun.elapsed());
        let mut random = fastrand::Rng::with_seed(options.seed.wrapping_add(index as u64));
        let mut judging = JudgeOptions::default();
        (judging.precision, judging.margin, judging.far) = (options.precision, options.margin, options.far);
        judging.max_time = left / (options.caches.len() - index) as u32;
        judging.seed = random.u64(..);
        let (pulse, count) = (options.pulse.clone(), options.caches.len() as f64);
        judging.pulse = Pulse::new(move |mut measuring| {
            measuring.done = (index as f64 + measuring.done) / count;
            pulse.beat(measuring)
        });
        let mut bench = Bench {
            subject,
            slices,
            replaced,
            cache: *cache,
            checks: comparison.is_right(),
            spans: DispatchSpans::begin(&subject.devices),
            clock: Clock::Wall,
            longest_share: 1.0,
            random,
            fresh: slices.iter().map(fresh).collect(),
            tolerance,
            placed: None,
            shares: slices.iter().map(|_| Default::default()).collect(),
            not_reproduced: None,
        };
        let judged = measure(&mut bench, &parts, &judging)?;
        let Bench { spans, fresh, shares, not_reproduced, placed, .. } = bench;
        drop(placed);
        spans.end()?;
        let Some(judgment) = judged.and_then(|it| it.into_iter().next()) else {
            comparison.not_reproduced = not_reproduced;
            comparison.timings.clear();
            return Ok(());
        };
        let stopped = judgment.stopped;
        let shapes = slices.iter().zip(&judgment.parts).zip(fresh).zip(shares).map(
            |(((slice, part), fresh), shares)| ShapeTiming {
                shape: slice.shape.clone(),
                timing: part.clone(),
                varied_bindings: fresh.ordinals(),
                longest_shares: shares.map(|it| stats::mean(&it)),
            },
        );
        comparison.timings.push(Timing { cache: *cache, shapes: shapes.collect(), judgment });
        if matches!(stopped, Stopped::FarSlower | Stopped::Interrupted) {
            break;
        }
    }
    Ok(())
}

/// A slice on both sides, with buffers and executables of their own.
struct Placed {
    shape: usize,
    sides: [FreshSide; 2],
    _replays: [Arc<Replay>; 2],
    pair_count: usize,
    /// Keeps other allocations from this memory.
    _displacing: Vec<HostMemory>,
}

struct Bench<'a> {
    subject: &'a CompareSubject,
    slices: &'a [ShapeSlice],
    replaced: &'a ReplayOptions,
    cache: CacheState,
    /// Whether the replacement must compute the same each time.
    checks: bool,
    spans: DispatchSpans,
    clock: Clock,
    /// Of the last dispatch.
    longest_share: f64,
    random: fastrand::Rng,
    /// The inputs that get fresh values, by shape.
    fresh: Vec<Arc<FreshBindings>>,
    /// For what is computed with them.
    tolerance: Option<&'a Tolerance>,
    placed: Option<Placed>,
    /// By shape, for both sides: the part of the time of all threads that the one which took longest had.
    shares: Vec<[Vec<f64>; 2]>,
    /// Why the replacement is wrong.
    not_reproduced: Option<String>,
}

fn side_index(side: Side) -> usize {
    match side {
        Side::Captured => 0,
        Side::Replaced => 1,
    }
}

impl Subject for Bench<'_> {
    fn group_count(&self) -> usize {
        self.slices.len()
    }

    fn main_part(&self, group: usize) -> usize {
        group
    }

    fn place(&mut self, group: usize, first: Side, batch: &mut Batch) -> Result<Flow> {
        // Its memory is free for the next one.
        self.placed = None;
        let displacing = displace(&self.subject.devices, &mut self.random)?;
        let slice = &self.slices[group];
        let replays = self.replays(slice, first)?;
        let (sides, times) = self.sides(&replays, first)?;
        batch.add_other(group, times);
        let mut sides = FreshSide::pair(sides, self.fresh[group].clone())?;
        // Otherwise, a kernel whose calls depend on those before would begin each placement in the same
        // state.
        for side in &mut sides {
            let begun = Instant::now();
            for _ in 0..self.random.u32(..MOST_CALLS) {
                if begun.elapsed() < LONGEST_CALLS {
                    side.repeat(None, &mut [])?;
                }
            }
        }
        self.placed =
            Some(Placed { shape: group, sides, _replays: replays, pair_count: 0, _displacing: displacing });
        Ok(Flow::Continue)
    }

    /// Times both sides with inputs that they have not had before.
    fn pair(&mut self, order: [Side; 2], batch: &mut Batch) -> Result<Flow> {
        /// One more untimed dispatch in so many, so that a kernel that works differently in every other call
        /// is not always timed in the same ones.
        const EXTRA: u32 = 4;
        let Some(mut placed) = self.placed.take() else { return Ok(Flow::Repeat) };
        let (shape, number) = (placed.shape, placed.pair_count);
        let is_fresh = !self.fresh[shape].is_empty();
        let seed = is_fresh.then(|| self.random.u64(..));
        let (mut times, mut warm_up) = ([Sample::default(); 2], [Sample::default(); 2]);
        for side in order.map(side_index) {
            let it = &mut placed.sides[side];
            if self.cache == CacheState::Warm {
                // With the values of the last one, so that it does not tell the results of the next one.
                for _ in 0..1 + u32::from(self.random.u32(..EXTRA) == 0) {
                    warm_up[side] = self.repeat(it, it.seed())?;
                }
            }
            times[side] = self.repeat(it, seed)?;
            let share = self.longest_share;
            self.shares[shape][side].push(share);
            if seed.is_none()
                && !it.side.is_reproduced()?
                && let Some(flow) = self.differs(side, shape, number)?
            {
                return Ok(flow);
            }
        }
        // In random pairs, so that a kernel cannot know which.
        let is_compared = number == 0 || self.random.u32(..COMPARED_PAIRS) == 0;
        if self.checks
            && seed.is_some()
            && is_compared
            && let Some(difference) = difference(&mut placed.sides, self.tolerance)?
        {
            return Ok(self.is_wrong(format!(
                "with fresh values of its inputs, it computes something else: {difference}"
            )));
        }
        if self.cache == CacheState::Warm {
            batch.add_other(shape, warm_up);
        }
        batch.add(shape, times);
        placed.pair_count += 1;
        self.placed = Some(placed);
        Ok(Flow::Continue)
    }

    /// Checks what both sides compute with the captured inputs.
    fn check(&mut self) -> Result<Flow> {
        let Some(mut placed) = self.placed.take() else { return Ok(Flow::Repeat) };
        for (side, it) in placed.sides.iter_mut().enumerate() {
            it.repeat(None, &mut [])?;
            match it.side.check_unchanged() {
                // What it wrote with other inputs may not be undone.
                Err(_) if !self.fresh[placed.shape].is_empty() => return Ok(self.is_unvaried(placed.shape)),
                Err(error) if side == 0 => return Err(error.context("the captured kernel")),
                Ok(()) if it.side.is_reproduced()? => {}
                _ => {
                    if let Some(flow) = self.differs(side, placed.shape, placed.pair_count)? {
                        return Ok(flow);
                    }
                }
            }
        }
        Ok(Flow::Continue)
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    /// The steps of the clock of the times.
    fn resolution_ns(&self) -> f64 {
        match self.clock {
            Clock::Wall => resolution_ns(),
            Clock::Processor | Clock::Device => self.spans.resolution_ns(),
        }
    }
}

impl Bench<'_> {
    /// The replacement is wrong.
    fn is_wrong(&mut self, why: String) -> Flow {
        self.not_reproduced = Some(why);
        Flow::End
    }

    /// The captured kernel cannot be repeated with other inputs: from now on, they are the captured ones.
    fn is_unvaried(&mut self, shape: usize) -> Flow {
        self.fresh[shape] = Arc::default();
        Flow::Repeat
    }

    /// Why a batch ends in which a repetition of a side wrote other bytes than another one with the same
    /// inputs.
    fn differs(&mut self, side: usize, shape: usize, pair: usize) -> Result<Option<Flow>> {
        match side {
            // Bytes that it wrote with fresh values may not have been restored.
            0 if !self.fresh[shape].is_empty() => Ok(Some(self.is_unvaried(shape))),
            0 => Err(captured_differs()),
            _ => Ok(self.checks.then(|| {
                self.is_wrong(format!(
                    "repetition {} with restored inputs wrote other bytes than another dispatch with the same inputs",
                    pair + 1
                ))
            })),
        }
    }

    fn replay(&self, slice: &ShapeSlice, options: &ReplayOptions) -> Result<Replay> {
        let cold_scope = (self.cache == CacheState::Cold).then(|| self.subject.function.clone().into_bytes());
        slice.replay(&self.subject.devices, &options.clone().cold_scope(cold_scope))
    }

    /// Prepares both sides, in the order in which they are placed in memory.
    fn replays(&self, slice: &ShapeSlice, first: Side) -> Result<[Arc<Replay>; 2]> {
        in_order(first, |side| {
            let options = if side == 0 { &self.subject.replay } else { self.replaced };
            self.replay(slice, options).map(Arc::new)
        })
    }

    /// Dispatches both sides once, in the order in which their buffers are placed in memory. Returns the
    /// times too.
    fn sides(&mut self, replays: &[Arc<Replay>; 2], first: Side) -> Result<([FastForward; 2], [Sample; 2])> {
        let scope = self.subject.function.as_bytes();
        let mut times = [Sample::default(); 2];
        let sides = in_order(first, |side| {
            self.spans.take();
            let mut timer = self.timer();
            let begun = replays[side].fast_forward(scope, &mut [&mut timer])?;
            times[side] = self.time_of(&timer);
            Ok(begun)
        })?;
        Ok((sides, times))
    }

    /// Puts back the inputs, with fresh values if there is a seed, and dispatches the kernel; returns its
    /// time.
    fn repeat(&mut self, side: &mut FreshSide, seed: Option<u64>) -> Result<Sample> {
        self.spans.take();
        let mut timer = self.timer();
        side.repeat(seed, &mut [&mut timer])?;
        Ok(self.time_of(&timer))
    }

    fn timer(&mut self) -> Timer {
        Timer::new(self.random.fork(), self.resolution_ns())
    }

    /// The time of a dispatch: what the device reports since the last time, else the host's.
    fn time_of(&mut self, timer: &Timer) -> Sample {
        let spans = self.spans.take();
        let (clock, sample) = sample_of(&spans).unwrap_or((Clock::Wall, timer.sample()));
        (self.clock, self.longest_share) = (clock, longest_share(&spans));
        sample
    }
}

/// Makes the placement of the next batch another one: drops the executables that devices keep, which would be
/// used again, and allocates memory of random sizes, which must be kept until the batch ends. Otherwise
/// allocations would be where those of the last batch were, and all batches would have the placement of this
/// process.
pub fn displace(devices: &DeviceGroup, random: &mut fastrand::Rng) -> Result<Vec<HostMemory>> {
    const MAX_BLOCKS: usize = 16;
    /// Sizes are from 64 bytes to some pages, on a logarithmic scale.
    const SIZE_BITS: std::ops::Range<u32> = 6..18;
    for device in devices.devices() {
        device.trim()?;
    }
    let count = random.usize(MAX_BLOCKS / 2..MAX_BLOCKS);
    let mut block = || {
        let bits = random.u32(SIZE_BITS);
        HostMemory::allocate(random.u64(1 << bits..2 << bits))
    };
    let mut blocks = (0..count).map(|_| block()).collect::<Result<Vec<_>>>()?;
    // What is freed again leaves gaps.
    random.shuffle(&mut blocks);
    blocks.truncate(count / 2);
    Ok(blocks)
}

/// Makes both sides, `first` before the other one.
fn in_order<T>(first: Side, mut make: impl FnMut(usize) -> Result<T>) -> Result<[T; 2]> {
    let (one, other) = (side_index(first), 1 - side_index(first));
    let (one_made, other_made) = (make(one)?, make(other)?);
    Ok(if one == 0 { [one_made, other_made] } else { [other_made, one_made] })
}

/// The part of the processor's time of all threads that the one which took longest had: 1 of one thread, and
/// of devices that report no threads.
fn longest_share(spans: &[DispatchTime]) -> f64 {
    let total = |of: fn(&ProcessorTime) -> u64| {
        spans.iter().filter_map(|it| it.processor.as_ref()).map(of).sum::<u64>() as f64
    };
    let (longest, all) = (total(|it| it.longest_cpu_ns), total(|it| it.cpu_ns));
    if all > 0.0 { longest / all } else { 1.0 }
}

/// The time of a dispatch by the spans that devices reported, and what measured it; `None` without spans.
///
/// Threads that were not preempted take as long by the wall clock as by the processor's, which costs a system
/// call to read: the wall clock is the more exact one.
fn sample_of(spans: &[DispatchTime]) -> Option<(Clock, Sample)> {
    let all: Option<Vec<ProcessorTime>> = spans.iter().map(|it| it.processor).collect();
    let total = |of: fn(&ProcessorTime) -> u64| all.iter().flatten().map(of).sum::<u64>() as f64;
    match all.as_deref() {
        None | Some([]) if spans.is_empty() => None,
        Some(_) if spans.iter().any(DispatchTime::is_preempted) => {
            Some((Clock::Processor, Sample { ns: total(|it| it.cpu_ns), preemption: Preemption::Excluded }))
        }
        Some(_) => Some((Clock::Processor, Sample::clean(total(|it| it.elapsed_ns)))),
        // It may be 0, if the clock does not advance during a very short kernel.
        None => {
            let ns = spans.iter().map(DispatchTime::elapsed_ns).sum::<u64>() as f64;
            Some((Clock::Device, Sample::clean(ns)))
        }
    }
}

fn captured_differs() -> Error {
    Error::failed_precondition(
        "the captured kernel cannot be timed: repeated with the same inputs, it writes other bytes",
    )
    .advise("its workgroups may race: time it on a device that runs them one after another")
}

/// The time of the scope by the wall clock, of devices that report none. It delays the scope.
struct Timer {
    random: fastrand::Rng,
    /// The steps of the clock.
    resolution_ns: f64,
    begun: Option<Instant>,
    elapsed: Duration,
}

impl Timer {
    fn new(random: fastrand::Rng, resolution_ns: f64) -> Self {
        Self { random, resolution_ns, begun: None, elapsed: Duration::ZERO }
    }

    /// Whether a thread was preempted is not known: the work is done elsewhere.
    fn sample(&self) -> Sample {
        Sample::clean(self.elapsed.as_nanos() as f64)
    }

    /// Waits for up to some steps of the clock, so that the kernel begins anywhere between two of them: their
    /// mean is right then.
    fn delay(&mut self) {
        /// Each is a cycle or two, and all are longer than a step of the host's clock, on which the loop
        /// before them ends.
        const MAX_TURNS: u32 = 1 << 9;
        let wait = self.next_delay();
        let begun = Instant::now();
        while begun.elapsed() < wait {
            std::hint::spin_loop();
        }
        for turn in 0..self.random.u32(..MAX_TURNS) {
            std::hint::black_box(turn);
        }
    }

    /// Up to some steps of the clock, or of the longest that are averaged.
    fn next_delay(&mut self) -> Duration {
        /// An integer, so that each place within a step is as likely as another.
        const STEPS: f64 = 4.0;
        let longest_ns = STEPS * self.resolution_ns.min(LONGEST_STEP_NS);
        Duration::from_nanos((self.random.f64() * longest_ns) as u64)
    }
}

impl Observer for Timer {
    fn scope_begin(&mut self, _scope: &Scope<'_>) -> Result<()> {
        self.delay();
        self.begun = Some(Instant::now());
        Ok(())
    }

    fn times_scope(&self, _scope: &Scope<'_>) -> bool {
        true
    }

    fn scope_end(&mut self, _scope: &Scope<'_>) -> Result<()> {
        self.elapsed += self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the kernel would begin in the same part of a step, and the mean of its times would be wrong.
    #[test]
    fn delays_are_as_long_as_steps_of_the_clock() {
        let longest = |resolution_ns: f64| {
            let mut timer = Timer::new(fastrand::Rng::with_seed(1), resolution_ns);
            (0..20).map(|_| timer.next_delay().as_nanos() as f64).fold(0.0, f64::max)
        };
        for resolution_ns in [52.0, 1_000.0, 100_000.0] {
            assert!(longest(resolution_ns) > 2.0 * resolution_ns, "{resolution_ns}");
        }
        // A clock whose steps are longer is not averaged.
        assert!((LONGEST_STEP_NS..4.0 * LONGEST_STEP_NS).contains(&longest(1e12)));
    }

    #[test]
    fn the_thread_that_takes_longest_has_a_share() {
        let of = |longest_cpu_ns, cpu_ns| {
            let processor = ProcessorTime { longest_cpu_ns, cpu_ns, ..ProcessorTime::default() };
            DispatchTime { start_ns: 0, end_ns: 9, processor: Some(processor) }
        };
        assert_eq!(longest_share(&[of(60, 100), of(100, 100)]), 0.8);
        assert_eq!([longest_share(&[]), longest_share(&[of(0, 0)])], [1.0, 1.0]);
    }

    #[test]
    fn spans_say_what_measured_them() {
        let of_device = DispatchTime { start_ns: 100, end_ns: 400, processor: None };
        let mut span = of_device;
        assert_eq!(sample_of(&[]), None);
        assert_eq!(sample_of(&[span, span]), Some((Clock::Device, Sample::clean(600.0))));
        let mut processor = ProcessorTime::default();
        (processor.elapsed_ns, processor.cpu_ns, processor.thread_count) = (250, 240, 1);
        processor.longest_elapsed_ns = 250;
        span.processor = Some(processor);
        assert_eq!(sample_of(&[span, span]), Some((Clock::Processor, Sample::clean(500.0))));
        // A 5 ms kernel of which another process took 15 ms.
        (processor.elapsed_ns, processor.cpu_ns) = (20_000_000, 5_000_000);
        let long = DispatchTime { start_ns: 0, end_ns: 20_000_000, processor: Some(processor) };
        let excluded = Sample { ns: 5e6, preemption: Preemption::Excluded };
        assert_eq!(sample_of(&[long]), Some((Clock::Processor, excluded)));
        // One device of two reports it.
        assert_eq!(sample_of(&[span, of_device]), Some((Clock::Device, Sample::clean(600.0))));
    }
}
