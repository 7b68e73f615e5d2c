//! The recorder: a decorator over a device group that puts every call on record and forwards it unchanged.
//!
//! Each object of the base devices gets a handle of the recorder's over it, with an id; each call is renamed
//! twice, to the handles of the base device and to ids, and the ids become a record by `encode.rs`. All devices
//! of a group write to one stream.

mod behind;
mod buffer;
mod command_buffer;
mod device;
mod event;
mod executable;
mod file;
#[cfg(test)]
mod models;
mod names;
mod outcome;
mod semaphore;
mod stream;
mod sync;

use std::fs::{File, TryLockError};
use std::io::Seek;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{Device, DeviceGroup, HostOp};

use self::device::RecordedDevice;
use self::names::recorded_device;
use self::stream::Stream;
use crate::encode;

pub use self::stream::CaptureSink;

/// What a capture holds of files that a program imports from disk. Files over memory are always held whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilePolicy {
    /// Where the file is and how to tell that it is the same one.
    #[default]
    Reference,
    /// The bytes that queues read from it.
    CaptureRanges,
    /// All of its bytes.
    CaptureAll,
    /// Nothing: importing a file fails with `FAILED_PRECONDITION`.
    Fail,
}

/// How a replay tells that a file held by reference is the one that was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileValidation {
    /// By device, inode and time of modification.
    #[default]
    Identity,
    /// By a digest of its contents, which are read for it when the file is imported.
    Digest,
}

/// How a recorder records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// What the capture holds of files on disk.
    pub file_policy: FilePolicy,
    /// How files stored by reference are validated.
    pub file_validation: FileValidation,
}

/// Records what a program does with devices into a capture.
///
/// The program gets devices from [`Recorder::wrap`] and uses them as any others. Each call goes to the base device
/// first and is then recorded with the status that it returned (a submission is recorded when it is issued, since
/// its effects may be recorded before the call returns; its status is filled in then). A write error does not
/// disturb the program: the first one stays, and [`Recorder::close`] reports it. What is recorded reaches the file
/// within 100 ms, so the capture of a program that is killed can be read up to there; closing seals it.
///
/// Host writes are recorded when a mapping ends or is flushed. A range that is mapped persistently for writing is
/// refused with `UNIMPLEMENTED`: the recorder cannot observe the writes.
///
/// ```
/// use rehal_capture::CaptureBytes;
/// use rehal_hal::{BufferParams, BufferUsage, DeviceGroup, MemoryType, QUEUE_AFFINITY_ANY};
/// use rehal_local::{LocalSync, executable::Plugins};
/// use rehal_replay::{Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions};
///
/// # fn main() -> rehal_base::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("program.ireereplay");
/// // Wrap the devices, give the wrapped ones to the program, and name what it is doing.
/// let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())])?;
/// let recorder = Recorder::create(&path, RecordOptions::default())?;
/// let recorded = recorder.wrap(&devices)?;
/// {
///     let _execute = recorder.scope("execute")?;
///     let device = &recorded.devices()[0];
///     let params = BufferParams {
///         usage: BufferUsage::TRANSFER_TARGET | BufferUsage::MAPPING_SCOPED,
///         memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
///         ..BufferParams::default()
///     };
///     let buffer = device.allocate_buffer(params, 16)?;
///     device.queue(QUEUE_AFFINITY_ANY).fill(&buffer, &[7], 0)?;
/// }
/// recorder.close()?;
///
/// // The capture replays on any device that can do the same.
/// let plan = Plan::compile(CaptureBytes::map(&path)?, PlanOptions::default())?;
/// assert_eq!(plan.scopes().collect::<Vec<_>>(), [(&b"execute"[..], 1)]);
/// Replay::new(plan, &devices, &ReplayOptions::default())?.run(&mut [])?;
/// # Ok(())
/// # }
/// ```
pub struct Recorder {
    stream: Arc<Stream>,
}

