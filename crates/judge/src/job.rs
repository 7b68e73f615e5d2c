use std::io::Write;

use rehal_base::Result;

use crate::{
    Benchmark, Counter, Counters, MAX_ITERATIONS, Measure, Measuring, MinTime, Options, Run, RunKind, State,
    clock::Clock, machine::Interference, number::general, report::write_to, samples::Sample,
    samples::Summary,
};

/// Runs benchmarks according to its options and passes the results to reporters.
pub struct Runner {
    pub(crate) options: Options,
    pub(crate) clock: Box<dyn Clock>,
}

/// A selected benchmark and its progress.
pub(crate) struct Job<'b, 'a> {
    pub(crate) benchmark: &'b mut Benchmark<'a>,
    pub(crate) name: String,
    index: usize,
    repetitions: u32,
    /// Iterations of the next repetition; determined by the first one unless given.
    iterations: u64,
    fixed_iterations: bool,
    min_time_s: f64,
    /// Whether the warm-up is pending.
    warmup_time_s: f64,
    /// Why the run is shorter than the minimum time; empty unless it was stopped by the real-time limit.
    limited: String,
    /// The finished repetitions.
    pub(crate) runs: Vec<Run>,
    /// Rows of what they consist of.
    pub(crate) parts: Vec<Run>,
    /// How many of them failed.
    pub(crate) failed: usize,
    /// The samples of the finished repetitions, in order.
    pub(crate) samples: Vec<Sample>,
    /// The runs before the first repetition: the warm-up, and the search for the number of iterations.
    pub(crate) warmup: Sample,
    /// The other users of the machine during the repetitions.
    pub(crate) interference: Interference,
    /// Whether the pulse ended the measurement.
    pub(crate) is_interrupted: bool,
}

/// The result of one call of a benchmark's body.
struct Measurement {
    iterations: u64,
    real_s: f64,
    cpu_s: f64,
    manual_s: f64,
    /// By the benchmark's clock.
    measured_s: f64,
    counters: Counters,
    error: Option<String>,
    samples: Vec<Sample>,
    interference: Interference,
    is_interrupted: bool,
    ended: Result<()>,
}

impl<'b, 'a> Job<'b, 'a> {
    pub(crate) fn new(
        benchmark: &'b mut Benchmark<'a>,
        name: String,
        index: usize,
        options: &Options,
    ) -> Self {
        let (given, min_time_s) = match options.min_time {
            MinTime::Iterations(count) => (Some(count), MinTime::default_s()),
            MinTime::Seconds(seconds) => (None, seconds),
        };
        let given = benchmark.iterations.or(given).map(|count| count.clamp(1, MAX_ITERATIONS));
        let mut this = Self {
            name,
            index,
            repetitions: benchmark.repetitions.unwrap_or(options.repetitions),
            iterations: given.unwrap_or(1),
            fixed_iterations: given.is_some(),
            min_time_s: benchmark.min_time_s.unwrap_or(min_time_s),
            warmup_time_s: benchmark.min_warmup_time_s.unwrap_or(options.min_warmup_time_s),
            limited: String::new(),
            runs: Vec::new(),
            parts: Vec::new(),
            failed: 0,
            samples: Vec::new(),
            warmup: Sample::default(),
            interference: Interference::default(),
            is_interrupted: false,
            benchmark,
        };
        if options.dry_run {
            this.repetitions = 1;
            (this.iterations, this.fixed_iterations) = (1, true);
            this.warmup_time_s = 0.0;
        }
        this
    }

    /// The number of repetitions left.
    pub(crate) fn remaining(&self) -> u32 {
        self.repetitions - self.runs.len() as u32
    }

    /// Leaves out the repetitions after `more`.
    pub(crate) fn stop(&mut self, more: usize) {
        self.repetitions = (self.runs.len() + more) as u32;
    }

    /// Runs one repetition, preceded by the warm-up if it is the first: increases the iterations until they
    /// take long enough. Later repetitions run as many as the first one.
    pub(crate) fn repetition(&mut self, runner: &Runner, notes: &mut dyn Write) -> Result<(Run, Result<()>)> {
        let first = self.runs.is_empty();
        if first && self.warmup_time_s > 0.0 {
            let given = self.iterations;
            let warmed = self.run_until(self.warmup_time_s, runner, notes)?;
            // The warm-up's iteration count was measured cold; start over.
            self.iterations = given;
            self.limited.clear();
            if warmed.ended.is_err() || warmed.is_interrupted {
                return Ok(self.finish(warmed, runner));
            }
            self.add_warmup(&warmed);
        }
        let measured = if first && !self.fixed_iterations {
            self.run_until(self.min_time_s, runner, notes)?
        } else {
            self.run_once(runner, notes)?
        };
        Ok(self.finish(measured, runner))
    }

