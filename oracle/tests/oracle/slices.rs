//! Each distinct dispatch of a capture, cut out: the reference replays the slice, and computes the bytes of the whole capture.

use crate::replays::arguments;
use crate::{Outcome, Pair, ensure, per_capture, words};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::tool;
use rehal_base::{Error, Result};
use rehal_hal::{
    Buffer, BufferRef, Device, DeviceGroup, File, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY, Semaphore,
    SemaphoreFlags,
};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions};
use rehal_replay::{
    Cut, FileRemap, HostRead, Observer, Operation, Plan, PlanOptions, RecordOptions, Recorder, Replay,
    ReplayOptions, Slice, SliceOptions,
};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    match crashes(capture) {
        true => per_capture(trials, "slices", capture, no_slice),
        false => per_capture(trials, "slices", capture, slices),
    }
}

/// Whether a kernel ends the process.
fn crashes(capture: &Capture) -> bool {
    capture.short_name().starts_with("crash.") && !capture.short_name().contains("-ok.")
}

/// The device of the program, which slices are cut and replayed on.
fn device_of(capture: &Capture) -> &'static str {
    if capture.short_name().contains(".local-task") { "local-task" } else { "local-sync" }
}

/// A kernel that crashes ends the tool as it ends a replay, and there is no file.
fn no_slice(capture: &Capture) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let slice = scratch.path().join("slice.ireereplay");
    let path = capture.path.display().to_string();
    let output = slice.display().to_string();
    let arguments = words(["slice", "--device=local-sync", "--scope=execute", &path, "-o", &output]);
    let ended = tool::run(&tool::ours("rehal")?, &arguments, scratch.path())?;
    ensure(ended.code == Some(86), || ended.summary())?;
    ensure(!slice.exists(), || "a slice is written".to_owned())
}

fn slices(capture: &Capture) -> Outcome {
    let run = Pair::find("iree-run-replay")?;
    if !tool::run(&run.theirs, &arguments(capture), &capture.directory)?.succeeded() {
        return Ok(());
    }
    let remaps = capture.remaps.iter().map(FileRemap::parse);
    let remaps = remaps.collect::<Result<Vec<_>>>().map_err(failed)?;
    let device = device_of(capture);
    let replay = open(fs::read(&capture.path)?, device, remaps).map_err(failed)?;
    let scratch = tempfile::tempdir()?;
    let dump = Pair::find("iree-dump-replay")?;
    for (index, cut) in cuts(&replay).map_err(failed)?.into_iter().enumerate() {
        // References are what the same bytes are read from.
        for keep_references in [false, true] {
            let path = scratch.path().join("slice.ireereplay");
            let file = fs::File::create(&path)?;
            let mut options = SliceOptions::default();
            options.keep_references = keep_references;
            // Every other one without the functions that it does not use, and not the same of each capture.
            let strips = (index + capture.short_name().len()).is_multiple_of(2);
            options.strip = strips.then_some(rehal_local::executable::strip);
            let slice = replay.slice(&cut, &options, file, &mut []).map_err(failed)?;
            let theirs = tool::run(&run.theirs, &on_devices(&path, device)?, scratch.path())?;
            ensure(theirs.succeeded(), || format!("{cut:?}: theirs ends with {}", theirs.summary()))?;
            let dumped = tool::run(&dump.theirs, &[path.display().to_string()], scratch.path())?;
            ensure(dumped.succeeded(), || format!("{cut:?}: their dump ends with {}", dumped.summary()))?;
            let theirs = computed(&run.theirs, fs::read(&path)?, &slice, device, scratch.path())?;
            let expected: Vec<u8> = slice.reads.iter().flat_map(|read| read.bytes.clone()).collect();
            ensure(theirs == expected, || format!("{cut:?}: the reference computes other bytes"))?;
            if replay.plan().files().len() == 0 {
                break;
            }
        }
    }
    Ok(())
}

fn failed(error: Error) -> Failed {
    error.report().into()
}

fn open(bytes: Vec<u8>, device: &str, file_remaps: Vec<FileRemap>) -> Result<Replay> {
    let plan = Plan::compile(bytes, PlanOptions::default())?;
    let devices = devices(&plan, device)?;
    Replay::new(plan, &devices, &ReplayOptions { file_remaps, ..ReplayOptions::default() })
}

