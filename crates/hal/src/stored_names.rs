use bumpalo::Bump;
use rehal_base::{Error, Result};

use crate::{
    Buffer, BufferRef, CommandBuffer, Device, Event, Executable, File, HostCall, Indexed, Live, Rename,
    Semaphore, Span, Store, rename_buffer_ref, rename_lists,
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

macro_rules! stored {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {
        $names.list($list.of(&$names.store.lists.$lists), |this, item| this.$item(item))
    };
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

    fn host_call(&mut self, name: u32) -> Result<&'s HostCall> {
        Ok(&self.store.host_calls[name as usize])
    }

    fn bytes(&mut self, bytes: Span<u8>) -> Result<&'s [u8]> {
        Ok(bytes.of(&self.store.bytes))
    }

    rename_lists!(stored, Indexed => Live<'s>);

    fn created_buffer(&mut self, _name: u32) -> Result<()> {
        Ok(())
    }
}
