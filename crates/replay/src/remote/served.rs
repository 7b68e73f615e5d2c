use std::collections::HashMap;
use std::fs::File;
use std::ops::ControlFlow;

use rehal_base::platform::FileExt;
use rehal_base::{HostMemory, Range, Result, StatusCode};
use rehal_hal::{Buffer, transfer};
use serde_json::Value;

use super::{
    HOST_READ, ObservedReplay, Order, PIECE_BYTES, ReplayCommand, ReplayEvent, SeenDispatch, SeenOperation,
    SeenRange, SeenRead, Wants, cannot_pass, flow, out_of_step,
};
use crate::observe::with;
use crate::{HostRead, Observer, Operation, Replay};

/// A run for observers of another process, with more observers.
pub type ServedRun<'r> = dyn FnMut(&mut [&mut dyn Observer]) -> Result<()> + 'r;

/// Tells an event, and waits for the command that follows.
type Tell<'t> = dyn FnMut(&ReplayEvent) -> Result<ReplayCommand> + 't;

/// Runs a replay for observers of another process, as often as that one asks: until `tell`, which passes an
/// event and returns the command that follows it, fails. `observe` runs it with observers of this process
/// and the one that it is given; it returns what they have found. Bytes pass through `exchange`.
pub fn serve_replay(
    replay: &Replay,
    exchange: &File,
    observe: &mut dyn FnMut(&mut ServedRun<'_>) -> Result<Value>,
    tell: &mut Tell<'_>,
) -> Result<()> {
    let buffers = HashMap::new();
    let mut served = Served { tell, exchange, buffers, last_handle: HOST_READ, wants: Wants::default() };
    let mut event = ReplayEvent::Ready;
    loop {
        let order = served.obey(&event, None, None)?;
        let Order::Run { new_memory, wants } = order else { return Err(out_of_step()) };
        served.wants = wants;
        let mut run = |observers: &mut [&mut dyn Observer]| {
            replay.run_observed(new_memory, &mut with(observers, &mut served))
        };
        event = ReplayEvent::Ended(observe(&mut run));
    }
}

/// Tells the observers of another process.
struct Served<'t, 'f> {
    tell: &'t mut Tell<'f>,
    exchange: &'t File,
    /// The buffers of which another process has handles.
    buffers: HashMap<u64, Buffer>,
    last_handle: u64,
    wants: Wants,
}

impl Served<'_, '_> {
    /// Tells an event, and obeys until a command has another effect than on buffers.
    fn obey(
        &mut self,
        event: &ReplayEvent,
        operation: Option<&Operation<'_>>,
        read: Option<&HostRead<'_>>,
    ) -> Result<Order> {
        let mut sent = (self.tell)(event)?;
        loop {
            sent.dropped.iter().for_each(|it| drop(self.buffers.remove(it)));
            let done = match sent.order {
                Order::Read { handle, offset, length } => self.read(handle, offset, length, read),
                Order::Write { handle, offset, length } => self.write(handle, offset, length),
                Order::Again => operation.map_or(Ok(()), Operation::dispatch_again),
                order => return Ok(order),
            };
            sent = (self.tell)(&ReplayEvent::Done(done))?;
        }
    }

    fn read(&self, handle: u64, offset: u64, length: u64, read: Option<&HostRead<'_>>) -> Result<()> {
        let mut done = 0;
        let mut pass = |memory: &HostMemory, range: Range| {
            memory.write_file_at(self.exchange, done, range)?.map_err(|error| cannot_pass(&error))?;
            done += range.length;
            Ok(())
        };
        match (handle, read) {
            (HOST_READ, Some(read)) => pass(read.memory, Range { offset, length }),
            _ => transfer::read_with(self.buffer(handle)?, offset, length, pass),
        }
    }

    fn write(&self, handle: u64, offset: u64, length: u64) -> Result<()> {
        if length > PIECE_BYTES {
            return Err(out_of_step());
        }
        let mut bytes = vec![0; length as usize];
        self.exchange.read_exact_at(&mut bytes, 0).map_err(|error| cannot_pass(&error))?;
        match transfer::write(self.buffer(handle)?, offset, &bytes) {
            // What cannot be written is as it was.
            Err(error) if error.code() == StatusCode::PermissionDenied => Ok(()),
            written => written,
        }
    }

    fn buffer(&self, handle: u64) -> Result<&Buffer> {
        self.buffers.get(&handle).ok_or_else(out_of_step)
    }

    fn resumes(&mut self, event: &ReplayEvent, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        match self.obey(event, Some(operation), None)? {
            Order::Resume { is_ended } => Ok(flow(is_ended)),
            _ => Err(out_of_step()),
        }
    }

    fn seen(&mut self, operation: &Operation<'_>) -> SeenOperation {
        let ranges = operation.ranges.iter().map(|it| {
            self.last_handle += 1;
            self.buffers.insert(self.last_handle, it.buffer.clone());
            let (handle, access, buffer_id) = (self.last_handle, it.access, it.buffer_id);
            SeenRange { handle, access, buffer_id, offset: it.offset, length: it.length }
        });
        SeenOperation {
            submission: operation.submission,
            location: operation.location,
            occurrence: operation.occurrence,
            scope: operation.scope.map(<[u8]>::to_vec),
            device: operation.device,
            kind: operation.kind,
            ranges: ranges.collect(),
            dispatch: operation.dispatch.map(|it| SeenDispatch {
                name: it.name.to_owned(),
                workgroup_count: it.workgroup_count,
                binding_count: it.binding_count,
            }),
        }
    }
}

impl Observer for Served<'_, '_> {
    fn wants_operations(&self) -> bool {
        self.wants.operations
    }

    fn wants_host_reads(&self) -> bool {
        self.wants.host_reads
    }

    fn wants_zeroed_memory(&self) -> bool {
        self.wants.zeroed_memory
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let seen = self.seen(operation);
        self.resumes(&ReplayEvent::Before(Box::new(seen)), operation)
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.resumes(&ReplayEvent::After, operation)
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let HostRead { location, scope, buffer_id, offset, memory } = *read;
        let (scope, length) = (scope.map(<[u8]>::to_vec), memory.length());
        let seen = SeenRead { location, scope, buffer_id, offset, length };
        match self.obey(&ReplayEvent::HostRead(seen), None, Some(read))? {
            Order::Resume { .. } => Ok(()),
            _ => Err(out_of_step()),
        }
    }
}
