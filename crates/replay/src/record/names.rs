use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use bumpalo::Bump;
use rehal_base::{Error, Result};
use rehal_capture::layout;
use rehal_hal::{
    Binding, Buffer, BufferBarrier, BufferRef, Channel, CommandBuffer, Device, Event, Executable, File,
    HostCall, Live, MemoryBarrier, Rename, Semaphore, Timepoint, WHOLE_BUFFER,
};
use zerocopy::little_endian::{U32, U64};

use super::buffer::RecordedBuffer;
use super::command_buffer::RecordedCommandBuffer;
use super::device::RecordedDevice;
use super::event::RecordedEvent;
use super::executable::RecordedExecutable;
use super::file::RecordedFile;
use super::semaphore::RecordedSemaphore;
use super::stream::Stream;
use crate::encode::buffer_ref;
use crate::ids::Ids;

/// The object behind a recording handle.
pub(super) trait RecordedObject: 'static {
    /// Its name in messages.
    const NAME: &'static str;
    /// The capture it is recorded into.
    fn stream(&self) -> &Arc<Stream>;
}

/// The recorded object behind `backend`; fails for objects of another device or recorder.
#[inline]
fn recorded<'a, T: RecordedObject>(stream: &Arc<Stream>, backend: &'a dyn Any) -> Result<&'a T> {
    match backend.downcast_ref::<T>() {
        Some(object) if Arc::ptr_eq(object.stream(), stream) => Ok(object),
        _ => Err(foreign(T::NAME)),
    }
}

#[cold]
fn foreign(name: &str) -> Error {
    Error::failed_precondition(format!("cannot record {name} that this recorder did not create"))
}

macro_rules! lookups {
    ($($function:ident: $handle:ident => $recorded:ident;)*) => {$(
        #[inline]
        pub(super) fn $function<'a>(stream: &Arc<Stream>, handle: &'a $handle) -> Result<&'a $recorded> {
            recorded(stream, handle.backend())
        }
    )*};
}

lookups! {
    recorded_device: Device => RecordedDevice;
    recorded_buffer: Buffer => RecordedBuffer;
    recorded_semaphore: Semaphore => RecordedSemaphore;
    recorded_executable: Executable => RecordedExecutable;
    recorded_command_buffer: CommandBuffer => RecordedCommandBuffer;
    recorded_file: File => RecordedFile;
    recorded_event: Event => RecordedEvent;
}

/// Calls `work` with a thread-local bump arena, reset afterwards, which does not allocate once warm.
pub(super) fn with_scratch<R>(work: impl FnOnce(&Bump) -> R) -> R {
    thread_local! {
        static SCRATCH: Cell<Option<Bump>> = const { Cell::new(None) };
    }
    // Reentrant: a submission runs host calls. The inner call finds the cell empty and creates its own arena.
    let mut scratch = SCRATCH.take().unwrap_or_else(|| Bump::with_capacity(4096));
    let result = work(&scratch);
    scratch.reset();
    SCRATCH.set(Some(scratch));
    result
}

fn list<'s, T, U: Copy>(
    scratch: &'s Bump,
    items: &[T],
    mut rename: impl FnMut(&T) -> Result<U>,
) -> Result<&'s [U]> {
    Ok(scratch.alloc_slice_try_fill_with(items.len(), |index| rename(&items[index]))?)
}

/// A range of a buffer as a range of its allocation, the object known to the capture and the base device.
fn in_allocation<'a>(reference: &BufferRef<&'a Buffer>, buffer: &'a Buffer) -> (u64, u64) {
    let (offset, length) = (reference.offset, reference.length);
    let part = buffer.allocation_offset() != 0 || buffer.size() != buffer.allocation_size();
    match length {
        WHOLE_BUFFER if part => (buffer.allocation_offset() + offset, buffer.size().saturating_sub(offset)),
        _ => (buffer.allocation_offset() + offset, length),
    }
}

/// Both sides of a copy, whose lengths must match: the length of a whole buffer is that of the buffer, also
/// for a slot on the other side.
pub(super) fn copy_sides<'a>(
    source: &BufferRef<&'a Buffer>,
    target: &BufferRef<&'a Buffer>,
) -> (BufferRef<&'a Buffer>, BufferRef<&'a Buffer>) {
    if source.length != WHOLE_BUFFER || target.length != WHOLE_BUFFER {
        return (*source, *target);
    }
    let said = |side: &BufferRef<&'a Buffer>, other: &BufferRef<&'a Buffer>| {
        let length = match (side.binding, other.binding) {
            (Binding::Direct(buffer), _) => buffer.size().saturating_sub(side.offset),
            (Binding::Slot(_), Binding::Direct(buffer)) => buffer.size().saturating_sub(other.offset),
            (Binding::Slot(_), Binding::Slot(_)) => WHOLE_BUFFER,
        };
        BufferRef { length, ..*side }
    };
    (said(source, target), said(target, source))
}

