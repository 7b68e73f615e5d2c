//! A range of host memory that an operation works on.

use std::sync::Arc;

use rehal_base::{Error, Overrun, Range, Result};
use rehal_hal::{HostMemory, WHOLE_BUFFER, transfer_checks};

/// A range of host memory that an operation works on.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) memory: &'a Arc<HostMemory>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl<'a> Place<'a> {
    #[inline]
    pub(crate) fn subrange(self, offset: u64, length: u64) -> Result<Self> {
        let length = if length == WHOLE_BUFFER { self.length.saturating_sub(offset) } else { length };
        match (Range { offset, length }).fits(self.length) {
            true => Ok(Self { memory: self.memory, offset: self.offset + offset, length }),
            false => Err(self.exceeded(offset, length)),
        }
    }

    #[cold]
    fn exceeded(self, offset: u64, length: u64) -> Error {
        let own = self.length;
        Error::out_of_range(format!("{length} bytes at offset {offset} exceed a binding of {own} bytes"))
    }

    /// The number of bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The memory that has the range.
    pub(crate) fn memory(self) -> &'a HostMemory {
        self.memory
    }

    /// Where the range begins in it.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    // The handle could not check ranges through a binding table, which adds offsets and lengths.
    pub(crate) fn fill(self, pattern: &[u8]) -> Result<()> {
        self.fill_piece(pattern, Range { offset: 0, length: self.length })
    }

    /// Fills a piece, which begins at a multiple of 4 bytes; the whole fill is checked.
    pub(crate) fn fill_piece(self, pattern: &[u8], piece: Range) -> Result<()> {
        transfer_checks::check_fill(self.offset, self.length, pattern)?;
        self.memory.fill(self.offset + piece.offset, piece.length, pattern)
    }

    pub(crate) fn update(self, bytes: &[u8]) -> Result<()> {
        transfer_checks::check_update(bytes, self.length)?;
        self.memory.write(self.offset, bytes)
    }

    pub(crate) fn copy(self, source: Place<'_>) -> Result<()> {
        self.copy_piece(source, Range { offset: 0, length: self.length })
    }

    /// Copies a piece; the whole copy is checked. If the places share bytes, the only piece is the whole.
    pub(crate) fn copy_piece(self, source: Place<'_>, piece: Range) -> Result<()> {
        transfer_checks::check_copy(source.length, self.length)?;
        let (to, from) = (self.offset + piece.offset, source.offset + piece.offset);
        self.memory.copy_from(to, source.memory, from, piece.length)
    }

    /// Whether both share bytes. Compares addresses: different buffers may be made of the same memory.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let (one, other) = (self.span(), other.span());
        let (from, to) = (one.pointer.addr(), other.pointer.addr());
        from < to + other.length_bytes && to < from + one.length_bytes
    }

    pub(crate) fn range(self) -> Range {
        Range { offset: self.offset, length: self.length }
    }

    /// All of `memory`.
    pub(crate) fn whole(memory: &'a Arc<HostMemory>) -> Self {
        Self { memory, offset: 0, length: memory.length() }
    }

    /// A `HostMemory` that shares the range.
    pub(crate) fn part(self) -> Result<HostMemory> {
        HostMemory::part(self.memory, self.range())
    }

    /// The write next to the memory, if that is guarded.
    pub(crate) fn take_overrun(self) -> Option<Overrun> {
        self.memory.take_overrun()
    }

    /// The range as address and length, for native code.
    pub(crate) fn span(self) -> MemorySpan {
        // `offset` is in bounds: it comes from a checked range.
        MemorySpan {
            pointer: self.memory.as_ptr().wrapping_add(self.offset as usize),
            length_bytes: self.length as usize,
        }
    }
}

/// A range of memory that a dispatch reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct MemorySpan {
    /// First byte.
    pub pointer: *mut u8,
    /// Number of bytes.
    pub length_bytes: usize,
}
