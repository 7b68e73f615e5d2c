//! Captures in both orders and one operation at a time, on a device that completes work late and in random
//! order, and on several workers: the host reads are the same.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rehal_base::Result;
use rehal_cts::late::LateDevice;
use rehal_hal::{Device, DeviceGroup};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions, Topology, WorkerDelays};
use rehal_replay::{
    FileRemap, HostRead, Observer, Operation, Plan, PlanOptions, RaceOptions, RecordOptions, Recorder,
    Replay, ReplayOptions, ReplayOrder,
};

use crate::again::captures;
use crate::reads::Reads;
use crate::written::Memory;

/// Replays of captures chosen at random, in addition to those of each.
const REPETITIONS: usize = 100;

/// Size of captures that are replayed; larger ones take an unoptimised build too long.
const MAX_BYTES: usize = 100 << 10;

/// Names a number of replays of each capture, of any size, in each order.
const REPETITIONS_VARIABLE: &str = "REHAL_ORDER_REPETITIONS";

/// Workers of `local-task`: more than a small machine has processors, so that they are descheduled at work.
const WORKERS: usize = 3;

const MAX_DELAY: Duration = Duration::from_micros(300);

/// Replays of each capture in each order with delays in workers, and with delays in workers and queues.
const DELAYED: u64 = 100;

/// Size of the captures that are replayed so often: others take an unoptimised build too long, and so does
/// bytecode.
const MAX_DELAYED_BYTES: usize = 48 << 10;

/// Captures that are replayed at the same time.
const THREADS: usize = 8;

/// The bytes of host reads of a run that performs operations one by one.
#[derive(Default)]
struct Operations {
    reads: Reads,
    begun: usize,
    completed: usize,
    dispatches: usize,
}

impl Observer for Operations {
    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.reads.host_read(read)
    }

    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.begun += 1;
        self.dispatches += usize::from(operation.dispatch.is_some());
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, _operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.completed += 1;
        Ok(ControlFlow::Continue(()))
    }
}

/// A capture and its remapped files.
struct Case {
    name: String,
    bytes: Vec<u8>,
    remaps: Vec<FileRemap>,
    /// The bytes that it reads in serialized order on a synchronous device.
    expected: Result<Vec<Vec<u8>>, String>,
}

impl Case {
    fn new(case: (PathBuf, Vec<FileRemap>)) -> Option<Self> {
        Self::with_limit(case, MAX_BYTES)
    }

    fn without_limit(case: (PathBuf, Vec<FileRemap>)) -> Option<Self> {
        Self::with_limit(case, usize::MAX)
    }

    fn with_limit((path, remaps): (PathBuf, Vec<FileRemap>), max_bytes: usize) -> Option<Self> {
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        // Crashes end the process, and matrices take an interpreter of an unoptimised build a minute.
        let is_slow = name.starts_with("matmul") && name.contains(".vmvx.");
        let bytes = std::fs::read(&path).unwrap();
        if name.contains("crash.") || !is_every_size() && (is_slow || bytes.len() > max_bytes) {
            return None;
        }
        let mut this = Self { name, bytes, remaps, expected: Err(String::new()) };
        this.expected = this.reads(ReplayOrder::Serialized, &|_| synchronous());
        Some(this)
    }

    fn reads(&self, order: ReplayOrder, device: &dyn Fn(u64) -> Device) -> Result<Vec<Vec<u8>>, String> {
        let plan = Plan::compile(self.bytes.clone(), PlanOptions::default()).map_err(|it| it.report())?;
        let devices = (0..plan.device_count() as u64).map(device).collect();
        self.reads_on(plan, order, &DeviceGroup::new(devices).unwrap())
    }

    fn reads_on(&self, plan: Plan, order: ReplayOrder, group: &DeviceGroup) -> Result<Vec<Vec<u8>>, String> {
        let options = ReplayOptions::default().file_remaps(self.remaps.clone()).order(order);
        let mut reads = Reads::default();
        let outcome = Replay::new(plan, group, &options).and_then(|replay| replay.run(&mut [&mut reads]));
        outcome.map(|()| reads.0).map_err(|error| error.report())
    }

