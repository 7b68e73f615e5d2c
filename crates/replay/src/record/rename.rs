use std::cell::Cell;
use std::sync::Arc;

use bumpalo::Bump;
use rehal_base::{Error, Result};
use rehal_hal::{
    Binding, Buffer, BufferRef, CommandBuffer, Device, Event, Executable, File, HostCall, Live, Rename,
    Semaphore, WHOLE_BUFFER, rename_lists,
};

use super::object::recorded;
use super::stream::Stream;
use crate::encode;
use crate::ids::Ids;

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

macro_rules! in_scratch {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {{
        let scratch = $names.scratch;
        Ok(scratch.alloc_slice_try_fill_with($list.len(), |index| $names.$item($list[index]))?)
    }};
}

/// The same, as they are stored.
macro_rules! encoded {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {{
        let scratch = $names.scratch;
        let encoded = |index: usize| Ok::<_, Error>(encode::$item(&$names.$item($list[index])?));
        Ok(scratch.alloc_slice_try_fill_with($list.len(), encoded)?)
    }};
}

/// Maps recording handles to base handles.
pub(super) struct BaseNames<'s> {
    pub stream: &'s Arc<Stream>,
    pub scratch: &'s Bump,
}

impl<'a: 's, 's> Rename<Live<'a>, Live<'s>> for BaseNames<'s> {
    fn device(&mut self, name: &'a Device) -> Result<&'s Device> {
        Ok(&recorded(self.stream, name)?.base)
    }

    fn buffer(&mut self, name: &'a Buffer) -> Result<&'s Buffer> {
        Ok(&recorded(self.stream, name)?.base)
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
        Ok(&recorded(self.stream, name)?.base)
    }

    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(&'s Executable, u32)> {
        Ok((&recorded(self.stream, executable)?.base, ordinal))
    }

    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<&'s CommandBuffer> {
        Ok(&recorded(self.stream, name)?.base)
    }

    fn file(&mut self, name: &'a File) -> Result<&'s File> {
        Ok(&recorded(self.stream, name)?.base)
    }

    fn event(&mut self, name: &'a Event) -> Result<&'s Event> {
        Ok(&recorded(self.stream, name)?.base)
    }

    fn host_call(&mut self, name: &'a HostCall) -> Result<&'s HostCall> {
        Ok(name)
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'s [u8]> {
        Ok(bytes)
    }

    rename_lists!(in_scratch, Live<'a> => Live<'s>);

    fn created_buffer(&mut self, (): ()) -> Result<()> {
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
        Ok(recorded(self.stream, name)?.id)
    }

    fn buffer(&mut self, name: &'a Buffer) -> Result<u64> {
        Ok(recorded(self.stream, name)?.id)
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
        Ok(recorded(self.stream, name)?.id)
    }

    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(u64, u32)> {
        Ok((recorded(self.stream, executable)?.id, ordinal))
    }

    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<u64> {
        Ok(recorded(self.stream, name)?.id)
    }

    fn file(&mut self, name: &'a File) -> Result<u64> {
        Ok(recorded(self.stream, name)?.id)
    }

    fn event(&mut self, name: &'a Event) -> Result<u64> {
        Ok(recorded(self.stream, name)?.id)
    }

    // Captures cannot represent host calls; the record only marks their use.
    fn host_call(&mut self, _name: &'a HostCall) -> Result<u64> {
        Ok(0)
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'s [u8]> {
        Ok(bytes)
    }

    rename_lists!(encoded, Live<'a> => Ids<'s>);

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
        recorded(self.stream, file)?.captured(rehal_base::Range { offset: file_offset, length })
    }
}
