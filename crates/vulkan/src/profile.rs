//! The reports of a device to a profile: the times of its work, by timestamps, and what command buffers
//! consist of.
#![allow(unsafe_code, reason = "reads the clocks of the device")]

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use ash::vk;
use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::profile::{
    ClockSample, DeviceQueueEvent, DispatchEvent, ProfileData, ProfileSession, ProfiledCommand,
    ProfiledCommandKind, ProfiledDispatch, ProfiledSubmission, now_ns,
};
use rehal_hal::{Command, CommandBuffer, Dispatch, Indexed, Store, WorkgroupCount};

use crate::command::{Recorder, Repeats, VulkanCommands};
use crate::error::failure;
use crate::executable::VulkanExecutable;
use crate::gpu::Gpu;
use crate::queue::{Core, Frontier, Origin, Uses, Work};

/// The kinds of data that devices report: times only if their queues have timestamps.
pub(crate) fn supported(gpu: &Gpu) -> ProfileData {
    let always = ProfileData::QUEUE_EVENTS | ProfileData::EXECUTABLE_METADATA | ProfileData::MEMORY_EVENTS;
    match gpu.timestamp_mask(gpu.families()[0]) {
        0 => always,
        _ => always | ProfileData::DEVICE_QUEUE_EVENTS | ProfileData::DISPATCH_EVENTS,
    }
}

/// The pairs of timestamps of a submission: of itself, and of its dispatches.
pub(crate) struct SubmissionTimestamps {
    /// Whether the submission itself is, by the first pair.
    has_operation: bool,
    dispatches: Vec<DispatchTimestamps>,
    mask: u64,
}

struct DispatchTimestamps {
    command_index: Option<u32>,
    dispatch: ProfiledDispatch,
}

impl SubmissionTimestamps {
    /// The timestamps that the session wants of a submission to a queue family; `None` for nothing.
    pub(crate) fn from_submission(profile: &ProfiledSubmission, gpu: &Gpu, family: u32) -> Option<Self> {
        let has_operation = profile.session().wants(ProfileData::DEVICE_QUEUE_EVENTS);
        let mask = gpu.timestamp_mask(family);
        let is_timed = mask != 0 && (has_operation || profile.reports_dispatches());
        is_timed.then_some(Self { has_operation, dispatches: Vec::new(), mask })
    }

    /// Begins the submission, with at most this number of dispatches. Recording has begun.
    pub(crate) fn begin(&self, recorder: &mut Recorder, dispatches: usize) -> Result<()> {
        recorder.begin_timestamps(2 + 2 * dispatches as u32)?;
        recorder.timestamp(vk::PipelineStageFlags::TOP_OF_PIPE);
        Ok(())
    }

    /// Ends the submission.
    pub(crate) fn end(&self, recorder: &mut Recorder) {
        recorder.timestamp(vk::PipelineStageFlags::BOTTOM_OF_PIPE);
    }

    /// Times a dispatch that `record` records, if the session wants it.
    pub(crate) fn dispatch(
        &mut self,
        recorder: &mut Recorder,
        profile: &ProfiledSubmission,
        store: &Store,
        dispatch: &Dispatch<Indexed>,
        command_index: Option<u32>,
        record: impl FnOnce(&mut Recorder) -> Result<()>,
    ) -> Result<()> {
        let executable = &store.executables[dispatch.executable as usize];
        let is_selected = profile.reports_dispatches()
            && profile.selects_dispatch(executable, dispatch.function, command_index);
        if !is_selected {
            return record(recorder);
        }
        recorder.timestamp(vk::PipelineStageFlags::TOP_OF_PIPE);
        record(recorder)?;
        recorder.timestamp(vk::PipelineStageFlags::BOTTOM_OF_PIPE);
        let dispatch = profiled_dispatch(store, dispatch, recorder.gpu());
        self.dispatches.push(DispatchTimestamps { command_index, dispatch });
        Ok(())
    }

    /// Reports the times of a submission that is complete.
    pub(crate) fn report(&self, profile: &ProfiledSubmission, recorder: &Recorder, clock: &Ticks) {
        // Without times there is nothing to report. That fails the profile, and not the work.
        let ticks = match recorder.read_timestamps() {
            Ok(ticks) => ticks,
            Err(error) => return clock.fail(error),
        };
        let now = now_ns();
        let tick = |index: usize| clock.extend(ticks.get(index).copied().unwrap_or(0), now, self.mask);
        let (sink, operation) = (profile.session().sink(), *profile.operation());
        if self.has_operation {
            let last = ticks.len().saturating_sub(1);
            let event = DeviceQueueEvent { operation, start_tick: tick(0), end_tick: tick(last) };
            sink.device_queue_event(&event);
        }
        for (index, it) in self.dispatches.iter().enumerate() {
            sink.dispatch_event(&DispatchEvent {
                operation,
                command_index: it.command_index,
                dispatch: it.dispatch,
                start_tick: tick(1 + 2 * index),
                end_tick: tick(2 + 2 * index),
            });
        }
    }
}

