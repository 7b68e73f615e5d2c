//! Requests for slices, and what is said of a slice that was written.

use std::sync::Arc;

use rehal_base::{Range, Result};
use rehal_hal::{BufferParams, Device, WatchedBuffer};

use crate::FindWritten;
use crate::plan::RecordLocation;

/// Which work to cut out. Occurrences are counted from 0, in the order of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The dispatch of a record, as dumps and profiles print it.
    Dispatch {
        /// The ordinal of its record.
        record: u32,
        /// Which performance of it: a command buffer may be executed more than once.
        occurrence: u64,
    },
    /// A dispatch of a function.
    Function {
        /// Its name, with `*` and `?`.
        pattern: String,
        /// Which of those that match.
        occurrence: u64,
    },
    /// All work in a scope.
    Scope {
        /// Its name.
        name: Vec<u8>,
        /// Which entry.
        occurrence: u64,
    },
}

/// Options of a slice.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SliceOptions {
    /// Keeps what is in the bindings that kernels change before they do, without a test whether they read it.
    /// The test dispatches the kernels with other values there.
    pub keep_outputs: bool,
    /// Reads what the capture reads from external files from these files, instead of storing the bytes.
    pub keep_references: bool,
    /// Whether the work is also performed by itself.
    pub check: SliceCheck,
    /// Does not perform a dispatch at all, for one that crashes. Nothing is known of what it writes then: all
    /// that is bound to it is kept, and what it may write is read. Not for scopes.
    pub unperformed: bool,
    /// Devices perform no dispatch: what those before the work may write is unknown, and the slice fails,
    /// naming the record, if the work needs it. As `unperformed` for the work itself. Tells which bindings a
    /// function may write, if its format does.
    pub idle: Option<FindWritten>,
    /// Leaves out the pages of bindings that the work does not access, which a replay of the slice then finds
    /// as new memory has them: usually zeros. Not if the work is not performed by itself, nor of buffers that
    /// cannot be watched. `None` keeps all that is bound to what kernels read.
    #[doc(hidden)]
    pub watch: Option<WatchBuffer>,
}

/// Allocates a buffer that tells what accesses it; `None` if the device cannot tell.
pub type WatchBuffer = Arc<dyn Fn(&Device, BufferParams, u64) -> Result<Option<WatchedBuffer>> + Send + Sync>;

/// Whether the work of a slice is performed by itself before the slice is written, which then fails unless it
/// writes the same bytes as in the whole capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SliceCheck {
    /// Unless it is a dispatch that took more than 50 ms, and more than a quarter of the replay up to its
    /// end.
    #[default]
    WhenCheap,
    /// Yes.
    Always,
    /// No.
    Never,
}

/// A slice that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slice {
    /// The function, or the scope.
    pub name: String,
    /// The record of the dispatch, or of the begin of the scope.
    pub location: RecordLocation,
    /// Its occurrence.
    pub occurrence: u64,
    /// Number of bytes of buffers in the slice.
    pub content_bytes: u64,
    /// Whether the work was performed by itself, and wrote the same bytes.
    pub is_checked: bool,
    /// Whether the work was performed: otherwise the reads have the bytes before it.
    pub is_performed: bool,
    /// The host reads: what the work wrote.
    pub reads: Vec<SlicedRead>,
}

/// A host read of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlicedRead {
    /// The buffer's id in the whole capture.
    pub buffer_id: u64,
    /// First byte.
    pub offset: u64,
    /// The bytes, as the whole capture has them there.
    pub bytes: Vec<u8>,
}

impl SlicedRead {
    /// The BLAKE3 digest of the bytes, in hexadecimal.
    pub fn blake3(&self) -> String {
        blake3::hash(&self.bytes).to_hex().to_string()
    }
}

/// Ranges of buffers, which are named by their captured ids.
pub type BufferRanges = Vec<(u64, Range)>;
