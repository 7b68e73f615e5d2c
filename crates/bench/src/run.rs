use std::{
    hash::{BuildHasher, RandomState},
    io,
    io::Write,
};

use rehal_base::{Error, Result};

use crate::{
    Benchmark, Context, MAX_ITERATIONS, Measure, MinTime, Options, Reporter, Reporters, Run, RunKind, Skip,
    State,
    aggregate::{NAME_SUFFIX_WIDTH, aggregates},
    clock::{Clock, SystemClock},
    number::general,
};

/// Runs benchmarks as its options say and hands the results to reporters.
pub struct Runner {
    options: Options,
    clock: Box<dyn Clock>,
}

/// What came of a [`Runner::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How many benchmarks the filter chose. With none, a note says so.
    pub matched: usize,
    /// How many repetitions ended in an error.
    pub failed: usize,
}

impl Runner {
    /// A runner with these options.
    pub fn new(options: Options) -> Self {
        Self { options, clock: Box::new(SystemClock::new()) }
    }

    /// Runs the benchmarks that the filter chooses, or lists them.
    ///
    /// Repetitions are reported as soon as they are done (all of a benchmark together when they are
    /// interleaved at random). Fails when a report cannot be written, and when a benchmark's body fails:
    /// the reports then end with that run as failed, and are complete.
    pub fn run(&self, benchmarks: &mut [Benchmark<'_>], reporters: &mut Reporters<'_>) -> Result<Outcome> {
        let mut jobs: Vec<Job<'_, '_>> = Vec::new();
        for benchmark in benchmarks {
            let name = benchmark.full_name();
            if self.options.filter.matches(&name) {
                jobs.push(Job::new(benchmark, name, jobs.len(), &self.options));
            }
        }
        if jobs.is_empty() {
            let filter = &self.options.filter;
            write_to(
                &mut reporters.notes,
                format_args!("Failed to match any benchmarks against regex: {filter}\n"),
            )?;
            return Ok(Outcome { matched: 0, failed: 0 });
        }
        if self.options.list_tests {
            for job in &jobs {
                write_to(&mut reporters.list, format_args!("{}\n", job.name))?;
            }
            return Ok(Outcome { matched: jobs.len(), failed: 0 });
        }
        let context = Context::gather(&self.options, self.name_width(&jobs));
        to_each(reporters, |reporter| reporter.begin(&context))?;
        if !self.options.perf_counters.is_empty() {
            write_to(&mut reporters.notes, format_args!("Performance counters not supported.\n"))?;
        }
        let ran = self.run_jobs(&mut jobs, reporters);
        // What ends a run early still leaves whole reports, and says more than that they are not.
        ran.and(to_each(reporters, |reporter| reporter.finish()))?;
        let failed = jobs.iter().map(|job| job.failed).sum();
        Ok(Outcome { matched: jobs.len(), failed })
    }

    fn run_jobs(&self, jobs: &mut [Job<'_, '_>], reporters: &mut Reporters<'_>) -> Result<()> {
        let mut order = Order::new(self.options.random_interleaving.then(random_seed));
        while let Some(index) = order.next(jobs) {
            let job = &mut jobs[index];
            let (run, ended) = job.repetition(self, &mut reporters.notes)?;
            job.failed += usize::from(matches!(run.skip, Some(Skip::Error(_))));
            job.runs.push(run);
            self.report(job, reporters, ended.is_err())?;
            ended.map_err(|error| error.context(format!("benchmark {}", job.name)))?;
        }
        Ok(())
    }

    /// Hands on what is known: each repetition at once, and statistics after the last one (`ended`: there
    /// will be no more). A report of statistics alone gets the repetitions where there are no statistics.
    fn report(&self, job: &mut Job<'_, '_>, reporters: &mut Reporters<'_>, ended: bool) -> Result<()> {
        let last = ended || job.remaining() == 0;
        let statistics = if last { aggregates(&job.runs) } else { Vec::new() };
        let new_runs = match (self.options.random_interleaving, last) {
            (false, _) => &job.runs[job.runs.len() - 1..],
            (true, true) => &job.runs[..],
            (true, false) => &[],
        };
        let send = |reporter: &mut dyn Reporter, aggregates_only: bool| {
            let runs = match (aggregates_only, last && statistics.is_empty()) {
                (false, _) => new_runs,
                (true, true) => &job.runs,
                (true, false) => &[],
            };
            for part in [runs, &statistics] {
                if !part.is_empty() {
                    reporter.runs(part)?;
                }
            }
            Ok(())
        };
        let in_file = self.options.report_aggregates_only;
        let on_display = in_file || self.options.display_aggregates_only;
        let displayed = send(&mut *reporters.display, on_display);
        let kept = reporters.file.as_mut().map_or(Ok(()), |file| send(&mut **file, in_file));
        displayed.and(kept).map_err(write_error)
    }

    fn name_width(&self, jobs: &[Job<'_, '_>]) -> usize {
        let longest = jobs.iter().map(|job| job.name.chars().count()).max().unwrap_or(0).max(10);
        // What the flag says counts even in a dry run, as in the reference's tables.
        let repeated =
            self.options.repetitions > 1 || jobs.iter().any(|job| job.benchmark.repetitions > Some(1));
        longest + if repeated { NAME_SUFFIX_WIDTH } else { 0 }
    }
}

/// A benchmark that was chosen, and how far it is.
struct Job<'b, 'a> {
    benchmark: &'b mut Benchmark<'a>,
    name: String,
    index: usize,
    repetitions: u32,
    /// How many iterations the next repetition shall do; found by the first one unless it is given.
    iterations: u64,
    fixed_iterations: bool,
    min_time_s: f64,
    /// Still to be done before the first repetition.
    warmup_time_s: f64,
    runs: Vec<Run>,
    failed: usize,
}

/// What one call of a benchmark's body gave.
struct Sample {
    iterations: u64,
    real_s: f64,
    cpu_s: f64,
    manual_s: f64,
    /// By the clock that this benchmark is measured with.
    measured_s: f64,
    counters: crate::Counters,
    label: String,
    skip: Option<Skip>,
    ended: Result<()>,
}

impl<'b, 'a> Job<'b, 'a> {
    fn new(benchmark: &'b mut Benchmark<'a>, name: String, index: usize, options: &Options) -> Self {
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
            runs: Vec::new(),
            failed: 0,
            benchmark,
        };
        if options.dry_run {
            this.repetitions = 1;
            (this.iterations, this.fixed_iterations) = (1, true);
            this.warmup_time_s = 0.0;
        }
        this
    }

