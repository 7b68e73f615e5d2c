use std::convert::Infallible;

use rehal_base::{Context, Error, Range, Result};
use rehal_capture::{Capture, CaptureBytes, Record, Tear, Version, layout, payload};
use rehal_hal::{
    Buffer, Command, Dispatch, DispatchFlags, FileSource, FunctionInfo, FunctionParameter, HostOp, Indexed,
    MemoryAccess, NeededWorkgroups, QueueOp, Span, StoredLists, Submission, WorkgroupCount, transfer,
};
use serde::{Deserialize, Serialize};

use crate::MemoryNeeds;

/// Fewer bytes of files do not decide where a buffer is placed: they are copied.
pub(crate) const LARGE_BYTES: u64 = 1 << 20;

/// The capture record of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordLocation {
    /// The record's ordinal.
    pub ordinal: u32,
    /// The record's file offset in bytes.
    pub offset: u64,
}

/// A compiled capture: ids are dense indices, payloads are operations, and all checks that need no device
/// have passed. Running it parses nothing.
///
/// It shares the bytes of the capture, from which runs read data, and depends on nothing else: it can be
/// stored, sent to another thread and run concurrently.
#[derive(Clone)]
pub struct Plan {
    pub(crate) memory: MemoryNeeds,
    pub(crate) capture: CaptureBytes,
    pub(crate) version: Version,
    pub(crate) tear: Option<Tear>,
    pub(crate) steps: Vec<Step>,
    pub(crate) host_ops: Vec<HostOp<Indexed>>,
    pub(crate) commands: Vec<(u32, Command<Indexed>)>,
    pub(crate) submissions: Vec<Submission<Indexed>>,
    /// Sorted by step.
    pub(crate) completions: Vec<Completion>,
    pub(crate) lists: StoredLists,
    pub(crate) device_count: u32,
    pub(crate) counts: [u32; OBJECT_KINDS],
    /// Objects in release order.
    pub(crate) releases: Vec<Release>,
    pub(crate) buffer_ids: Vec<u64>,
    /// By buffer.
    pub(crate) extents: Vec<Extent>,
    /// By semaphore.
    pub(crate) initial_payloads: Vec<u64>,
    /// Whether the commands of a command buffer may execute while they are recorded.
    pub(crate) inline_command_buffers: Vec<bool>,
    pub(crate) executables: Vec<StoredExecutable>,
    pub(crate) files: Vec<StoredFile>,
    /// Names, each with its number of entries.
    pub(crate) scopes: Vec<(Span<u8>, u64)>,
    pub(crate) skipped_count: u64,
}

/// The size of a buffer, and whether kernels may write it.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub size: u64,
    pub is_written_by_kernels: bool,
}

/// Kinds of objects that a plan indexes and releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ObjectKind {
    Buffer,
    Semaphore,
    Executable,
    CommandBuffer,
    File,
    Event,
}

pub(crate) const OBJECT_KINDS: usize = 6;

/// One operation and its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub location: RecordLocation,
    pub op: StepOp,
}

/// An index into the operation list of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepOp {
    Host(u32),
    Command(u32),
    Submission(u32),
    /// A deferred submission, which waits for the signal of a later step: issued here, completed there.
    Deferred(u32),
}

/// The deferred submission `submission` completes at step `step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub step: u32,
    pub submission: u32,
    /// The record that issued it.
    pub location: RecordLocation,
}

/// Step `step` is the last use of object `index` of `kind`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub step: u32,
    pub index: u32,
    pub kind: ObjectKind,
}

/// An executable of a capture, borrowed from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct ExecutableRecord<'p> {
    /// The record that prepared it.
    pub location: RecordLocation,
    /// Its id.
    pub id: u64,
    /// Its format, such as `embedded-elf-x86_64`.
    pub format: &'p [u8],
    /// Its bytes.
    pub data: &'p [u8],
    /// Its specialization constants, 32-bit and little-endian.
    pub constants: &'p [u8],
    metadata: Option<payload::ExecutableMetadata<'p>>,
}

/// An executable as stored in a plan: the spans of its parts in the capture.
#[derive(Clone, Copy)]
pub(crate) struct StoredExecutable {
    pub location: RecordLocation,
    pub id: u64,
    pub format: Span<u8>,
    pub data: Span<u8>,
    pub constants: Span<u8>,
    pub metadata: Span<u8>,
    pub function_count: u32,
}

