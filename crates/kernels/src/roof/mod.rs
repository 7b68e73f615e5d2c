//! The limits of devices, and how near to them kernels come.
//!
//! A [`MachineRoof`] is measured once, and kept in the user's directory of caches, in a file of its own for
//! each description of a machine and a device: another processor, or another release, has another file.
//! [`Roofs`] compare kernels with what is kept; they measure nothing.
//!
//! The roof of a dispatch is the longer of two times: that in which its bytes pass once between the processor
//! and the nearest cache in which they fit, and that of its operations at the peak of their type.

mod dispatches;
mod gpu;
mod kept;
mod kernel;
mod operations;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::Device;
use rehal_judge::{Context, Monitor, Options};
use rehal_roof::{Bandwidth, CacheLevel, MeasureOptions, Peak, Rate};
use serde::{Deserialize, Serialize};

pub use kernel::{BytesSource, KernelRoof, Roofs};

/// The limits of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MachineRoof {
    /// The device and its machine.
    pub machine: MachineDescription,
    /// When and how it was measured.
    pub conditions: RoofConditions,
    /// Operations per second, by type and instructions. GPUs have one row for a type.
    pub peaks: Vec<Peak>,
    /// Bytes per second, by where they are.
    pub bandwidths: Vec<Bandwidth>,
}

/// The facts on which another measurement depends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MachineDescription {
    /// `cpu` for the drivers of CPUs, else the name of the driver.
    pub driver: String,
    /// The name of the device: of a CPU, its model.
    pub device: String,
    /// The machine's name.
    pub host: String,
    /// Number of online processors.
    pub processors: u64,
    /// The number of threads that may run here.
    pub threads: usize,
    /// The caches of data of a processor; empty if unknown, and for GPUs.
    pub caches: Vec<CacheLevel>,
    /// The version of rehal, whose kernels measure.
    pub version: String,
}

/// When and how a roof was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoofConditions {
    /// Local date and time with its offset, RFC 3339.
    pub date: String,
    /// Load averages over 1, 5 and 15 minutes; `None` if unknown.
    pub load_average: Option<[f64; 3]>,
    /// Whether the clocks of processors scale with load (a governor other than `performance`); `None` if
    /// unknown.
    pub scales_frequency: Option<bool>,
    /// Cycles per second of a processor while it computes, if it counts them for us.
    pub clock_hz: Option<f64>,
    /// Why the clock is unknown.
    pub no_clock_because: Option<String>,
    /// The possible distortions of it, as sentences.
    pub warnings: Vec<String>,
}

impl MachineRoof {
    /// Measures a device, which takes about 3 s.
    pub fn measure(device: &Device) -> Result<Self> {
        let machine = MachineDescription::of(device);
        let mut monitor = Monitor::begin();
        monitor.sample();
        let (peaks, bandwidths) = match machine.is_cpu() {
            true => {
                let options = MeasureOptions::new(machine.threads);
                let failed = |error: std::io::Error| {
                    Error::new(StatusCode::ResourceExhausted, format!("measuring the CPU: {error}"))
                        .advise("end other processes, or raise the limits of memory and threads")
                };
                let peaks = rehal_roof::peaks(&options).map_err(failed)?;
                (peaks, rehal_roof::bandwidths(&machine.caches, &options).map_err(failed)?)
            }
            false => gpu::measure(device)?,
        };
        let warnings = monitor.end().warnings;
        let now = Context::gather(&Options::default(), 0);
        let clock = rehal_roof::clock_hz();
        let conditions = RoofConditions {
            date: now.date,
            load_average: now.load_avg.try_into().ok(),
            scales_frequency: now.cpu_scaling_enabled,
            clock_hz: clock.as_ref().ok().copied(),
            no_clock_because: clock.err().map(|error| format!("perf_event_open(2): {error}")),
            warnings,
        };
        Ok(Self { machine, conditions, peaks, bandwidths })
    }

    /// The most operations per second of a type, with this many threads, and what performs them: of `f16` and
    /// `bf16`, also instructions for `f32`. `None` if it is unknown.
    pub fn operations_per_second(&self, element: &str, threads: usize) -> Option<(f64, &Peak)> {
        let best = |element: &str| {
            let one = self.peaks.iter().filter(|it| it.element == element && it.rate.threads == 1);
            let rate = |it: &Peak| {
                let is_same =
                    |other: &&Peak| (&other.element, &other.instructions) == (&it.element, &it.instructions);
                most(it.rate, self.peaks.iter().filter(is_same).map(|it| it.rate), threads)
            };
            one.map(|it| (rate(it), it)).max_by(|one, other| one.0.total_cmp(&other.0))
        };
        match element {
            "f16" | "bf16" => {
                let both = [best(element), best("f32")].into_iter().flatten();
                both.max_by(|one, other| one.0.total_cmp(&other.0))
            }
            element => best(element),
        }
    }

