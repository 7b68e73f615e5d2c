//! The kernels of a capture: its distinct dispatches, how often they run, and what they cost.
//!
//! Dispatches come from a plan (`Plan::distinct_dispatches`, whose work does not grow with the executions of
//! a command buffer), or from a replay one operation at a time, which also knows indirect workgroup counts.
//! Times are the spans that devices report, each of which belongs to one dispatch because operations are
//! serialized; without them, the host measures from before the submission to completion. Replays are repeated
//! until the order of the kernels is known. A last replay
//! compares what is bound before and after the first dispatch of each kernel, and cuts the slices that are
//! exported. `DispatchFiles` replays such a slice up to its dispatch, and names files by their digest, so
//! that equal contents are stored once.
//!
//! `KernelRecording` groups dispatches in the same way and records the first of each kernel while it runs,
//! with the code that runs, captured or not. `KernelReplay` loads such a record with `LoadedExecutable`.

mod aliases;
mod dispatch_files;
mod function_names;
mod observed;
mod pairs;
mod ranking;
mod records;
mod runs;
mod times;

pub use function_names::FunctionNames;
pub use pairs::{FunctionTiming, ReplayComparison, compare_replays, dispatch_clock};
pub use records::{KernelRecording, KernelRecords, RecordedKernel, check_kernel_records};

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rehal_base::{Range, Result, glob};
use rehal_devices::CrashReports;
use rehal_judge::stats::Interval;
use rehal_judge::{Clock, Pulse};
use rehal_local::watch_buffer;
use rehal_replay::{
    AccessKind, Observer, Plan, PlannedBinding, RecordLocation, Replay, SliceOptions, SliceSet,
    distinct_bytes,
};
use serde::{Serialize, Serializer};

use crate::kernel_record::words;

pub use dispatch_files::{BindingFile, DispatchFile, DispatchFiles};

/// Options of [`Kernels::from_replay`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelOptions {
    /// Only functions whose names match this pattern, with `*` and `?`.
    pub function: Option<String>,
    /// Replays are timed until the order of the first ten kernels is stable, but none begins after this time.
    /// Default: 0, for one replay.
    pub max_time: Duration,
    /// Number of timed replays, instead of until the order is stable. Default: none.
    pub repetitions: Option<u64>,
    /// Called after each timed replay. If it ends the measurement, only times are known.
    #[doc(hidden)]
    pub pulse: Pulse,
}

/// The distinct dispatches of a capture.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Kernels {
    /// By time, the longest first; without times, in the order in which they first run.
    pub kernels: Vec<Kernel>,
    /// Number of dispatches of all functions.
    pub dispatch_count: u64,
    /// Time of all dispatches of all functions in nanoseconds, if measured: the sum of those of the kernels.
    pub total_ns: Option<u64>,
    /// How times are measured, if they are.
    pub times: Option<Clock>,
    /// Number of replays that the times are lower quartiles of.
    pub sample_count: u64,
    /// Whether the order of the first ten kernels is stable: each takes longer than the next in 99 of 100
    /// such measurements, or their times are within 5 % of each other. `None` if it was not measured, or with
    /// fewer than 13 replays, unless there is one kernel.
    pub is_order_stable: Option<bool>,
    /// Whether [`KernelOptions::pulse`] ended the measurement.
    pub is_interrupted: bool,
    /// The possible distortions of the times, as sentences.
    pub warnings: Vec<String>,
}

