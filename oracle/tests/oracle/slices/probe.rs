//! The reference's results of slices. Its replay does not report host reads, so it replays a capture of
//! all of them, one after another, that writes what the host reads to a file. On Vulkan the reference does
//! not write files: there it replays the slices, and its bytes remain unseen.

use super::{devices, failed, on_devices};
use crate::ensure;
use libtest_mimic::Failed;
use oracle::tool;
use rehal_base::{Error, Result};
use rehal_hal::{
    Buffer, BufferRef, Device, DeviceGroup, File, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY, Semaphore,
    SemaphoreFlags,
};
use rehal_replay::{
    HostRead, Observer, Operation, Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions,
    SlicedRead,
};
use rehal_vulkan::VULKAN;
use std::collections::HashMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

/// A slice in a file.
pub struct Cutout {
    /// Its place in the request.
    pub index: usize,
    /// The file.
    pub path: PathBuf,
    /// The bytes of the whole capture in the ranges that the host reads.
    pub reads: Vec<SlicedRead>,
}

impl Cutout {
    /// The bytes of all reads.
    pub fn written(&self) -> Vec<u8> {
        self.reads.iter().flat_map(|read| &read.bytes).copied().collect()
    }
}

/// The capture that is recorded while all slices are replayed here.
pub struct Probe<'d> {
    path: PathBuf,
    /// The file that it writes.
    written: PathBuf,
    /// Where the reads of each slice are in the file.
    spans: Vec<Range<usize>>,
    device: &'d str,
    directory: &'d Path,
}

impl<'d> Probe<'d> {
    /// Replays slices here, which must read what the whole capture has, and records that.
    pub fn record(cutouts: &[Cutout], device: &'d str, directory: &'d Path) -> Result<Self, Failed> {
        let (path, written) = (directory.join("probe.ireereplay"), directory.join("written"));
        let mut spans = Vec::new();
        let mut length = 0;
        for cutout in cutouts {
            let bytes: usize = cutout.reads.iter().map(|read| read.bytes.len()).sum();
            spans.push(length..length + bytes);
            length += bytes;
        }
        let probe = Self { path, written, spans, device, directory };
        probe.reset_file(None)?;
        let modified = fs::metadata(&probe.written)?.modified()?;
        probe.record_to(cutouts)?;
        // The file must be the recorded one, but without its bytes.
        probe.reset_file(Some(modified))?;
        Ok(probe)
    }

    fn reset_file(&self, modified: Option<std::time::SystemTime>) -> Result<(), Failed> {
        let length = self.spans.last().map_or(0, |span| span.end);
        fs::write(&self.written, vec![0; length])?;
        if let Some(modified) = modified {
            fs::File::options().write(true).open(&self.written)?.set_modified(modified)?;
        }
        Ok(())
    }

    fn record_to(&self, cutouts: &[Cutout]) -> Result<(), Failed> {
        let mut plans = Vec::new();
        for cutout in cutouts {
            let plan = Plan::compile(fs::read(&cutout.path)?, PlanOptions::default());
            plans.push(plan.map_err(failed)?);
        }
        let count = plans.iter().map(Plan::device_count).max().unwrap_or(0);
        let recorder = Recorder::create(&self.path, RecordOptions::default()).map_err(failed)?;
        let base = devices(count, self.device).map_err(failed)?;
        let group = recorder.wrap(&base).map_err(failed)?;
        let written = (self.device != VULKAN).then_some(self.written.as_path());
        let mut reads = Reads::new(&group.devices()[0], written).map_err(failed)?;
        for (cutout, plan) in cutouts.iter().zip(plans) {
            let shown = || format!("slice {}", cutout.index);
            reads.begin();
            let devices = DeviceGroup::new(group.devices()[..plan.device_count()].to_vec());
            let replay = Replay::new(plan, &devices.map_err(failed)?, &ReplayOptions::default());
            replay.and_then(|it| it.run(&mut [&mut reads])).map_err(failed)?;
            ensure(reads.bytes == cutout.written(), || format!("{}: it reads other bytes here", shown()))?;
        }
        drop(reads);
        drop(group);
        recorder.close().map_err(failed)
    }

    /// The bytes that the reference computes for each slice; nothing on Vulkan.
    pub fn run(&self, program: &Path) -> Result<Vec<Vec<u8>>, Failed> {
        let ended = tool::run(program, &on_devices(&self.path, self.device)?, self.directory)?;
        ensure(ended.succeeded(), || format!("the probe ends with {}", ended.summary()))?;
        if self.device == VULKAN {
            return Ok(Vec::new());
        }
        let bytes = fs::read(&self.written)?;
        Ok(self.spans.iter().map(|span| bytes[span.clone()].to_vec()).collect())
    }
}

/// Keeps what the host reads, and writes it to a file as well, if there is one.
struct Reads {
    bytes: Vec<u8>,
    file: Option<File>,
    done: Semaphore,
    device: Device,
    buffers: HashMap<u64, Buffer>,
    written_bytes: u64,
    writes: u64,
}

impl Reads {
    fn new(device: &Device, written: Option<&Path>) -> Result<Self> {
        let import = |path: &Path| {
            let file = fs::File::options().read(true).write(true).open(path);
            let file = file.map_err(|error| Error::io("opening the file", &error))?;
            let access = MemoryAccess::READ | MemoryAccess::WRITE;
            device.import_file(QUEUE_AFFINITY_ANY, access, HostFile::Disk(file))
        };
        Ok(Self {
            bytes: Vec::new(),
            file: written.map(import).transpose()?,
            done: device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::default())?,
            device: device.clone(),
            buffers: HashMap::new(),
            written_bytes: 0,
            writes: 0,
        })
    }

    /// Another slice is about to be replayed, whose buffers have other ids.
    fn begin(&mut self) {
        self.bytes.clear();
        self.buffers.clear();
    }
}

impl Observer for Reads {
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
        self.bytes.extend(read.to_vec());
        let Some(file) = &self.file else { return Ok(()) };
        let length = read.memory.length();
        let source = BufferRef::range(&self.buffers[&read.buffer_id], read.offset, length);
        self.writes += 1;
        let signals = [self.done.at(self.writes)];
        let queue = self.device.queue(QUEUE_AFFINITY_ANY).signal(&signals);
        queue.write(source, file, self.written_bytes, 0)?;
        self.written_bytes += length;
        self.done.wait(self.writes, None)
    }
}
