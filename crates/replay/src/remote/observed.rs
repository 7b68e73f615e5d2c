use std::collections::HashMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rehal_base::platform::FileExt;
use rehal_base::{Error, HostMemory, Range, Result};
use rehal_hal::{
    Buffer, BufferBackend, BufferParams, BufferUsage, Dispatch, Indexed, MappedRange, MemoryAccess,
    MemoryType, WorkgroupCount,
};
use serde_json::Value;

use super::{
    HOST_READ, ObservedReplay, Order, PIECE_BYTES, ReplayCommand, ReplayEvent, SeenOperation, SeenRange,
    SeenRead, Wants, cannot_pass, out_of_step,
};
use crate::effects::Footprints;
use crate::operation::Performer;
use crate::{
    AccessedRange, DispatchOperation, HostRead, LiveBuffers, Observer, Operation, Plan, RecordLocation,
};

/// The way to a process that replays.
pub trait ReplayLink: Send {
    /// Sends a command, and waits for the event that follows it. Fails if the process has ended.
    fn exchange(&mut self, command: &ReplayCommand) -> Result<ReplayEvent>;
}

/// A replay of another process, which [serves](super::serve_replay) it.
pub struct RemoteReplay {
    plan: Arc<Plan>,
    connection: Arc<Connection>,
    /// The commands and submissions that dispatch, by record, with what the plan has of them.
    dispatches: HashMap<u32, Known>,
    /// The sizes of buffers, by captured id.
    sizes: HashMap<u64, u64>,
    found: Mutex<Value>,
}

struct Known {
    executable: u32,
    dispatch: Dispatch<Indexed>,
    name: String,
    binding_count: usize,
}

struct Connection {
    link: Mutex<Box<dyn ReplayLink>>,
    /// Through which bytes pass. The other process may change it at any time.
    exchange: File,
    dropped: Mutex<Vec<u64>>,
    /// Number of commands after which buffers may have other contents.
    changes: AtomicU64,
}

impl Connection {
    fn exchange(&self, order: Order) -> Result<ReplayEvent> {
        if !matches!(order, Order::Read { .. }) {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        let dropped = std::mem::take(&mut *self.dropped.lock());
        self.link.lock().exchange(&ReplayCommand { order, dropped })
    }

    /// Has a command on buffers done.
    fn done(&self, order: Order) -> Result<()> {
        match self.exchange(order)? {
            ReplayEvent::Done(done) => done,
            _ => Err(out_of_step()),
        }
    }

    /// The bytes of a range of a buffer.
    fn read(&self, handle: u64, range: Range) -> Result<HostMemory> {
        let mut memory = HostMemory::allocate(range.length)?;
        let bytes = memory.exclusive_bytes().unwrap_or_default();
        for (number, piece) in bytes.chunks_mut(PIECE_BYTES as usize).enumerate() {
            let offset = range.offset + number as u64 * PIECE_BYTES;
            self.done(Order::Read { handle, offset, length: piece.len() as u64 })?;
            self.exchange.read_exact_at(piece, 0).map_err(|error| cannot_pass(&error))?;
        }
        Ok(memory)
    }
}

/// A buffer of the process that replays.
struct RemoteBuffer {
    connection: Arc<Connection>,
    handle: u64,
    /// The bytes that the operation accesses.
    accessed: Range,
    /// Bytes that were read, and after how many changes: observers read some in small pieces.
    known: Mutex<Option<(u64, Range, Arc<HostMemory>)>>,
}

impl RemoteBuffer {
    fn create(connection: &Arc<Connection>, handle: u64, accessed: Range, size: u64) -> Buffer {
        let params = BufferParams {
            usage: BufferUsage::MAPPING_SCOPED,
            memory_type: MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED,
            ..BufferParams::default()
        };
        let (connection, known) = (connection.clone(), Mutex::default());
        Buffer::new(params, size, Self { connection, handle, accessed, known })
    }

    /// The bytes of a range, with some that follow it.
    fn read(&self, range: Range) -> Result<HostMemory> {
        /// Fewer bytes than these take longer to ask for than to pass.
        const AHEAD_BYTES: u64 = 1 << 20;
        if range.length >= AHEAD_BYTES {
            return self.connection.read(self.handle, range);
        }
        let changes = self.connection.changes.load(Ordering::Relaxed);
        let mut known = self.known.lock();
        let is_known = known.as_ref().is_some_and(|(at, part, _)| *at == changes && part.covers(range));
        if !is_known {
            let end = self.accessed.end().min(range.offset + AHEAD_BYTES).max(range.end());
            let part = Range { offset: range.offset, length: end - range.offset };
            *known = Some((changes, part, Arc::new(self.connection.read(self.handle, part)?)));
        }
        let (_, part, memory) = known.as_ref().ok_or_else(out_of_step)?;
        HostMemory::part(memory, Range { offset: range.offset - part.offset, ..range })
    }