/// Dispatches with the same function, workgroups, constants and bindings.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Kernel {
    /// The captured ordinal of the function.
    #[serde(rename = "function_ordinal")]
    pub function: u32,
    /// The function's name; its ordinal, such as `#0`, if nothing names it.
    #[serde(rename = "function")]
    pub name: String,
    /// The executable's id.
    #[serde(rename = "executable")]
    pub executable_id: u64,
    /// Number of workgroups in x, y and z; `None` if it is read from a buffer in a capture that was not run.
    pub workgroup_count: Option<[u32; 3]>,
    /// Workgroup size in x, y and z; zero if the driver chooses.
    pub workgroup_size: [u32; 3],
    /// Dynamic workgroup-local memory in bytes.
    #[serde(rename = "local_memory")]
    pub dynamic_local_memory: u32,
    /// 32-bit constants.
    pub constants: Vec<u32>,
    /// The bindings, by ordinal.
    pub bindings: Vec<KernelBinding>,
    /// Number of dispatches.
    pub count: u64,
    /// The record of the first.
    #[serde(rename = "record", serialize_with = "ordinal")]
    pub location: RecordLocation,
    /// The occurrence of the first among those of its record.
    pub occurrence: u64,
    /// The index of the device of the first, if it was run.
    #[serde(skip)]
    pub device: Option<usize>,
    /// Time of all of them in nanoseconds, if measured: the lower quartile of replays, in each of which
    /// a dispatch during which its thread was preempted has its CPU time
    /// ([`DispatchTime::busy_ns`](rehal_judge::DispatchTime::busy_ns)).
    pub time_ns: Option<u64>,
    /// Its 95 % interval; `None` with fewer than 13 replays.
    #[serde(rename = "time_interval_ns")]
    pub interval_ns: Option<Interval>,
    /// The processor's time for all of them, if they were measured on a CPU.
    #[serde(flatten)]
    pub processor: Option<KernelProcessor>,
    /// The same with other numbers of workers: see [`Kernels::add_scaling`].
    pub scaling: Vec<KernelScaling>,
    /// The accesses of the first dispatch, if it was run.
    #[serde(skip)]
    traffic: Option<Traffic>,
    /// The same, by binding.
    #[serde(skip)]
    touched: Vec<Access>,
    /// Whether it is cheap to see which pages it accesses.
    #[serde(skip)]
    is_watched: bool,
}

fn ordinal<S: Serializer>(location: &RecordLocation, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(location.ordinal)
}

fn changed<S: Serializer>(range: &Option<Range>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([
        ("changed_offset", range.map(|range| range.offset)),
        ("changed_length", range.map(|range| range.length)),
    ])
}

/// The time of the threads of a CPU for the dispatches of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelProcessor {
    /// CPU time of all threads in all dispatches, in nanoseconds.
    pub cpu_ns: u64,
    /// Threads that executed workgroups of a dispatch, on average.
    pub thread_count: f64,
    /// The CPU time of the thread that used most, as a multiple of the mean of those that took part.
    pub imbalance: f64,
}

/// The cost of a kernel on a device with a number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelScaling {
    /// Workers of the device.
    pub threads: u32,
    /// As [`Kernel::time_ns`].
    pub time_ns: u64,
    /// As [`Kernel::processor`].
    #[serde(flatten)]
    pub processor: KernelProcessor,
}

/// Bytes that a kernel binds at most if its accesses are watched: a signal for each page takes some
/// microseconds.
const MAX_WATCHED_BYTES: u64 = 256 << 20;
/// The same, of all kernels.
const MAX_ALL_WATCHED_BYTES: u64 = 4 << 30;
/// The same, of kernels that are not [`COSTLY`].
const MAX_CHEAP_WATCHED_BYTES: u64 = 1 << 30;
/// The first kernels that take this part of the time are costly.
const COSTLY: f64 = 0.95;
/// The time at most that one dispatch of each kernel takes, in nanoseconds, if their accesses are watched.
const MAX_WATCHED_NS: u64 = 2_000_000_000;

/// The accesses of the first dispatch of a kernel to a binding.
#[derive(Clone, Debug, Default)]
struct Access {
    /// The bound buffer, by its captured id, and the range of it.
    buffer_id: u64,
    range: Range,
    /// The changed elements, in order: of the binding. `None` if they are too many.
    changed: Option<Vec<Range>>,
    /// The pages that it accesses, in order: of the binding. `None` if they are unknown.
    accessed: Option<Vec<Range>>,
}

/// The most that a core reads and writes beyond its first-level cache: a line of 64 bytes in each cycle, at 5
/// GHz. What is bound is rarely in the first-level cache, which delivers more.
const MAX_CORE_BYTES_PER_SECOND: f64 = 320e9;