/// A file of a capture. `B` is the representation of its bytes and path.
#[derive(Clone, Copy, Debug)]
pub struct FileRecord<B> {
    /// The record that imported it.
    pub location: RecordLocation,
    /// Its id.
    pub id: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The access it was imported with.
    pub access: MemoryAccess,
    /// The location of its bytes.
    pub source: FileSource<B>,
}

/// A file as stored in a plan.
pub(crate) type StoredFile = FileRecord<Span<u8>>;

/// Options of [`Plan::compile`].
#[derive(Default)]
pub struct PlanOptions<'o> {
    /// Plan the intact records of a capture that was not closed or was truncated instead of rejecting it; see
    /// [`Plan::tear`].
    pub recover: bool,
    /// Called every few megabytes with the number of bytes read and the total.
    pub progress: Option<&'o mut dyn FnMut(u64, u64)>,
}

impl Plan {
    /// Writes data of the capture to the start of a range of a buffer, all of which is mapped for `access` if
    /// it is mappable. Pages of a mapped capture become the buffer's, if they can.
    pub(crate) fn write_data(
        &self,
        buffer: &Buffer,
        access: MemoryAccess,
        range: Range,
        data: Span<u8>,
    ) -> Result<()> {
        if data.count < LARGE_BYTES || !buffer.is_mappable() || self.capture.path().is_none() {
            return transfer::write_as(buffer, access, range.offset, range.length, data.of(self.bytes()));
        }
        let source = self.capture.memory(Range { offset: data.start, length: data.count })?;
        let mapping = buffer.map(access, range.offset, range.length)?;
        mapping.target()?.map_from(0, &source, source.whole())?;
        mapping.unmap()
    }

    /// Whether another plan is of the same records of the same capture, perhaps with other workgroup counts.
    pub fn is_of_same_records(&self, other: &Self) -> bool {
        std::ptr::eq(self.bytes(), other.bytes()) && self.steps.len() == other.steps.len()
    }

    /// The plan with other workgroup counts: what the functions of each executable need, by its index and
    /// their ordinals, and what errors call them. `None` if no count is another one.
    pub(crate) fn with_workgroups(&self, needed: &[Vec<(NeededWorkgroups, String)>]) -> Result<Option<Self>> {
        let mut changed = None::<Self>;
        let count = |it: &Dispatch<Indexed>, step: &Step| {
            let functions = needed.get(it.executable as usize);
            let Some((needed, place)) = functions.and_then(|it_needs| it_needs.get(it.function as usize))
            else {
                return Ok(None);
            };
            let is_indirect = matches!(it.workgroup_count, WorkgroupCount::Indirect(_));
            let count = needed.count(it.constants.of(self.bytes()), is_indirect).context(|| place.clone());
            count.map_err(|error| self.locate(error, step.location))
        };
        let apply = |it: &mut Dispatch<Indexed>, count: [u32; 3]| {
            it.workgroup_count = WorkgroupCount::Static(count);
            it.flags -=
                DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS;
        };
        for step in &self.steps {
            match step.op {
                StepOp::Command(index) => {
                    let Command::Dispatch(it) = &self.commands[index as usize].1 else { continue };
                    let Some(count) = count(it, step)? else { continue };
                    let changed = changed.get_or_insert_with(|| self.clone());
                    if let Command::Dispatch(it) = &mut changed.commands[index as usize].1 {
                        apply(it, count);
                    }
                }
                StepOp::Submission(index) | StepOp::Deferred(index) => {
                    let QueueOp::Dispatch(it) = &self.submissions[index as usize].op else { continue };
                    let Some(count) = count(it, step)? else { continue };
                    let changed = changed.get_or_insert_with(|| self.clone());
                    if let QueueOp::Dispatch(it) = &mut changed.submissions[index as usize].op {
                        apply(it, count);
                    }
                }
                StepOp::Host(_) => {}
            }
        }
        Ok(changed)
    }

    /// The memory that its buffers need on a CPU device.
    pub fn memory(&self) -> MemoryNeeds {
        self.memory
    }

    /// Number of devices used by the capture.
    pub fn device_count(&self) -> usize {
        self.device_count as usize
    }

    /// Fails if the capture uses no device: its program used none, or was killed before it did.
    pub fn check_not_empty(&self) -> Result<()> {
        check_not_empty(self.device_count)
    }

    /// Number of operations that a run issues.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// Number of operations that failed at capture, which a run skips.
    pub fn skipped_count(&self) -> u64 {
        self.skipped_count
    }