    fn write(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()> {
        for at in (0..range.length).step_by(PIECE_BYTES as usize) {
            let (handle, length) = (self.handle, PIECE_BYTES.min(range.length - at));
            let piece = Range { offset: range.offset + at, length };
            let passed = memory.write_file_at(&self.connection.exchange, 0, piece)?;
            passed.map_err(|error| cannot_pass(&error))?;
            let offset = mapped.range.offset + piece.offset;
            self.connection.done(Order::Write { handle, offset, length })?;
        }
        Ok(())
    }
}

impl BufferBackend for RemoteBuffer {
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        match mapped.access {
            access if access.contains(MemoryAccess::DISCARD) => HostMemory::allocate(mapped.range.length),
            access if access.contains(MemoryAccess::WRITE) => self.connection.read(self.handle, mapped.range),
            _ => self.read(mapped.range),
        }
    }

    fn unmap(&self, mapped: &MappedRange, memory: &HostMemory) -> Result<()> {
        match mapped.access.contains(MemoryAccess::WRITE) {
            true => self.write(mapped, memory, memory.whole()),
            false => Ok(()),
        }
    }

    fn flush(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()> {
        self.write(mapped, memory, range)
    }

    fn invalidate(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()> {
        let offset = mapped.range.offset + range.offset;
        let again = self.connection.read(self.handle, Range { offset, ..range })?;
        memory.copy_from(range.offset, &again, 0, range.length)
    }

    fn is_queue_ordered(&self) -> bool {
        false
    }

    fn deallocate(&self) -> Result<()> {
        Ok(())
    }
}

impl Drop for RemoteBuffer {
    fn drop(&mut self) {
        self.connection.dropped.lock().push(self.handle);
    }
}

/// An operation that is not complete yet.
struct Pending {
    seen: SeenOperation,
    buffers: Vec<Buffer>,
}

impl RemoteReplay {
    /// A replay of this plan by a process that has told that it is [ready](ReplayEvent::Ready), and passes
    /// bytes through a file.
    pub fn new(plan: Arc<Plan>, exchange: File, link: impl ReplayLink + 'static) -> Self {
        let mut dispatches = HashMap::new();
        let _ = plan.each_distinct_dispatch(|site, _| {
            let executable = site.dispatch.executable;
            let record = plan.executables[executable as usize].record(plan.bytes());
            let name = record.function_names().nth(site.dispatch.function as usize).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let binding_count = site.dispatch.bindings.of(&plan.lists.buffer_refs).len();
            let known = Known { executable, dispatch: *site.dispatch, name, binding_count };
            dispatches.entry(site.location.ordinal).or_insert(known);
            ControlFlow::Continue(())
        });
        let mut sizes: HashMap<u64, u64> = HashMap::new();
        for (index, size) in Footprints::new(&plan, 0).buffers() {
            let largest = sizes.entry(plan.buffer_ids[index as usize]).or_default();
            *largest = size.max(*largest);
        }
        let (link, dropped, changes) = (Mutex::new(Box::new(link) as _), Mutex::default(), AtomicU64::new(0));
        let connection = Connection { link, exchange, dropped, changes };
        let (connection, found) = (Arc::new(connection), Mutex::default());
        Self { plan, connection, dispatches, sizes, found }
    }

    /// The findings of the other process in its last complete run.
    pub fn found(&self) -> Value {
        self.found.lock().clone()
    }

    /// Fails if a range is not in its buffer.
    fn check(&self, buffer_id: u64, offset: u64, length: u64) -> Result<u64> {
        let size = self.sizes.get(&buffer_id).copied().ok_or_else(out_of_step)?;
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(size),
            _ => Err(out_of_step()),
        }
    }

    fn pending(&self, seen: SeenOperation) -> Result<Pending> {
        let buffer = |it: &SeenRange| {
            let size = self.check(it.buffer_id, it.offset, it.length)?;
            let accessed = Range { offset: it.offset, length: it.length };
            Ok(RemoteBuffer::create(&self.connection, it.handle, accessed, size))
        };
        let count = match (&seen.dispatch, self.dispatches.get(&seen.location.ordinal)) {
            (None, _) => 0,
            (Some(it), Some(known)) if it.binding_count == known.binding_count => known.binding_count,
            _ => return Err(out_of_step()),
        };
        // Other operations have up to two, as has the count of workgroups.
        if seen.ranges.len() < count || seen.ranges.len() > count + 2 {
            return Err(out_of_step());
        }
        let buffers = seen.ranges.iter().map(buffer).collect::<Result<_>>()?;
        Ok(Pending { seen, buffers })
    }

    /// Calls the observers of an operation. Returns whether the run continues.
    fn notify(
        &self,
        pending: &Pending,
        observers: &mut [&mut dyn Observer],
        call: impl Fn(&mut dyn Observer, &Operation<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let Pending { seen, buffers } = pending;
        let ranges = seen.ranges.iter().zip(buffers).map(|(it, buffer)| {
            let SeenRange { access, buffer_id, offset, length, .. } = *it;
            AccessedRange { access, buffer_id, buffer, offset, length }
        });
        let ranges: Vec<_> = ranges.collect();
        let dispatch = seen.dispatch.as_ref().map(|it| {
            let Known { executable, dispatch, name, .. } =
                self.dispatches.get(&seen.location.ordinal).ok_or_else(out_of_step)?;
            Ok::<_, Error>(DispatchOperation {
                executable: self.plan.executables[*executable as usize].record(self.plan.bytes()),
                function: dispatch.function,
                name: if name.is_empty() { &it.name } else { name },
                running: None,
                workgroup_count: it.workgroup_count,
                is_indirect: matches!(dispatch.workgroup_count, WorkgroupCount::Indirect(_)),
                workgroup_size: dispatch.workgroup_size,
                dynamic_local_memory: dispatch.dynamic_local_memory,
                constants: dispatch.constants.of(self.plan.bytes()),
                binding_count: it.binding_count,
            })
        });
        let again = || self.connection.done(Order::Again);
        let operation = Operation {
            submission: seen.submission,
            location: seen.location,
            occurrence: seen.occurrence,
            scope: seen.scope.as_deref(),
            device: seen.device,
            kind: seen.kind,
            dispatch: dispatch.transpose()?,
            ranges: &ranges,
            buffers: LiveBuffers { ids: &[], buffers: &[] },
            performer: Performer::Process(&again),
        };
        let mut flow = Ok(ControlFlow::Continue(()));
        for observer in observers.iter_mut().filter(|it| it.wants_operations()) {
            match call(&mut **observer, &operation) {
                Ok(ControlFlow::Continue(())) => {}
                other => flow = flow.and(other),
            }
        }
        flow
    }

    fn host_read(&self, seen: &SeenRead, observers: &mut [&mut dyn Observer]) -> Result<()> {
        self.check(seen.buffer_id, seen.offset, seen.length)?;
        let memory = self.connection.read(HOST_READ, Range { offset: 0, length: seen.length })?;
        let read = HostRead {
            location: seen.location,
            scope: seen.scope.as_deref(),
            buffer_id: seen.buffer_id,
            offset: seen.offset,
            memory: &memory,
        };
        let mut wanting = observers.iter_mut().filter(|it| it.wants_host_reads());
        wanting.try_for_each(|it| it.host_read(&read))
    }
}

impl ObservedReplay for RemoteReplay {
    fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    fn run_observed(&self, new_memory: Option<u8>, observers: &mut [&mut dyn Observer]) -> Result<()> {
        let wants = Wants {
            operations: observers.iter().any(|it| it.wants_operations()),
            host_reads: observers.iter().any(|it| it.wants_host_reads()),
            zeroed_memory: observers.iter().any(|it| it.wants_zeroed_memory()),
        };
        let mut order = Order::Run { new_memory, wants };
        let (mut pending, mut steps) = (None, &self.plan.steps[..]);
        loop {
            // The steps up to this one, of which the other process tells some.
            let mut step = |upto: RecordLocation| {
                let count = steps.partition_point(|it| it.location.ordinal <= upto.ordinal);
                let (now, later) = steps.split_at(count);
                steps = later;
                let mut wanting = observers.iter_mut().filter(|it| it.wants_steps());
                wanting.try_for_each(|it| now.iter().try_for_each(|step| it.step(step.location)))
            };
            let flow = match self.connection.exchange(order)? {
                ReplayEvent::Before(seen) => {
                    step(seen.submission)?;
                    let begun = self.pending(*seen)?;
                    let flow = self.notify(&begun, observers, |it, of| it.before_operation(of))?;
                    pending = Some(begun);
                    flow
                }
                ReplayEvent::After => {
                    let begun = pending.take().ok_or_else(out_of_step)?;
                    self.notify(&begun, observers, |it, of| it.after_operation(of))?
                }
                ReplayEvent::HostRead(seen) => {
                    step(seen.location)?;
                    self.host_read(&seen, observers)?;
                    ControlFlow::Continue(())
                }
                ReplayEvent::Ended(ended) => {
                    *self.found.lock() = ended?;
                    return Ok(());
                }
                ReplayEvent::Ready | ReplayEvent::Done(_) => return Err(out_of_step()),
            };
            order = Order::Resume { is_ended: flow.is_break() };
        }
    }
}
