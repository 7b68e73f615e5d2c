//! The recorder: a decorator over a device group that records every call and forwards it unchanged.
//!
//! Each object of the base devices is wrapped in a handle of the recorder with an id. Each call is renamed
//! twice, to base handles and to ids, and `encode.rs` encodes the ids as a record. All devices of a group
//! write to one stream.
//!
//! The recorder bypasses the handles of the base devices and calls their backends, since its own handles have
//! checked the arguments. One thread flushes the writer every 40 ms, which keeps clock reads out of calls,
//! and another (`background_sink.rs`) writes to the file: it takes over the writer's buffers of 128 KiB and
//! returns them when they are written. Sixteen buffers bound the memory: at most 2 MiB wait to be written,
//! and four bytes of checksum for each 4 KiB of the file.
//!
//! Slices longer than 256 KiB are written zero-copy. Shared memory is copied once into a buffer
//! (`Writer::append_with_tail`), because the checksum must cover the bytes written, even if the program
//! writes at the same time. Writes of the host are read from the program's mapping, not from the base's
//! buffer.

mod background_sink;
mod buffer;
mod command_buffer;
mod device;
mod executable;
mod file;
#[cfg(test)]
mod models;
mod object;
mod options;
mod outcome;
mod rename;
mod semaphore;
mod stream;
mod sync;
mod watch;

use std::fs::{File, TryLockError};
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::platform::{OpenOptionsExt, is_pipe};
use rehal_base::{Error, Remedy, Result, StatusCode};
use rehal_hal::{Device, DeviceGroup, HostOp};

use self::device::{record_topology, wrap};
use self::stream::Stream;
use self::watch::{Watch, WatchedQueue};
use crate::encode;

pub use self::background_sink::CaptureSink;
pub use self::options::{FilePolicy, FileValidation, LedgerRecording, RecordOptions};
pub use self::watch::{DispatchWatcher, WatchedDispatch};

/// Records a program's use of devices into a capture.
///
/// The program gets devices from [`Recorder::wrap`] and uses them like any others. Each call is forwarded to
/// the base device and then recorded with the status it returned (a submission is recorded when issued, since
/// its effects may be recorded before the call returns; its status is filled in afterwards). A write error
/// does not disturb the program: the first one is kept, and [`Recorder::close`] reports it. Records reach the
/// file within 100 ms, so the capture of a killed program can be recovered up to that point; closing seals
/// it.
///
/// Host writes are recorded when a mapping ends or is flushed. A persistent writable mapping is rejected with
/// `UNIMPLEMENTED`: the recorder cannot observe the writes.
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
    watch: Option<Arc<Watch>>,
    /// Of the file, for errors.
    path: Option<PathBuf>,
}

impl Recorder {
    /// Starts a capture at `path`, creating or truncating the file. New files have mode 0640 (owner and
    /// group): a capture contains the program's data.
    ///
    /// The file is locked until the capture is closed: another recorder for it, in this process or another,
    /// fails with `UNAVAILABLE`. A pipe is rejected with `INVALID_ARGUMENT`: closing a capture writes the
    /// length in its header.
    pub fn create(path: &Path, options: RecordOptions) -> Result<Self> {
        let stream = Stream::start(Box::new(create_file(path)?), options);
        let stream = stream.map_err(|error| match error.code() {
            StatusCode::ResourceExhausted => error.advise("make room for the capture, or name another file"),
            _ => error,
        })?;
        Ok(Self { stream, watch: None, path: Some(path.to_owned()) })
    }

    /// Starts a capture in `sink`.
    pub fn to(sink: impl CaptureSink + 'static, options: RecordOptions) -> Result<Self> {
        Ok(Self { stream: Stream::start(Box::new(sink), options)?, watch: None, path: None })
    }

    /// Lets `watcher` see what each dispatch of the devices that are wrapped from now on writes, and records
    /// what it says. Does nothing unless [`RecordOptions::ledger`] is [`LedgerRecording::Dispatches`].
    ///
    /// Their work is then performed one operation at a time, in the order in which the program's waits allow
    /// it, and each dispatch by itself, without the commands round it.
    #[doc(hidden)]
    pub fn watch(mut self, watcher: impl DispatchWatcher + 'static) -> Self {
        if self.stream.options.ledger == LedgerRecording::Dispatches {
            self.watch = Some(Watch::new(&self.stream, Box::new(watcher)));
        }
        self
    }