    /// The executables, in preparation order.
    pub fn executables(&self) -> impl ExactSizeIterator<Item = ExecutableRecord<'_>> {
        self.executables.iter().map(|stored| stored.record(self.bytes()))
    }

    /// The files, in import order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileRecord<&[u8]>> {
        self.files.iter().map(|stored| stored.record(self.bytes()))
    }

    /// The names of the scopes with their number of entries, in order of first appearance.
    pub fn scopes(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let entered = self.scopes.iter().filter(|(_, count)| *count > 0);
        entered.map(|(name, count)| (name.of(self.bytes()), *count))
    }

    /// The format version of the capture.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The offset at which the capture is torn; only set when planned with `recover`.
    pub fn tear(&self) -> Option<Tear> {
        self.tear
    }

    /// The planned capture.
    pub fn capture(&self) -> &CaptureBytes {
        &self.capture
    }

    /// The bytes of the capture, indexed by spans.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.capture.as_slice()
    }
}

pub(crate) fn check_not_empty(device_count: u32) -> Result<()> {
    match device_count {
        0 => Err(Error::failed_precondition(
            "the capture ends before its first device: there is nothing to replay",
        )
        .advise("record it again, and let the program run until it has used a device")),
        _ => Ok(()),
    }
}

impl StoredExecutable {
    pub(crate) fn record<'p>(&self, bytes: &'p [u8]) -> ExecutableRecord<'p> {
        ExecutableRecord {
            location: self.location,
            id: self.id,
            format: self.format.of(bytes),
            data: self.data.of(bytes),
            constants: self.constants.of(bytes),
            metadata: payload::ExecutableMetadata::read(self.metadata.of(bytes)),
        }
    }
}

impl<'p> ExecutableRecord<'p> {
    /// The capturing device's description of its functions, by ordinal.
    pub(crate) fn functions(&self) -> impl Iterator<Item = payload::Function<'p>> {
        self.metadata.into_iter().flat_map(|metadata| metadata.functions())
    }

    /// The capturing device's reflection of its functions, by ordinal. Captures do not contain the names of
    /// parameters.
    pub fn function_infos(&self) -> Vec<FunctionInfo> {
        let parameter = |it: &layout::ParameterMetadata| FunctionParameter {
            kind: it.parameter_type,
            size: it.size,
            flags: it.flags.get(),
            offset: it.offset.get(),
            name: String::new(),
        };
        let function = |it: payload::Function<'_>| FunctionInfo {
            name: String::from_utf8_lossy(it.name).into_owned(),
            flags: it.metadata.flags.get(),
            workgroup_size: it.metadata.workgroup_size.map(|size| size.get()),
            constant_count: it.metadata.constant_count.get(),
            binding_count: it.metadata.binding_count.get(),
            parameter_count: it.metadata.parameter_count.get(),
            parameters: it.parameters.iter().map(parameter).collect(),
        };
        self.functions().map(function).collect()
    }

    /// The names of its functions, by ordinal; empty in captures of version 1.0.
    pub fn function_names(&self) -> impl Iterator<Item = &'p [u8]> {
        self.functions().map(|function| function.name)
    }
}

impl StoredFile {
    pub(crate) fn record<'p>(&self, bytes: &'p [u8]) -> FileRecord<&'p [u8]> {
        let Self { location, id, length, access, source } = *self;
        let Ok(source) = source.try_map_bytes(|span| Ok::<_, Infallible>(span.of(bytes)));
        FileRecord { location, id, length, access, source }
    }
}

impl RecordLocation {
    /// Adds this record of `capture` to an error, with its operation and objects.
    pub(crate) fn find_in(self, capture: &Capture<'_>, error: Error) -> Error {
        match capture.records_from(self.offset, u64::from(self.ordinal)).next() {
            Some(Ok(record)) => in_record(error, &record),
            _ => self.on(error),
        }
    }

    /// Adds this location to an error.
    pub(crate) fn on(self, error: Error) -> Error {
        error.context(self.to_string())
    }
}

/// Adds the record, its operation and its objects to the error.
pub(crate) fn in_record(error: Error, record: &Record<'_>) -> Error {
    let header = record.header;
    let mut place =
        format!("record #{}, offset {}: {}", record.ordinal(), record.offset, record.record_type());
    if record.operation() != rehal_capture::OperationCode::NONE {
        place = format!("{place} {}", record.operation());
    }
    for (what, id) in [
        ("device", header.device_id),
        ("object", header.object_id),
        ("related object", header.related_object_id),
    ] {
        if id.get() != 0 {
            place = format!("{place}, {what} {id}");
        }
    }
    error.context(place)
}

impl std::fmt::Display for RecordLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record #{}, offset {}", self.ordinal, self.offset)
    }
}
