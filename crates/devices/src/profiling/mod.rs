//! Profiles of what devices do: the adapter between the sink of `hal`, which names objects by their ids, and
//! the bundle of `profile`, which is bytes.
//!
//! Rows are encoded when a device reports them, so that an event takes a lock and a copy, and written by a
//! thread, or by a benchmark while its clocks are stopped. More than `DUE_BYTES` of pending events would cost
//! more than they save, since the events leave the caches. With each write, the thread asks devices for a
//! sample of their clocks.

mod rows;
mod sink;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rehal_base::platform::OpenOptionsExt;
use rehal_base::{Context, Error, Result, StatusCode};
use rehal_crash::BackgroundWriter;
use rehal_hal::profile::{ProfileData, ProfileFilter, ProfileRequest, set_replayed_record};
use rehal_hal::{Device, DeviceGroup, DeviceInfo};
use rehal_jobs::TemporaryFile;
use rehal_profile::{
    report::{Report, ReportOptions},
    times::DispatchTimes,
};
use rehal_replay::Observer;
use sink::{Bundle, DeviceSink};

use crate::{NamedPath, ProfileFile};

/// Which kinds of data to request of each device of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestedData {
    /// These, of every device.
    Kinds(ProfileData),
    /// The data of the reference's tools for statistics, as far as the device reports it: events of its
    /// queues with the host's times of what they execute or, of devices that lack these times, with the
    /// events of memory. Of the latter also the times of dispatches, which the reference leaves out: without
    /// them, functions have none.
    Statistics,
    /// The times of dispatches, by the host or else by the device.
    DispatchTimes,
}

/// The choice of what to profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProfilingOptions {
    /// The bundle (`.ireeprof`) to write; created or truncated. `None` for [`Profiling::end_with_statistics`]
    /// only.
    pub output: Option<NamedPath>,
    /// The kinds of data.
    pub data: RequestedData,
    /// Which operations are reported in detail. Default: all.
    pub filter: ProfileFilter,
    /// The device whose operations are reported in detail, by its index. Default: all.
    pub device_filter: Option<u32>,
    /// Hardware counters to sample, by the device's names. Default: none.
    pub counters: Vec<String>,
    /// How often devices are asked for what they have buffered. Default: only at the end.
    pub flush_interval: Option<Duration>,
    /// Whether the program measures, and therefore flushes itself, while it does not measure, whenever
    /// [`Profiling::is_due`]. Default: a thread writes at once.
    pub is_measured: bool,
}

/// A profiling session of a group of devices. Ends when it is dropped; [`Profiling::end`] also reports
/// errors.
///
/// A thread writes what devices report to the file within 100 ms, with samples of their clocks, so that the
/// bundle of a killed program is readable up to that point. A program that measures is asked to flush instead
/// ([`ProfilingOptions::is_measured`]), and the thread writes only if it has not done so 100 ms later. At
/// most 8 MiB per device are pending, then the thread that reports writes them.
pub struct Profiling {
    session: Session,
    writer: Option<(Sender<()>, JoinHandle<()>)>,
    target: Target,
}

/// As an observer of a replay, relates what a profile reports to the records of the capture, as dumps number
/// them. By default it does nothing.
#[derive(Debug, Default)]
pub struct ProfiledRecords {
    is_on: bool,
}

/// The file of a session.
enum Target {
    Bundle(NamedPath),
    /// For statistics: long runs have more events than fit in memory.
    Temporary(TemporaryFile),
}

/// The devices with their sinks.
#[derive(Clone)]
struct Session {
    devices: DeviceGroup,
    sinks: Vec<Arc<DeviceSink>>,
    bundle: Arc<Bundle>,
}

/// How often rows are written.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

impl RequestedData {
    /// The kinds of data to request of `device`, which supports these. Fails with `UNIMPLEMENTED` if it does
    /// not time dispatches, and these times are requested.
    fn of(self, device: &DeviceInfo, supported: ProfileData) -> Result<ProfileData> {
        let has_host_times = supported.contains(ProfileData::HOST_EXECUTION);
        match self {
            Self::Kinds(data) => Ok(data),
            Self::Statistics => {
                let of_its_kind = match has_host_times {
                    true => ProfileData::HOST_EXECUTION,
                    false => ProfileData::MEMORY_EVENTS | ProfileData::DISPATCH_EVENTS,
                };
                let data = ProfileData::QUEUE_EVENTS | ProfileData::EXECUTABLE_METADATA | of_its_kind;
                Ok(data & supported)
            }
            Self::DispatchTimes if has_host_times => {
                Ok(ProfileData::HOST_EXECUTION | supported & ProfileData::PROCESSOR_TIME)
            }
            Self::DispatchTimes if supported.contains(ProfileData::DISPATCH_EVENTS) => {
                Ok(ProfileData::DISPATCH_EVENTS)
            }
            Self::DispatchTimes => {
                let message = format!("device '{}' does not time dispatches", device.name);
                let wanted = ProfileData::HOST_EXECUTION | ProfileData::DISPATCH_EVENTS;
                let (wanted, supported) = (wanted.names().join(" or "), supported.names().join(", "));
                let advice = format!("choose one that reports {wanted}; it reports {supported}");
                Err(Error::unimplemented(message).advise(advice))
            }
        }
    }
}

