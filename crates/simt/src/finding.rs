use std::fmt;

/// The kind of an error of an access or a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A read outside of all regions and variables. It returned zeros.
    ReadOutOfBounds,
    /// A write outside of all regions and variables. It was dropped.
    WriteOutOfBounds,
    /// A read beyond a region within the granule of its allocation: a note, as hardware does not see it.
    ReadInSlack,
    /// An address that is not a multiple of the size of the access. The access was dropped.
    Misaligned,
    /// A write to memory that is only read. It was dropped.
    ReadOnly,
    /// A read of memory of the block or of the thread that nothing wrote.
    Uninitialized,
    /// An access to bytes that another thread writes or wrote, without synchronization between them. Only
    /// writes that change the value count.
    Race,
    /// A barrier that threads reached at different instructions, or that some can no longer reach because
    /// they ended.
    DivergentBarrier,
}

impl FindingKind {
    /// Whether it is only a note, which should change no exit status.
    pub fn is_note(self) -> bool {
        self == Self::ReadInSlack
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOutOfBounds => "read out of bounds",
            Self::WriteOutOfBounds => "write out of bounds",
            Self::ReadInSlack => "read beyond a binding within its allocation",
            Self::Misaligned => "misaligned access",
            Self::ReadOnly => "write to read-only memory",
            Self::Uninitialized => "read of uninitialized memory",
            Self::Race => "data race",
            Self::DivergentBarrier => "divergent barrier",
        })
    }
}

/// The memory that an access meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A region of the launch, by its index.
    Region(usize),
    /// Global or constant variables of the module.
    Variables,
    /// Memory of the block.
    Shared,
    /// Memory of the thread.
    Local,
    /// Arguments of the kernel.
    Arguments,
    /// A barrier of the block.
    Barrier,
    /// No memory that is near.
    Nothing,
}

/// Something that a check found, at one place of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of error.
    pub kind: FindingKind,
    /// The name of the kernel.
    pub function: String,
    /// The line of the instruction in the text, from 1.
    pub line: usize,
    /// The text of the instruction.
    pub instruction: String,
    /// The memory.
    pub target: Target,
    /// The offset of the access in it, in bytes; the address if there is none.
    pub offset: i64,
    /// Bytes of the access.
    pub bytes: u32,
    /// The first block, in order, that did it.
    pub block: [u32; 3],
    /// The first thread of that block.
    pub thread: [u32; 3],
    /// How often it happened.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [x, y, z]) = (self.block, self.thread);
        match self.target {
            Target::Barrier => write!(f, "{} ", self.kind)?,
            _ => write!(f, "{} of {} bytes ", self.kind, self.bytes)?,
        }
        match self.target {
            Target::Region(index) => write!(f, "at offset {} of binding {index}", self.offset)?,
            Target::Variables => write!(f, "at offset {} of the module's variables", self.offset)?,
            Target::Shared => write!(f, "at offset {} of shared memory", self.offset)?,
            Target::Local => write!(f, "at offset {} of local memory", self.offset)?,
            Target::Arguments => write!(f, "at offset {} of the arguments", self.offset)?,
            Target::Barrier => write!(f, "{}", self.offset)?,
            Target::Nothing => write!(f, "at address {:#x}", self.offset)?,
        }
        write!(f, ": function '{}', block ({bx}, {by}, {bz}), thread ({x}, {y}, {z}), ", self.function)?;
        write!(f, "line {}: {}", self.line, self.instruction)?;
        if self.count > 1 { write!(f, "; {} times", self.count) } else { Ok(()) }
    }
}

/// A finding without the names, while a launch runs.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub kind: FindingKind,
    pub at: u32,
    pub target: Target,
    pub offset: i64,
    pub bytes: u32,
    /// The index of the block and of the thread.
    pub block: u64,
    pub thread: u32,
    pub count: u64,
}

/// Places of findings that are kept of a launch; errors beyond them are only counted.
const MAX_PLACES: usize = 1000;

/// Findings by place.
#[derive(Debug, Default)]
pub(crate) struct FoundList {
    pub all: Vec<Found>,
    /// Errors of places beyond the limit.
    pub dropped: u64,
}

impl FoundList {
    pub(crate) fn add(&mut self, found: Found) {
        let is_same = |it: &&mut Found| (it.kind, it.at, it.target) == (found.kind, found.at, found.target);
        if let Some(known) = self.all.iter_mut().find(is_same) {
            let count = known.count + found.count;
            if (found.block, found.thread) < (known.block, known.thread) {
                *known = found;
            }
            known.count = count;
        } else if self.all.len() < MAX_PLACES {
            self.all.push(found);
        } else if !found.kind.is_note() {
            self.dropped += found.count;
        }
    }
}