fn devices(plan: &Plan, name: &str) -> Result<DeviceGroup> {
    let device = |_| match name {
        "local-task" => LocalTask::create(LocalTaskOptions::default()),
        _ => Ok(LocalSync::create(Plugins::default())),
    };
    DeviceGroup::new((0..plan.device_count()).map(device).collect::<Result<_>>()?)
}

/// The arguments for a capture, with as many devices as it uses.
fn on_devices(path: &Path, device: &str) -> Result<Vec<String>, Failed> {
    let plan = Plan::compile(fs::read(path)?, PlanOptions::default()).map_err(failed)?;
    let mut arguments = vec![format!("--device={device}"); plan.device_count()];
    arguments.push(path.display().to_string());
    Ok(arguments)
}

/// The first of each distinct dispatch.
fn cuts(replay: &Replay) -> Result<Vec<Cut>> {
    let (mut seen, mut cuts) = (HashSet::new(), Vec::new());
    replay.plan().dispatches(|it| {
        let lengths: Vec<u64> = it.bindings.iter().map(|binding| binding.length).collect();
        let key = (it.executable.id, it.function, it.workgroup_count, it.constants.to_vec(), lengths);
        if seen.insert(key) {
            cuts.push(Cut::Dispatch { record: it.location.ordinal, occurrence: it.occurrence });
        }
        Ok(())
    })?;
    Ok(cuts)
}

/// What the reference computes for a slice. Its replay does not report host reads, so it replays a copy of the slice that writes
/// them to a file.
fn computed(
    program: &Path,
    slice: Vec<u8>,
    expected: &Slice,
    device: &str,
    scratch: &Path,
) -> Result<Vec<u8>, Failed> {
    let (written, probe) = (scratch.join("written"), scratch.join("probe.ireereplay"));
    let length: usize = expected.reads.iter().map(|read| read.bytes.len()).sum();
    fs::write(&written, vec![0; length])?;
    let modified = fs::metadata(&written)?.modified()?;
    record_probe(slice, &written, &probe).map_err(failed)?;
    // The file must be the recorded one, but without its bytes.
    fs::write(&written, vec![0; length])?;
    fs::File::options().write(true).open(&written)?.set_modified(modified)?;
    let ended = tool::run(program, &on_devices(&probe, device)?, scratch)?;
    ensure(ended.succeeded(), || format!("the probe ends with {}", ended.summary()))?;
    Ok(fs::read(&written)?)
}

fn record_probe(slice: Vec<u8>, written: &Path, probe: &Path) -> Result<()> {
    let plan = Plan::compile(slice, PlanOptions::default())?;
    let recorder = Recorder::create(probe, RecordOptions::default())?;
    let group = recorder.wrap(&devices(&plan, "local-sync")?)?;
    let device = group.devices()[0].clone();
    let file = fs::File::options().read(true).write(true).open(written);
    let file = file.map_err(|error| Error::io("opening the file", &error))?;
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    let mut probe = Probe {
        file: device.import_file(QUEUE_AFFINITY_ANY, access, HostFile::Disk(file))?,
        done: device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::default())?,
        device,
        buffers: HashMap::new(),
        written_bytes: 0,
        writes: 0,
    };
    Replay::new(plan, &group, &ReplayOptions::default())?.run(&mut [&mut probe])?;
    drop(probe);
    recorder.close()
}

/// Writes each host read to a file as well.
struct Probe {
    file: File,
    done: Semaphore,
    device: Device,
    buffers: HashMap<u64, Buffer>,
    written_bytes: u64,
    writes: u64,
}

impl Observer for Probe {
    fn wants_operations(&self) -> bool {
        true
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        for it in operation.ranges {
            self.buffers.insert(it.buffer_id, it.buffer.clone());
        }
        Ok(ControlFlow::Continue(()))
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let length = read.memory.length();
        let source = BufferRef::range(&self.buffers[&read.buffer_id], read.offset, length);
        self.writes += 1;
        let signals = [self.done.at(self.writes)];
        let queue = self.device.queue(QUEUE_AFFINITY_ANY).signal(&signals);
        queue.write(source, &self.file, self.written_bytes, 0)?;
        self.written_bytes += length;
        self.done.wait(self.writes, None)
    }
}
