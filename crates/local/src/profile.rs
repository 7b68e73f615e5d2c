//! The reports of a device to a profile. Nothing here runs unless the device is being profiled.
//!
//! A worker adds its time to a command before it completes the tiles, so that the worker that completes the
//! stage sees all of it (`task/report.rs`). Work that runs inline on `local-task` is reported as that of the
//! thread that runs it, only with command regions. Command buffers do not execute inline while a session is
//! active.

use std::cell::Cell;
use std::ops::Range;

use rehal_base::{Context, Result, StatusCode};
use rehal_hal::profile::{
    CommandRegion, HostExecution, ProcessorTime, ProfileData, ProfileSession, ProfiledCommand,
    ProfiledCommandKind, ProfiledDispatch, ProfiledOperation, ProfiledSubmission, ProfiledThread,
    SectionClock, WorkerSpan, now_ns,
};
use rehal_hal::{CommandBuffer, Dispatch, Indexed, Names, QueueOp, WorkgroupCount};

use crate::command::{LocalCommands, Recording, in_command};
use crate::executable::workgroup_total;
use crate::execute::{Resolve, StoredNames, run, run_dispatch, workgroup_count};

/// The kinds of data that CPU devices report.
pub(crate) const SUPPORTED: ProfileData = ProfileData::QUEUE_EVENTS
    .union(ProfileData::HOST_EXECUTION)
    .union(ProfileData::EXECUTABLE_METADATA)
    .union(ProfileData::MEMORY_EVENTS)
    .union(ProfileData::COMMAND_REGIONS)
    .union(ProfileData::PROCESSOR_TIME);

/// The kinds of data that need the commands of a command buffer, which inline execution does not keep.
pub(crate) const NEEDS_COMMANDS: ProfileData =
    ProfileData::HOST_EXECUTION.union(ProfileData::EXECUTABLE_METADATA).union(ProfileData::COMMAND_REGIONS);

/// A span of work.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    /// Sum of the times that all threads spent in it.
    pub(crate) thread_time_ns: i64,
    /// The processor's time for it, if that is requested.
    pub(crate) processor: Option<ProcessorTime>,
    /// Whether workers ran it.
    pub(crate) was_deferred: bool,
}

impl Span {
    /// The work of this thread between two times.
    pub(crate) fn new(start_ns: i64, end_ns: i64) -> Self {
        Self { start_ns, end_ns, thread_time_ns: end_ns - start_ns, processor: None, was_deferred: false }
    }
}

/// When the workgroups of a dispatch, all of which one thread runs, began and ended. What comes before them,
/// such as the lookup of its bindings, takes longer than a short kernel.
pub(crate) struct WorkgroupClock {
    has_cpu: bool,
    begun: Cell<Option<SectionClock>>,
    span: Cell<Option<Span>>,
}

impl WorkgroupClock {
    fn new(has_cpu: bool) -> Self {
        Self { has_cpu, begun: Cell::default(), span: Cell::default() }
    }

    /// The first workgroup is about to begin.
    pub(crate) fn start(&self) {
        self.begun.set(Some(SectionClock::start(self.has_cpu)));
    }

    /// The last of `workgroups` has ended.
    pub(crate) fn stop(&self, workgroups: u64) {
        let Some(begun) = self.begun.get() else { return };
        let (end_ns, time) = begun.stop();
        let processor = time.map(|time| ProcessorTime::of((workgroups > 0).then_some(time)));
        self.span.set(Some(Span { processor, ..Span::new(begun.start_ns, end_ns) }));
    }

    /// The time between them; a dispatch that fails ends now.
    fn span(&self) -> Span {
        self.span.get().unwrap_or_else(|| {
            let end_ns = now_ns();
            Span::new(self.begun.get().map_or(end_ns, |it| it.start_ns), end_ns)
        })
    }
}

/// A submission that one thread executes and reports.
#[derive(Clone, Copy)]
pub(crate) struct Profiled<'p> {
    pub(crate) submission: &'p ProfiledSubmission,
    /// The thread's role among the device's workers, if it has any and the session reports what threads
    /// execute: with the regions.
    pub(crate) thread: Option<ProfiledThread>,
}

impl<'p> Profiled<'p> {
    /// On a device without workers.
    pub(crate) fn by_caller(submission: &'p ProfiledSubmission) -> Self {
        Self { submission, thread: None }
    }

    /// Reports that the submission is ready to execute.
    pub(crate) fn ready(self) {
        self.submission.ready();
    }

