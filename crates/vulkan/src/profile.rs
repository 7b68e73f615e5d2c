//! What a device reports to a profile: the times of its work, by timestamps, and what command buffers consist of.
#![allow(unsafe_code, reason = "reads the clocks of the device")]

use ash::vk;
use rehal_base::Result;
use rehal_hal::profile::{
    ClockSample, DeviceQueueEvent, DispatchEvent, ProfileData, ProfileSession, ProfiledCommand,
    ProfiledCommandKind, ProfiledDispatch, ProfiledSubmission, now_ns,
};
use rehal_hal::{Binding, BufferRef, Command, CommandBuffer, Dispatch, Indexed, Store, WorkgroupCount};

use crate::command::{Recorder, Repeats, VulkanCommands};
use crate::error::failure;
use crate::executable::VulkanExecutable;
use crate::gpu::Gpu;
use crate::queue::{Core, Frontier, Uses, Work};

/// The kinds of data that devices report: times only if their queues have timestamps.
pub(crate) fn supported(gpu: &Gpu) -> ProfileData {
    let always = ProfileData::QUEUE_EVENTS | ProfileData::EXECUTABLE_METADATA | ProfileData::MEMORY_EVENTS;
    match gpu.timestamp_mask(gpu.families()[0]) {
        0 => always,
        _ => always | ProfileData::DEVICE_QUEUE_EVENTS | ProfileData::DISPATCH_EVENTS,
    }
}

/// What is timed of a submission: pairs of timestamps.
pub(crate) struct Timed {
    /// Whether the submission itself is, by the first pair.
    has_operation: bool,
    dispatches: Vec<TimedDispatch>,
    mask: u64,
}

struct TimedDispatch {
    command_index: Option<u32>,
    dispatch: ProfiledDispatch,
}

impl Timed {
    /// What the session wants of a submission to a queue family; `None` for nothing.
    pub(crate) fn of(profile: &ProfiledSubmission, gpu: &Gpu, family: u32) -> Option<Self> {
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
        self.dispatches.push(TimedDispatch { command_index, dispatch });
        Ok(())
    }

    /// Reports the times of a submission that is complete.
    pub(crate) fn report(&self, profile: &ProfiledSubmission, recorder: &Recorder) {
        // Without times there is nothing to report; profiling does not fail the work.
        let Ok(ticks) = recorder.read_timestamps() else { return };
        let tick = |index: usize| ticks.get(index).copied().unwrap_or(0) & self.mask;
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
    let slot = |reference: &BufferRef<u32>| match reference.binding {
        Binding::Slot(slot) => Some(slot),
        Binding::Direct(_) => None,
    };
    let is_slot = |reference: &BufferRef<u32>| slot(reference).is_some();
    let (kind, uses_binding_table) = match command {
        Command::ExecutionBarrier { .. } | Command::WaitEvents { .. } => {
            (ProfiledCommandKind::Barrier, false)
        }
        Command::Dispatch(dispatch) => {
            let bindings = dispatch.bindings.of(&store.lists.buffer_refs);
            let dispatch = profiled_dispatch(store, dispatch, gpu);
            let kind = ProfiledCommandKind::Dispatch { dispatch, binding_count: bindings.len() as u32 };
            (kind, bindings.iter().any(is_slot))
        }
        Command::Fill { target, .. } => {
            let (target_offset, length) = (target.offset, target.length);
            (ProfiledCommandKind::Fill { target_slot: slot(target), target_offset, length }, is_slot(target))
        }
        Command::Update { target, .. } => {
            let (target_offset, length) = (target.offset, target.length);
            (
                ProfiledCommandKind::Update { target_slot: slot(target), target_offset, length },
                is_slot(target),
            )
        }
        Command::Copy { source, target, .. } => {
            let kind = ProfiledCommandKind::Copy {
                source_slot: slot(source),
                source_offset: source.offset,
                target_slot: slot(target),
                target_offset: target.offset,
                length: target.length,
            };
            (kind, is_slot(source) || is_slot(target))
        }
        _ => return None,
    };
    Some(ProfiledCommand { kind, uses_binding_table })
}

/// Reads the clocks of device and host at the same moment.
pub(crate) fn sample_clock(core: &Core) -> Result<ClockSample> {
    let gpu = core.gpu();
    if let Some(clock) = gpu.clock() {
        let domains = [vk::TimeDomainEXT::DEVICE, vk::TimeDomainEXT::CLOCK_MONOTONIC]
            .map(|domain| vk::CalibratedTimestampInfoEXT::default().time_domain(domain));
        // SAFETY: the extension is enabled, and the device has both clocks.
        let (ticks, _) = unsafe { clock.get_calibrated_timestamps(&domains) }
            .map_err(|error| failure("reading the clocks", error))?;
        let host_ns = ticks[1] as i64;
        return Ok(ClockSample { device_tick: ticks[0], host_before_ns: host_ns, host_after_ns: host_ns });
    }
    // A timestamp is written between two readings of the host's clock.
    let mut recorder = core.tools().take_recorder(gpu.families()[0])?;
    recorder.begin(Repeats::Never)?;
    recorder.begin_timestamps(1)?;
    recorder.timestamp(vk::PipelineStageFlags::BOTTOM_OF_PIPE);
    recorder.end()?;
    let host_before_ns = now_ns();
    let commands = recorder.commands();
    let sampled = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let uses = Uses { recorder: Some(recorder), sampled: Some(sampled.clone()), ..Uses::default() };
    let work = core.issue(core.take_spare(), Frontier::default(), Some(Work { lane: 0, commands, uses }))?;
    while !core.wait(&work, None) {}
    let host_after_ns = now_ns();
    core.settle();
    let device_tick = sampled.load(std::sync::atomic::Ordering::Acquire);
    Ok(ClockSample { device_tick, host_before_ns, host_after_ns })
}