/// How many bytes a dispatch accesses, each counted once.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    read: u64,
    written: u64,
    /// All that is bound.
    bound: u64,
    /// The bytes of that which it accesses, in pages, if they are known.
    accessed: Option<u64>,
}

/// A binding of a [`Kernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct KernelBinding {
    /// Number of bytes.
    pub length: u64,
    /// The first binding with some of the same bytes, by ordinal.
    pub alias_of: Option<u32>,
    /// Whether the first dispatch changed bytes of it: `Some(false)` for memory that kernels cannot write,
    /// and `None` if that is unknown, or if other bindings have the same changed bytes.
    pub is_written: Option<bool>,
    /// From the first to the last byte of it that the first dispatch changed; element, if the name of the
    /// function says of which type.
    #[serde(flatten, serialize_with = "changed")]
    pub changed: Option<Range>,
}

/// The properties by which dispatches are the same.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    executable_id: u64,
    function: u32,
    workgroup_count: Option<[u32; 3]>,
    workgroup_size: [u32; 3],
    dynamic_local_memory: u32,
    constants: Vec<u8>,
    bindings: Vec<(u64, Option<u32>, bool)>,
}

/// One dispatch.
struct Launch<'a> {
    key: Key,
    name: &'a str,
    location: RecordLocation,
    occurrence: u64,
    device: Option<usize>,
}

/// Groups dispatches.
#[derive(Default)]
struct Groups {
    indices: HashMap<Key, usize>,
    kernels: Vec<Kernel>,
    dispatch_count: u64,
}

impl Kernels {
    /// The kernels of a plan, without running it: no times, no indirect workgroup counts, and no directions
    /// of bindings.
    pub fn from_plan(plan: &Plan, options: &KernelOptions) -> Result<Self> {
        let mut groups = Groups::default();
        plan.distinct_dispatches(|dispatch, count| {
            let ranges = dispatch.bindings.iter().map(|it| (it.buffer_id, it.offset, it.length, it.access));
            let key = Key {
                executable_id: dispatch.executable.id,
                function: dispatch.function,
                workgroup_count: dispatch.workgroup_count,
                workgroup_size: dispatch.workgroup_size,
                dynamic_local_memory: dispatch.dynamic_local_memory,
                constants: dispatch.constants.to_vec(),
                bindings: bindings(ranges.collect()),
            };
            let name = String::from_utf8_lossy(dispatch.name);
            let (location, occurrence) = (dispatch.location, dispatch.occurrence);
            groups.add(Launch { key, name: &name, location, occurrence, device: None }, count);
            Ok(())
        })?;
        groups.finish(options)
    }

    /// The kernels of a replay, which runs to measure times, and once more to see which bindings change.
    pub fn from_replay(replay: &Replay, options: &KernelOptions) -> Result<Self> {
        let mut this = Self::timed(replay, options)?;
        if this.is_interrupted {
            return Ok(this);
        }
        runs::inspect(&mut this.kernels, |inspector| {
            replay.run(&mut [&mut CrashReports::records(), inspector])
        })?;
        this.watch(replay)?;
        Ok(this)
    }

    /// The same, with a slice of the first dispatch of each kernel, by the index of the kernel. The slices
    /// are cut while the last replay sees which bindings change.
    #[doc(hidden)]
    pub fn from_replay_with_slices(
        replay: &Replay,
        options: &KernelOptions,
        slicing: &SliceOptions,
        slices: &mut impl SliceSet,
    ) -> Result<Self> {
        let mut this = Self::timed(replay, options)?;
        let dispatches = this.dispatches();
        runs::inspect(&mut this.kernels, |inspector| {
            replay.slices(&dispatches, slicing, slices, &mut [&mut CrashReports::records(), inspector])
        })?;
        this.watch(replay)?;
        Ok(this)
    }

    /// The first dispatch of each kernel, by record and occurrence.
    fn dispatches(&self) -> Vec<(u32, u64)> {
        self.kernels.iter().map(|it| (it.location.ordinal, it.occurrence)).collect()
    }

