//! Replays of a capture with and without replacements, by turns.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Instant;

use rehal_base::Result;
use rehal_replay::{ExecutableCode, Observer, Operation, Replay};
use rehal_tune::{
    DispatchSpans, PairOptions, PairPart, PairSide, PairTimings, ShapeTiming, Timing, time_pairs,
};

use super::{Groups, KernelTimes, runs};
use crate::{CrashReports, ScopeTimer};

/// How long replays take with replacements, compared with those without.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayComparison {
    /// The time of a whole replay, or of its scopes of a name.
    pub whole: Timing,
    /// The functions that are dispatched, those with the most captured time first.
    pub functions: Vec<FunctionTiming>,
    /// How the times of functions are measured; `None` if nothing is dispatched.
    pub times: Option<KernelTimes>,
    /// By which fraction of the captured time a replacement may be slower.
    pub margin: f64,
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
    pub timing: ShapeTiming,
}

/// Times two replays of the same capture by turns, in random order: whole ones, and those in which each
/// operation is performed by itself, for the times of functions. What they compute is not compared.
pub fn compare_replays(
    captured: &Replay,
    replaced: &Replay,
    scope: Option<&str>,
    options: &PairOptions,
) -> Result<ReplayComparison> {
    let mut functions = Functions::find([captured, replaced])?;
    let counts = functions.counts.clone();
    let measure = |side: PairSide, part: PairPart| {
        let replay = match side {
            PairSide::Captured => captured,
            PairSide::Replaced => replaced,
        };
        match part {
            PairPart::Whole => whole_ns(replay, scope).map(|time_ns| vec![time_ns]),
            PairPart::Parts => functions.times_ns(replay),
        }
    };
    let PairTimings { whole, parts, .. } = time_pairs(&counts, options, measure)?;
    let times = (!counts.is_empty()).then_some(functions.times);
    let named = functions.names.into_iter().zip(functions.have_same_code).zip(counts).zip(parts.shapes);
    let timing = |(((name, has_same_code), dispatch_count), timing)| FunctionTiming {
        name,
        dispatch_count,
        has_same_code,
        timing,
    };
    let mut functions: Vec<_> = named.map(timing).collect();
    functions.sort_by(|one, other| other.timing.captured_ns.total_cmp(&one.timing.captured_ns));
    Ok(ReplayComparison { whole, functions, times, margin: options.margin })
}

fn whole_ns(replay: &Replay, scope: Option<&str>) -> Result<f64> {
    let mut reports = CrashReports::records();
    let begun = Instant::now();
    let Some(name) = scope else {
        replay.run(&mut [&mut reports])?;
        return Ok(begun.elapsed().as_nanos() as f64);
    };
    let mut timer = ScopeTimer::new(name);
    replay.run(&mut [&mut reports, &mut timer])?;
    Ok(timer.finish()? as f64)
}

/// The functions that a capture dispatches, by name.
struct Functions {
    groups: Groups,
    names: Vec<String>,
    counts: Vec<u64>,
    have_same_code: Vec<bool>,
    /// The function of each kernel of the groups.
    of_kernels: Vec<usize>,
    times: KernelTimes,
}

impl Functions {
    /// Replays both sides once.
    fn find(replays: [&Replay; 2]) -> Result<Self> {
        let mut groups = Groups::default();
        let mut times = KernelTimes::Device;
        let mut codes = [Codes::default(), Codes::default()];
        for ((replay, codes), is_first) in replays.into_iter().zip(&mut codes).zip([true, false]) {
            let spans = DispatchSpans::begin(replay.devices());
            if runs::sample(replay, &mut groups, &spans, is_first, Some(codes))?.times() == KernelTimes::Host
            {
                times = KernelTimes::Host;
            }
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
            let code = |side: usize| codes[side].of.get(&(kernel.executable_id, kernel.function));
            have_same_code[index] &= code(0) == code(1);
            of_kernels.push(index);
        }
        Ok(Self { groups, names, counts, have_same_code, of_kernels, times })
    }

    /// The time of all dispatches of each.
    fn times_ns(&mut self, replay: &Replay) -> Result<Vec<f64>> {
        let spans = DispatchSpans::begin(replay.devices());
        let sample = runs::sample(replay, &mut self.groups, &spans, false, None)?;
        spans.end()?;
        let mut times_ns = vec![0.0; self.names.len()];
        for (function, time_ns) in self.of_kernels.iter().zip(sample.of_kernels(self.times)?) {
            times_ns[*function] += time_ns;
        }
        Ok(times_ns)
    }
}

/// The code that runs for each function.
#[derive(Default)]
struct Codes {
    /// By the captured executable and the ordinal in it.
    of: HashMap<(u64, u32), Code>,
    /// The digests of code, by where its bytes are mapped during the run.
    digests: HashMap<*const [u8], [u8; 32]>,
}

/// A function of an executable.
#[derive(PartialEq, Eq)]
struct Code {
    format: Box<[u8]>,
    digest: [u8; 32],
    function: u32,
}

impl Observer for Codes {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if let Some(it) = &operation.dispatch {
            let ExecutableCode { format, data, .. } = it.code;
            self.of.entry((it.executable.id, it.function)).or_insert_with(|| Code {
                format: format.into(),
                digest: *self.digests.entry(data).or_insert_with(|| blake3::hash(data).into()),
                function: it.prepared_function,
            });
        }
        Ok(ControlFlow::Continue(()))
    }
}
