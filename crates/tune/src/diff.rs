//! What differs between two captures.
//!
//! It needs no plan. `side.rs` reads a capture: a token for each operation, a hash of its fields without ids,
//! and what its objects are. `fields.rs` lists the fields of every operation, for the hash as for the
//! comparison. `pairs.rs` aligns what is the same, then what is similar in the gaps (`align.rs`), shifts
//! blocks to where scopes begin, and finds what was moved. `objects.rs` derives from that which objects
//! correspond, and `compare.rs` compares fields under this correspondence; the payload of a semaphore is the
//! submission that signals it. `groups.rs` folds equal changes.

use std::collections::BTreeMap;

use rehal_base::Result;
use rehal_capture::{Capture, CaptureBytes, OpenOptions, Version};
use rehal_replay::dump::Progress;

use crate::parallel;

mod align;
mod compare;
mod data;
mod executables;
mod fields;
mod groups;
mod hash;
mod ids;
mod objects;
mod pairs;
mod report;
mod side;

use compare::Walk;
use side::Side;

pub use report::{
    CaptureDiff, ChangeKind, DataDifference, DiffOptions, DiffedCapture, DiffedExecutable, ExecutableChange,
    FieldChange, FieldName, FieldValue, FunctionChange, Occurrence, OperationChange, ScopeChange,
};

/// Functions have names from this version on.
const NAMES: Version = Version { major: 2, minor: 0 };

/// Compares two captures up to the tear of each, if it is truncated. Ids of objects, threads, file offsets and how data is stored
/// do not count. Checksums are not verified. Fails at a corrupt record.
///
/// `progress` is called every few megabytes of the first capture.
pub fn diff_captures(
    before: &CaptureBytes,
    after: &CaptureBytes,
    options: &DiffOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<CaptureDiff, DiffError> {
    let recover = OpenOptions { recover: true };
    let first = before.open(recover).map_err(|error| DiffError::Before(error.into()))?;
    let second = after.open(recover).map_err(|error| DiffError::After(error.into()))?;
    let has_names = first.version() >= NAMES && second.version() >= NAMES;
    let (one, other) = parallel::join(
        || Side::read(before, first, has_names, progress).map_err(DiffError::Before),
        || Side::read(after, second, has_names, &mut |_| {}).map_err(DiffError::After),
    );
    let (one, other) = (one?, other?);
    let pairs = pairs::align(&one, &other);
    // A change that is kept takes about as much memory as the smallest records.
    let max_kept = (first.length_bytes() + second.length_bytes()) / 96 + 4096;
    let walk = Walk::run(&one, &other, &pairs, options, max_kept).map_err(DiffError::Before)?;
    Ok(CaptureDiff {
        before: describe(&first, &one),
        after: describe(&second, &other),
        scopes: scopes(&one, &other),
        executables: walk.executables,
        operations: walk.groups.list,
        same_count: walk.same_count,
        undetermined: walk.undetermined.into_iter().collect(),
        omitted_count: walk.groups.omitted_count,
    })
}

/// The capture that is corrupt, and why.
#[derive(Debug)]
pub enum DiffError {
    /// The first one.
    Before(rehal_base::Error),
    /// The second one.
    After(rehal_base::Error),
}

fn describe(capture: &Capture<'_>, side: &Side<'_>) -> DiffedCapture {
    let objects = ObjectKind::ALL.into_iter().zip(side.object_counts);
    DiffedCapture {
        version: capture.version(),
        record_count: side.record_count,
        operation_count: side.entries.len() as u64,
        is_closed: capture.is_closed(),
        tear: capture.tear(),
        objects: objects.filter(|(_, count)| *count != 0).collect(),
        buffer_bytes: side.buffer_bytes,
        opaque_count: side.opaque_count,
    }
}

/// The scopes that are not entered as often in both captures.
fn scopes(before: &Side<'_>, after: &Side<'_>) -> Vec<ScopeChange> {
    let mut counts: BTreeMap<Vec<&[u8]>, (u64, u64)> = BTreeMap::new();
    for (index, scope) in (0u32..).zip(&before.scopes).skip(1) {
        counts.entry(before.path(index)).or_default().0 += scope.count;
    }
    for (index, scope) in (0u32..).zip(&after.scopes).skip(1) {
        counts.entry(after.path(index)).or_default().1 += scope.count;
    }
    let different = counts.into_iter().filter(|(_, (before, after))| before != after);
    let owned = |path: Vec<&[u8]>| path.into_iter().map(<[u8]>::to_vec).collect();
    different.map(|(path, (before, after))| ScopeChange { path: owned(path), before, after }).collect()
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the HAL")]
pub enum ObjectKind {
    Device,
    Allocator,
    Buffer,
    Semaphore,
    CommandBuffer,
    ExecutableCache,
    Executable,
    File,
    Event,
    Channel,
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Device,
        Self::Allocator,
        Self::Buffer,
        Self::Semaphore,
        Self::CommandBuffer,
        Self::ExecutableCache,
        Self::Executable,
        Self::File,
        Self::Event,
        Self::Channel,
    ];

    /// Its name, such as `command buffer`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Allocator => "allocator",
            Self::Buffer => "buffer",
            Self::Semaphore => "semaphore",
            Self::CommandBuffer => "command buffer",
            Self::ExecutableCache => "executable cache",
            Self::Executable => "executable",
            Self::File => "file",
            Self::Event => "event",
            Self::Channel => "channel",
        }
    }
}