    /// Replays once more to see what the first dispatch of each kernel accesses, if that is cheap.
    fn watch(&mut self, replay: &Replay) -> Result<()> {
        self.choose_watched();
        let watched = || self.kernels.iter().filter(|it| it.is_watched);
        let dispatches: Vec<_> = watched().map(|it| (it.location.ordinal, it.occurrence)).collect();
        if dispatches.is_empty() {
            return Ok(());
        }
        let observers: &mut [&mut dyn Observer] = &mut [&mut CrashReports::records()];
        let accessed = replay.accessed_pages(&dispatches, Arc::new(watch_buffer), observers)?;
        for (kernel, accessed) in self.kernels.iter_mut().filter(|it| it.is_watched).zip(accessed) {
            if let Some(accessed) = accessed {
                kernel.set_accessed(&accessed);
            }
        }
        Ok(())
    }

    /// Chooses the kernels of which it is cheap to see what they access, the costliest first: each page that
    /// is bound may cost a signal, and a dispatch is performed once more.
    fn choose_watched(&mut self) {
        let (mut bytes, mut time_ns, mut before_ns) = (0, 0, 0);
        let costly_ns = (self.total_ns.unwrap_or(0) as f64 * COSTLY) as u64;
        for kernel in &mut self.kernels {
            let max_bytes =
                if before_ns < costly_ns { MAX_ALL_WATCHED_BYTES } else { MAX_CHEAP_WATCHED_BYTES };
            before_ns += kernel.time_ns.unwrap_or(0);
            // Bytes that are bound twice cause one signal.
            let bound: u64 =
                kernel.bindings.iter().filter(|it| it.alias_of.is_none()).map(|it| it.length).sum();
            let each_ns = kernel.time_ns.unwrap_or(0) / kernel.count.max(1);
            let fits = bound <= MAX_WATCHED_BYTES
                && bound <= max_bytes.saturating_sub(bytes)
                && each_ns <= MAX_WATCHED_NS.saturating_sub(time_ns);
            if fits {
                (bytes, time_ns) = (bytes + bound, time_ns + each_ns);
            }
            kernel.is_watched = fits;
        }
    }

    /// The kernels of a replay that only measures times: which bindings change is unknown.
    pub fn timed(replay: &Replay, options: &KernelOptions) -> Result<Self> {
        let mut groups = Groups::default();
        let measured = runs::measure(replay, &mut groups, options)?;
        let mut this = groups.finish(options)?;
        this.total_ns = Some(measured.total_ns);
        this.times = Some(measured.times);
        this.sample_count = measured.sample_count;
        let can_tell = this.kernels.len() == 1 || measured.sample_count >= ranking::MIN_SAMPLES as u64;
        this.is_order_stable = can_tell.then_some(measured.is_order_stable);
        (this.is_interrupted, this.warnings) = (measured.is_interrupted, measured.warnings);
        this.kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.time_ns));
        Ok(this)
    }

    /// Measures the kernels once more, with a replay of the same capture on a CPU device with this number of
    /// workers ([`DeviceOptions::with_workers`](rehal_devices::DeviceOptions::with_workers)).
    pub fn add_scaling(&mut self, replay: &Replay, threads: u32, options: &KernelOptions) -> Result<()> {
        let timed = Self::timed(replay, options)?;
        self.is_interrupted |= timed.is_interrupted;
        let place = |it: &Kernel| (it.location.ordinal, it.occurrence);
        let found: HashMap<_, _> = timed.kernels.iter().map(|it| (place(it), it)).collect();
        for kernel in &mut self.kernels {
            let found = found.get(&place(kernel)).and_then(|it| Some((it.time_ns?, it.processor?)));
            kernel.scaling.extend(found.map(|(time_ns, processor)| KernelScaling {
                threads,
                time_ns,
                processor,
            }));
        }
        Ok(())
    }
}

impl Kernel {
    /// The bytes that the first dispatch changes, in whole elements if the name of the function says of which
    /// type: it writes no fewer. `None` if it was not run.
    pub fn bytes_written(&self) -> Option<u64> {
        self.traffic.map(|it| it.written)
    }