    /// Reports what the thread executed: a command, or the operation.
    fn report_thread<'r, N: Names + 'r, R: Resolve<'r, N>>(
        self,
        op: &QueueOp<N>,
        names: &R,
        command_index: Option<u32>,
        span: Span,
    ) {
        let Some(thread) = self.thread else { return };
        if selects_command(op, names, self.submission, command_index) {
            let (operation, Span { start_ns, end_ns, .. }) = (*self.submission.operation(), span);
            let span = WorkerSpan { operation, command_index, thread, start_ns, end_ns };
            self.submission.session().sink().worker_span(&span);
        }
    }
}

/// Whether an operation executes something: its commands do, or the host has done it when it was submitted.
fn is_executed<N: Names>(op: &QueueOp<N>) -> bool {
    !matches!(
        op,
        QueueOp::Execute { .. } | QueueOp::Alloca { .. } | QueueOp::Dealloca { .. } | QueueOp::Barrier { .. }
    )
}

/// Runs one operation, and reports its span if it is profiled.
pub(crate) fn run_profiled<'r, N: Names + 'r, R: Resolve<'r, N>>(
    op: &QueueOp<N>,
    names: &R,
    profiled: Option<Profiled<'_>>,
) -> Result<()> {
    let Some(profiled) = profiled else { return run(op, names, None) };
    let profile = profiled.submission;
    if !profile.reports_spans() && profiled.thread.is_none() {
        let outcome = run(op, names, Some(profiled));
        report_dealloca(op, names, profile, &outcome);
        return outcome;
    }
    let start_ns = now_ns();
    LAST_NS.set(start_ns);
    let workgroup_count = workgroup_count_of(op, names);
    let (outcome, span) = match op {
        QueueOp::Dispatch(dispatch) => timed_dispatch(dispatch, names, profile),
        // The memory was allocated when it was submitted.
        QueueOp::Alloca { .. } => {
            let (start_ns, end_ns) = profile.allocation_ns().unwrap_or((start_ns, start_ns));
            (Ok(()), Span::new(start_ns, end_ns))
        }
        QueueOp::Barrier { .. } => (Ok(()), Span::new(start_ns, start_ns)),
        _ => {
            let outcome = run(op, names, Some(profiled));
            let end_ns = match (op, LAST_NS.get()) {
                // Its last command has just ended.
                (QueueOp::Execute { .. }, last_ns) if last_ns != start_ns => last_ns,
                _ => now_ns(),
            };
            (outcome, Span::new(start_ns, end_ns))
        }
    };
    report_dealloca(op, names, profile, &outcome);
    if is_executed(op) {
        profiled.report_thread(op, names, None, span);
    }
    report_operation(op, names, profile, workgroup_count, status(&outcome), span);
    outcome
}

thread_local! {
    /// When the last span of this thread ended, or the operation began: an execution ends with its last
    /// command.
    static LAST_NS: Cell<i64> = const { Cell::new(0) };
}

/// Runs a dispatch.
fn timed_dispatch<'r, N: Names + 'r, R: Resolve<'r, N>>(
    dispatch: &Dispatch<N>,
    names: &R,
    profile: &ProfiledSubmission,
) -> (Result<()>, Span) {
    let clock = WorkgroupClock::new(profile.reports_processor_time());
    let outcome = run_dispatch(dispatch, names, Some(&clock));
    (outcome, clock.span())
}

fn report_dealloca<'r, N: Names + 'r, R: Resolve<'r, N>>(
    op: &QueueOp<N>,
    names: &R,
    profile: &ProfiledSubmission,
    outcome: &Result<()>,
) {
    if let (QueueOp::Dealloca { buffer, .. }, Ok(())) = (op, outcome) {
        profile.dealloca(names.buffer(*buffer));
    }
}

/// Reports the span of a queue operation.
pub(crate) fn report_operation<'r, N: Names + 'r, R: Resolve<'r, N>>(
    op: &QueueOp<N>,
    names: &R,
    profile: &ProfiledSubmission,
    workgroup_count: [u32; 3],
    status: StatusCode,
    span: Span,
) {
    report_command(op, names, profile, *profile.operation(), (None, workgroup_count), status, span);
}

/// Runs a command.
fn run_timed(
    operation: &QueueOp<Indexed>,
    names: &StoredNames<'_, '_>,
    profile: &ProfiledSubmission,
) -> (Result<()>, Span) {
    match operation {
        QueueOp::Dispatch(dispatch) => timed_dispatch(dispatch, names, profile),
        _ => {
            let start_ns = now_ns();
            let outcome = run(operation, names, None);
            (outcome, Span::new(start_ns, now_ns()))
        }
    }
}

