//! Executes one operation on the calling thread.
//!
//! Operations have live names (a submission that runs immediately) or stored indices (one that had to wait,
//! and the commands of a command buffer); [`Resolve`] looks up both, so each operation is implemented once.

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_hal::{
    Binding, Buffer, BufferRef, CommandBuffer, Dispatch, Executable, File, HostCall, HostCallFlags, Indexed,
    KeptSubmission, Live, Names, Promise, QueueOp, Store, WorkgroupCount,
};
use smallvec::SmallVec;

use crate::command::LocalCommands;
use crate::executable::{DispatchArguments, LocalExecutable};
use crate::place::Place;
use crate::profile::{Profiled, WorkgroupClock, run_profiled};

/// The binding table of a submission; `None` for empty slots.
pub(crate) type BindingTable<'a> = SmallVec<[Option<Place<'a>>; 8]>;

/// The binding table that the slots of commands refer to.
#[derive(Clone, Copy)]
pub(crate) enum Slots<'r, 's> {
    /// The ranges; `None` for empty slots.
    Ranges(&'s [Option<Place<'r>>]),
    /// The table of a kept submission, resolved when a slot is used.
    Stored(&'r Store, &'r [BufferRef<u32>]),
}

impl<'r> Slots<'r, '_> {
    /// No binding table.
    pub(crate) const NONE: Self = Self::Ranges(&[]);

    /// The range in a slot; `None` if it is empty or does not exist.
    #[inline]
    fn slot(&self, slot: u32) -> Result<Option<Place<'r>>> {
        match *self {
            Self::Ranges(ranges) => Ok(ranges.get(slot as usize).copied().flatten()),
            Self::Stored(store, bindings) => match bindings.get(slot as usize) {
                Some(binding @ BufferRef { binding: Binding::Direct(_), .. }) => {
                    StoredNames { store, slots: Slots::NONE }.place(binding).map(Some)
                }
                _ => Ok(None),
            },
        }
    }
}

/// Looks up the objects of an operation.
pub(crate) trait Resolve<'r, N: Names + 'r> {
    fn buffer(&self, name: N::Buffer) -> &'r Buffer;
    fn executable(&self, name: N::Executable) -> &'r Executable;
    fn command_buffer(&self, name: N::CommandBuffer) -> &'r CommandBuffer;
    fn file(&self, name: N::File) -> &'r File;
    fn host_call(&self, name: N::HostCall) -> &'r HostCall;
    fn bytes(&self, bytes: N::Bytes) -> &'r [u8];
    fn refs(&self, list: N::BufferRefs) -> &'r [BufferRef<N::Buffer>];
    fn slot(&self, slot: u32) -> Result<Option<Place<'r>>>;

    /// The memory of a reference, after checking the range against the buffer or the slot.
    #[inline]
    fn place(&self, reference: &BufferRef<N::Buffer>) -> Result<Place<'r>> {
        match reference.binding {
            Binding::Direct(name) => {
                let buffer = self.buffer(name);
                let range = buffer.resolve(reference.offset, reference.length)?;
                Ok(Place { memory: buffer.shared_memory()?, offset: range.offset, length: range.length })
            }
            Binding::Slot(slot) => match self.slot(slot)? {
                Some(place) => place.subrange(reference.offset, reference.length),
                None => Err(no_buffer_in(slot)),
            },
        }
    }
}

#[cold]
fn no_buffer_in(slot: u32) -> Error {
    Error::invalid_argument(format!("the binding table has no buffer in slot {slot}"))
}

/// Live names: each is the object itself.
pub(crate) struct LiveNames;

