use std::sync::Arc;

use parking_lot::MutexGuard;
use rehal_base::{Result, glob};
use smallvec::SmallVec;

use super::clock::now_ns;
use super::identity::replayed_record;
use super::{
    HostExecution, MemoryEvent, MemoryEventKind, ProfileData, ProfileFilter, ProfileSession,
    ProfiledAllocation, ProfiledCommand, ProfiledOperation, Profiler, QueueEvent,
};
use crate::{
    Binding, Buffer, BufferRef, CommandBuffer, Executable, Live, QueueOp, Semaphore, Submission, Timepoint,
};

/// A submission of a session, from the call until it has executed.
#[derive(Clone)]
pub struct ProfiledSubmission {
    session: Arc<ProfileSession>,
    operation: ProfiledOperation,
    /// Level of detail. Excluded objects are counted, not described.
    data: ProfileData,
    /// Its queue event, if that is wanted and it was not ready when it was submitted.
    deferred: Option<Box<DeferredEvent>>,
    /// The record of a capture that it replays, unless its queue event has it.
    replayed_record: Option<u64>,
    /// When the allocation of what it allocates began and ended, if that was when it was submitted.
    allocation_ns: Option<(i64, i64)>,
}

/// A queue event without the time when the submission is ready.
#[derive(Clone)]
struct DeferredEvent {
    /// The timepoints that it waits for, and then those that it signals.
    timepoints: SmallVec<[Timepoint<u64>; 4]>,
    wait_count: usize,
    submitted_ns: i64,
    replayed_record: Option<u64>,
}

impl Profiler {
    /// A submission, which is being submitted now, if there is a session. `created` is the buffer that it
    /// allocates, `describe` describes what it executes and returns the number of commands.
    ///
    /// If it `is_ready`, its queue event is reported now; if the session reports nothing else of it, it is
    /// `None`. If the device has already allocated `created`, which began at `begun_ns` of [`now_ns`], that
    /// is when it was submitted.
    #[inline]
    pub fn submission(
        &self,
        submission: &Submission<Live<'_>>,
        created: Option<&Buffer>,
        is_ready: bool,
        begun_ns: Option<i64>,
        describe: impl FnOnce(&ProfileSession) -> Result<u32>,
    ) -> Result<Option<ProfiledSubmission>> {
        if !self.is_active() {
            return Ok(None);
        }
        // The sink is not called under the lock.
        let Some((session, submission_id)) = self.next_submission() else { return Ok(None) };
        let operation = operation(submission, created, describe(&session)?, submission_id);
        Ok(ProfileSession::submission(session, submission, is_ready, begun_ns, operation))
    }
}

impl ProfileSession {
    fn submission(
        self: Arc<Self>,
        submission: &Submission<Live<'_>>,
        is_ready: bool,
        begun_ns: Option<i64>,
        operation: ProfiledOperation,
    ) -> Option<ProfiledSubmission> {
        let has_event = self.wants(ProfileData::QUEUE_EVENTS);
        let mut replayed_record = replayed_record();
        // Otherwise the event of the submission or of its execution has the record.
        if let (false, Some(record)) =
            (self.wants(ProfileData::QUEUE_EVENTS | ProfileData::HOST_EXECUTION), replayed_record)
        {
            self.sink().replayed(&operation, record);
        }
        let mut deferred = None;
        if has_event {
            let submitted_ns = begun_ns.unwrap_or_else(now_ns);
            if is_ready {
                self.report_ready(submission, operation, submitted_ns, replayed_record);
                let other = self.request.data - ProfileData::QUEUE_EVENTS - ProfileData::EXECUTABLE_METADATA;
                if other.is_empty() {
                    return None;
                }
            } else {
                deferred = Some(Box::new(DeferredEvent::new(submission, submitted_ns, replayed_record)));
            }
            replayed_record = None;
        }
        let data = match self.selects(&operation) {
            true => self.request.data,
            false => self.request.data - ProfileData::OF_OPERATIONS,
        };
        let allocation_ns = begun_ns.map(|begun_ns| (begun_ns, now_ns()));
        Some(ProfiledSubmission { session: self, operation, data, deferred, replayed_record, allocation_ns })
    }

    /// Reports a submission that is ready when it is submitted.
    fn report_ready(
        &self,
        submission: &Submission<Live<'_>>,
        operation: ProfiledOperation,
        now_ns: i64,
        replayed_record: Option<u64>,
    ) {
        self.sink().queue_event(&QueueEvent {
            operation,
            waits: &ids(submission.waits),
            signals: &ids(submission.signals),
            was_deferred: false,
            submitted_ns: now_ns,
            ready_ns: now_ns,
            replayed_record,
        });
    }

