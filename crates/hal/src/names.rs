use std::marker::PhantomData;

use rehal_base::Result;

use crate::{
    Binding, Buffer, BufferBarrier, BufferRef, Channel, Command, CommandBuffer, Device, Dispatch, Event,
    Executable, File, FileSource, HostCall, MemoryBarrier, QueueOp, Semaphore, Timepoint,
};

/// How operations name objects, and how they store lists and bytes.
#[allow(missing_docs, reason = "each type is the name of an object")]
pub trait Names: Copy {
    type Device: Copy;
    /// The allocator of a device: the device itself, except in captures.
    type Allocator: Copy;
    /// An executable cache: the device itself, except in captures.
    type ExecutableCache: Copy;
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
    /// Byte strings: patterns, constants, data, text.
    type Bytes: Copy;
    /// The name of a created object in its operation; `()` if the object is returned instead.
    type Created<T: Copy>: Copy;
    /// Data that only captures need: `T` there, and `()` elsewhere.
    type Captured<T: Copy>: Copy;
}

/// The names of a running program: borrowed handles and slices.
#[derive(Clone, Copy)]
pub struct Live<'a>(PhantomData<&'a ()>);

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
    type Channel = &'a Channel;
    type HostCall = &'a HostCall;
    type BufferRefs = &'a [BufferRef<&'a Buffer>];
    type Timepoints = &'a [Timepoint<&'a Semaphore>];
    type Events = &'a [&'a Event];
    type MemoryBarriers = &'a [MemoryBarrier];
    type BufferBarriers = &'a [BufferBarrier<&'a Buffer>];
    type Bytes = &'a [u8];
    type Created<T: Copy> = ();
    type Captured<T: Copy> = ();
}

/// Converts names of `F` to names of `T`.
///
/// Recording maps live handles to ids, planning maps ids to indices, execution maps indices to live handles;
/// the operations apply it to their fields ([`crate::Command::rename`] and so on).
#[allow(missing_docs, reason = "each function renames the object in its name")]
pub trait Rename<F: Names, T: Names> {
    fn device(&mut self, name: F::Device) -> Result<T::Device>;
    fn buffer(&mut self, name: F::Buffer) -> Result<T::Buffer>;
    /// A range of a buffer or slot: [`rename_buffer_ref`], unless offsets change because buffers are
    /// subspans.
    fn buffer_ref(&mut self, reference: BufferRef<F::Buffer>) -> Result<BufferRef<T::Buffer>>;
    /// A barrier for a range of a buffer.
    fn buffer_barrier(&mut self, it: BufferBarrier<F::Buffer>) -> Result<BufferBarrier<T::Buffer>> {
        Ok(BufferBarrier { barrier: it.barrier, buffer: self.buffer_ref(it.buffer)? })
    }
    fn semaphore(&mut self, name: F::Semaphore) -> Result<T::Semaphore>;
    /// A value of a semaphore's timeline.
    fn timepoint(&mut self, it: Timepoint<F::Semaphore>) -> Result<Timepoint<T::Semaphore>> {
        Ok(Timepoint { semaphore: self.semaphore(it.semaphore)?, value: it.value })
    }
    /// An executable and one of its functions, whose ordinals may differ on both sides.
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
    fn created_buffer(&mut self, name: F::Created<F::Buffer>) -> Result<T::Created<T::Buffer>>;
    /// The size of a deallocated buffer.
    fn deallocated_size(&mut self, buffer: F::Buffer, size: F::Captured<u64>) -> Result<T::Captured<u64>>;
    /// The bytes that were read.
    fn captured_read(
        &mut self,
        file: F::File,
        file_offset: u64,
        target: BufferRef<F::Buffer>,
        bytes: F::Captured<F::Bytes>,
    ) -> Result<T::Captured<T::Bytes>>;
}