    /// A replay that performs operations one by one reads the same. Returns its number of dispatches.
    fn check_stepped(&self, device: &dyn Fn(u64) -> Device) -> usize {
        let Ok(plan) = Plan::compile(self.bytes.clone(), PlanOptions::default()) else { return 0 };
        let devices = (0..plan.device_count() as u64).map(device).collect();
        let group = DeviceGroup::new(devices).unwrap();
        let options = ReplayOptions::default().file_remaps(self.remaps.clone());
        let mut seen = Operations::default();
        let outcome = Replay::new(plan, &group, &options).and_then(|replay| replay.run(&mut [&mut seen]));
        match (&outcome, &self.expected) {
            (Ok(()), Ok(expected)) => {
                assert!(seen.reads.0 == *expected, "{}: other reads", self.name);
                assert_eq!(seen.begun, seen.completed, "{}", self.name);
            }
            (Err(_), Err(_)) => {}
            _ => panic!("{}: {outcome:?}, {:?}", self.name, self.expected.as_ref().err()),
        }
        seen.dispatches
    }

    /// Replays `count` times on the same devices.
    fn check_repeated(&self, order: ReplayOrder, count: u64, device: &dyn Fn(u64) -> Device) {
        let Ok(expected) = &self.expected else { return };
        let plan = Plan::compile(self.bytes.clone(), PlanOptions::default()).unwrap();
        let group = DeviceGroup::new((0..plan.device_count() as u64).map(device).collect()).unwrap();
        let options = ReplayOptions::default().file_remaps(self.remaps.clone()).order(order);
        let replay = Replay::new(plan, &group, &options).unwrap();
        for repetition in 0..count {
            let mut reads = Reads::default();
            let outcome = replay.run(&mut [&mut reads]).map_err(|error| error.report());
            let (name, order) = (&self.name, order.name());
            assert!(outcome.is_ok(), "{name} in {order} order, repetition {repetition}: {outcome:?}");
            assert!(reads.0 == *expected, "{name} in {order} order, repetition {repetition}: other reads");
        }
    }

    fn check(&self, order: ReplayOrder, seed: u64) {
        self.check_on(order, seed, &|index| late(seed + index));
    }

    fn check_on(&self, order: ReplayOrder, seed: u64, device: &dyn Fn(u64) -> Device) {
        let read = self.reads(order, device);
        assert!(read == self.expected, "{} in {} order, seed {seed}: {read:?}", self.name, order.name());
    }

    /// Records a replay in captured order on a late device, and replays that.
    fn check_recorded(&self, seed: u64) {
        let Ok(plan) = Plan::compile(self.bytes.clone(), PlanOptions::default()) else { return };
        let devices = (0..plan.device_count() as u64).map(|index| late(seed + index)).collect();
        let memory = Memory::default();
        let recorder = Recorder::to(memory.clone(), RecordOptions::default()).unwrap();
        let group = recorder.wrap(&DeviceGroup::new(devices).unwrap()).unwrap();
        let read = self.reads_on(plan, ReplayOrder::Captured, &group);
        recorder.close().unwrap();
        assert!(read == self.expected, "{} recorded, seed {seed}: {read:?}", self.name);
        if read.is_ok() {
            let (name, expected) = (self.name.clone(), self.expected.clone());
            let again = Self { name, bytes: memory.bytes(), remaps: Vec::new(), expected };
            for order in [ReplayOrder::Serialized, ReplayOrder::Captured] {
                let read = again.reads(order, &|index| late(seed + index)).map(|it| it.concat());
                let expected = self.expected.clone().map(|it| it.concat());
                assert!(read == expected, "{}: its record in {} order", self.name, order.name());
            }
        }
    }
}

fn synchronous() -> Device {
    LocalSync::create(Plugins::default())
}

fn late(seed: u64) -> Device {
    LateDevice::over(synchronous(), seed, MAX_DELAY)
}

fn is_every_size() -> bool {
    repetitions().is_some()
}

fn repetitions() -> Option<u64> {
    let count = std::env::var(REPETITIONS_VARIABLE).ok()?;
    Some(count.parse().expect("REHAL_ORDER_REPETITIONS is a number"))
}

/// `local-task`; its devices share their workers.
fn on_workers() -> Device {
    static OPTIONS: OnceLock<LocalTaskOptions> = OnceLock::new();
    let options = OPTIONS.get_or_init(|| {
        let mut options = LocalTaskOptions::default();
        options.topology = Some(Topology::with_workers(WORKERS).unwrap());
        options.workers = Some(options.start_workers().unwrap());
        options
    });
    LocalTask::create(options.clone()).unwrap()
}

