use std::marker::PhantomData;

use rehal_base::Result;

use crate::{
    Binding, Buffer, BufferBarrier, BufferRef, Channel, CommandBuffer, Device, Event, Executable, File,
    HostCall, MemoryBarrier, Semaphore, Timepoint,
};

/// How operations name the objects that they work on, and how they hold their lists and bytes.
#[allow(missing_docs, reason = "each type names the object that it says")]
pub trait Names: Copy {
    type Device: Copy;
    type Buffer: Copy;
    type Semaphore: Copy;
    type Executable: Copy;
    type CommandBuffer: Copy;
    type File: Copy;
    type Event: Copy;
    type Channel: Copy;
    type HostCall: Copy;
    type BufferRefs: Copy;
    type Timepoints: Copy;
    type Events: Copy;
    type MemoryBarriers: Copy;
    type BufferBarriers: Copy;
    /// What holds bytes: patterns, constants, data, text.
    type Bytes: Copy;
    /// How an operation that creates an object says under which name; `()` where the object is
    /// returned instead.
    type Created<T: Copy>: Copy;
}

/// Names of a running program: borrowed handles and slices.
#[derive(Clone, Copy)]
pub struct Live<'a>(PhantomData<&'a ()>);

impl<'a> Names for Live<'a> {
    type Device = &'a Device;
    type Buffer = &'a Buffer;
    type Semaphore = &'a Semaphore;
    type Executable = &'a Executable;
    type CommandBuffer = &'a CommandBuffer;
    type File = &'a File;
    type Event = &'a Event;
    type Channel = &'a Channel;
    type HostCall = &'a HostCall;
    type BufferRefs = &'a [BufferRef<Self>];
    type Timepoints = &'a [Timepoint<Self>];
    type Events = &'a [&'a Event];
    type MemoryBarriers = &'a [MemoryBarrier];
    type BufferBarriers = &'a [BufferBarrier<Self>];
    type Bytes = &'a [u8];
    type Created<T: Copy> = ();
}

/// Turns names of `F` into names of `T`.
///
/// Recording maps live handles to ids, planning maps ids to indices, running maps indices to live
/// handles; the operations themselves know how to apply it ([`crate::Command::rename`] and so on).
#[allow(missing_docs, reason = "each function renames the object that it says")]
pub trait Rename<F: Names, T: Names> {
    fn device(&mut self, name: F::Device) -> Result<T::Device>;
    fn buffer(&mut self, name: F::Buffer) -> Result<T::Buffer>;
    /// A range of a buffer, or of what is in a slot: [`rename_buffer_ref`], unless offsets differ because buffers are
    /// parts of others.
    fn buffer_ref(&mut self, reference: BufferRef<F>) -> Result<BufferRef<T>>;
    fn semaphore(&mut self, name: F::Semaphore) -> Result<T::Semaphore>;
    /// An executable together with one of its functions, whose ordinals may differ on both sides.
    fn function(&mut self, executable: F::Executable, ordinal: u32) -> Result<(T::Executable, u32)>;
    fn command_buffer(&mut self, name: F::CommandBuffer) -> Result<T::CommandBuffer>;
    fn file(&mut self, name: F::File) -> Result<T::File>;
    fn event(&mut self, name: F::Event) -> Result<T::Event>;
    fn channel(&mut self, name: F::Channel) -> Result<T::Channel>;
    fn host_call(&mut self, name: F::HostCall) -> Result<T::HostCall>;
    fn bytes(&mut self, bytes: F::Bytes) -> Result<T::Bytes>;
    fn buffer_refs(&mut self, list: F::BufferRefs) -> Result<T::BufferRefs>;
    fn timepoints(&mut self, list: F::Timepoints) -> Result<T::Timepoints>;
    fn events(&mut self, list: F::Events) -> Result<T::Events>;
    fn memory_barriers(&mut self, list: F::MemoryBarriers) -> Result<T::MemoryBarriers>;
    fn buffer_barriers(&mut self, list: F::BufferBarriers) -> Result<T::BufferBarriers>;
}

/// Renames the buffer of a range and keeps the offset and the length.
pub fn rename_buffer_ref<F: Names, T: Names, R: Rename<F, T>>(
    names: &mut R,
    reference: BufferRef<F>,
) -> Result<BufferRef<T>> {
    let binding = match reference.binding {
        Binding::Direct(buffer) => Binding::Direct(names.buffer(buffer)?),
        Binding::Slot(slot) => Binding::Slot(slot),
    };
    Ok(BufferRef { binding, offset: reference.offset, length: reference.length })
}