impl ProfilingOptions {
    /// A bundle at `output` with these kinds of data of all operations.
    pub fn new(output: impl Into<NamedPath>, data: ProfileData) -> Self {
        Self { output: Some(output.into()), ..Self::without_output(RequestedData::Kinds(data)) }
    }

    /// No bundle: only statistics are printed. `None` is what the reference's tools measure for these, of
    /// each device ([`RequestedData::Statistics`]).
    pub fn statistics(data: Option<ProfileData>) -> Self {
        Self::without_output(data.map_or(RequestedData::Statistics, RequestedData::Kinds))
    }

    /// No bundle: only the times of dispatches, for [`Profiling::end_with_dispatch_times`].
    pub fn dispatch_times() -> Self {
        Self::without_output(RequestedData::DispatchTimes)
    }

    fn without_output(data: RequestedData) -> Self {
        Self {
            output: None,
            data,
            filter: ProfileFilter::default(),
            device_filter: None,
            counters: Vec::new(),
            flush_interval: None,
            is_measured: false,
        }
    }

    /// The request for the device with this index.
    fn request(&self, sink: &Arc<DeviceSink>, device: &Device, index: usize) -> Result<ProfileRequest> {
        let (data, counters) = (self.data_of(device, index)?, self.counters_of(index).to_vec());
        Ok(ProfileRequest { data, filter: self.filter.clone(), counters, sink: sink.clone() })
    }

    /// Fails unless the devices support what is requested of them.
    fn check(&self, devices: &DeviceGroup) -> Result<()> {
        devices.devices().iter().enumerate().try_for_each(|(index, device)| {
            let data = self.data_of(device, index)?;
            data.check(self.counters_of(index), device.info(), device.profile_data())
        })
    }

    /// The hardware counters to sample of the device with this index.
    fn counters_of(&self, index: usize) -> &[String] {
        if self.is_selected(index) { &self.counters } else { &[] }
    }

    /// Whether the operations of the device with this index are reported in detail.
    fn is_selected(&self, index: usize) -> bool {
        self.device_filter.is_none_or(|ordinal| ordinal as usize == index)
    }

    /// The kinds of data to request of the device with this index.
    fn data_of(&self, device: &Device, index: usize) -> Result<ProfileData> {
        let detailed = ProfileData::HOST_EXECUTION
            | ProfileData::DISPATCH_EVENTS
            | ProfileData::COMMAND_REGIONS
            | ProfileData::PROCESSOR_TIME
            | ProfileData::COUNTERS
            | ProfileData::EXECUTABLE_TRACES;
        let data = self.data.of(device.info(), device.profile_data())?;
        Ok(if self.is_selected(index) { data } else { data - detailed })
    }
}

impl Profiling {
    /// Begins a session on all `devices`. Fails if one of them does not support what the options request; an
    /// existing file is then unchanged.
    pub fn begin(devices: &DeviceGroup, options: &ProfilingOptions) -> Result<Self> {
        options.check(devices).context(|| "beginning the profile".into())?;
        let target = Target::create(options)?;
        let bundle = Arc::new(target.open()?);
        let sinks = devices.devices().iter().enumerate();
        let sinks = sinks
            .map(|(ordinal, device)| {
                let info = device.info();
                DeviceSink::new(&bundle, ordinal as u32, &info.name, info.uuid)
            })
            .collect();
        let session = Session { devices: devices.clone(), sinks, bundle };
        for (index, (device, sink)) in devices.devices().iter().zip(&session.sinks).enumerate() {
            sink.begin();
            let request = options.request(sink, device, index);
            if let Err(error) = request.and_then(|request| device.begin_profiling(&request)) {
                // The first error is the one to report.
                let _ = session.end_first(index, error.code());
                sink.end(error.code());
                return Err(error.context("beginning the profile"));
            }
        }
        // Even a program that is killed at once leaves a readable bundle.
        session.write()?;
        let writer = session.start_writer(options)?;
        Ok(Self { session, writer: Some(writer), target })
    }

    /// The observer for replays on the devices.
    pub fn records(&self) -> ProfiledRecords {
        ProfiledRecords { is_on: true }
    }