    /// Whether the filter selects operations of the queue and the command buffer.
    fn selects(&self, operation: &ProfiledOperation) -> bool {
        let ProfileFilter { command_buffer, queue, .. } = &self.request.filter;
        queue.is_none_or(|queue| queue == operation.queue_ordinal)
            && command_buffer.is_none_or(|id| id == operation.command_buffer_id)
    }

    /// Describes an executable, before the first event that names it.
    pub fn describe_executable(&self, executable: &Executable) {
        if self.wants(ProfileData::EXECUTABLE_METADATA) && !executable.identity().is_described_in(self.id) {
            self.describe_executables(&self.describing.lock(), [executable]);
        }
    }

    /// Describes a command buffer and its executables, before the first event that names them.
    pub fn describe_command_buffer<'a>(
        &self,
        command_buffer: &CommandBuffer,
        commands: impl FnOnce() -> Vec<ProfiledCommand>,
        executables: impl IntoIterator<Item = &'a Executable>,
    ) {
        let identity = command_buffer.identity();
        if !self.wants(ProfileData::EXECUTABLE_METADATA) || identity.is_described_in(self.id) {
            return;
        }
        let describing = self.describing.lock();
        if identity.is_described_in(self.id) {
            return;
        }
        self.describe_executables(&describing, executables);
        let (commands, records) = (commands(), command_buffer.replayed_commands());
        let records = records.of(&commands);
        self.sink().command_buffer(command_buffer.id(), command_buffer.params(), &commands, &records);
        identity.set_described_in(self.id);
    }

    /// Describes executables that are new, under the lock of [`ProfileSession::describing`].
    fn describe_executables<'a>(
        &self,
        _describing: &MutexGuard<'_, ()>,
        executables: impl IntoIterator<Item = &'a Executable>,
    ) {
        for executable in executables {
            if !executable.identity().is_described_in(self.id) {
                self.sink().executable(executable.id(), executable.functions());
                executable.identity().set_described_in(self.id);
            }
        }
    }

    fn selects_function(&self, pattern: &str, executable: &Executable, function: u32) -> bool {
        *self.selected.lock().entry((executable.id(), function)).or_insert_with(|| {
            let function = executable.functions().get(function as usize);
            function.is_some_and(|function| glob::matches(pattern, &function.name))
        })
    }
}

impl ProfiledSubmission {
    /// The session.
    pub fn session(&self) -> &Arc<ProfileSession> {
        &self.session
    }

    /// The operation.
    pub fn operation(&self) -> &ProfiledOperation {
        &self.operation
    }

    /// The record of a capture that it replays, unless its event has it.
    pub fn replayed_record(&self) -> Option<u64> {
        self.replayed_record
    }

    /// When the allocation of what it allocates began and ended, if that was when it was submitted.
    pub fn allocation_ns(&self) -> Option<(i64, i64)> {
        self.allocation_ns
    }

    /// Reports that the submission is ready to execute.
    #[inline]
    pub fn ready(&self) {
        if let Some(deferred) = &self.deferred {
            self.deferred_is_ready(deferred);
        }
    }

    fn deferred_is_ready(&self, deferred: &DeferredEvent) {
        let (waits, signals) = deferred.timepoints.split_at(deferred.wait_count);
        self.session.sink().queue_event(&QueueEvent {
            operation: self.operation,
            waits,
            signals,
            was_deferred: true,
            submitted_ns: deferred.submitted_ns,
            ready_ns: now_ns(),
            replayed_record: deferred.replayed_record,
        });
    }

    /// Reports what the host has executed of the submission.
    #[inline]
    pub fn executed(&self, event: &HostExecution) {
        self.session.sink().host_execution(event);
    }

    /// Whether spans of the operation are reported: the filter selects the queue and the command buffer.
    #[inline]
    pub fn reports_spans(&self) -> bool {
        self.data.intersects(ProfileData::HOST_EXECUTION)
    }

    /// Whether the CPU time of dispatches is reported with their spans.
    #[inline]
    pub fn reports_processor_time(&self) -> bool {
        self.data.intersects(ProfileData::PROCESSOR_TIME)
    }

    /// Whether dispatches, timed by the device, are reported: the filter selects the queue and the command
    /// buffer.
    pub fn reports_dispatches(&self) -> bool {
        self.data.intersects(ProfileData::DISPATCH_EVENTS)
    }

    /// Whether the regions of the command buffer are reported.
    #[inline]
    pub fn reports_regions(&self) -> bool {
        self.data.intersects(ProfileData::COMMAND_REGIONS)
    }