fn profiled_dispatch(store: &Store, dispatch: &Dispatch<Indexed>, gpu: &Gpu) -> ProfiledDispatch {
    let executable = &store.executables[dispatch.executable as usize];
    let pipeline =
        VulkanExecutable::of(executable, gpu).and_then(|executable| executable.pipeline(dispatch.function));
    ProfiledDispatch {
        executable_id: executable.id(),
        function: dispatch.function,
        workgroup_count: match &dispatch.workgroup_count {
            WorkgroupCount::Static(count) => *count,
            WorkgroupCount::Indirect(_) => [0; 3],
        },
        workgroup_size: pipeline.map_or([1; 3], |pipeline| pipeline.workgroup_size()),
        is_indirect: matches!(dispatch.workgroup_count, WorkgroupCount::Indirect(_)),
    }
}

/// Describes a command buffer that is submitted; returns the number of its commands.
pub(crate) fn describe(session: &ProfileSession, command_buffer: &CommandBuffer, gpu: &Gpu) -> Result<u32> {
    let recording = VulkanCommands::of(command_buffer)?.recording()?;
    let commands = || -> Vec<ProfiledCommand> {
        recording
            .commands
            .iter()
            .filter_map(|command| describe_command(&recording.store, command, gpu))
            .collect()
    };
    session.describe_command_buffer(command_buffer, commands, &recording.store.executables);
    Ok(recording.commands.iter().filter(|command| is_described(command)).count() as u32)
}

/// Whether a command is one of those that profiles count.
pub(crate) fn is_described(command: &Command<Indexed>) -> bool {
    matches!(
        command,
        Command::ExecutionBarrier { .. }
            | Command::WaitEvents { .. }
            | Command::Dispatch(_)
            | Command::Fill { .. }
            | Command::Update { .. }
            | Command::Copy { .. }
    )
}

fn describe_command(store: &Store, command: &Command<Indexed>, gpu: &Gpu) -> Option<ProfiledCommand> {
    match command {
        Command::ExecutionBarrier { .. } | Command::WaitEvents { .. } => {
            Some(ProfiledCommand { kind: ProfiledCommandKind::Barrier, uses_binding_table: false })
        }
        _ => ProfiledCommand::from_operation(&command.as_queue_op()?, &store.lists, |dispatch| {
            profiled_dispatch(store, dispatch, gpu)
        }),
    }
}

/// Timestamps of a device, in 64 bits. Those of its queues may have fewer, and start from 0 again after
/// hours, or minutes; which of the values it is follows from the host's clock.
pub(crate) struct Ticks {
    ns_per_tick: f64,
    /// A timestamp, extended, and the host's time of it.
    base: Mutex<Option<(u64, i64)>>,
    /// The first failure to read timestamps of the profile.
    failure: Mutex<Option<Error>>,
}

impl Ticks {
    /// The timestamps of a device whose clock has not been read yet.
    pub(crate) fn new(gpu: &Gpu) -> Self {
        Self {
            ns_per_tick: f64::from(gpu.limits().timestamp_period),
            base: Mutex::new(None),
            failure: Mutex::new(None),
        }
    }

    fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
    }

    /// Fails if timestamps could not be read since the last call: events of the profile are missing.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }

    /// A timestamp that was written before `now_ns` of the host.
    fn extend(&self, tick: u64, now_ns: i64, mask: u64) -> u64 {
        extend(*self.base.lock(), self.ns_per_tick, tick, now_ns, mask)
    }

    /// A timestamp that was written at `host_ns` of the host: those that follow are extended from it.
    fn sample(&self, tick: u64, host_ns: i64, mask: u64) -> u64 {
        let mut base = self.base.lock();
        let extended = extend(*base, self.ns_per_tick, tick, host_ns, mask);
        *base = Some((extended, host_ns));
        extended
    }
}

/// The last value with the valid bits of `tick` that is not in the future, as far as the clocks may differ.
fn extend(base: Option<(u64, i64)>, ns_per_tick: f64, tick: u64, now_ns: i64, mask: u64) -> u64 {
    let (Some((base_tick, base_ns)), Some(period)) = (base, mask.checked_add(1)) else { return tick & mask };
    // The cast saturates.
    let passed = (now_ns.saturating_sub(base_ns) as f64 / ns_per_tick) as u64;
    let latest = base_tick.saturating_add(passed).saturating_add(period / 4);
    let extended = (latest & !mask) | (tick & mask);
    if extended <= latest { extended } else { extended.saturating_sub(period) }
}

/// Reads the clocks of device and host at the same moment: `None` if that is not known to be exact to
/// `longest`. Does not wait longer than that for the device, either. Fails if the device is lost.
pub(crate) fn sample_clock(core: &Core, longest: Option<Duration>) -> Result<Option<ClockSample>> {
    let sample = match core.gpu().clock() {
        Some(clock) => Some(calibrated_sample(core, clock)?),
        None => timestamp_sample(core, longest)?,
    };
    let is_exact = |sample: &ClockSample| {
        let width_ns = sample.host_after_ns.saturating_sub(sample.host_before_ns);
        longest.is_none_or(|longest| i128::from(width_ns) <= longest.as_nanos() as i128)
    };
    Ok(sample.filter(is_exact))
}