    /// The bytes that the first dispatch does not change, of the bindings that it may read: a binding that it
    /// changes and no other overlaps is not one. `None` if it was not run.
    pub fn bytes_read(&self) -> Option<u64> {
        self.traffic.map(|it| it.read)
    }

    /// The bytes of the pages that the first dispatch accesses, each counted once; `None` if that is unknown.
    pub fn bytes_accessed(&self) -> Option<u64> {
        self.traffic?.accessed
    }

    /// All bytes that are bound to the first dispatch, each counted once; `None` if it was not run.
    pub fn bytes_bound(&self) -> Option<u64> {
        self.traffic.map(|it| it.bound)
    }

    /// Bytes per second at most, each counted once: of the pages that it accesses; if these are unknown, of
    /// all that is bound. Or why that cannot be said: also if it is more than 320 GB for each core that may
    /// work on a dispatch, since such a kernel accesses less.
    pub fn max_bytes_per_second(&self) -> Result<f64, &'static str> {
        let Some(traffic) = self.traffic else { return Err("unknown directions") };
        let bytes = match traffic.accessed {
            Some(bytes) => bytes,
            None if self.bindings.iter().any(|it| it.alias_of.is_some()) => {
                return Err(if self.is_watched { "bindings overlap" } else { "not watched" });
            }
            None => traffic.bound,
        };
        match self.time_ns {
            None | Some(0) => Err("no time"),
            Some(time_ns) => {
                let rate = bytes as f64 * self.count as f64 * 1e9 / time_ns as f64;
                match rate <= self.cores() as f64 * MAX_CORE_BYTES_PER_SECOND {
                    true => Ok(rate),
                    false => Err("accesses less"),
                }
            }
        }
    }

    /// The ranges of a binding that its first dispatch changes: elements if the name of the function says of
    /// which type, else bytes, in order. `None` if it was not run, or if there are too many ranges.
    pub fn changed_ranges(&self, binding: usize) -> Option<&[Range]> {
        self.touched.get(binding)?.changed.as_deref()
    }

    /// The ranges of a binding that its first dispatch accesses, in pages of 4 KiB of the buffer, in order;
    /// `None` if they are unknown.
    pub fn accessed_ranges(&self, binding: usize) -> Option<&[Range]> {
        self.touched.get(binding)?.accessed.as_deref()
    }

    /// Sets what it accesses, by buffer.
    fn set_accessed(&mut self, accessed: &[(u64, Range)]) {
        if let Some(traffic) = &mut self.traffic {
            traffic.accessed = Some(distinct_bytes(accessed.iter().copied()));
        }
        for touched in &mut self.touched {
            let parts = accessed.iter().filter(|(buffer_id, _)| *buffer_id == touched.buffer_id);
            let bound = touched.range;
            let within = |(_, page): &(u64, Range)| {
                let (start, end) = (page.offset.max(bound.offset), page.end().min(bound.end()));
                (start < end).then(|| Range { offset: start - bound.offset, length: end - start })
            };
            touched.accessed = Some(parts.filter_map(within).collect());
        }
    }

    /// How many cores may work on a dispatch at most: a workgroup runs on one.
    fn cores(&self) -> u64 {
        static CORES: OnceLock<u64> = OnceLock::new();
        let cores =
            *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |it| it.get() as u64));
        let workgroups = self
            .workgroup_count
            .map(|count| count.into_iter().fold(1, |product: u64, it| product.saturating_mul(u64::from(it))));
        cores.min(workgroups.unwrap_or(u64::MAX)).max(1)
    }
}

/// The cost of all dispatches of a function, as far as a capture says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FunctionCost {
    /// Its name; its ordinal, such as `#0`, if nothing names it.
    pub name: String,
    /// Number of dispatches of all functions of this name.
    pub dispatches: u64,
    /// The bytes that are bound to them: each once for a dispatch.
    pub bound_bytes: u64,
    /// The records that dispatch it, each with the most bytes that it binds.
    #[serde(skip)]
    pub records: Vec<(u32, u64)>,
}