/// Maps recording handles to base handles.
pub(super) struct BaseNames<'s> {
    pub stream: &'s Arc<Stream>,
    pub scratch: &'s Bump,
}

impl<'a: 's, 's> Rename<Live<'a>, Live<'s>> for BaseNames<'s> {
    fn device(&mut self, name: &'a Device) -> Result<&'s Device> {
        Ok(&recorded_device(self.stream, name)?.base)
    }

    fn buffer(&mut self, name: &'a Buffer) -> Result<&'s Buffer> {
        Ok(&recorded_buffer(self.stream, name)?.base)
    }

    fn buffer_ref(&mut self, reference: BufferRef<&'a Buffer>) -> Result<BufferRef<&'s Buffer>> {
        match reference.binding {
            Binding::Slot(slot) => Ok(BufferRef::slot(slot, reference.offset, reference.length)),
            Binding::Direct(buffer) => {
                let (offset, length) = in_allocation(&reference, buffer);
                Ok(BufferRef::range(self.buffer(buffer)?, offset, length))
            }
        }
    }

    fn semaphore(&mut self, name: &'a Semaphore) -> Result<&'s Semaphore> {
        Ok(&recorded_semaphore(self.stream, name)?.base)
    }

    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(&'s Executable, u32)> {
        Ok((&recorded_executable(self.stream, executable)?.base, ordinal))
    }

    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<&'s CommandBuffer> {
        Ok(&recorded_command_buffer(self.stream, name)?.base)
    }

    fn file(&mut self, name: &'a File) -> Result<&'s File> {
        Ok(&recorded_file(self.stream, name)?.base)
    }

    fn event(&mut self, name: &'a Event) -> Result<&'s Event> {
        Ok(&recorded_event(self.stream, name)?.base)
    }

    fn channel(&mut self, name: &'a Channel) -> Result<&'s Channel> {
        Ok(name)
    }

    fn host_call(&mut self, name: &'a HostCall) -> Result<&'s HostCall> {
        Ok(name)
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'s [u8]> {
        Ok(bytes)
    }

    fn buffer_refs(&mut self, items: &'a [BufferRef<&'a Buffer>]) -> Result<&'s [BufferRef<&'s Buffer>]> {
        list(self.scratch, items, |item| self.buffer_ref(*item))
    }

    fn timepoints(
        &mut self,
        items: &'a [Timepoint<&'a Semaphore>],
    ) -> Result<&'s [Timepoint<&'s Semaphore>]> {
        list(self.scratch, items, |item| self.timepoint(*item))
    }

    fn events(&mut self, items: &'a [&'a Event]) -> Result<&'s [&'s Event]> {
        list(self.scratch, items, |item| self.event(item))
    }

    fn memory_barriers(&mut self, items: &'a [MemoryBarrier]) -> Result<&'s [MemoryBarrier]> {
        Ok(items)
    }

    fn buffer_barriers(
        &mut self,
        items: &'a [BufferBarrier<&'a Buffer>],
    ) -> Result<&'s [BufferBarrier<&'s Buffer>]> {
        list(self.scratch, items, |item| self.buffer_barrier(*item))
    }

    fn created_buffer(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn deallocated_size(&mut self, _buffer: &'a Buffer, (): ()) -> Result<()> {
        Ok(())
    }

    fn captured_read(
        &mut self,
        _file: &'a File,
        _file_offset: u64,
        _target: BufferRef<&'a Buffer>,
        (): (),
    ) -> Result<()> {
        Ok(())
    }
}

/// Maps recording handles to ids of the capture.
pub(super) struct IdNames<'s> {
    stream: &'s Arc<Stream>,
    scratch: &'s Bump,
    /// Whether the bytes of a read are captured if the policy requires it.
    captures_reads: bool,
}

impl<'s> IdNames<'s> {
    /// The ids of `stream`; lists are allocated in `scratch`.
    pub fn new(stream: &'s Arc<Stream>, scratch: &'s Bump) -> Self {
        Self { stream, scratch, captures_reads: true }
    }

    /// The same for a rejected call, which has read nothing.
    pub fn for_refused(stream: &'s Arc<Stream>, scratch: &'s Bump) -> Self {
        Self { captures_reads: false, ..Self::new(stream, scratch) }
    }
}

