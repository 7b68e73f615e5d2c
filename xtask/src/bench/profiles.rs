//! The cost of profiles: replays with a profile and without.

use super::cases::{Figure, Plan};
use super::measure::{Invocation, Metric, Output};
use super::prepare::Workplace;
use super::report::Target;
use std::error::Error;
use std::path::PathBuf;

/// A replay that is profiled.
#[derive(Clone)]
pub struct Profiled {
    workload: Workload,
    device: &'static str,
    family: &'static str,
    limit: f64,
}

#[derive(Clone)]
enum Workload {
    /// A real model, name and function: ours with a profile, compared with ours without, in the reference's
    /// column.
    Model(&'static str, &'static str),
    /// What a profile adds to a capture of many short calls, where events cost enough to compare their cost:
    /// in the models, what they add is less than the noise of the rest.
    Calls(PathBuf),
}

/// Maximum of what a profile adds, as a fraction of what it adds to the reference.
const ADDED: f64 = 1.0;

/// The families of data, with the maximum time as a multiple of that without.
const FAMILIES: [(&str, f64); 2] = [("queue-events", 1.03), ("host-execution", 1.08)];

/// All cases, by name.
pub fn all(workplace: &Workplace) -> Result<Vec<(String, Profiled)>, Box<dyn Error>> {
    let models = workplace.models();
    let calls = workplace.bench_captures()?;
    let mut cases = Vec::new();
    for (prefix, device) in [("", "local-sync"), ("task.", "local-task")] {
        for (family, limit) in FAMILIES {
            let mut add = |name: &str, workload, limit| {
                let name = format!("{prefix}profile.{family}.{name}");
                cases.push((name, Profiled { workload, device, family, limit }));
            };
            for (name, function) in &models {
                add(name, Workload::Model(name, function), limit);
            }
            if let Some((name, path)) = calls.iter().find(|(name, _)| name == "abs.2000") {
                add(&format!("added.{name}"), Workload::Calls(path.clone()), ADDED);
            }
        }
    }
    Ok(cases)
}

impl Profiled {
    /// Finds or makes the inputs.
    pub fn prepare(&self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let capture = match &self.workload {
            Workload::Model(model, function) => workplace.model_capture(model, function)?,
            Workload::Calls(path) => path.clone(),
        };
        // The same work takes up to a tenth more in one process than in another, by the addresses of its
        // memory. What events add is not much more, so that only many processes decide.
        let (runs_per_round, seconds) = match self.workload {
            Workload::Model(..) => (3, 0.1),
            Workload::Calls(_) => (20, 0.05),
        };
        let plain = |program| Invocation {
            program,
            arguments: vec![
                format!("--device={}", self.device),
                "--task_topology_group_count=2".to_owned(),
                format!("--benchmark_min_time={seconds}s"),
                "--benchmark_format=json".to_owned(),
                capture.display().to_string(),
            ],
        };
        let profiled = |plain: &Invocation, whose: &str| {
            let mut invocation = plain.clone();
            let path = workplace.scratch(&format!("profile.{whose}.ireeprof"));
            invocation.arguments.extend([
                format!("--device_profiling_mode={}", self.family),
                format!("--device_profiling_output={}", path.display()),
            ]);
            invocation
        };
        let (theirs, ours) = workplace.pair("iree-benchmark-replay");
        let (theirs, ours) = (plain(theirs), plain(ours));
        let (compared, without) = match self.workload {
            Workload::Model(..) => (ours.clone(), None),
            Workload::Calls(_) => (profiled(&theirs, "theirs"), Some((Some(theirs), ours.clone()))),
        };
        Ok(Plan {
            theirs: compared,
            ours: profiled(&ours, "ours"),
            without,
            output: Output::Json,
            runs_per_round,
            figures: vec![Figure {
                name: name.to_owned(),
                metric: Metric::OnlyBenchmark,
                target: Target::Ratio(self.limit),
            }],
        })
    }
}
