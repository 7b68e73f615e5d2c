use std::convert::Infallible;

use rehal_base::{Error, Result};
use rehal_capture::{Capture, CaptureBytes, Tear, Version, payload};
use rehal_hal::{Command, FileSource, HostOp, Indexed, MemoryAccess, Span, StoredLists, Submission};

use crate::planner;

/// The record of a capture that an operation comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLocation {
    /// The record's ordinal.
    pub ordinal: u32,
    /// The record's file offset in bytes.
    pub offset: u64,
}

/// A capture as a program: ids are dense indices, payloads are operations, and every check that
/// needs no device is done. Running it parses nothing.
///
/// It shares the bytes of the capture, from which data is taken as the work is run, and depends on nothing
/// else: it can be kept, sent to another thread, and run by several.
pub struct Plan {
    pub(crate) capture: CaptureBytes,
    pub(crate) version: Version,
    pub(crate) tear: Option<Tear>,
    pub(crate) steps: Vec<Step>,
    pub(crate) host_ops: Vec<HostOp<Indexed>>,
    pub(crate) commands: Vec<(u32, Command<Indexed>)>,
    pub(crate) submissions: Vec<Submission<Indexed>>,
    /// In the order of their steps.
    pub(crate) completions: Vec<Completion>,
    pub(crate) lists: StoredLists,
    pub(crate) device_count: u32,
    pub(crate) counts: [u32; KINDS],
    /// Objects in the order in which they are done with.
    pub(crate) releases: Vec<Release>,
    pub(crate) buffer_ids: Vec<u64>,
    pub(crate) executables: Vec<StoredExecutable>,
    pub(crate) files: Vec<StoredFile>,
    /// Names, and how often each is entered.
    pub(crate) scopes: Vec<(Span<u8>, u64)>,
    pub(crate) skipped_count: u64,
}

/// Kinds of objects that a plan numbers and releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Buffer,
    Semaphore,
    Executable,
    CommandBuffer,
    File,
    Event,
}

pub(crate) const KINDS: usize = 6;

/// One operation and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub location: RecordLocation,
    pub op: StepOp,
}

/// An index into the list of operations of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepOp {
    Host(u32),
    Command(u32),
    Submission(u32),
    /// A submission that waits for what a later step signals: it is issued here, and completes there.
    Deferred(u32),
}

/// At step `step`, the deferred submission `submission` completes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub step: u32,
    pub submission: u32,
    /// The record that issued it.
    pub location: RecordLocation,
}

/// The object `index` of `kind` is not used after step `step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub step: u32,
    pub index: u32,
    pub kind: Kind,
}

/// An executable of a capture, in place.
#[derive(Clone, Copy, Debug)]
pub struct ExecutableRecord<'p> {
    /// The record that prepared it.
    pub location: RecordLocation,
    /// Its id.
    pub id: u64,
    /// Name of its format, such as `embedded-elf-x86_64`.
    pub format: &'p [u8],
    /// Its bytes.
    pub data: &'p [u8],
    metadata: Option<payload::ExecutableMetadata<'p>>,
}

/// An executable as a plan keeps it: where its parts are in the capture.
#[derive(Clone, Copy)]
pub(crate) struct StoredExecutable {
    pub location: RecordLocation,
    pub id: u64,
    pub format: Span<u8>,
    pub data: Span<u8>,
    pub metadata: Span<u8>,
    pub function_count: u32,
}

/// A file of a capture. `B` is how its bytes and its path are held.
#[derive(Clone, Copy, Debug)]
pub struct FileRecord<B> {
    /// The record that imported it.
    pub location: RecordLocation,
    /// Its id.
    pub id: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What the program may do with it.
    pub access: MemoryAccess,
    /// Where its bytes are.
    pub source: FileSource<B>,
}

/// A file as a plan keeps it.
pub(crate) type StoredFile = FileRecord<Span<u8>>;

/// What [`Plan::compile`] may be given.
#[derive(Default)]
pub struct PlanOptions<'o> {
    /// Plan what is whole of a capture that was never closed or was cut, instead of refusing it; see [`Plan::tear`].
    pub recover: bool,
    /// Called every few megabytes with the number of bytes read so far, and how many there are.
    pub progress: Option<&'o mut dyn FnMut(u64, u64)>,
}

impl Plan {
    /// Compiles a capture.
    ///
    /// Fails if a record is corrupt, if operations are inconsistent, and if an operation cannot be
    /// reproduced; the error names the record and the reason.
    pub fn compile(capture: impl Into<CaptureBytes>, options: PlanOptions<'_>) -> Result<Self> {
        planner::compile(capture.into(), options)
    }

    /// Number of devices that the capture uses.
    pub fn device_count(&self) -> usize {
        self.device_count as usize
    }

    /// Fails if the capture uses no device: its program was killed before, or did nothing else.
    pub fn check_not_empty(&self) -> Result<()> {
        match self.device_count {
            0 => Err(Error::failed_precondition(
                "the capture ends before its first device: there is nothing to replay",
            )
            .advise("record it again, and let the program run until it has used a device")),
            _ => Ok(()),
        }
    }

    /// Number of operations that a run issues.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// Number of operations that had failed when they were captured, which a run skips.
    pub fn skipped_count(&self) -> u64 {
        self.skipped_count
    }

    /// The executables, in the order in which they are prepared.
    pub fn executables(&self) -> impl ExactSizeIterator<Item = ExecutableRecord<'_>> {
        self.executables.iter().map(|stored| stored.record(self.bytes()))
    }

    /// The files, in the order in which they are imported.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileRecord<&[u8]>> {
        self.files.iter().map(|stored| stored.record(self.bytes()))
    }

    /// The names of the scopes, each with how often it is entered, in order of first appearance.
    pub fn scopes(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let entered = self.scopes.iter().filter(|(_, count)| *count > 0);
        entered.map(|(name, count)| (name.of(self.bytes()), *count))
    }

    /// The version of the capture.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where the capture ends too early; only ever set by planning with `recover`.
    pub fn tear(&self) -> Option<Tear> {
        self.tear
    }

    /// The capture that was planned.
    pub fn capture(&self) -> &CaptureBytes {
        &self.capture
    }

    /// The bytes of the capture, which spans point into.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.capture.as_slice()
    }
}

impl StoredExecutable {
    pub(crate) fn record<'p>(&self, bytes: &'p [u8]) -> ExecutableRecord<'p> {
        ExecutableRecord {
            location: self.location,
            id: self.id,
            format: self.format.of(bytes),
            data: self.data.of(bytes),
            metadata: payload::ExecutableMetadata::read(self.metadata.of(bytes)),
        }
    }
}

impl<'p> ExecutableRecord<'p> {
    /// What the device that captured it said of its functions, by ordinal.
    pub(crate) fn functions(&self) -> impl Iterator<Item = payload::Function<'p>> {
        self.metadata.into_iter().flat_map(|metadata| metadata.functions())
    }

    /// The names of its functions, by ordinal; empty ones where the capture is of version 1.0.
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
    /// Adds the record at this place of `capture` to an error: which operation, on which objects.
    pub(crate) fn find_in(self, capture: &Capture<'_>, error: Error) -> Error {
        match capture.records_from(self.offset, u64::from(self.ordinal)).next() {
            Some(Ok(record)) => planner::in_record(error, &record),
            _ => self.on(error),
        }
    }

    /// Adds this place to an error.
    pub(crate) fn on(self, error: Error) -> Error {
        error.context(self.to_string())
    }
}

impl std::fmt::Display for RecordLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record #{}, offset {}", self.ordinal, self.offset)
    }
}
