use bumpalo::Bump;
use rehal_base::Result;
use rehal_hal::{
    Binding, Buffer, BufferBarrier, BufferRef, Channel, CommandBuffer, Device, Event, Executable, File,
    HostCall, Live, MemoryBarrier, Rename, Semaphore, Timepoint, WHOLE_BUFFER,
};

use super::buffer::DiscreteBuffer;
use super::command_buffer::DiscreteCommands;

/// Converts handles of a discrete device to those of the underlying device: buffers and command buffers; all
/// others are the same.
pub(super) struct BaseNames<'s> {
    pub device: &'s Device,
    pub scratch: &'s Bump,
}

impl<'s> BaseNames<'s> {
    fn list<T, U: Copy>(
        &mut self,
        items: &[T],
        mut rename: impl FnMut(&mut Self, &T) -> Result<U>,
    ) -> Result<&'s [U]> {
        let scratch = self.scratch;
        Ok(scratch.alloc_slice_try_fill_with(items.len(), |index| rename(self, &items[index]))?)
    }
}

impl<'a: 's, 's> Rename<Live<'a>, Live<'s>> for BaseNames<'s> {
    fn device(&mut self, _name: &'a Device) -> Result<&'s Device> {
        Ok(self.device)
    }

    fn buffer(&mut self, name: &'a Buffer) -> Result<&'s Buffer> {
        DiscreteBuffer::base_of(name)
    }

    // The underlying buffer is the whole allocation, so a range of a subspan is translated.
    fn buffer_ref(&mut self, reference: BufferRef<&'a Buffer>) -> Result<BufferRef<&'s Buffer>> {
        let BufferRef { binding, offset, length } = reference;
        match binding {
            Binding::Slot(slot) => Ok(BufferRef::slot(slot, offset, length)),
            Binding::Direct(buffer) => {
                let length =
                    if length == WHOLE_BUFFER { buffer.size().saturating_sub(offset) } else { length };
                Ok(BufferRef::range(self.buffer(buffer)?, buffer.allocation_offset() + offset, length))
            }
        }
    }

    fn semaphore(&mut self, name: &'a Semaphore) -> Result<&'s Semaphore> {
        Ok(name)
    }

    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(&'s Executable, u32)> {
        Ok((executable, ordinal))
    }

    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<&'s CommandBuffer> {
        DiscreteCommands::base_of(name)
    }

    fn file(&mut self, name: &'a File) -> Result<&'s File> {
        Ok(name)
    }

    fn event(&mut self, name: &'a Event) -> Result<&'s Event> {
        Ok(name)
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
        self.list(items, |this, item| this.buffer_ref(*item))
    }

    fn timepoints(
        &mut self,
        items: &'a [Timepoint<&'a Semaphore>],
    ) -> Result<&'s [Timepoint<&'s Semaphore>]> {
        self.list(items, |this, item| this.timepoint(*item))
    }

    fn events(&mut self, items: &'a [&'a Event]) -> Result<&'s [&'s Event]> {
        self.list(items, |this, item| this.event(item))
    }

    fn memory_barriers(&mut self, items: &'a [MemoryBarrier]) -> Result<&'s [MemoryBarrier]> {
        Ok(items)
    }

    fn buffer_barriers(
        &mut self,
        items: &'a [BufferBarrier<&'a Buffer>],
    ) -> Result<&'s [BufferBarrier<&'s Buffer>]> {
        self.list(items, |this, item| this.buffer_barrier(*item))
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
