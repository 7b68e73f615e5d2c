use std::marker::PhantomData;

use rehal_base::Result;

use crate::{Binding, BufferBarrier, BufferRef, FileSource, MemoryBarrier, Timepoint};

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
    /// The captured data of names that have none. Fails for those of captures, which have it.
    fn uncaptured<T: Copy>() -> Result<Self::Captured<T>>;
}

/// The names of a running program: borrowed handles and slices.
#[derive(Clone, Copy)]
pub struct Live<'a>(PhantomData<&'a ()>);

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
    /// A barrier for memory, which names nothing.
    fn memory_barrier(&mut self, it: MemoryBarrier) -> Result<MemoryBarrier> {
        Ok(it)
    }
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
    fn host_call(&mut self, name: F::HostCall) -> Result<T::HostCall>;
    fn bytes(&mut self, bytes: F::Bytes) -> Result<T::Bytes>;
    fn buffer_refs(&mut self, list: F::BufferRefs) -> Result<T::BufferRefs>;
    fn timepoints(&mut self, list: F::Timepoints) -> Result<T::Timepoints>;
    fn events(&mut self, list: F::Events) -> Result<T::Events>;
    fn memory_barriers(&mut self, list: F::MemoryBarriers) -> Result<T::MemoryBarriers>;
    fn buffer_barriers(&mut self, list: F::BufferBarriers) -> Result<T::BufferBarriers>;
    fn created_buffer(&mut self, name: F::Created<F::Buffer>) -> Result<T::Created<T::Buffer>>;
    /// The size of a deallocated buffer.
    fn deallocated_size(&mut self, buffer: F::Buffer, size: F::Captured<u64>) -> Result<T::Captured<u64>> {
        let _ = (buffer, size);
        T::uncaptured()
    }
    /// The bytes that were read.
    fn captured_read(
        &mut self,
        file: F::File,
        file_offset: u64,
        target: BufferRef<F::Buffer>,
        bytes: F::Captured<F::Bytes>,
    ) -> Result<T::Captured<T::Bytes>> {
        let _ = (file, file_offset, target, bytes);
        T::uncaptured()
    }
}

/// Defines the functions of [`Rename`] for lists by a macro of the caller. It is called with `self`, a list,
/// the list of [`StoredLists`](crate::StoredLists) that has its items, and the function for an item.
#[doc(hidden)]
#[macro_export]
macro_rules! rename_lists {
    ($rename:ident, $from:ty => $to:ty) => {
        $crate::rename_lists!($rename, $from => $to, buffer_barriers BufferBarriers buffer_barrier);
        $crate::rename_lists!($rename, $from => $to, buffer_refs BufferRefs buffer_ref);
        $crate::rename_lists!($rename, $from => $to, timepoints Timepoints timepoint);
        $crate::rename_lists!($rename, $from => $to, events Events event);
        $crate::rename_lists!($rename, $from => $to, memory_barriers MemoryBarriers memory_barrier);
    };
    ($rename:ident, $from:ty => $to:ty, $lists:ident $type:ident $item:ident) => {
        fn $lists(
            &mut self,
            list: <$from as $crate::Names>::$type,
        ) -> Result<<$to as $crate::Names>::$type> {
            $rename!(self, list, $lists, $item)
        }
    };
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
    /// The device's reflection of an executable's functions.
    fn captured_metadata(&mut self, bytes: F::Captured<F::Bytes>) -> Result<T::Captured<T::Bytes>> {
        let _ = bytes;
        T::uncaptured()
    }
    /// The source of an imported file's bytes.
    fn captured_source(
        &mut self,
        source: F::Captured<FileSource<F::Bytes>>,
    ) -> Result<T::Captured<FileSource<T::Bytes>>> {
        let _ = source;
        T::uncaptured()
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