impl<'a> Resolve<'a, Live<'a>> for LiveNames {
    fn buffer(&self, name: &'a Buffer) -> &'a Buffer {
        name
    }
    fn executable(&self, name: &'a Executable) -> &'a Executable {
        name
    }
    fn command_buffer(&self, name: &'a CommandBuffer) -> &'a CommandBuffer {
        name
    }
    fn file(&self, name: &'a File) -> &'a File {
        name
    }
    fn host_call(&self, name: &'a HostCall) -> &'a HostCall {
        name
    }
    fn bytes(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes
    }
    fn refs(&self, list: &'a [BufferRef<&'a Buffer>]) -> &'a [BufferRef<&'a Buffer>] {
        list
    }
    fn slot(&self, _slot: u32) -> Result<Option<Place<'a>>> {
        Ok(None)
    }
}

/// Stored names, with the binding table that their slots refer to.
pub(crate) struct StoredNames<'r, 's> {
    pub(crate) store: &'r Store,
    pub(crate) slots: Slots<'r, 's>,
}

impl<'r> Resolve<'r, Indexed> for StoredNames<'r, '_> {
    fn buffer(&self, name: u32) -> &'r Buffer {
        &self.store.buffers[name as usize]
    }
    fn executable(&self, name: u32) -> &'r Executable {
        &self.store.executables[name as usize]
    }
    fn command_buffer(&self, name: u32) -> &'r CommandBuffer {
        &self.store.command_buffers[name as usize]
    }
    fn file(&self, name: u32) -> &'r File {
        &self.store.files[name as usize]
    }
    fn host_call(&self, name: u32) -> &'r HostCall {
        &self.store.host_calls[name as usize]
    }
    fn bytes(&self, bytes: rehal_hal::Span<u8>) -> &'r [u8] {
        bytes.of(&self.store.bytes)
    }
    fn refs(&self, list: rehal_hal::Span<BufferRef<u32>>) -> &'r [BufferRef<u32>] {
        list.of(&self.store.lists.buffer_refs)
    }
    #[inline]
    fn slot(&self, slot: u32) -> Result<Option<Place<'r>>> {
        self.slots.slot(slot)
    }
}

/// Runs a submission that had to wait, on the thread that reached the last of its waits.
pub(crate) fn run_kept(kept: KeptSubmission) {
    let names = StoredNames { store: kept.store(), slots: Slots::NONE };
    let _record = rehal_crash::RecordScope::enter(kept.note());
    let _abort = rehal_crash::AbortScope::enter(false);
    // Waiters get a failure from the signals; there is no other receiver.
    let _ = run_and_settle(kept.op(), &names, kept.promise(), kept.profile().map(Profiled::by_caller), ());
}

/// Runs one queue operation and settles its signals. If it panics, the promise fails them. `permit` is
/// dropped in between, since callbacks of the signals may block.
///
/// A non-blocking host call runs after the signals, and its result is ignored; one that returns `DEFERRED`
/// has taken ownership of the signals and settles them later.
pub(crate) fn run_and_settle<'r, N: Names + 'r, R: Resolve<'r, N>>(
    op: &QueueOp<N>,
    names: &R,
    promise: Promise<'_>,
    profile: Option<Profiled<'_>>,
    permit: impl Sized,
) -> Result<()> {
    if let Some(profile) = profile {
        profile.ready();
    }
    if let QueueOp::HostCall { flags, .. } = op
        && flags.contains(HostCallFlags::NON_BLOCKING)
    {
        promise.settle(&Ok(()));
        let _ = run_profiled(op, names, profile);
        return Ok(());
    }
    let outcome = run_profiled(op, names, profile);
    drop(permit);
    match outcome {
        Err(error) if error.code() == StatusCode::Deferred && matches!(op, QueueOp::HostCall { .. }) => {
            promise.defer();
            Ok(())
        }
        outcome => {
            let outcome = outcome.map_err(|error| error.context(op.name()));
            promise.settle(&outcome);
            outcome
        }
    }
}

