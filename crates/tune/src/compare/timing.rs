//! Times pairs of dispatches: of the captured kernel and of its replacement.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rehal_base::{Error, HostMemory, Result};
use rehal_bench::Monitor;
use rehal_hal::DeviceGroup;
use rehal_hal::profile::resolution_ns;
use rehal_replay::{FastForward, Observer, Replay, ReplayOptions, Scope};
use rustix::time::{ClockId, clock_gettime};

use super::fresh::{FreshBindings, FreshSide, difference};
use super::sampling::{LONGEST_STEP_NS, Pair, Sampler, ShapeBatch, Stopped, is_settled};
use super::slices::ShapeSlice;
use super::spans::DispatchSpans;
use super::{CacheState, CompareOptions, CompareSubject, Comparison};
use crate::Tolerance;
use crate::element_types::known_element_type;
use crate::tolerance::tolerance_of;

/// Number of pairs of a batch in which no thread was preempted, so that neither side is disturbed in all of
/// them: fewer if the shortest times agree, and of kernels for which that takes too long.
const MIN_PAIRS: usize = 20;
/// Maximum number of such pairs of a batch.
const MAX_PAIRS: usize = 100;
/// Maximum number of pairs of a batch.
const MAX_TRIALS: usize = 400;
/// One pair in so many compares what both kernels compute with fresh values, besides the first of each batch.
const COMPARED_PAIRS: u32 = 16;
/// Batches for which there should be time. Those of long kernels have fewer pairs.
const WANTED_BATCHES: u32 = 32;
/// The part of the time after which a replacement that is far slower is not timed any longer.
const LATE: u32 = 8;

/// Times a replacement in each state of the caches, up to one in which it is far slower.
pub(super) fn time(
    subject: &CompareSubject,
    slices: &[ShapeSlice],
    replaced: &ReplayOptions,
    options: &CompareOptions,
    comparison: &mut Comparison,
) -> Result<()> {
    let shapes: Vec<_> = slices.iter().map(|slice| slice.shape.clone()).collect();
    let (rules, function) = (&options.verify.element_types, &subject.function);
    let fresh = |slice: &ShapeSlice| slice.fresh_bindings(rules, function);
    let unchanged = || slices.iter().map(|_| FreshBindings::default()).collect();
    let tolerance = known_element_type(rules, function)
        .and_then(|it| tolerance_of(&options.verify.tolerances, function.as_bytes(), it));
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
            has_workers: has_workers(&subject.devices),
            switches: None,
            fresh: if options.changes_inputs { slices.iter().map(fresh).collect() } else { unchanged() },
            tolerance,
            placed_first: None,
            batch_time: share / WANTED_BATCHES,
            deadline: begun.checked_add(share),
            precision: options.precision,
        };
        let limits = [options.precision, options.margin];
        let mut sampler = Sampler::new(&shapes, limits, bench.resolution_ns()).with_far(options.far);
        let mut monitor = Monitor::begin();
        let stopped = loop {
            let batch = match bench.batch(slices, sampler.has_few())? {
                Batch::Pairs(pairs) => pairs,
                Batch::OutOfTime => break Stopped::OutOfTime,
                Batch::Unvaried => continue,
                Batch::NotReproduced(why) => {
                    comparison.not_reproduced = Some(why);
                    comparison.timings.clear();
                    return Ok(());
                }
            };
            monitor.sample();
            sampler.know_resolution(bench.resolution_ns());
            if let Some(stopped) = sampler.add(&batch, begun.elapsed() >= share / LATE) {
                break stopped;
            }
            if sampler.has_few() && bench.is_out_of_time() {
                break Stopped::OutOfTime;
            }
        };
        let mut timing = sampler.finish(*cache, stopped);
        timing.conditions = monitor.end();
        timing.is_device_time = bench.is_device_time;
        for (shape, fresh) in timing.shapes.iter_mut().zip(&bench.fresh) {
            shape.varied_bindings = fresh.ordinals();
        }
        timing.elapsed = begun.elapsed();
        bench.spans.end()?;
        comparison.timings.push(timing);
        if stopped == Stopped::FarSlower {
            break;
        }
    }
    Ok(())
}