    /// Whether a program that measures should flush at the next opportunity: 100 ms have passed, or a MiB is
    /// pending.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.session.bundle.is_due()
    }

    /// Writes what devices have reported. Benchmarks call it while they do not measure.
    pub fn flush(&self) -> Result<()> {
        self.session.flush()
    }

    /// Ends the session, and reports the first error of writing it.
    pub fn end(mut self) -> Result<()> {
        self.finish()
    }

    /// Ends the session, and prints totals per operation and function to `sink`, as the reference does.
    pub fn end_with_statistics(mut self, sink: &mut dyn Write) -> Result<()> {
        self.finish()?;
        let options = ReportOptions::default().report(Report::Statistics);
        ProfileFile::open(&self.target.path()?)?.print(&options, sink)
    }

    /// Ends the session, and returns the times of its dispatches by function.
    pub fn end_with_dispatch_times(mut self) -> Result<DispatchTimes> {
        self.finish()?;
        ProfileFile::open(&self.target.path()?)?.dispatch_times()
    }

    fn finish(&mut self) -> Result<()> {
        let Some((stop, thread)) = self.writer.take() else { return Ok(()) };
        drop(stop);
        // It panics only if writing does, which would be a bug that its message names.
        let _ = thread.join();
        self.session.end_first(self.session.sinks.len(), StatusCode::Ok).context(|| self.target.place())
    }
}

impl Observer for ProfiledRecords {
    fn profiles_records(&self) -> bool {
        self.is_on
    }
}

impl Drop for ProfiledRecords {
    fn drop(&mut self) {
        if self.is_on {
            set_replayed_record(None);
        }
    }
}

impl Target {
    fn create(options: &ProfilingOptions) -> Result<Self> {
        match &options.output {
            Some(output) => Ok(Self::Bundle(output.clone())),
            None => TemporaryFile::create().map(Self::Temporary),
        }
    }

    fn path(&self) -> Result<PathBuf> {
        match self {
            Self::Bundle(output) => Ok(output.path().to_owned()),
            Self::Temporary(file) => file.path(),
        }
    }

    fn place(&self) -> String {
        match self {
            Self::Bundle(output) => output.place(),
            Self::Temporary(_) => {
                format!(
                    "a temporary file in '{}' (TMPDIR=PATH names another)",
                    std::env::temp_dir().display()
                )
            }
        }
    }

    fn open(&self) -> Result<Bundle> {
        let path = self.path()?;
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            // As captures: a profile names what the program runs.
            .mode(0o640)
            .open(&path)
            .map_err(|error| Error::io(format_args!("creating '{}'", path.display()), &error));
        file.and_then(Bundle::new).context(|| self.place())
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Session {
    /// Ends the sessions of the first `count` devices, in reverse order.
    fn end_first(&self, count: usize, status: StatusCode) -> Result<()> {
        let mut outcome = Ok(());
        for (device, sink) in self.devices.devices().iter().zip(&self.sinks).take(count).rev() {
            let ended = device.end_profiling();
            sink.end(status);
            outcome = outcome.and(ended);
        }
        outcome.and(self.bundle.check())
    }

    fn flush(&self) -> Result<()> {
        self.bundle.count_flush();
        self.flush_devices()
    }

    fn flush_devices(&self) -> Result<()> {
        self.devices.devices().iter().try_for_each(|device| device.flush_profiling())?;
        self.write()
    }

    /// Writes what devices have reported, with a sample of their clocks: so that those of a killed program
    /// have times, and drift is followed. A sample that fails is missing; a device that is lost says so
    /// elsewhere.
    fn sample_and_write(&self) -> Result<()> {
        self.devices.devices().iter().for_each(|device| {
            let _ = device.sample_profiling_clock();
        });
        self.write()
    }

    fn write(&self) -> Result<()> {
        self.sinks.iter().for_each(|sink| sink.write());
        self.bundle.check()
    }

    /// The thread that writes rows, or requests it of a program that measures, and flushes devices at their
    /// interval, until the sender is dropped.
    fn start_writer(&self, options: &ProfilingOptions) -> Result<(Sender<()>, JoinHandle<()>)> {
        let (stop, stopped) = channel();
        let session = self.clone();
        let ProfilingOptions { flush_interval, is_measured, .. } = *options;
        // Before the thread runs: the program may crash at once.
        let in_process = BackgroundWriter::new();
        let run = move || {
            let interval = flush_interval.unwrap_or(WRITE_INTERVAL).min(WRITE_INTERVAL);
            let rounds = flush_interval.map(|wanted| wanted.as_nanos().div_ceil(interval.as_nanos().max(1)));
            let mut round = 0;
            let mut requested_after = None;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                round += 1;
                let flush_count = session.bundle.flush_count();
                if is_measured && requested_after != Some(flush_count) {
                    requested_after = Some(flush_count);
                    session.bundle.set_due(true);
                    continue;
                }
                // A program that measures has been in one measurement since the request. It costs less than a
                // kill, which would lose the rows. Errors are kept in the bundle, and the end of the session
                // reports them.
                let _ = match rounds {
                    Some(rounds) if round % rounds.max(1) == 0 => session.flush_devices(),
                    // The flushes of the program sample the clocks, outside its measurements.
                    _ if is_measured => session.write(),
                    _ => session.sample_and_write(),
                };
                in_process.flushed();
            }
        };
        let thread = std::thread::Builder::new().name("profile-writer".into()).spawn(run);
        Ok((stop, thread.map_err(|error| Error::io("starting a thread", &error))?))
    }
}
