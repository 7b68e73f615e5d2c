//! Comparison of data: which bytes differ, and which elements.

use rehal_base::Range;
use rehal_judge::digest;
use rehal_judge::elements::{Allowed, Comparison};

use super::report::{DataDifference, DiffOptions, FieldChange, FieldName, FieldValue};

/// Maximum number of ranges to keep of a difference.
const MAX_RANGES: usize = 16;
/// Bytes that are compared at a time.
const BLOCK: usize = 256;

/// The change of data that differs; `None` if it is the same.
pub(super) fn compare(
    name: FieldName,
    before: &[u8],
    after: &[u8],
    options: &DiffOptions,
) -> Option<FieldChange> {
    if before == after {
        return None;
    }
    let mut difference = DataDifference::default();
    let length = before.len().min(after.len());
    let (mut at, mut end) = (0, 0);
    while at < length {
        let next = length.min(at + BLOCK);
        if before[at..next] != after[at..next] {
            for offset in (at..next).filter(|offset| before[*offset] != after[*offset]) {
                difference.add(offset as u64, offset as u64 == end && end != 0);
                end = offset as u64 + 1;
            }
        }
        at = next;
    }
    difference.elements = options.element_type.map(|element_type| {
        let mut comparison = Comparison::new(Some(element_type), Allowed::Nothing, options.max_elements);
        comparison.add(0, &before[..length], &after[..length]);
        comparison.finish()
    });
    let value = |bytes: &[u8]| FieldValue::Data { length: bytes.len() as u64, digest: digest(bytes) };
    Some(FieldChange {
        name,
        before: Some(value(before)),
        after: Some(value(after)),
        data: Some(Box::new(difference)),
    })
}

impl DataDifference {
    /// Adds a byte that differs, which may continue the last range.
    fn add(&mut self, offset: u64, continues: bool) {
        self.different_bytes += 1;
        if continues {
            let is_kept = self.range_count == self.ranges.len() as u64;
            if let Some(last) = self.ranges.last_mut().filter(|_| is_kept) {
                last.length += 1;
            }
            return;
        }
        self.range_count += 1;
        if self.ranges.len() < MAX_RANGES {
            self.ranges.push(Range { offset, length: 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::fields::Name;

    #[test]
    fn ranges_and_elements_are_found() {
        let name = FieldName(Name { base: "data", index: None, part: "" });
        let before = vec![0_u8; 2000];
        let mut after = before.clone();
        for at in [0, 1, 255, 256, 257, 1000] {
            after[at] = 7;
        }
        after.push(1);
        let options = DiffOptions { element_type: "i32".parse().ok(), ..DiffOptions::default() };
        let change = compare(name, &before, &after, &options).unwrap();
        let data = change.data.unwrap();
        let range = |offset, length| Range { offset, length };
        assert_eq!((data.different_bytes, data.range_count), (6, 3));
        assert_eq!(data.ranges, [range(0, 2), range(255, 3), range(1000, 1)]);
        let elements = data.elements.unwrap();
        let indices: Vec<_> = elements.first.iter().map(|it| it.index).collect();
        assert_eq!((indices, elements.different_count), (vec![0, 63, 64, 250], 4));
        assert!(compare(name, &before, &before.clone(), &options).is_none());
    }
}