/// Runs the commands of a command buffer in order, and reports their spans and regions.
pub(crate) fn run_commands(
    recording: &Recording,
    names: &StoredNames<'_, '_>,
    profiled: Profiled<'_>,
) -> Result<()> {
    let profile = profiled.submission;
    let has_regions = profile.reports_regions();
    // Where one stage ends, the next begins.
    let mut now = if profile.reports_spans() { LAST_NS.get() } else { now_ns() };
    for stage in 0..recording.stages.len() {
        let Some(commands) = recording.stage(stage) else { break };
        let stage_start_ns = now;
        for index in commands {
            let operation = &recording.operations[index];
            let workgroup_count = workgroup_count_of(operation, names);
            let (outcome, span) = run_timed(operation, names, profile);
            now = span.end_ns;
            LAST_NS.set(now);
            profiled.report_thread(operation, names, Some(command_index(index, stage)), span);
            let place = (index, stage, workgroup_count);
            report_stored(place, operation, names, profile, status(&outcome), span);
            outcome.context(|| in_command(index))?;
        }
        if has_regions {
            report_region_of(recording, stage, names, profile, (stage_start_ns, now));
        }
    }
    Ok(())
}

/// Reports the region of a stage that this thread has executed, if the filter selects one of its commands.
fn report_region_of(
    recording: &Recording,
    stage: usize,
    names: &StoredNames<'_, '_>,
    profile: &ProfiledSubmission,
    (start_ns, end_ns): (i64, i64),
) {
    let Some(commands) = recording.stage(stage) else { return };
    if !selects_region(commands.clone(), stage, &recording.operations, names, profile) {
        return;
    }
    let tiles = |commands: Range<usize>| {
        let tiles = commands.map(|index| tiles_of(&recording.operations[index], names)).sum::<u64>();
        u32::try_from(tiles).unwrap_or(u32::MAX)
    };
    profile.session().sink().command_region(&CommandRegion {
        operation: *profile.operation(),
        index: stage as u32,
        command_count: commands.len() as u32,
        tile_count: tiles(commands),
        worker_count: 1,
        useful_drain_count: 1,
        start_ns,
        end_ns,
        first_tile_ns: start_ns,
        last_tile_ns: end_ns,
        next_tile_count: recording.stage(stage + 1).map(tiles),
    });
}

/// Reports the span of the operation at `index` of a command buffer, which is in `stage`, and had so many
/// workgroups.
#[inline]
pub(crate) fn report_stored(
    (index, stage, workgroup_count): (usize, usize, [u32; 3]),
    operation: &QueueOp<Indexed>,
    names: &StoredNames<'_, '_>,
    profile: &ProfiledSubmission,
    status: StatusCode,
    span: Span,
) {
    let command = ProfiledOperation {
        kind: operation.kind(),
        operation_count: 1,
        payload_bytes: moved_bytes(operation, names),
        ..*profile.operation()
    };
    let command_index = Some(command_index(index, stage));
    report_command(operation, names, profile, command, (command_index, workgroup_count), status, span);
}

/// The bytes that a command moves.
#[inline]
fn moved_bytes(operation: &QueueOp<Indexed>, names: &StoredNames<'_, '_>) -> u64 {
    match operation {
        QueueOp::Fill { target, .. } | QueueOp::Update { target, .. } | QueueOp::Copy { target, .. } => {
            names.place(target).map_or(0, |place| place.length())
        }
        _ => 0,
    }
}

/// Whether the session wants the region of these commands, which are a stage: the filter selects one of them.
pub(crate) fn selects_region(
    mut commands: Range<usize>,
    stage: usize,
    operations: &[QueueOp<Indexed>],
    names: &StoredNames<'_, '_>,
    profile: &ProfiledSubmission,
) -> bool {
    let mut selects = |index: usize| {
        let command_index = Some(command_index(index, stage));
        selects_command(&operations[index], names, profile, command_index)
    };
    profile.reports_regions() && commands.any(&mut selects)
}

/// Whether the filter selects an operation; `command_index` is that in its command buffer.
pub(crate) fn selects_command<'r, N: Names + 'r, R: Resolve<'r, N>>(
    op: &QueueOp<N>,
    names: &R,
    profile: &ProfiledSubmission,
    command_index: Option<u32>,
) -> bool {
    match op {
        QueueOp::Dispatch(dispatch) => {
            profile.selects_dispatch(names.executable(dispatch.executable), dispatch.function, command_index)
        }
        _ => profile.selects_other(command_index),
    }
}