    fn remaining(&self) -> u32 {
        self.repetitions - self.runs.len() as u32
    }

    /// One repetition, after the warm-up where it is the first: runs more and more iterations until they
    /// took long enough. Later repetitions run as many as the first one did.
    fn repetition(&mut self, runner: &Runner, notes: &mut dyn Write) -> Result<(Run, Result<()>)> {
        let first = self.runs.is_empty();
        if first && self.warmup_time_s > 0.0 {
            let given = self.iterations;
            let warmed = self.run_until(self.warmup_time_s, runner, notes)?;
            // What the warm-up found out about the iterations is as cold as it was; start over.
            self.iterations = given;
            if warmed.ended.is_err() {
                return Ok(self.finish(warmed, runner));
            }
        }
        let sample = if first && !self.fixed_iterations {
            self.run_until(self.min_time_s, runner, notes)?
        } else {
            self.run_once(runner, notes)?
        };
        Ok(self.finish(sample, runner))
    }

    fn run_until(&mut self, min_time_s: f64, runner: &Runner, notes: &mut dyn Write) -> Result<Sample> {
        loop {
            let sample = self.run_once(runner, notes)?;
            if self.is_enough(&sample, min_time_s) {
                return Ok(sample);
            }
            let (next, multiplier) = next_iterations(sample.iterations, sample.measured_s, min_time_s);
            if runner.options.verbosity >= 3 {
                let multiplier = general(multiplier);
                write_to(notes, format_args!("-- LOG(3): Next iters: {next}, {multiplier}\n"))?;
            }
            self.iterations = next;
        }
    }

    /// Whether it ran long enough, or running longer makes no sense. Real time far above the minimum is
    /// enough too, so that a benchmark that sleeps comes to an end; manual time is trusted.
    fn is_enough(&self, sample: &Sample, min_time_s: f64) -> bool {
        sample.skip.is_some()
            || sample.iterations >= MAX_ITERATIONS
            || sample.measured_s >= min_time_s
            || (sample.real_s >= 5.0 * min_time_s && self.benchmark.measure != Measure::ManualTime)
    }

