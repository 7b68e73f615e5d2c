//! Comparison of the memory after a dispatch with a recorded snapshot.

use std::fs::File;

use rehal_base::platform::FileExt;
use rehal_base::{ElementType, Error, Range, Result};
use rehal_hal::{Buffer, transfer};
use rehal_judge::elements::{Allowed, Comparison};
use rehal_judge::{ElementDifference, ElementDifferences};
use serde::{Serialize, Serializer};

use super::descriptor::KernelDescriptor;

/// Bytes that are compared at a time: a multiple of every element.
const PIECE_BYTES: usize = 1 << 20;
/// Elements of a difference that are kept.
const MAX_ELEMENTS: usize = 8;

/// A binding, or a part of the allocation without bindings, whose bytes differ from a snapshot.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SnapshotDifference {
    /// The ordinal of the binding; `None` if no binding has the bytes: the kernel writes outside of its
    /// bindings.
    pub binding: Option<u32>,
    /// Other bindings with the first byte that differs.
    pub aliases: Vec<u32>,
    /// From the first to the last byte that differ, in the binding or in the part of the allocation.
    #[serde(flatten)]
    pub different: Range,
    /// The first byte that differs, in the allocation.
    pub allocation_offset: u64,
    /// Number of bytes that differ.
    pub different_bytes: u64,
    /// The type of the elements; `None` if they are compared as bytes.
    pub element_type: Option<ElementType>,
    /// The elements that differ.
    #[serde(flatten, serialize_with = "elements")]
    pub elements: ElementDifferences,
}

fn elements<S: Serializer>(elements: &ElementDifferences, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        compared_count: u64,
        different_count: u64,
        elements: &'a [ElementDifference],
    }
    let ElementDifferences { compared_count, different_count, ref first, .. } = *elements;
    Row { compared_count, different_count, elements: first }.serialize(serializer)
}

/// Compares `memory`, the device allocation of a kernel, with a snapshot of it: the bindings that differ, and
/// what is between bindings if it does, by the first byte that does. A range that several bindings have is
/// compared once. The file must have the length of the allocation.
pub fn compare_snapshot(
    descriptor: &KernelDescriptor,
    memory: &Buffer,
    snapshot: &File,
    element_type: Option<ElementType>,
) -> Result<Vec<SnapshotDifference>> {
    let mut differences: Vec<SnapshotDifference> = Vec::new();
    for (ordinal, binding) in (0..).zip(&descriptor.bindings) {
        let range = (binding.offset, binding.length);
        let is_known = |other: u32| {
            let other = &descriptor.bindings[other as usize];
            (other.offset, other.length) == range
        };
        if (0..ordinal).any(is_known) {
            continue;
        }
        let found = compare(memory, snapshot, binding.offset, binding.length, element_type)?;
        let Some(found) = found else { continue };
        let first = binding.offset + found.different.offset;
        let has_first = |other: &u32| {
            let it = &descriptor.bindings[*other as usize];
            *other != ordinal && (it.offset..it.offset + it.length).contains(&first)
        };
        let aliases = (0..descriptor.bindings.len() as u32).filter(has_first).collect();
        let binding = Some(ordinal);
        differences.push(SnapshotDifference { binding, aliases, allocation_offset: first, ..found });
    }
    for gap in gaps(descriptor) {
        if let Some(found) = compare(memory, snapshot, gap.offset, gap.length, None)? {
            let allocation_offset = gap.offset + found.different.offset;
            differences.push(SnapshotDifference { allocation_offset, ..found });
        }
    }
    differences.sort_by_key(|it| (it.allocation_offset, it.binding));
    Ok(differences)
}

/// The parts of the allocation that no binding has, in order.
fn gaps(descriptor: &KernelDescriptor) -> Vec<Range> {
    let mut bound: Vec<(u64, u64)> = descriptor.bindings.iter().map(|it| (it.offset, it.length)).collect();
    bound.sort_unstable();
    let (mut gaps, mut end) = (Vec::new(), 0);
    for (offset, length) in bound.into_iter().chain([(descriptor.allocation_bytes, 0)]) {
        if end < offset {
            gaps.push(Range { offset: end, length: offset - end });
        }
        end = end.max(offset + length);
    }
    gaps
}