/// Converts names of `F` to names of `T`, for host operations as well.
#[allow(missing_docs, reason = "each function renames the object in its name")]
pub trait RenameHost<F: Names, T: Names>: Rename<F, T> {
    fn allocator(&mut self, name: F::Allocator) -> Result<T::Allocator>;
    fn executable_cache(&mut self, name: F::ExecutableCache) -> Result<T::ExecutableCache>;
    fn executable(&mut self, name: F::Executable) -> Result<T::Executable>;
    fn created_device(&mut self, name: F::Created<F::Device>) -> Result<T::Created<T::Device>>;
    fn created_allocator(
        &mut self,
        device: T::Device,
        name: F::Created<F::Allocator>,
    ) -> Result<T::Created<T::Allocator>>;
    fn created_executable_cache(
        &mut self,
        device: T::Device,
        name: F::Created<F::ExecutableCache>,
    ) -> Result<T::Created<T::ExecutableCache>>;
    fn created_semaphore(&mut self, name: F::Created<F::Semaphore>) -> Result<T::Created<T::Semaphore>>;
    fn created_command_buffer(
        &mut self,
        name: F::Created<F::CommandBuffer>,
    ) -> Result<T::Created<T::CommandBuffer>>;
    fn created_executable(&mut self, name: F::Created<F::Executable>) -> Result<T::Created<T::Executable>>;
    fn created_file(&mut self, name: F::Created<F::File>) -> Result<T::Created<T::File>>;
    fn created_event(&mut self, name: F::Created<F::Event>) -> Result<T::Created<T::Event>>;
    fn created_channel(&mut self, name: F::Created<F::Channel>) -> Result<T::Created<T::Channel>>;
    /// The device's reflection of an executable's functions.
    fn captured_metadata(&mut self, bytes: F::Captured<F::Bytes>) -> Result<T::Captured<T::Bytes>>;
    /// The source of an imported file's bytes.
    fn captured_source(
        &mut self,
        source: F::Captured<FileSource<F::Bytes>>,
    ) -> Result<T::Captured<FileSource<T::Bytes>>>;
}

/// Live names with a shorter lifetime. An operation of live names is invariant in its lifetime, since its
/// fields are typed through [`Names`]; its fields are covariant, so each is shortened individually.
struct Reborrow;

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
    fn channel(&mut self, name: &'a Channel) -> Result<&'b Channel> {
        Ok(name)
    }
    fn host_call(&mut self, name: &'a HostCall) -> Result<&'b HostCall> {
        Ok(name)
    }
    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'b [u8]> {
        Ok(bytes)
    }
    fn buffer_refs(&mut self, list: &'a [BufferRef<&'a Buffer>]) -> Result<&'b [BufferRef<&'b Buffer>]> {
        Ok(list)
    }
    fn timepoints(&mut self, list: &'a [Timepoint<&'a Semaphore>]) -> Result<&'b [Timepoint<&'b Semaphore>]> {
        Ok(list)
    }
    fn events(&mut self, list: &'a [&'a Event]) -> Result<&'b [&'b Event]> {
        Ok(list)
    }
    fn memory_barriers(&mut self, list: &'a [MemoryBarrier]) -> Result<&'b [MemoryBarrier]> {
        Ok(list)
    }
    fn buffer_barriers(
        &mut self,
        list: &'a [BufferBarrier<&'a Buffer>],
    ) -> Result<&'b [BufferBarrier<&'b Buffer>]> {
        Ok(list)
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

/// Renames the buffer of a range, preserving offset and length.
#[inline]
pub fn rename_buffer_ref<F: Names, T: Names, R: Rename<F, T>>(
    names: &mut R,
    reference: BufferRef<F::Buffer>,
) -> Result<BufferRef<T::Buffer>> {
    let binding = match reference.binding {
        Binding::Direct(buffer) => Binding::Direct(names.buffer(buffer)?),
        Binding::Slot(slot) => Binding::Slot(slot),
    };
    Ok(BufferRef { binding, offset: reference.offset, length: reference.length })
}