    fn run_once(&mut self, runner: &Runner, notes: &mut dyn Write) -> Result<Sample> {
        let log = runner.options.verbosity >= 2;
        if log {
            write_to(notes, format_args!("-- LOG(2): Running {} for {}\n", self.name, self.iterations))?;
        }
        let mut state = State::new(self.iterations, &*runner.clock, self.benchmark.process_time);
        let ended = (self.benchmark.body)(&mut state);
        state.timer.stop();
        if let Err(error) = &ended {
            state.skip_with_error(error.to_string());
        } else if !state.ran_to_end() {
            state.skip_with_error("the benchmark left its loop before the end without saying why");
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
        Ok(Sample {
            iterations: state.iterations(),
            real_s,
            cpu_s,
            manual_s,
            measured_s,
            counters: state.counters,
            label: state.label,
            skip: state.skip,
            ended,
        })
    }

    fn finish(&self, sample: Sample, runner: &Runner) -> (Run, Result<()>) {
        let mut run = Run {
            run_name: self.name.clone(),
            family_index: self.index,
            repetitions: self.repetitions,
            kind: RunKind::Iteration { repetition_index: self.runs.len() as u32 },
            iterations: sample.iterations,
            real_time_s: 0.0,
            cpu_time_s: 0.0,
            unit: self.benchmark.time_unit(&runner.options),
            counters: crate::Counters::new(),
            label: sample.label,
            skip: sample.skip,
        };
        if run.skip.is_none() {
            let per_iteration = |seconds: f64| seconds / sample.iterations as f64;
            let manual = self.benchmark.measure == Measure::ManualTime;
            run.real_time_s = per_iteration(if manual { sample.manual_s } else { sample.real_s });
            run.cpu_time_s = per_iteration(sample.cpu_s);
            let finish = |counter: crate::Counter| counter.finish(sample.iterations, sample.measured_s);
            run.counters =
                sample.counters.into_iter().map(|(name, counter)| (name, finish(counter))).collect();
        }
        (run, sample.ended)
    }
}

/// How many iterations to try after `iterations` took only `measured_s` of `min_time_s`, and the factor
/// between: 1.4 times what seems to be needed where a tenth of the time says something, else ten times as
/// many. At least one more, at most [`MAX_ITERATIONS`].
fn next_iterations(iterations: u64, measured_s: f64, min_time_s: f64) -> (u64, f64) {
    let says_something = measured_s / min_time_s > 0.1;
    let multiplier = if says_something { min_time_s * 1.4 / measured_s.max(1e-9) } else { 10.0 };
    let next = (multiplier * iterations as f64).max(iterations as f64 + 1.0).round();
    ((next as u64).min(MAX_ITERATIONS), multiplier)
}

impl MinTime {
    /// The time that warm-ups and predictions fall back to where iterations are given.
    fn default_s() -> f64 {
        match Self::default() {
            Self::Seconds(seconds) => seconds,
            Self::Iterations(_) => unreachable!("the default is a time"),
        }
    }
}

/// Which benchmark repeats next: one after the other, or at random in proportion to what each has left,
/// which is a random order of all repetitions.
struct Order {
    random_state: Option<u64>,
}

impl Order {
    fn new(seed: Option<u64>) -> Self {
        Self { random_state: seed }
    }

    fn next(&mut self, jobs: &[Job<'_, '_>]) -> Option<usize> {
        let remaining = || jobs.iter().map(|job| u64::from(job.remaining()));
        let total: u64 = remaining().sum();
        if total == 0 {
            return None;
        }
        let mut pick = match &mut self.random_state {
            Some(state) => split_mix(state) % total,
            None => 0,
        };
        remaining().position(|count| match pick.checked_sub(count) {
            Some(rest) => {
                pick = rest;
                false
            }
            None => true,
        })
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood, 2014): enough for an order.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The standard library seeds its hash maps from the system's random numbers.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

fn to_each(
    reporters: &mut Reporters<'_>,
    mut call: impl FnMut(&mut dyn Reporter) -> io::Result<()>,
) -> Result<()> {
    let displayed = call(&mut *reporters.display);
    // The file is kept, so it gets its part also where nobody watches any longer.
    let kept = reporters.file.as_mut().map_or(Ok(()), |file| call(&mut **file));
    displayed.and(kept).map_err(write_error)
}

fn write_to(out: &mut dyn Write, text: std::fmt::Arguments<'_>) -> Result<()> {
    out.write_fmt(text).and_then(|()| out.flush()).map_err(write_error)
}

fn write_error(error: io::Error) -> Error {
    Error::io("writing the benchmark report", &error)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
