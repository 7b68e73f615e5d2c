use rehal_base::{Error, Range, Result};
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{
    Buffer, BufferRef, CommandBufferParams, Device, Dispatch, Executable, FunctionInfo, QUEUE_AFFINITY_ANY,
};

use crate::one_by_one::{OneByOne, recorded};
use crate::{AccessKind, ExecutableRecord, RecordLocation};

/// An operation of a queue or of a command buffer, as a replay performs it by itself: see
/// [`Observer::wants_operations`].
///
/// [`Observer::wants_operations`]: crate::Observer::wants_operations
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Operation<'a> {
    /// The record of its submission.
    pub submission: RecordLocation,
    /// Its own record: that of the command, or of the submission.
    pub location: RecordLocation,
    /// How often its record has been performed before: a command buffer may be executed more than once.
    pub occurrence: u64,
    /// The name of the innermost scope that is open.
    pub scope: Option<&'a [u8]>,
    /// The index of its device.
    pub device: usize,
    /// Its kind. Commands have that of the equivalent queue operation.
    pub kind: QueueOpKind,
    /// Its dispatch, if it is one.
    pub dispatch: Option<DispatchOperation<'a>>,
    /// The bytes that it may access, in the order of its arguments; the bindings of a dispatch come first.
    /// The buffer of an allocation exists only afterwards.
    pub ranges: &'a [AccessedRange<'a>],
    /// All buffers that exist; none in an operation of another process.
    pub buffers: LiveBuffers<'a>,
    pub(crate) performer: Performer<'a>,
}

/// Who performs a dispatch again.
#[derive(Clone, Copy)]
pub(crate) enum Performer<'a> {
    Device(&'a Device),
    /// The process of the replay.
    Process(&'a dyn Fn() -> Result<()>),
}

/// The buffers that exist at some time of a replay.
#[derive(Clone, Copy)]
pub struct LiveBuffers<'a> {
    pub(crate) ids: &'a [u64],
    pub(crate) buffers: &'a [Option<Buffer>],
}

impl<'a> LiveBuffers<'a> {
    /// Each buffer with its id in the capture.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &'a Buffer)> + use<'a> {
        let all = self.ids.iter().zip(self.buffers);
        all.filter_map(|(id, buffer)| Some((*id, buffer.as_ref()?)))
    }

    /// The buffer of an id, if it exists.
    pub fn find(&self, id: u64) -> Option<&'a Buffer> {
        self.iter().rev().find(|(it, _)| *it == id).map(|(_, buffer)| buffer)
    }
}

/// A dispatch, with its arguments as the kernel gets them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct DispatchOperation<'a> {
    /// The captured executable.
    pub executable: ExecutableRecord<'a>,
    /// The captured ordinal of the function.
    pub function: u32,
    /// The name of the function.
    pub name: &'a str,
    /// The code that runs; `None` in an operation of another process.
    pub running: Option<RunningFunction<'a>>,
    /// Number of workgroups in x, y and z; an indirect count as it is before the dispatch.
    pub workgroup_count: [u32; 3],
    /// Whether the workgroup count is read from a buffer.
    pub is_indirect: bool,
    /// Workgroup size of the dispatch in x, y and z; zero lets the driver choose.
    pub workgroup_size: [u32; 3],
    /// Dynamic workgroup-local memory in bytes.
    pub dynamic_local_memory: u32,
    /// 32-bit constants, little-endian.
    pub constants: &'a [u8],
    /// Number of bindings: the first of [`Operation::ranges`], by ordinal.
    pub binding_count: usize,
}

/// A function of an executable that this process has prepared.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RunningFunction<'a> {
    /// The executable that runs: prepared from the captured one, or its substitute.
    pub prepared: &'a Executable,
    /// The function in it.
    pub info: &'a FunctionInfo,
    /// The ordinal of the function in it.
    pub ordinal: u32,
    /// The code that it is prepared from.
    pub code: ExecutableCode<'a>,
}

impl<'a> DispatchOperation<'a> {
    /// The function that runs; fails in an operation of another process.
    pub fn running(&self) -> Result<RunningFunction<'a>> {
        self.running.ok_or_else(|| Error::failed_precondition("the kernel runs in another process"))
    }
}

/// The code of an executable that runs: the captured one, or its substitute.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ExecutableCode<'a> {
    /// Its format, such as `embedded-elf-x86_64`.
    pub format: &'a [u8],
    /// Its bytes.
    pub data: &'a [u8],
}

/// Bytes of a buffer that an operation may access.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AccessedRange<'a> {
    /// How.
    pub access: AccessKind,
    /// The buffer's id in the capture.
    pub buffer_id: u64,
    /// The buffer. Its contents are accessed with [`rehal_hal::transfer`].
    pub buffer: &'a Buffer,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; a binding may be empty.
    pub length: u64,
}

impl AccessedRange<'_> {
    /// The bytes of the buffer.
    pub fn range(&self) -> Range {
        Range { offset: self.offset, length: self.length }
    }
}

impl<'a> Operation<'a> {
    /// The bindings of a dispatch, by ordinal; empty for other operations.
    pub fn bindings(&self) -> &'a [AccessedRange<'a>] {
        let count = self.dispatch.map_or(0, |dispatch| dispatch.binding_count);
        &self.ranges[..count]
    }

    /// Performs a dispatch again, with what its bindings contain now, and waits. Other operations do nothing.
    pub fn dispatch_again(&self) -> Result<()> {
        let device = match self.performer {
            Performer::Device(device) => device,
            Performer::Process(again) => return again(),
        };
        let Some((it, running)) = self.dispatch.and_then(|it| Some((it, it.running?))) else { return Ok(()) };
        let bindings: Vec<BufferRef<&Buffer>> =
            self.bindings().iter().map(|it| BufferRef::range(it.buffer, it.offset, it.length)).collect();
        let dispatch = Dispatch {
            workgroup_size: it.workgroup_size,
            dynamic_local_memory: it.dynamic_local_memory,
            ..Dispatch::new(running.prepared, running.ordinal, it.workgroup_count)
                .constants(it.constants)
                .bindings(&bindings)
        };
        let own = recorded(device, CommandBufferParams::default(), &[dispatch], |own, dispatch, _| {
            own.dispatch(dispatch)
        })?;
        OneByOne::new(device, QUEUE_AFFINITY_ANY)?
            .perform(device, QUEUE_AFFINITY_ANY, |queue| queue.execute(&own, &[], 0))
    }
}
