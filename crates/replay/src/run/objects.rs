use std::collections::HashMap;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{Binding, Buffer, BufferRef, CommandBuffer, Event, File, Semaphore, Span};

use super::files::Copies;
use crate::Plan;
use crate::plan::{ObjectKind, Release};
use crate::prepare::Prepared;

/// The live objects of a run, by index.
pub(crate) struct Objects {
    pub buffers: Vec<Option<Buffer>>,
    pub semaphores: Vec<Option<Semaphore>>,
    pub executables: Vec<Option<Prepared>>,
    pub command_buffers: Vec<Option<CommandBuffer>>,
    pub files: Vec<Option<File>>,
    pub events: Vec<Option<Event>>,
}

fn empty<T>(count: u32) -> Vec<Option<T>> {
    std::iter::repeat_with(|| None).take(count as usize).collect()
}

#[inline]
pub(super) fn get<T>(list: &[Option<T>], index: u32) -> Result<&T> {
    match list.get(index as usize) {
        Some(Some(object)) => Ok(object),
        _ => Err(is_missing()),
    }
}

/// The plan guarantees creation before use and release after it.
#[cold]
fn is_missing() -> Error {
    Error::new(StatusCode::Internal, "the plan uses a missing object")
}

impl Objects {
    pub(crate) fn new(counts: &[u32; crate::plan::OBJECT_KINDS]) -> Self {
        let count = |kind: ObjectKind| counts[kind as usize];
        Self {
            buffers: empty(count(ObjectKind::Buffer)),
            semaphores: empty(count(ObjectKind::Semaphore)),
            executables: empty(count(ObjectKind::Executable)),
            command_buffers: empty(count(ObjectKind::CommandBuffer)),
            files: empty(count(ObjectKind::File)),
            events: empty(count(ObjectKind::Event)),
        }
    }

    /// The buffer, offset and length of a reference; `table` has the buffers of slots. Fails as devices do.
    pub(crate) fn resolve(
        &self,
        reference: &BufferRef<u32>,
        table: &[BufferRef<u32>],
    ) -> Result<(u32, u64, u64)> {
        // Ranges of the buffer, which is a part of its allocation if it has redzones.
        let within = |index: u32, part: &Buffer| {
            let range = part.resolve(reference.offset, reference.length)?;
            let start = get(&self.buffers, index)?.allocation_offset();
            Ok((index, range.offset - start, range.length))
        };
        let slot = match reference.binding {
            Binding::Direct(buffer) => return within(buffer, get(&self.buffers, buffer)?),
            Binding::Slot(slot) => slot,
        };
        let Some(BufferRef { binding: Binding::Direct(buffer), offset, length }) = table.get(slot as usize)
        else {
            return Err(Error::invalid_argument(format!("the binding table has no buffer in slot {slot}")));
        };
        within(*buffer, &get(&self.buffers, *buffer)?.subspan(*offset, *length)?)
    }

    /// The bytes of memory that releasing an object may free.
    pub(super) fn bytes_of(&self, release: Release) -> u64 {
        match release.kind {
            ObjectKind::Buffer => self.buffers[release.index as usize].as_ref().map_or(0, Buffer::size),
            _ => 0,
        }
    }

    pub(crate) fn release(&mut self, release: Release) {
        let index = release.index as usize;
        match release.kind {
            ObjectKind::Buffer => self.buffers[index] = None,
            ObjectKind::Semaphore => self.semaphores[index] = None,
            ObjectKind::Executable => self.executables[index] = None,
            ObjectKind::CommandBuffer => self.command_buffers[index] = None,
            ObjectKind::File => self.files[index] = None,
            ObjectKind::Event => self.events[index] = None,
        }
    }
}

/// Objects and work that a run has created and begun.
pub(crate) struct State {
    pub objects: Objects,
    /// Their names, in the bytes of the capture.
    pub open_scopes: Vec<Span<u8>>,
    /// The first rejected command of each command buffer with its error, which is returned if the command
    /// buffer is executed.
    pub(super) refused_commands: HashMap<u32, Error>,
    pub copies: Copies,
}

impl State {
    /// Nothing.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            objects: Objects::new(&plan.counts),
            open_scopes: Vec::new(),
            refused_commands: HashMap::new(),
            copies: Copies::new(plan.files.len()),
        }
    }
}