#[inline]
fn report_command<'r, N: Names + 'r, R: Resolve<'r, N>>(
    op: &QueueOp<N>,
    names: &R,
    profile: &ProfiledSubmission,
    operation: ProfiledOperation,
    (command_index, workgroup_count): (Option<u32>, [u32; 3]),
    status: StatusCode,
    span: Span,
) {
    if !profile.reports_spans() || !selects_command(op, names, profile, command_index) {
        return;
    }
    let dispatch = match op {
        QueueOp::Dispatch(dispatch) => {
            Some(profiled_dispatch(dispatch, names.executable(dispatch.executable).id(), workgroup_count))
        }
        _ => None,
    };
    profile.executed(&HostExecution {
        operation,
        command_index,
        dispatch,
        was_deferred: span.was_deferred,
        status,
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        thread_time_ns: if dispatch.is_some() { span.thread_time_ns } else { 0 },
        processor: span.processor.filter(|_| dispatch.is_some()),
        replayed_record: profile.replayed_record().filter(|_| command_index.is_none()),
    });
}

/// The number of workgroups of a dispatch, read now if it is indirect: before it runs, since it may write
/// there. Zeros of what is not a dispatch.
fn workgroup_count_of<'r, N: Names + 'r, R: Resolve<'r, N>>(op: &QueueOp<N>, names: &R) -> [u32; 3] {
    match op {
        QueueOp::Dispatch(dispatch) => workgroup_count(dispatch, names).unwrap_or_default(),
        _ => [0; 3],
    }
}

fn profiled_dispatch<N: Names>(
    dispatch: &Dispatch<N>,
    executable_id: u64,
    workgroup_count: [u32; 3],
) -> ProfiledDispatch {
    ProfiledDispatch {
        executable_id,
        function: dispatch.function,
        workgroup_count,
        workgroup_size: dispatch.workgroup_size.map(|size| size.max(1)),
        is_indirect: matches!(dispatch.workgroup_count, WorkgroupCount::Indirect(_)),
    }
}

/// The status code of an outcome.
pub(crate) fn status(outcome: &Result<()>) -> StatusCode {
    outcome.as_ref().map_or_else(|error| error.code(), |()| StatusCode::Ok)
}

/// The pieces of a command: the workgroups of a dispatch.
fn tiles_of(operation: &QueueOp<Indexed>, names: &StoredNames<'_, '_>) -> u64 {
    match operation {
        QueueOp::Dispatch(dispatch) => workgroup_count(dispatch, names).map_or(0, workgroup_total),
        _ => 1,
    }
}

/// Profiles count the barrier before each stage but the first as a command.
pub(crate) fn command_index(operation: usize, stage: usize) -> u32 {
    u32::try_from(operation + stage).unwrap_or(u32::MAX)
}

/// Describes a command buffer that is submitted; returns the number of its commands.
pub(crate) fn describe(session: &ProfileSession, command_buffer: &CommandBuffer) -> Result<u32> {
    if let Some(recording) = LocalCommands::of(command_buffer)?.baked()? {
        let executables = &recording.store.executables;
        session.describe_command_buffer(command_buffer, || commands(recording), executables);
    }
    command_count(command_buffer)
}

/// The number of commands, as profiles count them: none if they ran when they were recorded.
pub(crate) fn command_count(command_buffer: &CommandBuffer) -> Result<u32> {
    let count = |recording: &Recording| {
        command_index(recording.operations.len(), recording.stages.len().saturating_sub(1))
    };
    Ok(LocalCommands::of(command_buffer)?.baked()?.map_or(0, count))
}

fn commands(recording: &Recording) -> Vec<ProfiledCommand> {
    let mut commands = Vec::new();
    for (stage, operations) in recording.stages().enumerate() {
        if stage != 0 {
            commands.push(ProfiledCommand { kind: ProfiledCommandKind::Barrier, uses_binding_table: false });
        }
        commands.extend(operations.filter_map(|index| command(recording, &recording.operations[index])));
    }
    commands
}

fn command(recording: &Recording, operation: &QueueOp<Indexed>) -> Option<ProfiledCommand> {
    ProfiledCommand::from_operation(operation, &recording.store.lists, |dispatch| {
        let count = match &dispatch.workgroup_count {
            WorkgroupCount::Static(count) => *count,
            WorkgroupCount::Indirect(_) => [0; 3],
        };
        let executable = &recording.store.executables[dispatch.executable as usize];
        profiled_dispatch(dispatch, executable.id(), count)
    })
}
