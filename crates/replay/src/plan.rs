use rehal_base::{Error, Result};
use rehal_capture::{Capture, Version, payload};
use rehal_hal::{Command, HostOp, Indexed, MemoryAccess, Span, StoredLists, Submission};

use crate::planner;

/// Where in a capture an operation comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The record's ordinal.
    pub ordinal: u32,
    /// The record's file offset in bytes.
    pub offset: u64,
}

/// A capture as a program: ids are dense indices, payloads are operations, and every check that
/// needs no device is done. Running it parses nothing.
///
/// It borrows the bytes of the capture, from which data is taken as the work is run.
pub struct Plan<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) version: Version,
    pub(crate) steps: Vec<Step>,
    pub(crate) host_ops: Vec<HostOp<Indexed>>,
    pub(crate) commands: Vec<(u32, Command<Indexed>)>,
    pub(crate) submissions: Vec<Submission<Indexed>>,
    pub(crate) lists: StoredLists,
    pub(crate) device_count: u32,
    pub(crate) counts: [u32; KINDS],
    /// Objects in the order in which they are done with.
    pub(crate) releases: Vec<Release>,
    pub(crate) buffer_ids: Vec<u64>,
    pub(crate) executables: Vec<ExecutableRecord<'a>>,
    pub(crate) files: Vec<FileRecord<'a>>,
    /// Names, and how often each is entered.
    pub(crate) scopes: Vec<(Span<u8>, u64)>,
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
    pub place: Place,
    pub op: StepOp,
}

/// An index into the list of operations of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepOp {
    Host(u32),
    Command(u32),
    Submission(u32),
}

/// The object `index` of `kind` is not used after step `step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub step: u32,
    pub index: u32,
    pub kind: Kind,
}

/// An executable of a capture.
#[derive(Clone, Copy, Debug)]
pub struct ExecutableRecord<'a> {
    /// The record that prepared it.
    pub place: Place,
    /// Its id.
    pub id: u64,
    /// What was given to the device, and what the device said of it.
    pub payload: payload::ExecutablePrepare<'a>,
}

/// A file of a capture.
#[derive(Clone, Copy, Debug)]
pub struct FileRecord<'a> {
    /// The record that imported it.
    pub place: Place,
    /// Its id.
    pub id: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What the program may do with it.
    pub access: MemoryAccess,
    /// Where its bytes are.
    pub source: FileSource<'a>,
}

/// Where the bytes of a file are.
#[derive(Clone, Copy, Debug)]
pub enum FileSource<'a> {
    /// In a file outside of the capture, at this path.
    External {
        /// The path, as the program named it.
        path: &'a [u8],
        /// How to tell that it is the same file.
        validation: Validation,
    },
    /// In the capture.
    Inline(&'a [u8]),
    /// In the capture, where they are read; the file was at this path.
    Ranges {
        /// The path, as the program named it.
        path: &'a [u8],
    },
}

/// How to tell that a file is the one that was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// By its length alone.
    Length,
    /// By device, inode and time of modification in nanoseconds.
    Identity {
        /// Device number.
        device: u64,
        /// Inode number.
        inode: u64,
        /// Time of modification in nanoseconds since 1970.
        mtime_ns: u64,
    },
    /// By the FNV-1a-64 of its contents.
    Digest(u64),
}

/// What [`Plan::compile`] may be given.
#[derive(Default)]
pub struct PlanOptions<'p> {
    /// Called now and then with the number of bytes read so far.
    pub progress: Option<&'p mut dyn FnMut(u64)>,
}

impl<'a> Plan<'a> {
    /// Compiles a capture whose bytes are `bytes`, the same that `capture` was opened on.
    ///
    /// Fails where a record is damaged, where operations contradict each other, and where something
    /// was captured that cannot be reproduced; the error says which record and why.
    pub fn compile(capture: &Capture<'a>, bytes: &'a [u8], options: PlanOptions<'_>) -> Result<Self> {
        planner::compile(capture, bytes, options)
    }

    /// Number of devices that the capture uses.
    pub fn device_count(&self) -> usize {
        self.device_count as usize
    }

    /// Number of operations that a run issues.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// The executables, in the order in which they are prepared.
    pub fn executables(&self) -> &[ExecutableRecord<'a>] {
        &self.executables
    }

    /// The files, in the order in which they are imported.
    pub fn files(&self) -> &[FileRecord<'a>] {
        &self.files
    }

    /// The names of the scopes, each with how often it is entered, in order of first appearance.
    pub fn scopes(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.scopes.iter().filter(|(_, count)| *count > 0).map(|(name, count)| (self.bytes(*name), *count))
    }

    /// The version of the capture.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The bytes of the capture that `span` stands for.
    pub(crate) fn bytes(&self, span: Span<u8>) -> &'a [u8] {
        span.of(self.bytes)
    }
}

impl Place {
    /// Adds this place to an error.
    pub(crate) fn on(self, error: Error) -> Error {
        error.context(self.to_string())
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record #{}, offset {}", self.ordinal, self.offset)
    }
}