impl Recorder {
    /// Starts a capture in a new file at `path`, or over what was there. A new file is for its owner and its group
    /// (mode 0640): a capture holds what the program computed with.
    ///
    /// The file is locked until the capture is closed: a recorder that is to write to it meanwhile, of this process or
    /// another, is refused with `UNAVAILABLE`. A pipe is refused with `INVALID_ARGUMENT`: the length is written at the
    /// beginning of a capture in the end.
    pub fn create(path: &Path, options: RecordOptions) -> Result<Self> {
        Ok(Self { stream: Stream::start(Box::new(create_file(path)?), options)? })
    }

    /// Starts a capture in `sink`.
    pub fn to(sink: impl CaptureSink + 'static, options: RecordOptions) -> Result<Self> {
        Ok(Self { stream: Stream::start(Box::new(sink), options)? })
    }

    /// The devices of `group`, in its order, with all that is done with them on record.
    pub fn wrap(&self, group: &DeviceGroup) -> Result<DeviceGroup> {
        let devices: Vec<Device> =
            group.devices().iter().map(|base| RecordedDevice::wrap(base.clone(), &self.stream)).collect();
        for device in &devices {
            let device = recorded_device(&self.stream, device)?;
            device.record_topology();
        }
        DeviceGroup::new(devices)
    }

    /// Marks the beginning of what the program calls `name`, which may not be empty. Scopes may nest, and the same
    /// name may come again.
    pub fn scope_begin(&self, name: &str) -> Result<()> {
        self.record_scope(name, &HostOp::ScopeBegin { name: name.as_bytes() })
    }

    /// Marks the end of the scope `name`.
    pub fn scope_end(&self, name: &str) -> Result<()> {
        self.record_scope(name, &HostOp::ScopeEnd { name: name.as_bytes() })
    }

    /// Begins a scope that ends when what is returned is dropped.
    pub fn scope<'r>(&'r self, name: &'r str) -> Result<OpenScope<'r>> {
        self.scope_begin(name)?;
        Ok(OpenScope { recorder: self, name })
    }

    /// Ends the capture: writes what waits and seals the file. Reports the first error that recording met; what is
    /// done with the devices from now on is forwarded and not recorded. Closing again does nothing.
    pub fn close(&self) -> Result<()> {
        self.stream.close()
    }

    fn record_scope(&self, name: &str, op: &HostOp<crate::Ids<'_>>) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid_argument("a scope needs a name"));
        }
        self.stream.record(|log| log.calls(0, 0, |put| encode::host_op(op, put)));
        Ok(())
    }
}

/// Mode of a new capture, less what the process masks.
const FILE_MODE: u32 = 0o640;

/// Opens the file of a capture, empty and locked.
fn create_file(path: &Path) -> Result<File> {
    let failed = |error| Error::io(format_args!("creating the capture '{}'", path.display()), &error);
    // Checked first: opening a pipe blocks until it has a reader.
    if std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo()) {
        return Err(not_seekable(path));
    }
    // Truncated once it is locked: what another process is recording stays whole. A lock and not a temporary file
    // that is renamed in the end: what a killed program leaves has to be where the user looks for it.
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
        .map_err(failed)?;
    if file.stream_position().is_err() {
        return Err(not_seekable(path));
    }
    // Of other kinds, such as /dev/null, any number of processes write to one.
    if file.metadata().map_err(failed)?.is_file() {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(in_use(path)),
            // Some file systems have no locks; recording there is better than not recording.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        file.set_len(0).map_err(failed)?;
    }
    Ok(file)
}

#[cold]
fn in_use(path: &Path) -> Error {
    let path = path.display();
    Error::new(
        StatusCode::Unavailable,
        format!("creating the capture '{path}': another recorder is writing to it"),
    )
    .advise("name a file of its own for each process, or wait until the other capture is closed")
}

fn not_seekable(path: &Path) -> Error {
    let reason = "its length is written at its beginning in the end, and there is no way back there";
    Error::invalid_argument(format!("a capture cannot go to '{}': {reason}", path.display()))
        .advise("name a file")
}

/// A scope of a capture that is open.
pub struct OpenScope<'r> {
    recorder: &'r Recorder,
    name: &'r str,
}

impl Drop for OpenScope<'_> {
    fn drop(&mut self) {
        // The name is not empty, or the scope would not have begun.
        let _ = self.recorder.scope_end(self.name);
    }
}