/// The costs of the functions of a plan, without running it, in the order in which they are first dispatched.
pub fn function_costs(plan: &Plan) -> Result<Vec<FunctionCost>> {
    let (mut costs, mut indices) = (Vec::<FunctionCost>::new(), HashMap::new());
    plan.distinct_dispatches(|it, count| {
        let name = match it.name {
            [] => format!("#{}", it.function),
            name => String::from_utf8_lossy(name).into_owned(),
        };
        let index = *indices.entry(name.clone()).or_insert(costs.len());
        if index == costs.len() {
            costs.push(FunctionCost { name, dispatches: 0, bound_bytes: 0, records: Vec::new() });
        }
        let range = |it: &PlannedBinding| (it.buffer_id, Range { offset: it.offset, length: it.length });
        let bytes = distinct_bytes(it.bindings.iter().map(range));
        costs[index].dispatches += count;
        let record = it.location.ordinal;
        match costs[index].records.last_mut() {
            Some((last, most)) if *last == record => *most = bytes.max(*most),
            _ => costs[index].records.push((record, bytes)),
        }
        costs[index].bound_bytes = costs[index].bound_bytes.saturating_add(bytes.saturating_mul(count));
        Ok(())
    })?;
    Ok(costs)
}

/// The length of each binding, the first that overlaps it, and whether a kernel may write it.
fn bindings(ranges: Vec<(u64, u64, u64, AccessKind)>) -> Vec<(u64, Option<u32>, bool)> {
    let bytes: Vec<_> = ranges.iter().map(|&(buffer, offset, length, _)| (buffer, offset, length)).collect();
    let of = |((_, _, length, access), alias_of): (&(u64, u64, u64, AccessKind), _)| {
        (*length, alias_of, *access == AccessKind::Binds)
    };
    ranges.iter().zip(aliases::first(&bytes)).map(of).collect()
}

impl Groups {
    /// Adds a dispatch that is performed `count` times; returns the index of its kernel, and whether it is
    /// the first.
    fn add(&mut self, seen: Launch<'_>, count: u64) -> (usize, bool) {
        self.dispatch_count += count;
        if let Some(index) = self.indices.get(&seen.key) {
            self.kernels[*index].count += count;
            return (*index, false);
        }
        let Launch { key, name, location, occurrence, device } = seen;
        let binding = |(length, alias_of, may_write): &(u64, Option<u32>, bool)| KernelBinding {
            length: *length,
            alias_of: *alias_of,
            is_written: (!may_write).then_some(false),
            changed: None,
        };
        self.kernels.push(Kernel {
            function: key.function,
            name: if name.is_empty() { format!("#{}", key.function) } else { name.to_string() },
            executable_id: key.executable_id,
            workgroup_count: key.workgroup_count,
            workgroup_size: key.workgroup_size,
            dynamic_local_memory: key.dynamic_local_memory,
            constants: words(&key.constants),
            bindings: key.bindings.iter().map(binding).collect(),
            count,
            location,
            occurrence,
            device,
            time_ns: None,
            interval_ns: None,
            processor: None,
            scaling: Vec::new(),
            traffic: None,
            touched: Vec::new(),
            is_watched: false,
        });
        self.indices.insert(key, self.kernels.len() - 1);
        (self.kernels.len() - 1, true)
    }