/// Runs one operation to completion. The commands of a command buffer are reported to `profile`.
pub(crate) fn run<'r, N: Names + 'r, R: Resolve<'r, N>>(
    op: &QueueOp<N>,
    names: &R,
    profile: Option<Profiled<'_>>,
) -> Result<()> {
    match *op {
        // The memory was allocated with the handle; see `LocalDevice::submit`.
        QueueOp::Alloca { .. } | QueueOp::Barrier { .. } => Ok(()),
        QueueOp::Dealloca { buffer, .. } => names.buffer(buffer).backend().deallocate(),
        QueueOp::Fill { target, pattern, .. } => names.place(&target)?.fill(names.bytes(pattern)),
        QueueOp::Update { source, target, .. } => names.place(&target)?.update(names.bytes(source)),
        QueueOp::Copy { source, target, .. } => names.place(&target)?.copy(names.place(&source)?),
        QueueOp::Read { file, file_offset, target, .. } => {
            let place = names.place(&target)?;
            names.file(file).backend().read_at(file_offset, place.memory, place.range())
        }
        QueueOp::Write { source, file, file_offset, .. } => {
            let place = names.place(&source)?;
            names.file(file).backend().write_at(file_offset, place.memory, place.range())
        }
        QueueOp::Dispatch(ref dispatch) => run_dispatch(dispatch, names, None),
        QueueOp::Execute { command_buffer, bindings, .. } => {
            let mut table = BindingTable::new();
            for binding in names.refs(bindings) {
                table.push(match binding.binding {
                    Binding::Direct(_) => Some(names.place(binding)?),
                    Binding::Slot(_) => None,
                });
            }
            LocalCommands::of(names.command_buffer(command_buffer))?.run(&table, profile)
        }
        QueueOp::HostCall { call, arguments, .. } => (names.host_call(call).0)(arguments),
    }
}

/// Runs all workgroups of a dispatch on this thread, timed by `clock`.
pub(crate) fn run_dispatch<'r, N: Names + 'r, R: Resolve<'r, N>>(
    dispatch: &Dispatch<N>,
    names: &R,
    clock: Option<&WorkgroupClock>,
) -> Result<()> {
    let workgroup_count = workgroup_count(dispatch, names)?;
    with_arguments(dispatch, names, workgroup_count, |executable, arguments| {
        executable.run(dispatch.function, arguments, clock)
    })?
}

/// The number of workgroups, read now if it is indirect.
pub(crate) fn workgroup_count<'r, N: Names + 'r, R: Resolve<'r, N>>(
    dispatch: &Dispatch<N>,
    names: &R,
) -> Result<[u32; 3]> {
    match &dispatch.workgroup_count {
        WorkgroupCount::Static(count) => Ok(*count),
        WorkgroupCount::Indirect(buffer) => read_workgroup_count(names.place(buffer)?),
    }
}

/// Calls `run` with the executable and the arguments of a dispatch.
pub(crate) fn with_arguments<'r, N: Names + 'r, R: Resolve<'r, N>, T>(
    dispatch: &Dispatch<N>,
    names: &R,
    workgroup_count: [u32; 3],
    run: impl FnOnce(&LocalExecutable, &DispatchArguments<'_>) -> T,
) -> Result<T> {
    let executable = LocalExecutable::of(names.executable(dispatch.executable))?;
    let (words, _) = names.bytes(dispatch.constants).as_chunks();
    let mut constants = SmallVec::<[u32; 16]>::new();
    for word in words {
        constants.push(u32::from_le_bytes(*word));
    }
    let mut bindings = SmallVec::<[Place<'_>; 8]>::new();
    for (ordinal, binding) in names.refs(dispatch.bindings).iter().enumerate() {
        bindings.push(names.place(binding).context(|| format!("binding {ordinal}"))?);
    }
    let arguments = DispatchArguments {
        workgroup_count,
        workgroup_size: dispatch.workgroup_size,
        constants: &constants,
        bindings: &bindings,
        dynamic_local_memory: dispatch.dynamic_local_memory,
    };
    Ok(run(executable, &arguments))
}

fn read_workgroup_count(place: Place<'_>) -> Result<[u32; 3]> {
    let mut bytes = [0; 12];
    place.memory.read(place.offset, &mut bytes)?;
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok([word(0), word(4), word(8)])
}
