//! Replays of a capture with and without replacements, by turns.

use std::collections::HashMap;
use std::time::Instant;

use rehal_base::Result;
use rehal_replay::Replay;
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
    let named = functions.names.into_iter().zip(counts).zip(parts.shapes);
    let timing = |((name, dispatch_count), timing)| FunctionTiming { name, dispatch_count, timing };
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
    /// The function of each kernel of the groups.
    of_kernels: Vec<usize>,
    times: KernelTimes,
}

impl Functions {
    /// Replays both sides once.
    fn find(replays: [&Replay; 2]) -> Result<Self> {
        let mut groups = Groups::default();
        let mut times = KernelTimes::Device;
        for (replay, is_first) in replays.into_iter().zip([true, false]) {
            let spans = DispatchSpans::begin(replay.devices());
            if runs::sample(replay, &mut groups, &spans, is_first)?.times() == KernelTimes::Host {
                times = KernelTimes::Host;
            }
            spans.end()?;
        }
        let (mut names, mut counts) = (Vec::new(), Vec::new());
        let mut indices = HashMap::new();
        let mut of_kernels = Vec::with_capacity(groups.kernels.len());
        for kernel in &groups.kernels {
            let index = *indices.entry(kernel.name.clone()).or_insert(names.len());
            if index == names.len() {
                names.push(kernel.name.clone());
                counts.push(0);
            }
            counts[index] += kernel.count;
            of_kernels.push(index);
        }
        Ok(Self { groups, names, counts, of_kernels, times })
    }

    /// The time of all dispatches of each.
    fn times_ns(&mut self, replay: &Replay) -> Result<Vec<f64>> {
        let spans = DispatchSpans::begin(replay.devices());
        let sample = runs::sample(replay, &mut self.groups, &spans, false)?;
        spans.end()?;
        let mut times_ns = vec![0.0; self.names.len()];
        for (function, time_ns) in self.of_kernels.iter().zip(sample.of_kernels(self.times)?) {
            times_ns[*function] += time_ns;
        }
        Ok(times_ns)
    }
}