    /// Fails if no function matches.
    fn finish(self, options: &KernelOptions) -> Result<Kernels> {
        let mut kernels = self.kernels;
        if let Some(pattern) = &options.function {
            let is_match = |kernel: &Kernel| glob::matches(pattern, &kernel.name);
            if !kernels.iter().any(is_match) {
                return Err(observed::no_match(pattern, &kernels));
            }
            kernels.retain(is_match);
        }
        Ok(Kernels { kernels, dispatch_count: self.dispatch_count, ..Kernels::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(workgroups: u32, bound: u64, time_ns: u64) -> Kernel {
        Kernel {
            function: 0,
            name: "kernel".into(),
            executable_id: 1,
            workgroup_count: Some([workgroups, 1, 1]),
            workgroup_size: [1; 3],
            dynamic_local_memory: 0,
            constants: Vec::new(),
            bindings: Vec::new(),
            count: 1,
            location: RecordLocation { ordinal: 1, offset: 0 },
            occurrence: 0,
            device: None,
            time_ns: Some(time_ns),
            interval_ns: None,
            processor: None,
            scaling: Vec::new(),
            traffic: Some(Traffic { read: bound, written: 0, bound, accessed: None }),
            touched: Vec::new(),
            is_watched: false,
        }
    }

    #[test]
    fn rates_beyond_caches_are_left_out() {
        // A workgroup runs on one core.
        assert_eq!(kernel(1, 2_630_488, 311).max_bytes_per_second(), Err("accesses less"));
        assert_eq!(kernel(1, 320, 1).max_bytes_per_second(), Ok(320e9));
        assert_eq!(kernel(1, 321, 1).max_bytes_per_second(), Err("accesses less"));
        assert_eq!(kernel(u32::MAX, 320, 1).max_bytes_per_second(), Ok(320e9));
        assert_eq!(kernel(u32::MAX, 1 << 50, 1).max_bytes_per_second(), Err("accesses less"));
        assert_eq!(kernel(1, 321, 0).max_bytes_per_second(), Err("no time"));
        // The time is that of all dispatches.
        assert_eq!(Kernel { count: 2, ..kernel(1, 320, 2) }.max_bytes_per_second(), Ok(320e9));
        // What is accessed counts, whatever is bound.
        let mut little = kernel(1, 1 << 50, 1);
        little.traffic = little.traffic.map(|it| Traffic { accessed: Some(320), ..it });
        assert_eq!((little.bytes_accessed(), little.max_bytes_per_second()), (Some(320), Ok(320e9)));
    }

    #[test]
    fn only_cheap_kernels_are_watched() {
        let watched = |kernels: &[(u64, u64)]| {
            let of = |(bound, time_ns): &(u64, u64)| {
                let binding =
                    |alias_of| KernelBinding { length: *bound, alias_of, is_written: None, changed: None };
                // The same bytes are bound twice.
                let bindings = vec![binding(None), binding(Some(0))];
                Kernel { bindings, ..kernel(1, *bound, *time_ns) }
            };
            let total_ns = kernels.iter().map(|it| it.1).sum();
            let kernels = kernels.iter().map(of).collect();
            let mut all = Kernels { kernels, total_ns: Some(total_ns), ..Kernels::default() };
            all.choose_watched();
            all.kernels.iter().map(|it| it.is_watched).collect::<Vec<_>>()
        };
        assert_eq!(watched(&[(MAX_WATCHED_BYTES, 1), (MAX_WATCHED_BYTES + 1, 1)]), [true, false]);
        assert_eq!(watched(&[(MAX_WATCHED_BYTES, 1); 17]), [&[true; 16][..], &[false]].concat());
        // Of what takes little of the time, less is watched.
        let mut all = [(MAX_WATCHED_BYTES, 0); 6];
        all[0].1 = 1;
        assert_eq!(watched(&all), [true, true, true, true, false, false]);
        assert_eq!(watched(&[(1, MAX_WATCHED_NS), (1, 1), (1, 0)]), [true, false, true]);
        // Each dispatch counts.
        assert_eq!(watched(&[(1, MAX_WATCHED_NS + 1)]), [false]);
    }

    #[test]
    fn pages_are_ranges_of_bindings() {
        let mut it = kernel(1, 1, 1);
        let range = |offset, length| Range { offset, length };
        let bound = |buffer_id, range| Access { buffer_id, range, ..Access::default() };
        it.touched = vec![bound(1, range(100, 8192)), bound(2, range(0, 10)), bound(1, range(0, 50))];
        it.set_accessed(&[(1, range(0, 4096)), (1, range(8192, 100))]);
        let accessed = |binding| it.accessed_ranges(binding).unwrap().to_vec();
        assert_eq!(accessed(0), [range(0, 3996), range(8092, 100)]);
        assert_eq!((accessed(1), accessed(2)), (vec![], vec![range(0, 50)]));
        assert_eq!(it.bytes_accessed(), Some(4196));
    }
}