/// On `local-task` with several workers, as it is and with delayed queues.
pub fn both_orders_read_the_same_on_workers(set: &Path) {
    let count = repetitions().unwrap_or(1);
    let cases: Vec<_> = captures(set).filter_map(Case::new).collect();
    assert!(cases.iter().filter(|case| case.expected.is_ok()).count() > 50);
    for case in &cases {
        for seed in 0..count {
            for order in [ReplayOrder::Captured, ReplayOrder::Serialized] {
                case.check_on(order, seed, &|_| on_workers());
                let delayed = |index| LateDevice::over(on_workers(), seed + index, MAX_DELAY);
                case.check_on(order, seed, &delayed);
            }
        }
    }
}

/// `local-task` on workers that are late in all that they do.
fn on_late_workers(seed: u64) -> Device {
    let mut options = LocalTaskOptions::default();
    options.topology = Some(Topology::with_workers(WORKERS).unwrap());
    options.worker.delays = Some(WorkerDelays { seed, limit: MAX_DELAY });
    LocalTask::create(options).unwrap()
}

/// On `local-task`, whose workers are late in all that they do, as it is and with delayed queues.
pub fn both_orders_read_the_same_under_delays(set: &Path) {
    let is_cheap = |case: &Case| {
        case.bytes.len() <= MAX_DELAYED_BYTES && !case.name.contains(".vmvx.") || is_every_size()
    };
    let is_replayed = |case: &Case| case.expected.is_ok() && is_cheap(case);
    let cases: Vec<_> = captures(set).filter_map(Case::new).filter(is_replayed).collect();
    for driver in ["local-sync", "local-task"] {
        assert!(cases.iter().filter(|case| case.name.contains(driver)).count() > 5, "{driver}");
    }
    let count = repetitions().unwrap_or(DELAYED);
    // Delays leave processors idle.
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let seed = fastrand::Rng::with_seed(case.bytes.len() as u64).u64(..);
            let late_queues =
                |index| LateDevice::over(on_late_workers(seed ^ index), seed ^ index, MAX_DELAY);
            for order in [ReplayOrder::Captured, ReplayOrder::Serialized] {
                case.check_repeated(order, count, &|index| on_late_workers(seed ^ index));
                case.check_repeated(order, count, &late_queues);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
}

/// On `local-sync`, on several workers, and on a device that completes work late.
pub fn operations_one_by_one_read_the_same(set: &Path) {
    let cases: Vec<_> = captures(set).filter_map(Case::without_limit).collect();
    assert!(cases.iter().filter(|case| case.expected.is_ok()).count() > 50);
    let mut dispatches = 0;
    for (case, seed) in cases.iter().zip(0..) {
        dispatches += case.check_stepped(&|_| synchronous());
        if case.bytes.len() > MAX_BYTES {
            continue;
        }
        case.check_stepped(&|_| on_workers());
        case.check_stepped(&|index| late(seed + index));
    }
    assert!(dispatches > 100, "{dispatches}");
}

pub fn both_orders_read_the_same_on_a_late_device(set: &Path) {
    let cases: Vec<_> = captures(set).filter_map(Case::new).collect();
    assert!(cases.iter().filter(|case| case.expected.is_ok()).count() > 50);
    for (case, seed) in cases.iter().zip(0..) {
        case.check(ReplayOrder::Captured, seed);
        case.check(ReplayOrder::Serialized, seed);
        case.check_recorded(seed);
    }
    let mut random = fastrand::Rng::with_seed(0x0DE4);
    for _ in 0..REPETITIONS {
        random.choice(&cases).unwrap().check(ReplayOrder::Captured, random.u64(..u64::MAX / 2));
    }
}

pub fn captures_of_programs_have_no_races(set: &Path) {
    let mut strict_count = 0;
    for (path, _) in captures(set) {
        let Ok(plan) = Plan::compile(std::fs::read(&path).unwrap(), PlanOptions::default()) else { continue };
        let races = plan.races(RaceOptions::default());
        assert!(races.count == 0 && races.incomplete.is_none(), "{}: {races:?}", path.display());
        strict_count += plan.races(RaceOptions { strict: true }).count;
    }
    // Benchmarks call a function again once it is complete, which only the host knows.
    assert!(strict_count > 100, "{strict_count}");
}
