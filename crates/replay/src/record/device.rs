use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_base::{Error, HostMemory, Result};
use rehal_capture::ObjectType;
use rehal_hal::profile::{ProfileData, ProfileRequest};
use rehal_hal::{
    Buffer, BufferParams, CommandBuffer, CommandBufferMode, CommandBufferParams, CreateOp, Device,
    DeviceBackend, DeviceInfo, DeviceQuery, Event, Executable, ExecutableParams, File, FileSource, HostFile,
    HostOp, ImportFile, InfoOp, Live, MemoryAccess, MemoryStatistics, PrepareExecutable, QueueAffinity,
    QueueOp, Semaphore, SemaphoreFlags, Submission, new_memory,
};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::LedgerRecording;
use super::file::{Reference, Source};
use super::object::{Handle, Recorded, handle, recorded};
use super::outcome::Outcome;
use super::rename::{BaseNames, IdNames, copy_sides, with_scratch};
use super::semaphore::Payloads;
use super::stream::{Stream, status_of};
use super::watch::WatchedQueue;
use super::{buffer, executable};
use crate::encode::{self, Put};
use crate::ids::Ids;

handle!(Device, "a device", DeviceState);

/// The recorder's state of a device.
pub(super) struct DeviceState {
    /// The device's allocator, a separate object in captures.
    allocator: u64,
    /// The most recently created executable cache; 0 if none.
    cache: AtomicU64,
    /// Whether the base device performs work; otherwise it only orders it.
    performs: bool,
    /// Performs the work, if dispatches are watched.
    watched: Option<WatchedQueue>,
}

/// Records `base` and its allocator.
pub(super) fn wrap(
    base: Device,
    stream: &Arc<Stream>,
    performs: bool,
    watched: Option<WatchedQueue>,
) -> Device {
    let (id, allocator) = (stream.next_id(), stream.next_id());
    stream.with_log(|log| {
        log.calls(0, 0, |put| encode::create(&CreateOp::Device { created: id }, put));
        let allocator = CreateOp::Allocator { device: id, created: allocator };
        log.calls(id, 0, |put| encode::create(&allocator, put));
    });
    let state = DeviceState { allocator, cache: AtomicU64::new(0), performs, watched };
    Device::new(Recorded { base, id, device: id, stream: stream.clone(), state })
}

/// Records that a device joined a group.
pub(super) fn record_topology(stream: &Arc<Stream>, device: &Device) -> Result<()> {
    let device = recorded(stream, device)?;
    device.record_info(0, &InfoOp::AssignTopology { device: device.id });
    Ok(())
}

impl Recorded<Device> {
    fn object<H: Handle>(&self, base: H, id: u64, state: H::State) -> Recorded<H> {
        Recorded { base, id, device: self.id, stream: self.stream.clone(), state }
    }

    fn record_info(&self, status: u32, op: &InfoOp<Ids<'_>>) {
        self.stream.with_log(|log| log.calls(self.id, status, |put| encode::info_op(op, put)));
    }

    /// Records the call that created an object of type `made`, and the object.
    fn record_creation<T>(&self, outcome: &Result<T>, made: ObjectType, op: &CreateOp<Ids<'_>>) {
        let status = status_of(outcome);
        self.stream.with_log(|log| log.creation(self.id, status, made, |put| encode::create(op, put)));
    }

    /// Records the call that created buffer `id`, and the buffer.
    fn record_buffer(&self, outcome: &Result<Buffer>, id: u64, op: &CreateOp<Ids<'_>>) {
        self.stream.with_log(|log| {
            log.calls(self.id, status_of(outcome), |put| encode::create(op, put));
            if let Ok(made) = outcome {
                buffer::record_object(log, self.id, id, made, false);
            }
        });
    }

    fn wrap_buffer(&self, base: Buffer, id: u64) -> Buffer {
        let (params, size) = (*base.params(), base.size());
        Buffer::with_id(base.id(), params, size, self.object(base, id, ()))
    }

