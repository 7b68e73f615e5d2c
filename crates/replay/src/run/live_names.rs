use bumpalo::Bump;
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{
    Buffer, BufferBarrier, BufferRef, CommandBuffer, Device, Event, Executable, File, HostCall, Indexed,
    Live, Rename, Semaphore, Span, StoredLists, rename_buffer_ref, rename_lists,
};

use super::objects::{Objects, get};
use crate::Plan;

/// Maps the indices of a plan to the objects of a run.
pub(crate) struct LiveNames<'s> {
    lists: &'s StoredLists,
    bytes: &'s [u8],
    objects: &'s Objects,
    devices: &'s [Device],
    table: Option<&'s [BufferRef<u32>]>,
    scratch: &'s Bump,
}

impl<'s> LiveNames<'s> {
    pub(crate) fn new(
        plan: &'s Plan,
        devices: &'s [Device],
        objects: &'s Objects,
        scratch: &'s Bump,
    ) -> Self {
        Self { lists: &plan.lists, bytes: plan.bytes(), objects, devices, table: None, scratch }
    }

    /// The same names, with slots resolved to the ranges of this binding table. Barriers for missing buffers
    /// are left out.
    pub(crate) fn with_table(self, table: &'s [BufferRef<u32>]) -> Self {
        Self { table: Some(table), ..self }
    }

    #[inline]
    fn list<T: Copy, U: Copy>(
        &mut self,
        items: &'s [T],
        rename: impl Fn(&mut Self, T) -> Result<U>,
    ) -> Result<&'s [U]> {
        // Most submissions wait for nothing.
        if items.is_empty() {
            return Ok(&[]);
        }
        let list = self.scratch.alloc_slice_try_fill_with(items.len(), |index| rename(self, items[index]))?;
        Ok(list)
    }
}

impl<'s> LiveNames<'s> {
    // By value and not inlined, so that others are not copied to memory first.
    #[inline(never)]
    fn buffer_ref_in(
        &self,
        table: &[BufferRef<u32>],
        reference: BufferRef<u32>,
    ) -> Result<BufferRef<&'s Buffer>> {
        let (buffer, offset, length) = self.objects.resolve(&reference, table)?;
        Ok(BufferRef::range(get(&self.objects.buffers, buffer)?, offset, length))
    }
}

macro_rules! live {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {
        $names.list($list.of(&$names.lists.$lists), |this, item| this.$item(item))
    };
}

impl<'s> Rename<Indexed, Live<'s>> for LiveNames<'s> {
    fn device(&mut self, name: u32) -> Result<&'s Device> {
        Ok(&self.devices[name as usize])
    }

    fn buffer(&mut self, name: u32) -> Result<&'s Buffer> {
        get(&self.objects.buffers, name)
    }

    #[inline]
    fn buffer_ref(&mut self, reference: BufferRef<u32>) -> Result<BufferRef<&'s Buffer>> {
        match self.table {
            None => rename_buffer_ref(self, reference),
            Some(table) => self.buffer_ref_in(table, reference),
        }
    }

    fn semaphore(&mut self, name: u32) -> Result<&'s Semaphore> {
        get(&self.objects.semaphores, name)
    }

    fn function(&mut self, executable: u32, ordinal: u32) -> Result<(&'s Executable, u32)> {
        Ok(get(&self.objects.executables, executable)?.function(ordinal))
    }

    fn command_buffer(&mut self, name: u32) -> Result<&'s CommandBuffer> {
        get(&self.objects.command_buffers, name)
    }

    fn file(&mut self, name: u32) -> Result<&'s File> {
        get(&self.objects.files, name)
    }

    fn event(&mut self, name: u32) -> Result<&'s Event> {
        get(&self.objects.events, name)
    }

    fn host_call(&mut self, _name: u32) -> Result<&'s HostCall> {
        Err(Error::new(StatusCode::Internal, "no plan has host calls"))
    }

    fn bytes(&mut self, bytes: Span<u8>) -> Result<&'s [u8]> {
        Ok(bytes.of(self.bytes))
    }

    rename_lists!(live, Indexed => Live<'s>, buffer_refs BufferRefs buffer_ref);
    rename_lists!(live, Indexed => Live<'s>, timepoints Timepoints timepoint);
    rename_lists!(live, Indexed => Live<'s>, events Events event);
    rename_lists!(live, Indexed => Live<'s>, memory_barriers MemoryBarriers memory_barrier);

    fn buffer_barriers(&mut self, list: Span<BufferBarrier<u32>>) -> Result<&'s [BufferBarrier<&'s Buffer>]> {
        let list = list.of(&self.lists.buffer_barriers);
        if self.table.is_none() {
            return self.list(list, |this, item| this.buffer_barrier(item));
        }
        let mut renamed = Vec::new();
        for item in list {
            if let Ok(item) = self.buffer_barrier(*item) {
                renamed.push(item);
            }
        }
        Ok(self.scratch.alloc_slice_copy(&renamed))
    }

    fn created_buffer(&mut self, _name: u32) -> Result<()> {
        Ok(())
    }
}
