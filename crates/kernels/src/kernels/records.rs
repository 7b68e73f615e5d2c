//! Records of kernels: each distinct dispatch of a replay as files that stand by themselves.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result, glob};
use rehal_devices::CrashReports;
use rehal_replay::{Observer, Operation, Replay};

use super::runs::{self, seen};
use super::{Groups, Kernel, KernelOptions};
use crate::{KernelRecordOptions, KernelRecorder};

/// The kernels that a [`KernelRecording`] has recorded.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelRecords {
    /// The directory, as an absolute path.
    pub directory: PathBuf,
    /// In the order in which they first run.
    pub kernels: Vec<RecordedKernel>,
}

/// A kernel that has been recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedKernel {
    /// The name of its descriptor in the directory.
    pub file: String,
    /// The name of the function; its ordinal, such as `#0`, if nothing names it.
    pub name: String,
    /// Mean time of a dispatch in nanoseconds.
    pub time_ns: u64,
    /// Number of dispatches.
    pub occurrences: u64,
}

/// Records the first dispatch of each kernel of replays into a directory, which is created if it does not
/// exist: a [`KernelDescriptor`](crate::KernelDescriptor), the executable, and the memory before and
/// after it. Kernels that several replays have are recorded once.
///
/// If a later part fails, kernels that are recorded stay: a kernel that crashes is recorded without what it
/// wrote.
pub struct KernelRecording {
    /// `None` once it is finished.
    recorder: Option<KernelRecorder>,
    is_new: bool,
    records: KernelRecords,
    /// The total time of each kernel in nanoseconds.
    times_ns: Vec<u64>,
}

impl KernelRecording {
    /// Begins to record into a directory. Fails if it has records already, unless they may be replaced.
    pub fn begin(directory: &Path, recording: &KernelRecordOptions) -> Result<Self> {
        let absolute = std::path::absolute(directory);
        let directory = absolute.map_err(|error| Error::io("resolving the name of the directory", &error))?;
        let is_new = !directory.exists();
        let recorder = Some(KernelRecorder::new(&directory, recording.clone())?);
        let records = KernelRecords { directory, kernels: Vec::new() };
        Ok(Self { recorder, is_new, records, times_ns: Vec::new() })
    }

    /// Records the kernels of a replay, which runs twice: to record, and to measure.
    pub fn add(&mut self, replay: &Replay, options: &KernelOptions) -> Result<()> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        recorder.next_replay();
        let function = options.function.as_deref();
        let mut recording = Recording {
            groups: Groups::default(),
            recorder,
            function,
            is_pending: false,
            recorded: Vec::new(),
        };
        replay.run(&mut [&mut CrashReports::records(), &mut recording])?;
        let recorded = std::mem::take(&mut recording.recorded);
        if recorded.is_empty() {
            return Ok(());
        }
        let mut measured = Groups::default();
        runs::measure(replay, &mut measured, &KernelOptions::default())?;
        let by_site = measured.kernels.iter().map(|it| ((it.location.ordinal, it.occurrence), it));
        let by_site: HashMap<_, _> = by_site.collect();
        for (site, file, name) in recorded {
            let Some(kernel) = by_site.get(&site) else {
                let name = name.escape_debug();
                let message = format!(
                    "the first dispatch of '{name}' is another one when the capture is replayed again"
                );
                return Err(Error::failed_precondition(message)
                    .advise("workgroup counts that it reads from buffers differ from replay to replay"));
            };
            self.count(file, name, kernel);
        }
        Ok(())
    }

    /// The records so far. A directory that was created and has no record is removed.
    pub fn finish(mut self) -> KernelRecords {
        for (kernel, time_ns) in self.records.kernels.iter_mut().zip(&self.times_ns) {
            kernel.time_ns = time_ns / kernel.occurrences.max(1);
        }
        std::mem::take(&mut self.records)
    }

    fn count(&mut self, file: String, name: String, kernel: &Kernel) {
        let kernels = &mut self.records.kernels;
        let index = kernels.iter().position(|it| it.file == file).unwrap_or_else(|| {
            kernels.push(RecordedKernel { file, name, time_ns: 0, occurrences: 0 });
            self.times_ns.push(0);
            kernels.len() - 1
        });
        kernels[index].occurrences += kernel.count;
        self.times_ns[index] += kernel.time_ns.unwrap_or(0);
    }
}

impl Drop for KernelRecording {
    fn drop(&mut self) {
        let Some(recorder) = self.recorder.take() else { return };
        let directory = recorder.directory().to_path_buf();
        drop(recorder);
        if self.is_new {
            // Only an empty one is removed.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Fails if the directory has records of kernels, unless the options allow to replace them. It need not
/// exist.
pub fn check_kernel_records(directory: &Path, recording: &KernelRecordOptions) -> Result<()> {
    KernelRecorder::check(directory, recording)
}

/// Records the first dispatch of each kernel.
struct Recording<'o> {
    groups: Groups,
    recorder: &'o mut KernelRecorder,
    function: Option<&'o str>,
    /// The current dispatch is being recorded.
    is_pending: bool,
    /// Record and occurrence, descriptor and name of each that is.
    recorded: Vec<((u32, u64), String, String)>,
}

impl Observer for Recording<'_> {
    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.is_pending = false;
        let Some(seen) = seen(operation) else { return Ok(ControlFlow::Continue(())) };
        let (index, is_first) = self.groups.add(seen, 1);
        let name = &self.groups.kernels[index].name;
        if is_first && self.function.is_none_or(|pattern| glob::matches(pattern, name)) {
            let file = self.recorder.begin(operation, name)?;
            self.recorded.push(((operation.location.ordinal, operation.occurrence), file, name.clone()));
            self.is_pending = true;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if std::mem::take(&mut self.is_pending) {
            self.recorder.end(operation)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}