/// The clocks that the driver reads at once.
fn calibrated_sample(core: &Core, clock: &ash::ext::calibrated_timestamps::Device) -> Result<ClockSample> {
    let gpu = core.gpu();
    let domains = [vk::TimeDomainEXT::DEVICE, vk::TimeDomainEXT::CLOCK_MONOTONIC]
        .map(|domain| vk::CalibratedTimestampInfoEXT::default().time_domain(domain));
    // SAFETY: the extension is enabled, and the device has both clocks.
    let (ticks, deviation_ns) = unsafe { clock.get_calibrated_timestamps(&domains) }
        .map_err(|error| failure("reading the clocks", error))?;
    let host_ns = ticks[1] as i64;
    let device_tick = core.ticks().sample(ticks[0], host_ns, gpu.timestamp_mask(gpu.families()[0]));
    // Either clock may have been read first, and the other so much later.
    let deviation_ns = i64::try_from(deviation_ns).unwrap_or(i64::MAX);
    Ok(ClockSample {
        device_tick,
        host_before_ns: host_ns.saturating_sub(deviation_ns),
        host_after_ns: host_ns.saturating_add(deviation_ns),
    })
}

/// A timestamp, which is written between two readings of the host's clock; `None` if it is not written for
/// `longest`, or if the last one still is not: while the device is busy for long, one is in flight.
fn timestamp_sample(core: &Core, longest: Option<Duration>) -> Result<Option<ClockSample>> {
    let gpu = core.gpu();
    if longest.is_some() && core.has_late_sample() {
        // It may be complete by now.
        core.settle();
        if core.has_late_sample() {
            return Ok(None);
        }
    }
    let mut recorder = core.recorders().take_recorder(gpu.families()[0])?;
    recorder.begin(Repeats::Never)?;
    recorder.begin_timestamps(1)?;
    recorder.timestamp(vk::PipelineStageFlags::BOTTOM_OF_PIPE);
    recorder.end()?;
    let (begin, host_before_ns) = (Instant::now(), now_ns());
    let commands = recorder.commands();
    let (sender, sampled) = sync_channel(1);
    let uses = Uses { recorder: Some(recorder), sampled: Some(sender), ..Uses::default() };
    let work = core.issue(
        core.take_spare(),
        Frontier::default(),
        Some(Work { lane: 0, commands, uses }),
        Origin::Program,
    )?;
    let rest = || longest.map(|longest| longest.saturating_sub(begin.elapsed()));
    while !core.wait(&work, rest()) {
        if rest().is_some_and(|rest| rest.is_zero()) {
            core.keep_late_sample(sampled);
            return Ok(None);
        }
    }
    let host_after_ns = now_ns();
    core.settle();
    // Another thread may be settling it. It sends, or drops the sender.
    let received = match rest() {
        None => sampled.recv().map_err(RecvTimeoutError::from),
        Some(rest) => sampled.recv_timeout(rest),
    };
    let tick = match received {
        Ok(tick) => tick?,
        Err(RecvTimeoutError::Timeout) => {
            core.keep_late_sample(sampled);
            return Ok(None);
        }
        Err(RecvTimeoutError::Disconnected) => {
            return Err(Error::new(StatusCode::Internal, "a clock sample was dropped"));
        }
    };
    let device_tick = core.ticks().sample(tick, host_after_ns, gpu.timestamp_mask(gpu.families()[0]));
    Ok(Some(ClockSample { device_tick, host_before_ns, host_after_ns }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_with_few_bits_do_not_wrap() {
        let mask = (1 << 36) - 1;
        let ns_per_tick = 83.333;
        let (start, start_ns) = (mask - 1000, 5_000_000_000);
        let mut base = None;
        let first = extend(base, ns_per_tick, start, start_ns, mask);
        assert_eq!(first, start);
        base = Some((first, start_ns));
        // For two days, in which it wraps thirty times, with a clock that is 100 ppm fast; the last sample is
        // always an hour old.
        let mut last = first;
        for minute in 1..2 * 24 * 60_u64 {
            let passed = minute as f64 * 60e9 / ns_per_tick * 1.0001;
            let truth = start + passed as u64;
            let now = start_ns + (minute * 60_000_000_000) as i64;
            let extended = extend(base, ns_per_tick, truth & mask, now, mask);
            assert_eq!(extended, truth, "minute {minute}");
            // A timestamp that is read long after it was written.
            assert_eq!(extend(base, ns_per_tick, last & mask, now, mask), last);
            last = truth;
            if minute % 60 == 0 {
                base = Some((extended, now));
            }
        }
        assert!(last > 30 * mask);
    }

    #[test]
    fn timestamps_with_all_bits_are_what_they_are() {
        for base in [None, Some((7, 0)), Some((u64::MAX, i64::MAX))] {
            assert_eq!(extend(base, 1.0, u64::MAX, -1, u64::MAX), u64::MAX);
            assert_eq!(extend(base, 1.0, 0, i64::MAX, u64::MAX), 0);
        }
        assert_eq!(extend(None, 1.0, 0x1_23, 0, 0xff), 0x23);
    }
}