impl<'a: 's, 's> Rename<Live<'a>, Ids<'s>> for IdNames<'s> {
    fn device(&mut self, name: &'a Device) -> Result<u64> {
        Ok(recorded_device(self.stream, name)?.id)
    }

    fn buffer(&mut self, name: &'a Buffer) -> Result<u64> {
        Ok(recorded_buffer(self.stream, name)?.id)
    }

    // The reference's replay rejects the whole-buffer value in queue operations, and adds an offset to it in
    // binding tables.
    fn buffer_ref(&mut self, reference: BufferRef<&'a Buffer>) -> Result<BufferRef<u64>> {
        match reference.binding {
            Binding::Slot(slot) => Ok(BufferRef::slot(slot, reference.offset, reference.length)),
            Binding::Direct(buffer) => {
                let mut reference = reference;
                if reference.length == WHOLE_BUFFER {
                    reference.length = buffer.size().saturating_sub(reference.offset);
                }
                let (offset, length) = in_allocation(&reference, buffer);
                Ok(BufferRef::range(self.buffer(buffer)?, offset, length))
            }
        }
    }

    fn semaphore(&mut self, name: &'a Semaphore) -> Result<u64> {
        Ok(recorded_semaphore(self.stream, name)?.id)
    }

    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(u64, u32)> {
        Ok((recorded_executable(self.stream, executable)?.id, ordinal))
    }

    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<u64> {
        Ok(recorded_command_buffer(self.stream, name)?.id)
    }

    fn file(&mut self, name: &'a File) -> Result<u64> {
        Ok(recorded_file(self.stream, name)?.id)
    }

    fn event(&mut self, name: &'a Event) -> Result<u64> {
        Ok(recorded_event(self.stream, name)?.id)
    }

    // Captures cannot represent channels and host calls; the record only marks their use.
    fn channel(&mut self, _name: &'a Channel) -> Result<u64> {
        Ok(0)
    }

    fn host_call(&mut self, _name: &'a HostCall) -> Result<u64> {
        Ok(0)
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'s [u8]> {
        Ok(bytes)
    }

    fn buffer_refs(&mut self, items: &'a [BufferRef<&'a Buffer>]) -> Result<&'s [layout::BufferRef]> {
        list(self.scratch, items, |item| Ok(buffer_ref(&self.buffer_ref(*item)?)))
    }

    fn timepoints(
        &mut self,
        items: &'a [Timepoint<&'a Semaphore>],
    ) -> Result<&'s [layout::SemaphoreTimepoint]> {
        list(self.scratch, items, |item| {
            let semaphore_id = U64::new(self.semaphore(item.semaphore)?);
            Ok(layout::SemaphoreTimepoint { semaphore_id, value: U64::new(item.value) })
        })
    }

    fn events(&mut self, items: &'a [&'a Event]) -> Result<&'s [U64]> {
        list(self.scratch, items, |item| self.event(item).map(U64::new))
    }

    fn memory_barriers(&mut self, items: &'a [MemoryBarrier]) -> Result<&'s [layout::MemoryBarrier]> {
        list(self.scratch, items, |item| Ok(memory_barrier(item)))
    }

    fn buffer_barriers(
        &mut self,
        items: &'a [BufferBarrier<&'a Buffer>],
    ) -> Result<&'s [layout::BufferBarrier]> {
        list(self.scratch, items, |item| {
            let layout::MemoryBarrier { source_scope, target_scope } = memory_barrier(&item.barrier);
            let buffer_ref = buffer_ref(&self.buffer_ref(item.buffer)?);
            Ok(layout::BufferBarrier { source_scope, target_scope, buffer_ref })
        })
    }

    fn created_buffer(&mut self, (): ()) -> Result<u64> {
        Ok(self.stream.next_id())
    }

    fn deallocated_size(&mut self, buffer: &'a Buffer, (): ()) -> Result<u64> {
        Ok(buffer.allocation_size())
    }

    fn captured_read(
        &mut self,
        file: &'a File,
        file_offset: u64,
        target: BufferRef<&'a Buffer>,
        (): (),
    ) -> Result<&'s [u8]> {
        let Binding::Direct(buffer) = target.binding else { return Ok(&[]) };
        if !self.captures_reads {
            return Ok(&[]);
        }
        let length = buffer.resolve(target.offset, target.length)?.length;
        recorded_file(self.stream, file)?.captured(rehal_base::Range { offset: file_offset, length })
    }
}

fn memory_barrier(it: &MemoryBarrier) -> layout::MemoryBarrier {
    layout::MemoryBarrier {
        source_scope: U32::new(it.source_scope.bits()),
        target_scope: U32::new(it.target_scope.bits()),
    }
}
