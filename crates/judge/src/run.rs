use std::io;

use rehal_base::Result;

use crate::{
    Benchmark, Context, Options, Reporter, Reporters, Run, SampleStatistics,
    aggregate::{NAME_SUFFIX_WIDTH, aggregates},
    clock::SystemClock,
    job::{Job, Runner},
    order::Order,
    report::{write_error, write_to},
    samples::Summary,
    summary,
};

/// The outcome of [`Runner::run`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOutcome {
    /// How many benchmarks the filter selected. If none, a note says so.
    pub matched: usize,
    /// How many repetitions failed.
    pub failed: usize,
    /// The real time of an iteration in seconds, of each repetition that did not fail of each benchmark that
    /// was selected.
    pub real_times_s: Vec<Vec<f64>>,
    /// The names of those that have samples, and what these say, of all repetitions.
    pub samples: Vec<(String, SampleStatistics)>,
    /// Whether the pulse of the options ended the measurement.
    pub is_interrupted: bool,
}

impl Runner {
    /// A runner with these options.
    pub fn new(options: Options) -> Self {
        Self { options, clock: Box::new(SystemClock::new()) }
    }

    /// Runs the benchmarks that the filter selects, or lists them.
    ///
    /// Repetitions are reported as soon as they are done (all of a benchmark together if they are randomly
    /// interleaved). Fails if a report cannot be written or a benchmark's body fails; in the latter case the
    /// reports are complete and end with the failed run.
    pub fn run(&self, benchmarks: &mut [Benchmark<'_>], reporters: &mut Reporters<'_>) -> Result<RunOutcome> {
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
            return Ok(RunOutcome::default());
        }
        if self.options.list_tests {
            for job in &jobs {
                write_to(&mut reporters.list, format_args!("{}\n", job.name))?;
            }
            return Ok(RunOutcome { matched: jobs.len(), ..RunOutcome::default() });
        }
        let ran = if jobs.iter().any(|job| job.benchmark.parts.is_some()) {
            let ran = self.run_jobs(&mut jobs, reporters, |_, _, _| Ok(()));
            self.begin(&jobs, reporters)?;
            let mut measured = jobs.iter_mut().filter(|job| !job.runs.is_empty());
            let reported = measured.try_for_each(|job| self.report(job, reporters, true, true));
            ran.and(reported)
        } else {
            self.begin(&jobs, reporters)?;
            let together = self.options.random_interleaving;
            self.run_jobs(&mut jobs, reporters, |job, reporters, ended| {
                self.report(job, reporters, ended, together)
            })
        };
        // An early end still leaves complete reports; its error takes precedence over theirs.
        ran.and(to_each(reporters, |reporter| reporter.finish()))?;
        let failed = jobs.iter().map(|job| job.failed).sum();
        let real_times_s = jobs.iter().map(Job::real_times_s).collect();
        let samples =
            |job: &Job<'_, '_>| Some((job.name.clone(), Summary::from_samples(&job.samples)?.statistics()));
        let samples = jobs.iter().filter_map(samples).collect();
        let is_interrupted = jobs.iter().any(|job| job.is_interrupted);
        Ok(RunOutcome { matched: jobs.len(), failed, real_times_s, samples, is_interrupted })
    }

    fn begin(&self, jobs: &[Job<'_, '_>], reporters: &mut Reporters<'_>) -> Result<()> {
        let mut context = Context::gather(&self.options, self.name_width(jobs));
        let known = jobs.iter().flat_map(|job| job.runs.iter().chain(&job.parts));
        context.counters.extend(known.flat_map(|run| run.counters.keys().cloned()));
        to_each(reporters, |reporter| reporter.begin(&context))?;
        if !self.options.perf_counters.is_empty() {
            write_to(&mut reporters.notes, format_args!("Performance counters not supported.\n"))?;
        }
        Ok(())
    }

    /// Calls `report` after each repetition, with whether no more will follow because of a failure.
    fn run_jobs(
        &self,
        jobs: &mut [Job<'_, '_>],
        reporters: &mut Reporters<'_>,
        mut report: impl FnMut(&mut Job<'_, '_>, &mut Reporters<'_>, bool) -> Result<()>,
    ) -> Result<()> {
        let mut order = if self.options.random_interleaving { Order::random() } else { Order::Given };
        while let Some(index) = order.next(jobs.iter().map(Job::remaining)) {
            let job = &mut jobs[index];
            let (run, mut ended) = job.repetition(self, &mut reporters.notes)?;
            if let (Ok(()), None, Some(parts)) = (&ended, &run.error, &mut job.benchmark.parts) {
                let is_last = job.runs.len() as u32 + 1 == run.repetitions;
                match parts(&run, is_last) {
                    Ok(parts) => job.parts.extend(parts),
                    Err(error) => ended = Err(error),
                }
            }
            job.failed += usize::from(run.error.is_some());
            job.runs.push(run);
            let is_interrupted = job.is_interrupted;
            report(job, reporters, ended.is_err())?;
            ended.map_err(|error| error.context(format!("benchmark {}", job.name)))?;
            for job in jobs.iter_mut().filter(|job| is_interrupted && job.remaining() > 0) {
                job.stop(0);
                // In random order, others are not complete either.
                if !job.runs.is_empty() {
                    report(job, reporters, true)?;
                }
            }
        }
        Ok(())
    }

    /// Reports what is known: each repetition immediately, unless they are reported `together`, and the
    /// statistics after the last one (`ended`: no more will follow). A reporter that wants statistics alone
    /// receives the repetitions of a benchmark that has none.
    fn report(
        &self,
        job: &mut Job<'_, '_>,
        reporters: &mut Reporters<'_>,
        ended: bool,
        together: bool,
    ) -> Result<()> {
        let last = ended || job.remaining() == 0;
        let statistics = if last { aggregates(&job.runs) } else { Vec::new() };
        let new_runs = match (together, last) {
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
            let parts: &[Run] = if last { &job.parts } else { &[] };
            for part in [runs, &statistics, parts] {
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
        displayed.and(kept).map_err(write_error)?;
        match last && self.options.summary && !self.options.dry_run {
            true => summary::write(job, &mut reporters.notes),
            false => Ok(()),
        }
    }

    fn name_width(&self, jobs: &[Job<'_, '_>]) -> usize {
        let names = jobs.iter().map(|job| &job.name);
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0).max(10);
        let parts = jobs.iter().flat_map(|job| &job.parts);
        let longest_part = parts.map(|part| part.run_name.chars().count()).max().unwrap_or(0);
        // The flag's value counts even in a dry run, as in the reference's tables.
        let repeated =
            self.options.repetitions > 1 || jobs.iter().any(|job| job.benchmark.repetitions > Some(1));
        (longest + if repeated { NAME_SUFFIX_WIDTH } else { 0 }).max(longest_part)
    }
}

fn to_each(
    reporters: &mut Reporters<'_>,
    mut call: impl FnMut(&mut dyn Reporter) -> io::Result<()>,
) -> Result<()> {
    let displayed = call(&mut *reporters.display);
    // The file is kept, so it is written even if standard output is closed.
    let kept = reporters.file.as_mut().map_or(Ok(()), |file| call(&mut **file));
    displayed.and(kept).map_err(write_error)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