    /// The most bytes per second of a working set of `bytes`, with this many threads, and where it is: a
    /// cache in which it fits, or memory.
    pub fn bytes_per_second(&self, bytes: u64, threads: usize) -> Option<(f64, &str)> {
        let one = self.bandwidths.iter().filter(|it| it.read.threads == 1);
        let fits = |bandwidth: &&Bandwidth| {
            let same = self.bandwidths.iter().filter(|other| other.name == bandwidth.name);
            // Each thread has a part in the caches of its processor, which it may share.
            let all = same.filter_map(|it| it.capacity_bytes).max();
            let capacity = bandwidth.capacity_bytes.map(|one| one.saturating_mul(threads as u64));
            capacity.zip(all).is_none_or(|(capacity, all)| bytes <= capacity.min(all))
        };
        let rate = |bandwidth: &Bandwidth| {
            let same = || self.bandwidths.iter().filter(|other| other.name == bandwidth.name);
            let read = most(bandwidth.read, same().map(|it| it.read), threads);
            read.max(most(bandwidth.copy, same().map(|it| it.copy), threads))
        };
        one.filter(fits).map(|it| (rate(it), &*it.name)).max_by(|one, other| one.0.total_cmp(&other.0))
    }
}

/// The most that this many threads do: each as much as one by itself, and together no more than all.
fn most(one: Rate, same: impl Iterator<Item = Rate>, threads: usize) -> f64 {
    let all = same.filter(|it| it.threads > 1).map(|it| it.per_second).fold(f64::NAN, f64::max);
    // `min` and `max` ignore NaN.
    (one.per_second * threads as f64).min(if threads > 1 { all } else { f64::NAN })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 2 threads with round numbers.
    pub(super) fn roof() -> MachineRoof {
        let rate = |threads, per_second| Rate { threads, per_second, is_concurrent: true };
        let peak = |element: &str, bits, threads, per_second| Peak {
            element: element.into(),
            instructions: format!("V{bits}"),
            vector_bits: bits,
            rate: rate(threads, per_second),
        };
        let bandwidth = |name: &str, capacity_bytes, threads, per_second: f64| Bandwidth {
            name: name.into(),
            capacity_bytes,
            read: rate(threads, per_second),
            copy: rate(threads, per_second / 2.0),
        };
        let machine = MachineDescription {
            driver: "cpu".into(),
            device: "a CPU".into(),
            host: "here".into(),
            processors: 2,
            threads: 2,
            caches: vec![CacheLevel { level: 1, size_bytes: 1000, shared_by: 1 }],
            version: "1".into(),
        };
        let conditions = RoofConditions {
            date: "2026-01-01".into(),
            load_average: None,
            scales_frequency: None,
            clock_hz: None,
            no_clock_because: None,
            warnings: Vec::new(),
        };
        MachineRoof {
            machine,
            conditions,
            peaks: vec![
                peak("f32", 128, 1, 1e9),
                peak("f32", 512, 1, 4e9),
                peak("f32", 512, 2, 7e9),
                peak("i8", 512, 1, 16e9),
            ],
            bandwidths: vec![
                bandwidth("L1", Some(1000), 1, 100e9),
                bandwidth("memory", None, 1, 10e9),
                bandwidth("L1", Some(2000), 2, 150e9),
                bandwidth("memory", None, 2, 12e9),
            ],
        }
    }

    #[test]
    fn the_best_instructions_and_the_nearest_cache_count() {
        let roof = roof();
        let operations = |element, threads| roof.operations_per_second(element, threads).map(|it| it.0);
        assert_eq!((operations("f32", 1), operations("f16", 1)), (Some(4e9), Some(4e9)));
        assert_eq!((operations("i8", 1), operations("f64", 1)), (Some(16e9), None));
        let bytes = |bytes, threads| roof.bytes_per_second(bytes, threads).unwrap();
        assert_eq!((bytes(1000, 1), bytes(1001, 1)), ((100e9, "L1"), (10e9, "memory")));
        // Two threads do what was measured of two, and no more; both have a cache.
        assert_eq!(operations("f32", 2), Some(7e9));
        assert_eq!((bytes(2000, 2), bytes(2001, 2)), ((150e9, "L1"), (12e9, "memory")));
        // Of `i8`, only one thread was measured.
        assert_eq!(operations("i8", 2), Some(32e9));
    }
}