    fn run_until(&mut self, min_time_s: f64, runner: &Runner, notes: &mut dyn Write) -> Result<Measurement> {
        let limit_s = self.real_time_limit_s(min_time_s);
        let mut spent_s = 0.0;
        loop {
            let measured = self.run_once(runner, notes)?;
            spent_s += measured.real_s;
            if self.is_enough(&measured, min_time_s) {
                return Ok(measured);
            }
            let (next, multiplier) = next_iterations(measured.iterations, measured.measured_s, min_time_s);
            let affordable = (limit_s - spent_s) / measured.real_s * measured.iterations as f64;
            // NaN if no time was measured.
            if affordable <= measured.iterations as f64 {
                self.limited = format!(
                    "stopped after {}s before min_time {}s was measured",
                    general(limit_s),
                    general(min_time_s)
                );
                return Ok(measured);
            }
            let next = next.min(affordable as u64);
            if runner.options.verbosity >= 3 {
                let multiplier = general(multiplier);
                write_to(notes, format_args!("-- LOG(3): Next iters: {next}, {multiplier}\n"))?;
            }
            self.add_warmup(&measured);
            self.iterations = next;
        }
    }

    fn add_warmup(&mut self, ran: &Measurement) {
        self.warmup.iterations = self.warmup.iterations.saturating_add(ran.iterations);
        self.warmup.time_ns = self.warmup.time_ns.saturating_add((ran.real_s * 1e9) as u64);
    }

    /// The real time of an iteration, of each repetition that did not fail.
    pub(crate) fn real_times_s(&self) -> Vec<f64> {
        self.runs.iter().filter(|run| run.error.is_none()).map(|run| run.real_time_s).collect()
    }

    /// The real-time limit on the search for the iteration count, in seconds.
    fn real_time_limit_s(&self, min_time_s: f64) -> f64 {
        match (self.benchmark.measure, self.benchmark.real_time_limit) {
            (Measure::ManualTime, Some(multiple)) => multiple * min_time_s,
            _ => f64::INFINITY,
        }
    }

    /// Whether it ran long enough, or running longer would not help. Real time far above the minimum is also
    /// enough, so that a benchmark that sleeps terminates; manual time is trusted, within its limit.
    fn is_enough(&self, measured: &Measurement, min_time_s: f64) -> bool {
        measured.error.is_some()
            || measured.is_interrupted
            || measured.iterations >= MAX_ITERATIONS
            || measured.measured_s >= min_time_s
            || (measured.real_s >= 5.0 * min_time_s && self.benchmark.measure != Measure::ManualTime)
    }

