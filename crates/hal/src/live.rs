//! The names of a running program: handles.

use rehal_base::Result;

use crate::{
    Buffer, BufferBarrier, BufferRef, Command, CommandBuffer, Device, Dispatch, Event, Executable, File,
    HostCall, Live, MemoryBarrier, Names, QueueOp, Rename, Semaphore, Timepoint, rename_lists,
};

impl<'a> Names for Live<'a> {
    type Device = &'a Device;
    type Allocator = &'a Device;
    type ExecutableCache = &'a Device;
    type Buffer = &'a Buffer;
    type Semaphore = &'a Semaphore;
    type Executable = &'a Executable;
    type CommandBuffer = &'a CommandBuffer;
    type File = &'a File;
    type Event = &'a Event;
    type HostCall = &'a HostCall;
    type BufferRefs = &'a [BufferRef<&'a Buffer>];
    type Timepoints = &'a [Timepoint<&'a Semaphore>];
    type Events = &'a [&'a Event];
    type MemoryBarriers = &'a [MemoryBarrier];
    type BufferBarriers = &'a [BufferBarrier<&'a Buffer>];
    type Bytes = &'a [u8];
    type Created<T: Copy> = ();
    type Captured<T: Copy> = ();
    fn uncaptured<T: Copy>() -> Result<()> {
        Ok(())
    }
}

/// Live names with a shorter lifetime. An operation of live names is invariant in its lifetime, since its
/// fields are typed through [`Names`]; its fields are covariant, so each is shortened individually.
struct Reborrow;

macro_rules! same {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {
        Ok($list)
    };
}

impl<'a: 'b, 'b> Rename<Live<'a>, Live<'b>> for Reborrow {
    fn device(&mut self, name: &'a Device) -> Result<&'b Device> {
        Ok(name)
    }
    fn buffer(&mut self, name: &'a Buffer) -> Result<&'b Buffer> {
        Ok(name)
    }
    fn buffer_ref(&mut self, reference: BufferRef<&'a Buffer>) -> Result<BufferRef<&'b Buffer>> {
        Ok(reference)
    }
    fn semaphore(&mut self, name: &'a Semaphore) -> Result<&'b Semaphore> {
        Ok(name)
    }
    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(&'b Executable, u32)> {
        Ok((executable, ordinal))
    }
    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<&'b CommandBuffer> {
        Ok(name)
    }
    fn file(&mut self, name: &'a File) -> Result<&'b File> {
        Ok(name)
    }
    fn event(&mut self, name: &'a Event) -> Result<&'b Event> {
        Ok(name)
    }
    fn host_call(&mut self, name: &'a HostCall) -> Result<&'b HostCall> {
        Ok(name)
    }
    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'b [u8]> {
        Ok(bytes)
    }
    rename_lists!(same, Live<'a> => Live<'b>);
    fn created_buffer(&mut self, (): ()) -> Result<()> {
        Ok(())
    }
}

impl<'a> Command<Live<'a>> {
    /// The same command with a shorter lifetime.
    pub fn reborrow<'b>(self) -> Result<Command<Live<'b>>>
    where
        'a: 'b,
    {
        self.rename(&mut Reborrow)
    }
}

impl<'a> Dispatch<Live<'a>> {
    /// The same dispatch with a shorter lifetime.
    pub fn reborrow<'b>(self) -> Result<Dispatch<Live<'b>>>
    where
        'a: 'b,
    {
        self.rename(&mut Reborrow)
    }
}

impl<'a> QueueOp<Live<'a>> {
    /// The same operation with a shorter lifetime.
    pub fn reborrow<'b>(self) -> Result<QueueOp<Live<'b>>>
    where
        'a: 'b,
    {
        self.rename(&mut Reborrow)
    }
}
