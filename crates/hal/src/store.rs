use rehal_base::{Error, Result};

use crate::{
    Buffer, BufferRef, CommandBuffer, Device, Event, Executable, File, HostCall, Indexed, Live, Rename,
    Semaphore, Span, StoredLists, rename_buffer_ref, rename_lists,
};

/// Appends `items` to `list` and returns their range; on error the list is unchanged.
pub(crate) fn append<T>(list: &mut Vec<T>, items: impl Iterator<Item = Result<T>>) -> Result<Span<T>> {
    let start = list.len();
    for item in items {
        match item {
            Ok(item) => list.push(item),
            Err(error) => {
                list.truncate(start);
                return Err(error);
            }
        }
    }
    Ok(Span::new(start as u64, (list.len() - start) as u64))
}

/// Keeps alive the handles, lists and bytes that operations name. Renaming an operation with it converts live
/// names to indices of the stored objects. Buffers do not keep their device alive: it may own the store.
#[derive(Default)]
#[allow(missing_docs, reason = "each list has the objects in its name")]
pub struct Store {
    pub lists: StoredLists,
    pub bytes: Vec<u8>,
    pub buffers: Vec<Buffer>,
    pub semaphores: Vec<Semaphore>,
    pub executables: Vec<Executable>,
    pub command_buffers: Vec<CommandBuffer>,
    pub files: Vec<File>,
    pub events: Vec<Event>,
    pub host_calls: Vec<HostCall>,
    pub devices: Vec<Device>,
}

impl Store {
    /// The capacity of all lists in bytes.
    pub fn capacity_bytes(&self) -> usize {
        fn bytes<T>(list: &Vec<T>) -> usize {
            list.capacity() * size_of::<T>()
        }
        let StoredLists { buffer_refs, timepoints, events, memory_barriers, buffer_barriers } = &self.lists;
        bytes(buffer_refs)
            + bytes(timepoints)
            + bytes(events)
            + bytes(memory_barriers)
            + bytes(buffer_barriers)
            + bytes(&self.bytes)
            + bytes(&self.buffers)
            + bytes(&self.semaphores)
            + bytes(&self.executables)
            + bytes(&self.command_buffers)
            + bytes(&self.files)
            + bytes(&self.events)
            + bytes(&self.host_calls)
            + bytes(&self.devices)
    }

    /// Drops everything but keeps the capacity.
    pub fn clear(&mut self) {
        self.lists.clear();
        self.bytes.clear();
        self.buffers.clear();
        self.semaphores.clear();
        self.executables.clear();
        self.command_buffers.clear();
        self.files.clear();
        self.events.clear();
        self.host_calls.clear();
        self.devices.clear();
    }
}

impl Store {
    /// Drops all objects but the semaphores and their timepoints.
    pub(crate) fn release_operands(&mut self) {
        self.buffers.clear();
        self.executables.clear();
        self.command_buffers.clear();
        self.files.clear();
        self.events.clear();
        self.host_calls.clear();
        self.devices.clear();
    }
}

/// Stores a clone of `item` and returns its index; often the same as the last one.
fn keep<T: Clone>(list: &mut Vec<T>, item: &T, same: impl Fn(&T, &T) -> bool) -> Result<u32> {
    keep_as(list, item, same, T::clone)
}

fn keep_as<T>(
    list: &mut Vec<T>,
    item: &T,
    same: impl Fn(&T, &T) -> bool,
    clone: impl Fn(&T) -> T,
) -> Result<u32> {
    if let Some(last) = list.last()
        && same(last, item)
    {
        return Ok(list.len() as u32 - 1);
    }
    let index = u32::try_from(list.len())
        .map_err(|_| Error::resource_exhausted("more than 2^32 objects in one list of operations"))?;
    list.push(clone(item));
    Ok(index)
}

macro_rules! kept {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {{
        let mut lists = std::mem::take(&mut $names.lists);
        let span = append(&mut lists.$lists, $list.iter().map(|item| $names.$item(*item)));
        $names.lists = lists;
        span
    }};
}

impl<'a> Rename<Live<'a>, Indexed> for Store {
    fn device(&mut self, name: &'a Device) -> Result<u32> {
        keep(&mut self.devices, name, Device::is_same)
    }

    fn buffer(&mut self, name: &'a Buffer) -> Result<u32> {
        keep_as(&mut self.buffers, name, Buffer::is_same, Buffer::without_device)
    }

    fn buffer_ref(&mut self, reference: BufferRef<&'a Buffer>) -> Result<BufferRef<u32>> {
        rename_buffer_ref(self, reference)
    }

    fn semaphore(&mut self, name: &'a Semaphore) -> Result<u32> {
        keep(&mut self.semaphores, name, Semaphore::is_same)
    }

    fn function(&mut self, executable: &'a Executable, ordinal: u32) -> Result<(u32, u32)> {
        Ok((keep(&mut self.executables, executable, Executable::is_same)?, ordinal))
    }

    fn command_buffer(&mut self, name: &'a CommandBuffer) -> Result<u32> {
        keep(&mut self.command_buffers, name, CommandBuffer::is_same)
    }

    fn file(&mut self, name: &'a File) -> Result<u32> {
        keep(&mut self.files, name, File::is_same)
    }

    fn event(&mut self, name: &'a Event) -> Result<u32> {
        keep(&mut self.events, name, Event::is_same)
    }

    fn host_call(&mut self, name: &'a HostCall) -> Result<u32> {
        keep(&mut self.host_calls, name, |_, _| false)
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<Span<u8>> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Ok(Span::new(start as u64, bytes.len() as u64))
    }

    rename_lists!(kept, Live<'a> => Indexed);

    // The buffer of an alloca was already returned to the caller; execution does not need its name.
    fn created_buffer(&mut self, (): ()) -> Result<u32> {
        Ok(0)
    }
}