/// A batch of pairs.
enum Batch {
    /// By shape.
    Pairs(Vec<ShapeBatch>),
    /// The time is up.
    OutOfTime,
    /// The captured kernel cannot be repeated with other inputs: from now on, they are the captured ones.
    Unvaried,
    /// The replacement computed something else when it was repeated, or with fresh values.
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
    /// Whether other threads than the one that dispatches may run kernels.
    has_workers: bool,
    /// The threads that run kernels, if the one that dispatches them does not.
    switches: Option<Arc<Switches>>,
    /// The inputs that get fresh values, by shape.
    fresh: Vec<FreshBindings>,
    /// For what is computed with them.
    tolerance: Option<&'a Tolerance>,
    /// The order in which the two sides of the last batch were placed in memory, if the next one has the
    /// opposite.
    placed_first: Option<[usize; 2]>,
    /// The time that a batch should take.
    batch_time: Duration,
    deadline: Option<Instant>,
    precision: f64,
}

impl Bench<'_> {
    fn is_out_of_time(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Times pairs of each shape, with buffers and executables of their own. Unless it may end, it is not
    /// ended early.
    fn batch(&mut self, slices: &[ShapeSlice], may_end: bool) -> Result<Batch> {
        // The side that is placed first may have the better place, so that either is in half of the batches.
        let placed = match self.placed_first.take() {
            Some([first, second]) => [second, first],
            None => {
                let order = self.order();
                self.placed_first = Some(order);
                order
            }
        };
        let batch_time = self.batch_time / slices.len().max(1) as u32;
        let mut all = Vec::with_capacity(slices.len());
        for (index, slice) in slices.iter().enumerate() {
            let fresh = self.fresh[index].clone();
            match self.pairs(slice, &fresh, placed, batch_time, may_end)? {
                Batch::Pairs(pairs) => all.extend(pairs),
                Batch::Unvaried => {
                    self.fresh[index] = FreshBindings::default();
                    return Ok(Batch::Unvaried);
                }
                other => return Ok(other),
            }
        }
        Ok(Batch::Pairs(all))
    }

    fn pairs(
        &mut self,
        slice: &ShapeSlice,
        fresh: &FreshBindings,
        placed: [usize; 2],
        batch_time: Duration,
        may_end: bool,
    ) -> Result<Batch> {
        let begun = Instant::now();
        let _displacing = self.displace()?;
        let replays = self.replays(slice, placed)?;
        let (sides, first) = self.sides(&replays, placed)?;
        let mut sides = FreshSide::pair(sides, fresh)?;
        let prepared = begun.elapsed();
        // As long as preparing at least, which is not for the sake of a pair.
        let longest = batch_time.saturating_sub(prepared).max(prepared);
        let begun = Instant::now();
        let mut others = vec![first];
        let (mut pairs, mut clean_count): (Vec<Pair>, _) = (Vec::with_capacity(MAX_PAIRS), 0);
        while clean_count < MAX_PAIRS && pairs.len() < MAX_TRIALS {
            let elapsed = begun.elapsed();
            let is_enough = || clean_count >= MIN_PAIRS || self.is_settled(&pairs);
            if !pairs.is_empty() && (elapsed >= longest || elapsed >= prepared && is_enough()) {
                break;
            }
            if self.is_out_of_time() {
                if may_end {
                    return Ok(Batch::OutOfTime);
                }
                if !pairs.is_empty() {
                    break;
                }
            }
            match self.pair(&mut sides, fresh, pairs.len(), &mut others)? {
                Ok(pair) => {
                    clean_count += usize::from(!pair.is_preempted);
                    pairs.push(pair);
                }
                Err(other) => return Ok(other),
            }
        }
        let failed = self.check(&mut sides, fresh, pairs.len())?;
        Ok(failed.unwrap_or_else(|| Batch::Pairs(vec![ShapeBatch { pairs, others }])))
    }

    /// Whether more pairs of a batch are of no use.
    fn is_settled(&self, pairs: &[Pair]) -> bool {
        is_settled(pairs, self.resolution_ns(), self.precision)
    }

    /// Times both sides in random order, with inputs that they have not had before.
    fn pair(
        &mut self,
        sides: &mut [FreshSide<'_>; 2],
        fresh: &FreshBindings,
        number: usize,
        others: &mut Vec<Pair>,
    ) -> Result<Result<Pair, Batch>> {
        let seed = (!fresh.is_empty()).then(|| self.random.u64(..));
        let (mut times, mut warm_up) = ([Time::default(); 2], [Time::default(); 2]);
        for side in self.order() {
            let it = &mut sides[side];
            if self.cache == CacheState::Warm {
                // With the values of the last one, so that it does not tell the results of the next one.
                warm_up[side] = self.repeat(it, it.seed())?;
            }
            times[side] = self.repeat(it, seed)?;
            if seed.is_none()
                && !it.side.is_reproduced()?
                && let Some(failed) = self.differs(side, fresh, number)?
            {
                return Ok(Err(failed));
            }
        }
        // In random pairs, so that a kernel cannot know which.
        let is_compared = number == 0 || self.random.u32(..COMPARED_PAIRS) == 0;
        if self.checks
            && seed.is_some()
            && is_compared
            && let Some(difference) = difference(sides, self.tolerance)?
        {
            let why = format!("with fresh values of its inputs, it computes something else: {difference}");
            return Ok(Err(Batch::NotReproduced(why)));
        }
        if self.cache == CacheState::Warm {
            others.push(Pair::from(warm_up));
        }
        Ok(Ok(Pair::from(times)))
    }

    /// Why a batch ends in which a repetition of a side wrote other bytes than another one with the same
    /// inputs.
    fn differs(&mut self, side: usize, fresh: &FreshBindings, number: usize) -> Result<Option<Batch>> {
        match side {
            // Bytes that it wrote with fresh values may not have been restored.
            0 if !fresh.is_empty() => Ok(Some(Batch::Unvaried)),
            0 => Err(captured_differs()),
            _ => Ok(self.checks.then(|| not_reproduced(number))),
        }
    }

    /// Checks what both sides compute with the captured inputs after a batch. Returns why it does not count.
    fn check(
        &mut self,
        sides: &mut [FreshSide<'_>; 2],
        fresh: &FreshBindings,
        number: usize,
    ) -> Result<Option<Batch>> {
        for (side, it) in sides.iter_mut().enumerate() {
            it.repeat(None, &mut [])?;
            match it.side.check_unchanged() {
                // What it wrote with other inputs may not be undone.
                Err(_) if !fresh.is_empty() => return Ok(Some(Batch::Unvaried)),
                Err(error) if side == 0 => return Err(error.context("the captured kernel")),
                Ok(()) if it.side.is_reproduced()? => {}
                _ => {
                    if let Some(failed) = self.differs(side, fresh, number)? {
                        return Ok(Some(failed));
                    }
                }
            }
        }
        Ok(None)
    }

    fn replay(&self, slice: &ShapeSlice, options: &ReplayOptions) -> Result<Replay> {
        let cold_scope = (self.cache == CacheState::Cold).then(|| self.subject.function.clone().into_bytes());
        slice.replay(&self.subject.devices, &options.clone().cold_scope(cold_scope))
    }

    /// Makes the placement of the next batch another one: drops the executables that devices keep, which
    /// would be used again, and allocates memory of random sizes, which must be kept until the batch ends.
    /// Otherwise allocations would be where those of the last batch were, and all batches would have the
    /// placement of this process.
    fn displace(&mut self) -> Result<Vec<HostMemory>> {
        const MAX_BLOCKS: usize = 16;
        /// Sizes are from 64 bytes to some pages, on a logarithmic scale.
        const SIZE_BITS: std::ops::Range<u32> = 6..18;
        for device in self.subject.devices.devices() {
            device.trim()?;
        }
        let random = &mut self.random;
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

    /// Prepares both sides, in the order in which they are placed in memory.
    fn replays(&self, slice: &ShapeSlice, placed: [usize; 2]) -> Result<[Arc<Replay>; 2]> {
        let prepare = |side: usize| {
            let options = if side == 0 { &self.subject.replay } else { self.replaced };
            self.replay(slice, options).map(Arc::new)
        };
        let (one, other) = (prepare(placed[0])?, prepare(placed[1])?);
        Ok(if placed[0] == 0 { [one, other] } else { [other, one] })
    }

    /// Dispatches both sides once, in the order in which their buffers are placed in memory. Returns the
    /// times too.
    fn sides(&mut self, replays: &[Arc<Replay>; 2], placed: [usize; 2]) -> Result<([FastForward; 2], Pair)> {
        let subject = self.subject;
        let scope = subject.function.as_bytes();
        let mut times = [Time::default(); 2];
        let mut begin = |side: usize| {
            self.spans.take();
            let mut timer = Timer::new(self.random.fork(), self.resolution_ns(), self.switches.clone());
            let begun = replays[side].fast_forward(scope, &mut [&mut timer])?;
            // Workers do the work if this thread only waits. Without workers, it was preempted.
            if self.has_workers && self.switches.is_none() && timer.cpu < timer.elapsed / 2 {
                self.switches = Some(Arc::new(Switches::for_threads()?));
            }
            times[side] = self.time_of(&timer);
            Ok::<_, Error>(begun)
        };
        let (one, other) = (begin(placed[0])?, begin(placed[1])?);
        let sides = if placed[0] == 0 { [one, other] } else { [other, one] };
        Ok((sides, Pair::from(times)))
    }

    /// The two sides in random order.
    fn order(&mut self) -> [usize; 2] {
        if self.random.bool() { [0, 1] } else { [1, 0] }
    }

    /// Puts back the inputs, with fresh values if there is a seed, and dispatches the kernel; returns its
    /// time.
    fn repeat(&mut self, side: &mut FreshSide<'_>, seed: Option<u64>) -> Result<Time> {
        self.spans.take();
        let mut timer = Timer::new(self.random.fork(), self.resolution_ns(), self.switches.clone());
        side.repeat(seed, &mut [&mut timer])?;
        Ok(self.time_of(&timer))
    }

    /// The steps of the clock of the times.
    fn resolution_ns(&self) -> f64 {
        if self.is_device_time { self.spans.resolution_ns() } else { resolution_ns() }
    }

    /// The time of a dispatch: what the device reports since the last time, else the host's; without the time
    /// in which the thread that runs the kernel was preempted.
    fn time_of(&mut self, timer: &Timer) -> Time {
        let spans = self.spans.take();
        self.is_device_time = !spans.is_empty();
        let device_ns: i64 = spans.iter().map(|(start, end)| end.saturating_sub(*start)).sum();
        // It may be 0, if the clock does not advance during a very short kernel.
        let ns = if self.is_device_time { device_ns as f64 } else { timer.elapsed.as_nanos() as f64 };
        let is_preempted = timer.is_preempted();
        let lost = if is_preempted && self.switches.is_none() { timer.lost() } else { Duration::ZERO };
        Time { ns: (ns - lost.as_nanos() as f64).max(0.0), is_preempted }
    }
}

/// The time of a dispatch.
#[derive(Clone, Copy, Default)]
struct Time {
    ns: f64,
    is_preempted: bool,
}

impl From<[Time; 2]> for Pair {
    fn from([captured, replaced]: [Time; 2]) -> Self {
        Self {
            captured_ns: captured.ns,
            replaced_ns: replaced.ns,
            is_preempted: captured.is_preempted || replaced.is_preempted,
        }
    }
}

/// Counts how often the threads of this process were preempted: their involuntary context switches
/// (<https://man7.org/linux/man-pages/man5/proc_pid_status.5.html>).
pub(super) struct Switches(Vec<File>);

impl Switches {
    pub(super) fn for_threads() -> Result<Self> {
        let cannot = |error: io::Error| Error::io("reading the state of the threads", &error);
        let tasks = fs::read_dir("/proc/self/task").map_err(cannot)?;
        // A thread may end meanwhile.
        Ok(Self(tasks.flatten().filter_map(|task| File::open(task.path().join("status")).ok()).collect()))
    }

    pub(super) fn count(&self) -> u64 {
        let mut text = [0; 4 << 10];
        let mut count = |file: &File| {
            let length = file.read_at(&mut text, 0).ok()?;
            let text = str::from_utf8(&text[..length]).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
            line?.trim().parse::<u64>().ok()
        };
        self.0.iter().filter_map(&mut count).sum()
    }
}

/// Whether work may run on other threads than the one that makes it ready.
fn has_workers(devices: &DeviceGroup) -> bool {
    devices.devices().iter().any(|it| !it.info().is_synchronous)
}

fn not_reproduced(pair: usize) -> Batch {
    Batch::NotReproduced(format!(
        "repetition {} with restored inputs wrote other bytes than another dispatch with the same inputs",
        pair + 1
    ))
}

fn captured_differs() -> Error {
    Error::failed_precondition(
        "the captured kernel cannot be timed: repeated with the same inputs, it writes other bytes",
    )
    .advise("its workgroups may race: time it on a device that runs them one after another")
}

/// The time of the scope by the wall clock and by the CPU clock of this thread. It delays the scope.
struct Timer {
    random: fastrand::Rng,
    /// The steps of the clock.
    resolution_ns: f64,
    /// The threads that run kernels, if this one does not.
    switches: Option<Arc<Switches>>,
    switch_count: u64,
    has_switched: bool,
    begun: Option<(Instant, Duration)>,
    elapsed: Duration,
    cpu: Duration,
}

impl Timer {
    fn new(random: fastrand::Rng, resolution_ns: f64, switches: Option<Arc<Switches>>) -> Self {
        Self {
            random,
            resolution_ns,
            switches,
            switch_count: 0,
            has_switched: false,
            begun: None,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }

    /// The time in which this thread did not run.
    fn lost(&self) -> Duration {
        self.elapsed.saturating_sub(self.cpu)
    }

    /// Whether a thread that runs kernels was preempted.
    fn is_preempted(&self) -> bool {
        /// Less is the cost of reading both clocks, and their different rates.
        const LEAST: Duration = Duration::from_micros(20);
        match self.switches {
            Some(_) => self.has_switched,
            None => self.lost() >= LEAST && self.lost() >= self.elapsed / 50,
        }
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
        self.switch_count = self.switches.as_ref().map_or(0, |it| it.count());
        self.delay();
        // In this order, so that the CPU clock is short only of time in which the thread did not run.
        let cpu = thread_cpu();
        self.begun = Some((Instant::now(), cpu));
        Ok(())
    }

    fn times_scope(&self, _scope: &Scope<'_>) -> bool {
        true
    }

    fn scope_end(&mut self, _scope: &Scope<'_>) -> Result<()> {
        if let Some((begun, cpu)) = self.begun.take() {
            self.elapsed += begun.elapsed();
            self.cpu += thread_cpu().saturating_sub(cpu);
            self.has_switched |= self.switches.as_ref().is_some_and(|it| it.count() != self.switch_count);
        }
        Ok(())
    }
}

/// The CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // It is never negative.
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use rehal_local::executable::Plugins;
    use rehal_local::{LocalSync, LocalTask, LocalTaskOptions};

    use super::*;

    /// Otherwise one preemption of the first dispatch would have all later ones timed with the time in which
    /// the thread did not run.
    #[test]
    fn a_synchronous_device_never_counts_as_one_with_workers() {
        let group = |device| DeviceGroup::new(vec![device]).unwrap();
        assert!(!has_workers(&group(LocalSync::create(Plugins::default()))));
        assert!(has_workers(&group(LocalTask::create(LocalTaskOptions::default()).unwrap())));
    }

    /// Otherwise the kernel would begin in the same part of a step, and the mean of its times would be wrong.
    #[test]
    fn delays_are_as_long_as_steps_of_the_clock() {
        let longest = |resolution_ns: f64| {
            let mut timer = Timer::new(fastrand::Rng::with_seed(1), resolution_ns, None);
            (0..20).map(|_| timer.next_delay().as_nanos() as f64).fold(0.0, f64::max)
        };
        for resolution_ns in [52.0, 1_000.0, 100_000.0] {
            assert!(longest(resolution_ns) > 2.0 * resolution_ns, "{resolution_ns}");
        }
        // A clock whose steps are longer is not averaged.
        assert!((LONGEST_STEP_NS..4.0 * LONGEST_STEP_NS).contains(&longest(1e12)));
    }
}