    /// Whether the filter selects a dispatch; `command_index` is that in its command buffer.
    #[inline]
    pub fn selects_dispatch(
        &self,
        executable: &Executable,
        function: u32,
        command_index: Option<u32>,
    ) -> bool {
        let pattern = || self.session.request.filter.function.as_deref();
        !self.session.is_filtered
            || self.selects_command(command_index)
                && pattern()
                    .is_none_or(|pattern| self.session.selects_function(pattern, executable, function))
    }

    /// Whether the filter selects what is not a dispatch.
    pub fn selects_other(&self, command_index: Option<u32>) -> bool {
        self.session.request.filter.function.is_none() && self.selects_command(command_index)
    }

    fn selects_command(&self, command_index: Option<u32>) -> bool {
        self.session.request.filter.command_index.is_none_or(|index| Some(index) == command_index)
    }

    /// Reports that the operation allocates a buffer, and its release when the result is dropped.
    pub fn alloca(&self, buffer: &Buffer) -> Option<ProfiledAllocation> {
        let event = self.memory_event(MemoryEventKind::QueueAlloca, buffer)?;
        Some(ProfiledAllocation::new(&self.session, event))
    }

    /// Reports that the operation deallocates a buffer.
    pub fn dealloca(&self, buffer: &Buffer) {
        self.memory_event(MemoryEventKind::QueueDealloca, buffer);
    }

    fn memory_event(&self, kind: MemoryEventKind, buffer: &Buffer) -> Option<MemoryEvent> {
        if !self.session.wants(ProfileData::MEMORY_EVENTS) {
            return None;
        }
        let params = buffer.params();
        let event = MemoryEvent {
            kind,
            time_ns: now_ns(),
            allocation_id: buffer.id(),
            submission_id: self.operation.submission_id,
            queue_ordinal: Some(self.operation.queue_ordinal),
            memory_type: params.memory_type,
            usage: params.usage,
            size_bytes: buffer.allocation_size(),
            alignment: params.min_alignment.max(1),
            reservation: None,
        };
        self.session.sink().memory_event(&event);
        Some(event)
    }
}

impl DeferredEvent {
    fn new(submission: &Submission<Live<'_>>, submitted_ns: i64, replayed_record: Option<u64>) -> Self {
        let mut timepoints = ids(submission.waits);
        timepoints.extend(ids(submission.signals));
        Self { timepoints, wait_count: submission.waits.len(), submitted_ns, replayed_record }
    }
}

/// Timepoints, as events name them.
fn ids(timepoints: &[Timepoint<&Semaphore>]) -> SmallVec<[Timepoint<u64>; 4]> {
    timepoints.iter().map(|it| Timepoint { semaphore: it.semaphore.id(), value: it.value }).collect()
}

/// A submission, as events name it.
fn operation(
    submission: &Submission<Live<'_>>,
    created: Option<&Buffer>,
    operation_count: u32,
    submission_id: u64,
) -> ProfiledOperation {
    let op = &submission.op;
    ProfiledOperation {
        kind: op.kind(),
        queue_ordinal: 0,
        submission_id,
        command_buffer_id: match op {
            QueueOp::Execute { command_buffer, .. } => command_buffer.id(),
            _ => 0,
        },
        allocation_id: match op {
            QueueOp::Alloca { .. } => created.map_or(0, Buffer::id),
            QueueOp::Dealloca { buffer, .. } => buffer.id(),
            _ => 0,
        },
        operation_count,
        payload_bytes: payload_bytes(op),
    }
}

/// Bytes that an operation allocates or moves.
#[inline]
fn payload_bytes(op: &QueueOp<Live<'_>>) -> u64 {
    let length = |range: &BufferRef<&Buffer>| match range.binding {
        Binding::Direct(buffer) => {
            buffer.resolve(range.offset, range.length).map_or(0, |resolved| resolved.length)
        }
        Binding::Slot(_) => 0,
    };
    match op {
        QueueOp::Alloca { size, .. } => *size,
        QueueOp::Dealloca { buffer, .. } => buffer.allocation_size(),
        QueueOp::Fill { target, .. } | QueueOp::Copy { target, .. } | QueueOp::Read { target, .. } => {
            length(target)
        }
        QueueOp::Write { source, .. } => length(source),
        QueueOp::Update { source, .. } => source.len() as u64,
        QueueOp::Dispatch(_)
        | QueueOp::Execute { .. }
        | QueueOp::Barrier { .. }
        | QueueOp::HostCall { .. } => 0,
    }
}
