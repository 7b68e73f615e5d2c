use bumpalo::Bump;
use rehal_base::{Error, Result};

use crate::{
    Buffer, BufferBarrier, BufferRef, Channel, CommandBuffer, Device, Event, Executable, File, HostCall,
    Indexed, Live, MemoryBarrier, Rename, Semaphore, Span, Store, Timepoint, rename_buffer_ref,
};

/// Maps the indices of stored operations to the objects of their [`Store`], other than devices: it keeps
/// none.
pub struct StoredNames<'s> {
    store: &'s Store,
    scratch: &'s Bump,
}

impl<'s> StoredNames<'s> {
    /// The objects of `store`; lists are allocated in `scratch`.
    pub fn new(store: &'s Store, scratch: &'s Bump) -> Self {
        Self { store, scratch }
    }

    fn list<T: Copy, U: Copy>(
        &mut self,
        items: &'s [T],
        rename: impl Fn(&mut Self, T) -> Result<U>,
    ) -> Result<&'s [U]> {
        let scratch = self.scratch;
        Ok(scratch.alloc_slice_try_fill_with(items.len(), |index| rename(self, items[index]))?)
    }
}

impl<'s> Rename<Indexed, Live<'s>> for StoredNames<'s> {
    fn device(&mut self, _name: u32) -> Result<&'s Device> {
        Err(Error::failed_precondition("stored operations do not keep their device"))
    }

    fn buffer(&mut self, name: u32) -> Result<&'s Buffer> {
        Ok(&self.store.buffers[name as usize])
    }

    fn buffer_ref(&mut self, reference: BufferRef<u32>) -> Result<BufferRef<&'s Buffer>> {
        rename_buffer_ref(self, reference)
    }

    fn semaphore(&mut self, name: u32) -> Result<&'s Semaphore> {
        Ok(&self.store.semaphores[name as usize])
    }

    fn function(&mut self, executable: u32, ordinal: u32) -> Result<(&'s Executable, u32)> {
        Ok((&self.store.executables[executable as usize], ordinal))
    }

    fn command_buffer(&mut self, name: u32) -> Result<&'s CommandBuffer> {
        Ok(&self.store.command_buffers[name as usize])
    }

    fn file(&mut self, name: u32) -> Result<&'s File> {
        Ok(&self.store.files[name as usize])
    }

    fn event(&mut self, name: u32) -> Result<&'s Event> {
        Ok(&self.store.events[name as usize])
    }

    fn channel(&mut self, name: u32) -> Result<&'s Channel> {
        Ok(&self.store.channels[name as usize])
    }

    fn host_call(&mut self, name: u32) -> Result<&'s HostCall> {
        Ok(&self.store.host_calls[name as usize])
    }

    fn bytes(&mut self, bytes: Span<u8>) -> Result<&'s [u8]> {
        Ok(bytes.of(&self.store.bytes))
    }

    fn buffer_refs(&mut self, list: Span<BufferRef<u32>>) -> Result<&'s [BufferRef<&'s Buffer>]> {
        self.list(list.of(&self.store.lists.buffer_refs), |this, item| this.buffer_ref(item))
    }

    fn timepoints(&mut self, list: Span<Timepoint<u32>>) -> Result<&'s [Timepoint<&'s Semaphore>]> {
        self.list(list.of(&self.store.lists.timepoints), |this, item| this.timepoint(item))
    }

    fn events(&mut self, list: Span<u32>) -> Result<&'s [&'s Event]> {
        self.list(list.of(&self.store.lists.events), |this, item| this.event(item))
    }

    fn memory_barriers(&mut self, list: Span<MemoryBarrier>) -> Result<&'s [MemoryBarrier]> {
        Ok(list.of(&self.store.lists.memory_barriers))
    }

    fn buffer_barriers(&mut self, list: Span<BufferBarrier<u32>>) -> Result<&'s [BufferBarrier<&'s Buffer>]> {
        self.list(list.of(&self.store.lists.buffer_barriers), |this, item| this.buffer_barrier(item))
    }

    fn created_buffer(&mut self, _name: u32) -> Result<()> {
        Ok(())
    }

    fn deallocated_size(&mut self, _buffer: u32, (): ()) -> Result<()> {
        Ok(())
    }

    fn captured_read(
        &mut self,
        _file: u32,
        _file_offset: u64,
        _target: BufferRef<u32>,
        (): (),
    ) -> Result<()> {
        Ok(())
    }
}
