//! Replays of a capture with and without replacements, by turns.

use std::collections::HashMap;

use rehal_base::{Error, HostMemory, Result, StatusCode};
use rehal_devices::{CrashReports, ScopeTimer};
use rehal_hal::DeviceGroup;
use rehal_hal::profile::{now_ns, process_cpu_ns, resolution_ns};
use rehal_judge::{
    Batch, Clock, DispatchSpans, Flow, JudgeOptions, Judgment, PartTiming, Parts, Preemption, RunningCode,
    Sample, Side, Subject, displace, measure,
};
use rehal_replay::Replay;

use super::{Groups, runs};

/// How long replays take with replacements, compared with those without.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayComparison {
    /// The time of a whole replay, or of its scopes of a name: of the processor, of all threads, if it
    /// executes the kernels, else that which passes.
    pub whole: Judgment,
    /// The functions that are dispatched, those with the most captured time first.
    pub functions: Vec<FunctionTiming>,
    /// How the times of functions are measured; `None` if nothing is dispatched.
    pub times: Option<Clock>,
}

/// The time of all dispatches of a function in a replay, one operation at a time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FunctionTiming {
    /// Its captured name; its ordinal, such as `#0`, if nothing names it.
    pub name: String,
    /// Number of its dispatches.
    pub dispatch_count: u64,
    /// Whether both sides run the same code: their times then differ only by what the other functions leave
    /// in caches and in predictors.
    pub has_same_code: bool,
    /// The times. The intervals of all functions contain their ratios with 95 %.
    pub timing: PartTiming,
}

/// Times two replays of the same capture by turns, in random order: whole ones, and those in which each
/// operation is performed by itself, for the times of functions. `prepare` is called for each batch of them,
/// so that each has another placement in memory. What they compute is not compared.
pub fn compare_replays(
    prepare: &dyn Fn(Side) -> Result<Replay>,
    scope: Option<&str>,
    options: &JudgeOptions,
) -> Result<ReplayComparison> {
    let [captured, replaced] = [prepare(Side::Captured)?, prepare(Side::Replaced)?];
    let functions = Functions::find([&captured, &replaced])?;
    let mut turns = Turns {
        prepare,
        scope,
        clock: if functions.clock == Clock::Processor { Clock::Processor } else { Clock::Wall },
        functions,
        random: fastrand::Rng::with_seed(options.seed),
        placed: None,
    };
    drop((captured, replaced));
    let parts = turns.functions.names.len();
    let sets =
        [Parts { counts: vec![1], are_judged: false }, Parts { counts: vec![1; parts], are_judged: true }];
    let judged = measure(&mut turns, &sets, options)?.and_then(|it| <[Judgment; 2]>::try_from(it).ok());
    let Some([whole, parts]) = judged else {
        return Err(Error::new(StatusCode::Internal, "two replays were not compared"));
    };
    let functions = turns.functions;
    let times = (!functions.names.is_empty()).then_some(functions.clock);
    let named =
        functions.names.into_iter().zip(functions.have_same_code).zip(functions.counts).zip(parts.parts);
    let timing = |(((name, has_same_code), dispatch_count), timing)| FunctionTiming {
        name,
        dispatch_count,
        has_same_code,
        timing,
    };
    let mut functions: Vec<_> = named.map(timing).collect();
    functions.sort_by(|one, other| other.timing.captured.ns.total_cmp(&one.timing.captured.ns));
    Ok(ReplayComparison { whole, functions, times })
}

/// The clock of the dispatches of these devices.
pub fn dispatch_clock(devices: &DeviceGroup) -> Clock {
    DispatchSpans::begin(devices).clock()
}

/// Both sides, at a place in memory.
struct Placed {
    captured: Replay,
    replaced: Replay,
    /// Keeps other allocations from this memory.
    _displacing: Vec<HostMemory>,
}

/// The two sides by turns: the whole is the first part, and the functions are the others.
struct Turns<'t> {
    prepare: &'t dyn Fn(Side) -> Result<Replay>,
    scope: Option<&'t str>,
    functions: Functions,
    random: fastrand::Rng,
    /// Of the whole.
    clock: Clock,
    placed: Option<Placed>,
}

