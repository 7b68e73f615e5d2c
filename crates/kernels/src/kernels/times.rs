//! Times of kernels in several processes.

use std::cmp::Reverse;
use std::collections::HashMap;

use rehal_judge::{MeasuredTime, stats};

use super::{Kernel, Kernels};

impl Kernels {
    /// The times of this process, by names that other processes have as well.
    pub fn measured(&self) -> Vec<MeasuredTime> {
        let clock = self.times.unwrap_or_default();
        let of = |it: &Kernel| Some(MeasuredTime::new(name(it), it.time_ns? as f64, clock));
        self.kernels.iter().filter_map(of).collect()
    }

    /// Sets the times to the medians of several processes, if there are several, and sorts the kernels by
    /// them.
    pub fn set_times(&mut self, measured: &[MeasuredTime]) {
        let of: HashMap<_, _> = measured.iter().map(|it| (&*it.name, it)).collect();
        let listed = |kernels: &[Kernel]| kernels.iter().filter_map(|it| it.time_ns).sum::<u64>();
        // Of all functions, also of those that are not listed.
        let others = self.total_ns.map(|it| it.saturating_sub(listed(&self.kernels)));
        for kernel in &mut self.kernels {
            if let Some(it) = of.get(&*name(kernel)).filter(|it| it.processes_ns.len() > 1) {
                kernel.time_ns = Some(it.median_ns.round() as u64);
                kernel.interval_ns = stats::median_interval(&it.processes_ns, 0.05);
            }
        }
        self.total_ns = others.map(|it| it + listed(&self.kernels));
        self.kernels.sort_by_key(|kernel| Reverse(kernel.time_ns));
    }
}

fn name(kernel: &Kernel) -> String {
    let occurrence = match kernel.occurrence {
        0 => String::new(),
        number => format!(", occurrence {number}"),
    };
    format!("{} (record #{}{occurrence})", kernel.name, kernel.location.ordinal)
}