    /// The cache on which executables are prepared, created on first use: captures require one.
    fn cache(&self) -> Result<u64> {
        if self.state.cache.load(Ordering::Acquire) == 0 {
            self.create_executable_cache("")?;
        }
        Ok(self.state.cache.load(Ordering::Acquire))
    }
}

impl DeviceBackend for Recorded<Device> {
    fn info(&self) -> &DeviceInfo {
        self.base.backend().info()
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let outcome = self.base.query_i64(category, key);
        let op = InfoOp::QueryDevice { device: self.id, query: DeviceQuery::I64 };
        self.record_info(status_of(&outcome), &op);
        outcome
    }

    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        self.base.backend().grant(params)
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        let created = self.stream.next_id();
        let outcome = self.base.backend().allocate_buffer(params, size).and_then(|base| {
            if self.stream.options.ledger != LedgerRecording::Off {
                new_memory::zero(&self.base, &base)?;
            }
            Ok(base)
        });
        let op = CreateOp::Buffer { allocator: self.state.allocator, params, size, created };
        self.record_buffer(&outcome, created, &op);
        outcome.map(|base| self.wrap_buffer(base, created))
    }

    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer> {
        let created = self.stream.next_id();
        let memory = Arc::new(memory);
        let size = memory.length();
        let whole = rehal_base::Range { offset: 0, length: size };
        let outcome = self.base.backend().import_buffer(params, HostMemory::part(&memory, whole)?);
        // A program whose import is rejected falls back to a copy, which records the bytes; storing them here
        // would waste space.
        let recorded = rehal_base::Range { length: if outcome.is_ok() { size } else { 0 }, ..whole };
        let allocator = self.state.allocator;
        self.stream.with_log(|log| {
            log.calls_with_memory(self.id, status_of(&outcome), &memory, recorded, |data, put| {
                let op = CreateOp::ImportedBuffer { allocator, params, size, flags: 0, data, created };
                encode::create(&op, put);
            });
            if let Ok(made) = &outcome {
                buffer::record_object(log, self.id, created, made, true);
            }
        });
        outcome.map(|base| self.wrap_buffer(base, created))
    }

    fn create_semaphore(
        &self,
        affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        let created = self.stream.next_id();
        let outcome = self.base.backend().create_semaphore(affinity, initial_value, flags);
        let op = CreateOp::Semaphore { device: self.id, affinity, initial_value, flags, created };
        self.record_creation(&outcome, ObjectType::SEMAPHORE, &op);
        outcome.map(|base| Semaphore::new(self.object(base, created, Payloads::new(initial_value))))
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        let created = self.stream.next_id();
        let mut base_params = params;
        if self.state.watched.is_some() {
            // What is performed by itself must not run while it is recorded.
            base_params.mode -= CommandBufferMode::ALLOW_INLINE_EXECUTION;
        }
        let outcome = self.base.backend().create_command_buffer(base_params);
        let op = CreateOp::CommandBuffer { device: self.id, params, created };
        self.record_creation(&outcome, ObjectType::COMMAND_BUFFER, &op);
        let commands = self.state.watched.as_ref().map(|_| Arc::default());
        outcome.map(|base| CommandBuffer::with_id(base.id(), params, self.object(base, created, commands)))
    }

    fn create_event(&self, affinity: QueueAffinity, flags: u32) -> Result<Event> {
        let created = self.stream.next_id();
        let outcome = self.base.backend().create_event(affinity, flags);
        let op = CreateOp::Event { device: self.id, affinity, flags, created };
        self.record_creation(&outcome, ObjectType::EVENT, &op);
        outcome.map(|base| Event::new(self.object(base, created, ())))
    }

    fn create_executable_cache(&self, identifier: &str) -> Result<()> {
        let created = self.stream.next_id();
        let outcome = self.base.backend().create_executable_cache(identifier);
        let op = CreateOp::ExecutableCache { device: self.id, identifier: identifier.as_bytes(), created };
        self.record_creation(&outcome, ObjectType::EXECUTABLE_CACHE, &op);
        if outcome.is_ok() {
            self.state.cache.store(created, Ordering::Release);
        }
        outcome
    }

    // Not recorded: captures store the format that is then used to prepare.
    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        self.base.backend().infer_executable_format(data)
    }

    fn can_prepare_executable(&self, format: &str) -> bool {
        self.base.backend().can_prepare_executable(format)
    }

    #[allow(unsafe_code, reason = "forwards the trust boundary of native code; see DeviceBackend")]
    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        let cache = self.cache()?;
        let created = self.stream.next_id();
        // SAFETY: the caller vouches for the code, as this function requires; the code is forwarded
        // unchanged.
        let prepared = unsafe { self.base.backend().prepare_executable(params) };
        let outcome = prepared.and_then(|base| Ok((executable::metadata(base.functions())?, base)));
        let constants: Vec<U32> = params.constants.iter().copied().map(U32::new).collect();
        let op = CreateOp::Executable(PrepareExecutable {
            cache,
            affinity: params.affinity,
            caching_mode: params.caching_mode,
            format: params.format.as_bytes(),
            data: params.data,
            constants: constants.as_bytes(),
            metadata: outcome.as_ref().map_or(&[][..], |(metadata, _)| metadata),
            created,
        });
        self.stream.with_log(|log| {
            log.calls(self.id, status_of(&outcome), |put| encode::create(&op, put));
            if outcome.is_ok() {
                log.bare_object(self.id, ObjectType::EXECUTABLE, created);
            }
        });
        outcome.map(|(_, base)| Executable::with_id(base.id(), self.object(base, created, ())))
    }

    fn import_file(&self, affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        let created = self.stream.next_id();
        let (source, file) = Source::from_file(file)?;
        let imported = self.base.backend().import_file(affinity, access, file);
        let length = imported.as_ref().map_or(0, File::length);
        let (description, described) = source.describe(length, &self.stream.options);
        let outcome = imported.and_then(|base| described.map(|()| base));
        let (device, status) = (self.id, status_of(&outcome));
        let put_file = |source: FileSource<&[u8]>, put: &mut Put<'_>| {
            let file = ImportFile { device, affinity, access, length, source, created };
            encode::create(&CreateOp::File(file), put);
        };
        self.stream.with_log(|log| {
            match &description.reference {
                Reference::InlineMemory(memory) => {
                    log.calls_with_memory(device, status, memory, memory.whole(), |bytes, put| {
                        put_file(description.source_of(bytes), put);
                    });
                }
                _ => log.calls(device, status, |put| put_file(description.source(), put)),
            }
            if outcome.is_ok() {
                // The operation's record contains the bytes; this one would duplicate them.
                put_file(description.without_bytes(), &mut |_, payload_type, parts| {
                    log.object_parts(device, ObjectType::FILE, created, payload_type, parts);
                });
            }
        });
        outcome.map(|base| {
            let (access, length) = (base.access(), base.length());
            File::new(access, length, self.object(base, created, description.into_ranges()))
        })
    }

    // Recorded before the device receives it: its signals may trigger calls that are recorded before this one
    // returns and must follow it in the capture. The status is filled in on completion.
    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let stream = &self.stream;
        let mut submission = *submission;
        if let QueueOp::Copy { source, target, .. } = &mut submission.op {
            (*source, *target) = copy_sides(source, target);
        }
        with_scratch(|scratch| {
            let ids = submission.rename(&mut IdNames::new(stream, scratch))?;
            let mut base = submission.rename(&mut BaseNames { stream, scratch })?;
            if !self.state.performs && !matches!(base.op, QueueOp::Alloca { .. } | QueueOp::Dealloca { .. }) {
                base.op = QueueOp::Barrier { flags: 0 };
            }
            let created = match ids.op {
                QueueOp::Alloca { created, .. } => created,
                _ => 0,
            };
            let mut is_deferred = false;
            for wait in submission.waits {
                is_deferred |= !recorded(stream, wait.semaphore)?.will_wait(wait.value);
            }
            let signals = if is_deferred { &[][..] } else { submission.signals };
            let before = scratch.alloc_slice_try_fill_with(signals.len(), |index| {
                let signal = &signals[index];
                recorded(stream, signal.semaphore).map(|it| it.will_signal(signal.value))
            })?;
            let (mut offset, mut ordinal) = (None, 0);
            stream.with_log(|log| {
                encode::submission(&ids, &mut |call, payload_type, parts| {
                    ordinal = log.record_count();
                    offset = Some(log.operation(self.id, 0, call, payload_type, parts));
                });
                if stream.options.flushes_submissions {
                    log.flush();
                }
            });
            if let QueueOp::HostCall { .. } = submission.op {
                stream.host_takes_part();
            }
            let is_synchronous = base.device.info().is_synchronous;
            let ending = Outcome::new(stream, offset, submission.signals, is_synchronous);
            let outcome = match self.state.watched.as_ref().filter(|_| WatchedQueue::takes(&base.op)) {
                Some(watched) => {
                    let commands = match submission.op {
                        QueueOp::Execute { command_buffer, .. } => {
                            recorded(stream, command_buffer)?.state.clone()
                        }
                        _ => None,
                    };
                    let record = offset.map(|offset| (ordinal as u32, offset));
                    watched.submit(&base, &ids, commands, record).map(|()| None)
                }
                // What nothing writes must be the same in a replay that is compared with the ledger.
                None if stream.options.ledger != LedgerRecording::Off => {
                    new_memory::zeroed(&base, |base| base.device.backend().submit(base))
                }
                None => base.device.backend().submit(&base),
            };
            ending.returned(&outcome);
            if outcome.is_err() {
                for (signal, before) in signals.iter().zip(&*before) {
                    recorded(stream, signal.semaphore)?.will_not_signal(signal.value, *before);
                }
            }
            if let Ok(Some(made)) = &outcome {
                stream.with_log(|log| buffer::record_object(log, self.id, created, made, false));
            }
            Ok(outcome?.map(|made| self.wrap_buffer(made, created)))
        })
    }

    fn refused(&self, submission: &Submission<Live<'_>>, error: &Error) {
        let stream = &self.stream;
        with_scratch(|scratch| {
            // A submission with objects of another recorder cannot be recorded; that is the error it is
            // rejected with.
            if let Ok(ids) = submission.rename(&mut IdNames::for_refused(stream, scratch)) {
                let status = error.code() as u32;
                stream.with_log(|log| log.calls(self.id, status, |put| encode::submission(&ids, put)));
            }
            if let Ok(base) = submission.rename(&mut BaseNames { stream, scratch }) {
                base.device.backend().refused(&base, error);
            }
        });
    }

    fn trim(&self) -> Result<()> {
        if let Some(watched) = &self.state.watched {
            watched.fail_stranded();
        }
        let outcome = self.base.backend().trim();
        let op = HostOp::Trim { device: self.id };
        let status = status_of(&outcome);
        self.stream.with_log(|log| log.calls(self.id, status, |put| encode::host_op(&op, put)));
        outcome
    }

    fn flush(&self, affinity: QueueAffinity) -> Result<()> {
        let outcome = self.base.backend().flush(affinity);
        self.record_host_op(status_of(&outcome), &HostOp::FlushQueue { device: self.id });
        outcome
    }

    fn profile_data(&self) -> ProfileData {
        self.base.backend().profile_data()
    }

    fn begin_profiling(&self, request: &ProfileRequest) -> Result<()> {
        let outcome = self.base.backend().begin_profiling(request);
        self.record_info(status_of(&outcome), &InfoOp::BeginProfiling { device: self.id });
        outcome
    }

    fn flush_profiling(&self) -> Result<()> {
        let outcome = self.base.backend().flush_profiling();
        self.record_info(status_of(&outcome), &InfoOp::FlushProfiling { device: self.id });
        outcome
    }

    fn sample_profiling_clock(&self) -> Result<()> {
        self.base.backend().sample_profiling_clock()
    }

    fn end_profiling(&self) -> Result<()> {
        let outcome = self.base.backend().end_profiling();
        self.record_info(status_of(&outcome), &InfoOp::EndProfiling { device: self.id });
        outcome
    }

    fn memory_statistics(&self) -> Option<MemoryStatistics> {
        self.base.backend().memory_statistics()
    }
}