impl Subject for Turns<'_> {
    fn group_count(&self) -> usize {
        1
    }

    fn main_part(&self, _group: usize) -> usize {
        0
    }

    fn place(&mut self, _group: usize, first: Side, batch: &mut Batch) -> Result<Flow> {
        let devices = self.placed.take().map(|it| it.captured.devices().clone());
        let _displacing = match &devices {
            Some(devices) => displace(devices, &mut self.random)?,
            None => Vec::new(),
        };
        let one = (self.prepare)(first)?;
        let other = (self.prepare)(first.other())?;
        let (captured, replaced) = if first == Side::Captured { (one, other) } else { (other, one) };
        let placed = Placed { captured, replaced, _displacing };
        // Memory is mapped, and caches are filled.
        let times = [self.whole(&placed.captured)?, self.whole(&placed.replaced)?];
        batch.add_other(0, times);
        self.placed = Some(placed);
        Ok(Flow::Continue)
    }

    fn pair(&mut self, order: [Side; 2], batch: &mut Batch) -> Result<Flow> {
        let Some(placed) = self.placed.take() else { return Ok(Flow::Repeat) };
        let of = |side: Side| if side == Side::Captured { &placed.captured } else { &placed.replaced };
        let [one, other] = order.map(|side| self.whole(of(side)));
        batch.add(0, sorted(order, [one?, other?]));
        if !self.functions.names.is_empty() {
            let [one, other] = order.map(|side| self.functions.times_ns(of(side)));
            for (part, (one, other)) in one?.into_iter().zip(other?).enumerate() {
                batch.add(part + 1, sorted(order, [Sample::clean(one), Sample::clean(other)]));
            }
        }
        self.placed = Some(placed);
        Ok(Flow::Continue)
    }

    fn check(&mut self) -> Result<Flow> {
        Ok(Flow::Continue)
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn resolution_ns(&self) -> f64 {
        resolution_ns()
    }
}

/// A pair in the order of the sides.
fn sorted([first, _]: [Side; 2], [one, other]: [Sample; 2]) -> [Sample; 2] {
    if first == Side::Captured { [one, other] } else { [other, one] }
}

impl Turns<'_> {
    fn whole(&self, replay: &Replay) -> Result<Sample> {
        let mut reports = CrashReports::records();
        let read = match self.clock {
            Clock::Processor => process_cpu_ns,
            Clock::Wall | Clock::Device => now_ns,
        };
        let is_wall = self.clock != Clock::Processor;
        let before = if is_wall { preemptions() } else { 0 };
        let ns = match self.scope {
            None => {
                let begun = read();
                replay.run(&mut [&mut reports])?;
                (read() - begun) as f64
            }
            Some(name) => {
                let mut timer = ScopeTimer::with_clock(name, read);
                replay.run(&mut [&mut reports, &mut timer])?;
                timer.finish()? as f64
            }
        };
        let is_preempted = is_wall && preemptions() != before;
        let preemption = if is_preempted { Preemption::Included } else { Preemption::None };
        Ok(Sample { ns, preemption })
    }
}

/// How often threads of this process were preempted so far: their involuntary context switches
/// (<https://man7.org/linux/man-pages/man5/proc_pid_status.5.html>). 0 if that is not known.
fn preemptions() -> u64 {
    let count = |status: String| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
        line.trim().parse().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    // A thread may end meanwhile.
    let statuses = tasks.filter_map(|it| std::fs::read_to_string(it.path().join("status")).ok());
    statuses.filter_map(count).sum()
}

/// The functions that a capture dispatches, by name.
struct Functions {
    groups: Groups,
    names: Vec<String>,
    counts: Vec<u64>,
    have_same_code: Vec<bool>,
    /// The function of each kernel of the groups.
    of_kernels: Vec<usize>,
    /// The clock of the times of both sides.
    clock: Clock,
}

impl Functions {
    /// Replays both sides once.
    fn find(replays: [&Replay; 2]) -> Result<Self> {
        let mut groups = Groups::default();
        let mut clocks = [Clock::Wall; 2];
        let mut codes = replays.map(|it| RunningCode::new(it.devices()));
        for (((replay, codes), clock), is_first) in
            replays.into_iter().zip(&mut codes).zip(&mut clocks).zip([true, false])
        {
            let spans = DispatchSpans::begin(replay.devices());
            *clock = runs::sample(replay, &mut groups, &spans, is_first, Some(codes))?.clock();
            spans.end()?;
        }
        let (mut names, mut counts, mut have_same_code) = (Vec::new(), Vec::new(), Vec::new());
        let mut indices = HashMap::new();
        let mut of_kernels = Vec::with_capacity(groups.kernels.len());
        for kernel in &groups.kernels {
            let index = *indices.entry(kernel.name.clone()).or_insert(names.len());
            if index == names.len() {
                names.push(kernel.name.clone());
                counts.push(0);
                have_same_code.push(true);
            }
            counts[index] += kernel.count;
            have_same_code[index] &= codes[0].is_same(&codes[1], kernel.executable_id, kernel.function);
            of_kernels.push(index);
        }
        let clock = if clocks[0] == clocks[1] { clocks[0] } else { Clock::Wall };
        Ok(Self { groups, names, counts, have_same_code, of_kernels, clock })
    }

    /// The time of all dispatches of each.
    fn times_ns(&mut self, replay: &Replay) -> Result<Vec<f64>> {
        let spans = DispatchSpans::begin(replay.devices());
        let sample = runs::sample(replay, &mut self.groups, &spans, false, None)?;
        spans.end()?;
        let mut times_ns = vec![0.0; self.names.len()];
        for (function, time_ns) in self.of_kernels.iter().zip(sample.of_kernels(self.clock)?) {
            times_ns[*function] += time_ns;
        }
        Ok(times_ns)
    }
}
