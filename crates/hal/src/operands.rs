//! Operands of operations, generic over how they name objects.

use std::fmt;

use crate::flags::{AccessScope, WHOLE_BUFFER};

/// A range of a buffer, or of the buffer in a slot of the binding table at execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferRef<B> {
    /// The buffer, or the slot.
    pub binding: Binding<B>,
    /// First byte, relative to the buffer or the slot's range.
    pub offset: u64,
    /// Number of bytes, or [`WHOLE_BUFFER`].
    pub length: u64,
}

/// The target of a [`BufferRef`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding<B> {
    /// A buffer.
    Direct(B),
    /// An entry of the binding table passed with the submission.
    Slot(u32),
}

/// A value of a semaphore's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timepoint<S> {
    /// The semaphore.
    pub semaphore: S,
    /// The value to wait for or to signal.
    pub value: u64,
}

/// Makes writes of one access scope visible to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBarrier {
    /// Accesses before the barrier.
    pub source_scope: AccessScope,
    /// Accesses after it.
    pub target_scope: AccessScope,
}

/// A [`MemoryBarrier`] for a range of a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BufferBarrier<B> {
    /// The scopes.
    pub barrier: MemoryBarrier,
    /// The range.
    pub buffer: BufferRef<B>,
}

/// The source of an imported file's bytes. `B` is the representation of bytes and paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSource<B> {
    /// The kind of handle that the program imported: 0 for memory, 1 for an open file (source:
    /// `iree_io_file_handle_type_t`).
    pub handle_type: u32,
    /// Flags of the import.
    pub flags: u32,
    /// The system identity of an open file.
    pub identity: FileIdentity,
    /// The source of its bytes.
    pub contents: FileContents<B>,
}

/// The system identity of an open file; zeros if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Time of modification in nanoseconds since 1970.
    pub mtime_ns: u64,
}

/// The location of a captured file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileContents<B> {
    /// None: the import failed.
    Nothing,
    /// In an external file.
    External {
        /// The path, as the program named it.
        path: B,
        /// How to validate the file.
        validation: Validation,
    },
    /// In the capture.
    Inline(B),
    /// In the capture, at the point of each read.
    Ranges {
        /// The path, as the program named it.
        path: B,
    },
}

/// How to validate that a file is the one captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// By length only.
    Length,
    /// By its [`FileIdentity`]; by length if unknown.
    Identity,
    /// By the FNV-1a-64 digest of its contents.
    Digest(u64),
}

impl<B> BufferRef<B> {
    /// All of `buffer`.
    pub fn whole(buffer: B) -> Self {
        Self { binding: Binding::Direct(buffer), offset: 0, length: WHOLE_BUFFER }
    }

    /// `length` bytes of `buffer` from `offset`.
    pub fn range(buffer: B, offset: u64, length: u64) -> Self {
        Self { binding: Binding::Direct(buffer), offset, length }
    }

    /// `length` bytes at `offset` of the buffer in the binding table's `slot`.
    pub fn slot(slot: u32, offset: u64, length: u64) -> Self {
        Self { binding: Binding::Slot(slot), offset, length }
    }
}

impl<B: fmt::Display> fmt::Debug for BufferRef<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.binding {
            Binding::Direct(index) => write!(f, "buffer {index}")?,
            Binding::Slot(slot) => write!(f, "slot {slot}")?,
        }
        write!(f, " [{}, +{}]", self.offset, self.length)
    }
}

impl<B> FileSource<B> {
    /// The same source with another representation of its bytes.
    pub fn try_map_bytes<T, E>(self, hold: impl FnOnce(B) -> Result<T, E>) -> Result<FileSource<T>, E> {
        let Self { handle_type, flags, identity, contents } = self;
        let contents = match contents {
            FileContents::Nothing => FileContents::Nothing,
            FileContents::External { path, validation } => {
                FileContents::External { path: hold(path)?, validation }
            }
            FileContents::Inline(bytes) => FileContents::Inline(hold(bytes)?),
            FileContents::Ranges { path } => FileContents::Ranges { path: hold(path)? },
        };
        Ok(FileSource { handle_type, flags, identity, contents })
    }
}
