//! Encodes the entries of ledgers.

use rehal_base::{ElementType, Range, parallel};
use rehal_replay::{ChangeTracker, TrackedBinding};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::digest;
use super::layout::{self, EntryHeader, PieceRow, RangeHeader};
use crate::{
    bytes::part,
    number_summary::Summing,
    tolerance::{ElementTypeRule, element_type_of},
};

/// Bytes of a piece, unless there would be too many.
const PIECE_BYTES: u64 = 16 << 10;
/// Bytes that change, from which on their pieces are digested by several threads.
const PARALLEL_BYTES: u64 = 256 << 10;
/// Number of pieces of a range, beyond which pieces are larger; each change has at least one.
const PIECES: u64 = 1024;

/// An entry under construction. Its memory is reused by the next.
#[derive(Default)]
pub(super) struct EntryEncoder {
    entry: Vec<u8>,
    /// Maximum number of bytes to keep of each range.
    pub kept_bytes: u64,
    /// The element types of what functions write and the program reads.
    pub element_types: Vec<ElementTypeRule>,
}

impl EntryEncoder {
    pub fn new(kept_bytes: u64, element_types: Vec<ElementTypeRule>) -> Self {
        Self { entry: Vec::new(), kept_bytes, element_types }
    }

    pub fn begin(&mut self, header: EntryHeader) {
        self.entry.clear();
        self.entry.extend_from_slice(header.as_bytes());
    }

    /// The entry, with its length and checksum.
    pub fn end(&mut self) -> &[u8] {
        seal(&mut self.entry);
        &self.entry
    }

    /// The entry of a dispatch: what it wrote. `header` is completed.
    pub fn dispatch(&mut self, header: EntryHeader, function: &str, changes: &ChangeTracker) -> &[u8] {
        let changed = || changes.bindings().filter(|it| !it.changes.is_empty());
        self.begin(EntryHeader {
            kind: U32::new(layout::ENTRY_DISPATCH),
            range_count: U32::new(changed().count() as u32),
            ..header
        });
        let element_type = element_type_of(&self.element_types, Some(function.as_bytes()));
        for TrackedBinding { binding, buffer_id, range, changes, after, .. } in changed() {
            let header = RangeHeader {
                binding: U32::new(binding),
                element_type: U32::new(element_type.map_or(0, |it| it.0)),
                buffer_id: U64::new(buffer_id),
                offset: U64::new(range.offset),
                length: U64::new(range.length),
                ..RangeHeader::default()
            };
            self.range(header, after, changes);
        }
        self.end()
    }

    /// Adds a range of which `changes` changed to `bytes`.
    pub fn range(&mut self, mut header: RangeHeader, bytes: &[u8], changes: &[Range]) {
        let pieces = pieces(changes);
        let changed = || pieces.iter().map(|piece| part(bytes, *piece));
        header.piece_count = U32::new(pieces.len() as u32);
        if let Some(mut summing) = Summing::for_type(ElementType(header.element_type.get())) {
            changed().for_each(|bytes| summing.add(bytes));
            let summary = summing.finish();
            header.flags = U32::new(layout::HAS_SUMMARY);
            header.minimum = U64::new(summary.minimum.to_bits());
            header.maximum = U64::new(summary.maximum.to_bits());
            header.mean = U64::new(summary.mean.to_bits());
            header.finite_count = U64::new(summary.finite_count);
            header.nan_count = U64::new(summary.nan_count);
            header.infinity_count = U64::new(summary.infinity_count);
        }
        let total: u64 = pieces.iter().map(|piece| piece.length).sum();
        let kept = total.min(self.kept_bytes);
        header.kept_length = U64::new(kept);
        self.entry.extend_from_slice(header.as_bytes());
        let row = |piece: &Range| PieceRow {
            offset: U64::new(piece.offset),
            length: U64::new(piece.length),
            digest: digest(part(bytes, *piece)),
        };
        let rows: Vec<PieceRow> = match total {
            0..PARALLEL_BYTES => pieces.iter().map(row).collect(),
            _ => parallel::map(pieces.iter().collect(), row),
        };
        self.entry.extend_from_slice(rows.as_bytes());
        let mut rest = kept as usize;
        for bytes in changed() {
            let length = bytes.len().min(rest);
            self.entry.extend_from_slice(&bytes[..length]);
            rest -= length;
        }
        self.entry.resize(self.entry.len().next_multiple_of(layout::ALIGNMENT as usize), 0);
    }
}

/// Fills in the length and the checksum of an entry.
pub(super) fn seal(entry: &mut [u8]) {
    let length = entry.len() as u64;
    entry[..8].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(entry);
    let at = std::mem::offset_of!(EntryHeader, checksum);
    entry[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Cuts changes into pieces.
fn pieces(changes: &[Range]) -> Vec<Range> {
    let total: u64 = changes.iter().map(|range| range.length).sum();
    let length = (total / PIECES).next_power_of_two().max(PIECE_BYTES);
    let cut = |range: &Range| {
        let Range { offset, length: whole } = *range;
        let starts = (0..whole).step_by(length as usize);
        starts.map(move |at| Range { offset: offset + at, length: length.min(whole - at) })
    };
    changes.iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_changes_and_are_few() {
        let range = |offset, length| Range { offset, length };
        assert!(pieces(&[range(0, 0)]).is_empty());
        let cut = pieces(&[range(16, 40_000), range(50_000, 16)]);
        let cut: Vec<_> = cut.iter().map(|it| (it.offset, it.length)).collect();
        assert_eq!(cut, [(16, 16384), (16400, 16384), (32784, 7232), (50_000, 16)]);
        for total in [1 << 20, 1 << 30, (1 << 40) + 5] {
            let cut = pieces(&[range(0, total)]);
            assert!(cut.len() as u64 <= 2 * PIECES, "{}", cut.len());
            assert_eq!(cut.iter().map(|it| it.length).sum::<u64>(), total);
        }
    }
}
