//! Each iteration of a replay allocates the memory that the one before has freed: no page is faulted in
//! within the scope that is timed. In a process of its own, since the faults are those of the process.

#![cfg(target_env = "gnu")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use rehal_base::{Result, keep_freed_memory};
use rehal_hal::{
    BufferParams, BufferUsage, Device, DeviceGroup, MemoryType, QUEUE_AFFINITY_ANY, SemaphoreFlags,
};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions, Topology};
use rehal_replay::{Observer, Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions, Scope};

/// The page faults of this process, and its heap.
struct Process {
    stat: File,
    statm: File,
}

impl Process {
    fn open() -> Self {
        let open = |name: &str| File::open(format!("/proc/self/{name}")).unwrap();
        Self { stat: open("stat"), statm: open("statm") }
    }

    /// Number of faults that needed no read of a disk. Allocates nothing.
    fn faults(&self) -> u64 {
        number(&self.stat, 8)
    }

    /// Number of pages of the heap and of other private memory.
    fn pages(&self) -> u64 {
        number(&self.statm, 5)
    }
}

/// The number at an index of a line, counted from the name of the program, which ends with a parenthesis and
/// may have spaces.
fn number(file: &File, index: usize) -> u64 {
    let mut bytes = [0; 1024];
    let count = file.read_at(&mut bytes, 0).unwrap();
    let fields = bytes[..count].rsplit(|byte| *byte == b')').next().unwrap();
    let word = fields.split(|byte| *byte == b' ').nth(index).unwrap();
    str::from_utf8(word).unwrap().parse().unwrap()
}

/// A counter of page faults in scopes.
struct Watch<'p> {
    process: &'p Process,
    begun: u64,
    faults: u64,
    pages: u64,
}

impl Observer for Watch<'_> {
    fn scope_begin(&mut self, _: &Scope<'_>) -> Result<()> {
        self.begun = self.process.faults();
        Ok(())
    }

    fn times_scope(&self, _: &Scope<'_>) -> bool {
        true
    }

    fn scope_end(&mut self, _: &Scope<'_>) -> Result<()> {
        self.faults += self.process.faults() - self.begun;
        self.pages = self.process.pages();
        Ok(())
    }
}

/// A capture of a scope that allocates buffers, writes them, and frees them at its end.
fn capture(lengths: &[u64]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("capture.ireereplay");
    let recorder = Recorder::create(&path, RecordOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let recorded = recorder.wrap(&devices).unwrap();
    let device: &Device = &recorded.devices()[0];
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
    let scope = recorder.scope("execute").unwrap();
    let params = BufferParams {
        usage: BufferUsage::TRANSFER_TARGET,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    for (value, length) in (1..).zip(lengths) {
        let buffer = device.allocate_buffer(params, *length).unwrap();
        device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(value)]).fill(&buffer, &[7], 0).unwrap();
        done.wait(value, None).unwrap();
    }
    drop(scope);
    recorder.close().unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn the_memory_of_an_iteration_is_that_of_the_next() {
    keep_freed_memory();
    let process = Process::open();
    let mut options = LocalTaskOptions::default();
    options.topology = Some(Topology::with_workers(2).unwrap());
    let devices = [LocalSync::create(Plugins::default()), LocalTask::create(options).unwrap()];
    // Below and above of what the allocator maps by default; together more than it keeps.
    for lengths in [&[64 << 10; 6][..], &[100 << 10, 1 << 20, 4000, 300 << 10]] {
        let plan = Plan::compile(capture(lengths), PlanOptions::default()).unwrap();
        let plan = std::sync::Arc::new(plan);
        for device in &devices {
            let group = DeviceGroup::new(vec![device.clone()]).unwrap();
            let replay = Replay::new(plan.clone(), &group, &ReplayOptions::default()).unwrap();
            let mut seen = Vec::new();
            // The first ones find the sizes that are needed, and the system may unmap a page of the program
            // at any time; a heap that shrinks does so in each iteration.
            let is_steady = (0..20).any(|_| {
                let mut watch = Watch { process: &process, begun: 0, faults: 0, pages: 0 };
                let mut pages = Vec::with_capacity(40);
                for _ in 0..20 {
                    replay.run(&mut [&mut watch]).unwrap();
                    pages.extend([watch.pages, process.pages()]);
                }
                seen.push(watch.faults);
                watch.faults == 0 && pages.iter().all(|it| *it == pages[0])
            });
            assert!(is_steady, "{lengths:?}: faults of 20 iterations each: {seen:?}");
        }
    }
}
