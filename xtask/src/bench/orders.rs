//! Our two orders of replays, which one process measures by turns: a process differs from the next by more
//! than the orders do.

use super::measure::{self, Invocation, Metric, Output};
use super::prepare::Workplace;
use super::report::{Row, Target};
use std::error::Error;
use std::path::Path;

/// Processes per round, and what each of them measures: short repetitions, so that the speed of the machine
/// changes little from one to the next.
const PROCESSES: u32 = 3;
const REPETITIONS: u32 = 30;
const SECONDS: f64 = 0.005;

/// A replay in both orders: the serialized one is the baseline, in the reference's column.
pub struct InBothOrders {
    name: String,
    invocation: Invocation,
    target: Target,
}

impl InBothOrders {
    /// The replay of a capture on a device.
    pub fn new(name: &str, workplace: &Workplace, capture: &Path, device: &str, target: Target) -> Self {
        let (_, program) = workplace.pair("iree-benchmark-replay");
        let arguments = vec![
            format!("--device={device}"),
            "--task_topology_group_count=2".to_owned(),
            "--replay_order=both".to_owned(),
            format!("--benchmark_repetitions={REPETITIONS}"),
            format!("--benchmark_min_time={SECONDS}s"),
            "--benchmark_format=json".to_owned(),
            capture.display().to_string(),
        ];
        Self { name: name.to_owned(), invocation: Invocation { program, arguments }, target }
    }

    /// Measures it, and compares the medians of each process.
    pub fn measure(&self, rounds: u32) -> Result<Row, Box<dyn Error>> {
        let median =
            |order: &str| Metric::Benchmark(format!("BM_replay{order}/process_time/real_time_median"));
        let (serialized, captured) = (median(""), median("/order:captured"));
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..rounds * PROCESSES {
            let run = measure::run(&self.invocation, Output::Json)?;
            before.push(serialized.of(&run)?);
            after.push(captured.of(&run)?);
        }
        Ok(Row::new(&self.name, captured.unit(), self.target, before, after))
    }
}