    /// Wraps the devices of `group`, in order; every call on them is recorded.
    pub fn wrap(&self, group: &DeviceGroup) -> Result<DeviceGroup> {
        self.wrap_as(group, true)
    }

    /// Wraps devices such that submissions are recorded and ordered, but not performed: what they would write
    /// is unchanged.
    pub(crate) fn wrap_idle(&self, group: &DeviceGroup) -> Result<DeviceGroup> {
        self.wrap_as(group, false)
    }

    fn wrap_as(&self, group: &DeviceGroup, performs: bool) -> Result<DeviceGroup> {
        let wrapped = |base: &Device| {
            let watched = self.watch.as_ref().filter(|_| performs);
            let watched = watched.map(|watch| WatchedQueue::new(watch, base)).transpose()?;
            Ok(wrap(base.clone(), &self.stream, performs, watched))
        };
        let devices: Vec<Device> = group.devices().iter().map(wrapped).collect::<Result<_>>()?;
        for device in &devices {
            record_topology(&self.stream, device)?;
        }
        DeviceGroup::new(devices)
    }

    /// Begins the scope `name`, which must not be empty. Scopes may nest, and names may repeat.
    pub fn scope_begin(&self, name: &str) -> Result<()> {
        self.record_scope(name, &HostOp::ScopeBegin { name: name.as_bytes() })
    }

    /// Ends the scope `name`.
    pub fn scope_end(&self, name: &str) -> Result<()> {
        self.record_scope(name, &HostOp::ScopeEnd { name: name.as_bytes() })
    }

    /// Begins a scope that ends when the returned guard is dropped.
    pub fn scope<'r>(&'r self, name: &'r str) -> Result<OpenScope<'r>> {
        self.scope_begin(name)?;
        Ok(OpenScope { recorder: self, name })
    }

    /// Closes the capture: writes pending records and seals the file. Returns the first error of recording,
    /// with the path of the file, which is then an unclosed capture of what was written before; later calls
    /// on the devices are forwarded without being recorded. Closing again does nothing.
    ///
    /// If dispatches are watched, it first waits for the submissions that are ready, so it must not be called
    /// by a thread of a device.
    pub fn close(&self) -> Result<()> {
        let watched = self.watch.as_ref().map_or(Ok(()), |watch| watch.finish());
        let closed = self.stream.close().map_err(|error| match &self.path {
            // Its header was written when it was created.
            Some(path) => error.context(format!("'{}'", path.display())).advise(Remedy::RecoverUnclosed),
            None => error,
        });
        closed.and(watched)
    }

    fn record_scope(&self, name: &str, op: &HostOp<crate::Ids<'_>>) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid_argument("a scope name must not be empty"));
        }
        self.stream.with_log(|log| log.calls(0, 0, |put| encode::host_op(op, put)));
        Ok(())
    }
}

/// Mode of a new capture, before the umask.
const FILE_MODE: u32 = 0o640;

/// Opens the file of a capture, truncated and locked.
fn create_file(path: &Path) -> Result<File> {
    let failed = |error| Error::io(format_args!("creating the capture '{}'", path.display()), &error);
    // Checked first: opening a pipe for writing blocks until it has a reader.
    if std::fs::metadata(path).is_ok_and(|it| is_pipe(&it)) {
        return Err(not_seekable(path));
    }
    // Truncated only once locked, so that the recording of another process stays intact. A lock rather than a
    // temporary file with an atomic rename: the capture of a killed program must be at the path the user
    // gave.
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
    // Any number of processes may write to other kinds, such as /dev/null.
    if file.metadata().map_err(failed)?.is_file() {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(in_use(path)),
            // Some file systems do not support locks; recording without one is better than failing.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Only if there is something to truncate: ext4 writes a file that was truncated to the disk when it
        // is closed, for half a second per gigabyte (its mount option `auto_da_alloc`).
        if file.metadata().map_err(failed)?.len() > 0 {
            file.set_len(0).map_err(failed)?;
        }
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
    .advise("use a separate file for each process, or wait until the other capture is closed")
}

fn not_seekable(path: &Path) -> Error {
    let reason = "not seekable, but closing a capture writes its length to the file header";
    Error::invalid_argument(format!("cannot write a capture to '{}': {reason}", path.display()))
        .advise("use a regular file")
}

/// An open scope of a capture.
pub struct OpenScope<'r> {
    recorder: &'r Recorder,
    name: &'r str,
}

impl Drop for OpenScope<'_> {
    fn drop(&mut self) {
        // The name is not empty: the scope has begun.
        let _ = self.recorder.scope_end(self.name);
    }
}