    // `cargo xtask bench --instructions` counts what it does, by its name.
    #[inline(never)]
    fn run_once(&mut self, runner: &Runner, notes: &mut dyn Write) -> Result<Measurement> {
        let log = runner.options.verbosity >= 2;
        if log {
            write_to(notes, format_args!("-- LOG(2): Running {} for {}\n", self.name, self.iterations))?;
        }
        let Benchmark { process_time, measure, .. } = *self.benchmark;
        let min_time_ns = (self.runs.is_empty() && !self.fixed_iterations).then_some(self.min_time_s * 1e9);
        let pulse = (&runner.options.pulse, min_time_ns);
        let mut state = State::new(self.iterations, &*runner.clock, process_time, measure, pulse);
        let before = runner.clock.machine();
        let ended = (self.benchmark.body)(&mut state);
        state.timer.stop();
        let mut interference = Interference::default();
        if let (Some(before), Some(after)) = (before, runner.clock.machine()) {
            interference.add(before, after);
        }
        if let Err(error) = &ended {
            state.skip_with_error(error.to_string());
        } else if !state.ran_to_end() {
            state.skip_with_error("the benchmark left its loop early without a reason");
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        let [real_s, cpu_s, manual_s] =
            [state.timer.real_ns, state.timer.cpu_ns, state.timer.manual_ns].map(seconds);
        if log {
            write_to(notes, format_args!("-- LOG(2): Ran in {}/{}\n", general(cpu_s), general(real_s)))?;
        }
        let measured_s = match self.benchmark.measure {
            Measure::CpuTime => cpu_s,
            Measure::RealTime => real_s,
            Measure::ManualTime => manual_s,
        };
        Ok(Measurement {
            iterations: state.iterations(),
            real_s,
            cpu_s,
            manual_s,
            measured_s,
            counters: state.counters,
            error: state.error,
            samples: state.samples,
            interference,
            is_interrupted: state.is_interrupted,
            ended,
        })
    }

    fn finish(&mut self, measured: Measurement, runner: &Runner) -> (Run, Result<()>) {
        let end = Measuring { sample_count: measured.iterations, done: 1.0 };
        self.is_interrupted = runner.options.pulse.beat(end).is_break() || measured.is_interrupted;
        if self.is_interrupted {
            self.stop(1);
        }
        let mut run = Run {
            run_name: self.name.clone(),
            family_index: self.index,
            repetitions: self.repetitions,
            kind: RunKind::Iteration { repetition_index: self.runs.len() as u32 },
            iterations: measured.iterations,
            real_time_s: 0.0,
            cpu_time_s: 0.0,
            unit: self.benchmark.time_unit(&runner.options),
            counters: Counters::new(),
            label: String::new(),
            error: measured.error,
            samples: None,
        };
        if run.error.is_none() {
            if runner.options.summary && !runner.options.dry_run {
                run.samples = Summary::from_samples(&measured.samples).map(|summary| summary.statistics());
            }
            self.samples.extend(measured.samples);
            self.interference.merge(measured.interference);
            run.label.clone_from(&self.limited);
            let per_iteration = |seconds: f64| seconds / measured.iterations as f64;
            let manual = self.benchmark.measure == Measure::ManualTime;
            run.real_time_s = per_iteration(if manual { measured.manual_s } else { measured.real_s });
            run.cpu_time_s = per_iteration(measured.cpu_s);
            let finish = |counter: Counter| counter.finish(measured.measured_s);
            run.counters =
                measured.counters.into_iter().map(|(name, counter)| (name, finish(counter))).collect();
        }
        (run, measured.ended)
    }
}

/// The number of iterations to try after `iterations` took only `measured_s` of `min_time_s`, and the factor
/// between the two: 1.4 times the estimate if at least a tenth of the time was measured, else ten times as
/// many. At least one more, at most [`MAX_ITERATIONS`].
pub(crate) fn next_iterations(iterations: u64, measured_s: f64, min_time_s: f64) -> (u64, f64) {
    let is_estimate_reliable = measured_s / min_time_s > 0.1;
    let multiplier = if is_estimate_reliable { min_time_s * 1.4 / measured_s.max(1e-9) } else { 10.0 };
    let next = (multiplier * iterations as f64).max(iterations as f64 + 1.0).round();
    ((next as u64).min(MAX_ITERATIONS), multiplier)
}

impl MinTime {
    /// The time for warm-ups and predictions if iterations are given.
    fn default_s() -> f64 {
        match Self::default() {
            Self::Seconds(seconds) => seconds,
            Self::Iterations(_) => unreachable!("the default is a time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicts_iterations() {
        // 0.1 of 0.5 s is significant: 0.5 * 1.4 / 0.1 = 7 times as many.
        assert_eq!(next_iterations(100, 0.1, 0.5).0, 700);
        // A tenth and less is not: ten times as many.
        assert_eq!(next_iterations(10, 0.05, 0.5), (100, 10.0));
        assert_eq!(next_iterations(1, 0.0, 0.5), (10, 10.0));
        // At least one more, at most the limit.
        assert_eq!(next_iterations(1, 0.499, 0.5).0, 2);
        assert_eq!(next_iterations(MAX_ITERATIONS / 2, 0.0, 0.5).0, MAX_ITERATIONS);
        // The integer nearest to 1.4 times the estimate. The log of the pinned release said 9.40127 times for
        // 0.148916 ms of 1 ms.
        assert_eq!(next_iterations(1, 0.0007, 0.001).0, 2);
        let (next, multiplier) = next_iterations(1, 0.000148916, 0.001);
        assert_eq!((next, general(multiplier).as_str()), (9, "9.40127"));
    }
}
