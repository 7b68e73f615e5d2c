//! The functions of executables that a benchmark of a program dispatches: how often, and for how long.

use rehal_base::Result;
use rehal_devices::{Profiling, ProfilingOptions};
use rehal_hal::DeviceGroup;
use rehal_judge::{Counter, Run, RunKind};
use rehal_profile::times::FunctionTimes;

use super::Calls;

/// The dispatches of a benchmark's iterations, from unmeasured calls after each repetition.
pub struct DispatchStatistics<'p> {
    devices: Option<&'p DeviceGroup>,
    /// The name of the benchmark, without its settings.
    name: String,
    functions: Vec<FunctionTimes>,
    iterations: u64,
}

impl<'p> DispatchStatistics<'p> {
    /// Statistics of the benchmark of this name on devices, if it has some.
    pub fn new(name: String, devices: Option<&'p DeviceGroup>) -> Self {
        Self { devices, name, functions: Vec::new(), iterations: 0 }
    }

    /// Fails if a device times no dispatches or the profile cannot be written, before anything is measured in
    /// vain.
    pub fn check(devices: Option<&DeviceGroup>) -> Result<()> {
        let Some(devices) = devices else { return Ok(()) };
        Profiling::begin(devices, &ProfilingOptions::dispatch_times())?.end()
    }

    /// Calls as often as in the repetition that `run` reports, with a profile. Returns the rows after the
    /// last repetition, none if no function is dispatched.
    pub fn add(&mut self, run: &Run, is_last: bool, calls: &mut Calls) -> Result<Vec<Run>> {
        let Some(devices) = self.devices else {
            return Ok(self.rows(run));
        };
        let options = ProfilingOptions::dispatch_times();
        let profiling = Profiling::begin(devices, &options)?;
        let mut called = 0;
        while called < run.iterations {
            if calls.needs_preparation() {
                calls.run(&mut calls.prepare()?)?;
            } else {
                calls.call()?;
            }
            called += calls.batch_size().max(1);
        }
        self.iterations += called;
        for times in profiling.end_with_dispatch_times()?.functions {
            match self.functions.iter_mut().find(|known| known.name == times.name) {
                Some(known) => {
                    known.times_ns.extend(times.times_ns);
                    known.thread_time_ns += times.thread_time_ns;
                }
                None => self.functions.push(times),
            }
        }
        Ok(if is_last { self.rows(run) } else { Vec::new() })
    }

    /// The functions, sorted by their time.
    fn rows(&self, run: &Run) -> Vec<Run> {
        let time_ns = |function: &FunctionTimes| function.times_ns.iter().sum::<f64>();
        let mut functions: Vec<_> = self.functions.iter().map(|it| (time_ns(it), it)).collect();
        functions.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let total_ns: f64 = functions.iter().map(|(time_ns, _)| time_ns).sum();
        let iterations = self.iterations as f64;
        let row = |(time_ns, function): (f64, &FunctionTimes)| Run {
            run_name: format!("{}/{}", self.name, function.name),
            repetitions: 1,
            kind: RunKind::Iteration { repetition_index: 0 },
            iterations: self.iterations,
            real_time_s: time_ns * 1e-9 / iterations,
            cpu_time_s: function.thread_time_ns * 1e-9 / iterations,
            counters: [
                ("calls".to_owned(), Counter::new(function.times_ns.len() as f64 / iterations)),
                ("percent".to_owned(), Counter::new(100.0 * time_ns / total_ns)),
            ]
            .into(),
            label: String::new(),
            samples: None,
            ..run.clone()
        };
        functions.into_iter().map(row).collect()
    }
}