fn compare(
    memory: &Buffer,
    snapshot: &File,
    offset: u64,
    length: u64,
    element_type: Option<ElementType>,
) -> Result<Option<SnapshotDifference>> {
    if length == 0 {
        return Ok(None);
    }
    let mut comparison = Comparison::new(element_type, Allowed::Nothing, MAX_ELEMENTS);
    let (mut first, mut last, mut different_bytes) = (None, 0, 0);
    let (mut expected, mut actual) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut at = 0;
    transfer::read_with(memory, offset, length, |memory, range| {
        let mut from = range.offset;
        while from < range.end() {
            let count = (range.end() - from).min(PIECE_BYTES as u64);
            let (expected, actual) = (&mut expected[..count as usize], &mut actual[..count as usize]);
            memory.read(from, actual)?;
            snapshot
                .read_exact_at(expected, offset + at)
                .map_err(|error| Error::io("reading the recorded output", &error))?;
            if expected != actual {
                let differs = |(index, (a, b)): (usize, (&u8, &u8))| (a != b).then_some(at + index as u64);
                for byte in expected.iter().zip(&*actual).enumerate().filter_map(differs) {
                    first.get_or_insert(byte);
                    last = byte;
                    different_bytes += 1;
                }
            }
            comparison.add(at, expected, actual);
            from += count;
            at += count;
        }
        Ok(())
    })?;
    Ok(first.map(|first| SnapshotDifference {
        binding: None,
        aliases: Vec::new(),
        different: Range { offset: first, length: last - first + 1 },
        allocation_offset: 0,
        different_bytes,
        element_type,
        elements: comparison.finish(),
    }))
}

#[cfg(test)]
mod tests {
    use rehal_hal::BufferParams;
    use rehal_local::LocalSync;
    use rehal_local::executable::Plugins;

    use super::*;

    /// Without this test, bytes that differ may be miscounted, or be named after another binding.
    #[test]
    fn bytes_that_differ_are_those_of_a_binding_or_of_a_gap() {
        /// Some bytes more than two pieces, so that the last one begins with the third.
        const LAST: u64 = 2 * PIECE_BYTES as u64 + 64;
        let text = include_bytes!("../../tests/data/add4.add.local-sync.json");
        let mut descriptor = KernelDescriptor::parse(text).unwrap();
        // The second and the third binding overlap; bytes 48 to 64 are of none.
        let ranges = [(0, 48), (64, LAST), (80, 16)];
        assert_eq!(descriptor.bindings.len(), ranges.len());
        for (binding, range) in descriptor.bindings.iter_mut().zip(ranges) {
            (binding.offset, binding.length) = range;
        }
        descriptor.allocation_bytes = 64 + LAST;
        let device = LocalSync::create(Plugins::default());
        let memory = device.allocate_buffer(BufferParams::default(), descriptor.allocation_bytes).unwrap();
        let (mut snapshot, file) =
            (vec![0; descriptor.allocation_bytes as usize], tempfile::tempfile().unwrap());
        // Some bytes of the allocation with, for each difference, its binding, others, first byte in the
        // allocation and there, length, number of bytes and, of f32, of elements.
        type Found = (Option<u32>, Vec<u32>, u64, u64, u64, u64, u64);
        let cases: [(&[usize], Vec<Found>); 6] = [
            (&[], vec![]),
            (&[0], vec![(Some(0), vec![], 0, 0, 1, 1, 1)]),
            (&[40, 44, 47], vec![(Some(0), vec![], 40, 40, 8, 3, 2)]),
            // A gap is compared as bytes.
            (&[47, 48, 50], vec![(Some(0), vec![], 47, 47, 1, 1, 1), (None, vec![], 48, 0, 3, 2, 2)]),
            (&[84], vec![(Some(1), vec![2], 84, 20, 1, 1, 1), (Some(2), vec![1], 84, 4, 1, 1, 1)]),
            (&[100, LAST as usize + 63], vec![(Some(1), vec![], 100, 36, LAST + 63 - 100 + 1, 2, 2)]),
        ];
        for (at, expected) in cases {
            snapshot.fill(0);
            transfer::write(&memory, 0, &snapshot).unwrap();
            at.iter().for_each(|at| snapshot[*at] = 1);
            file.write_all_at(&snapshot, 0).unwrap();
            let found = compare_snapshot(&descriptor, &memory, &file, "f32".parse().ok()).unwrap();
            let found: Vec<Found> = found
                .into_iter()
                .map(|it| {
                    let Range { offset, length } = it.different;
                    let different_count = it.elements.different_count;
                    (
                        it.binding,
                        it.aliases,
                        it.allocation_offset,
                        offset,
                        length,
                        it.different_bytes,
                        different_count,
                    )
                })
                .collect();
            assert_eq!(found, expected, "{at:?}");
        }
    }
}
