//! Which objects of two captures correspond to each other.

use super::capture_pass::Side;
use super::ids::IdMap;
use super::pairs::Pairs;

/// Objects that correspond: those that corresponding operations create, and others from their first common
/// use on.
pub(super) struct Objects {
    to_after: IdMap<u64>,
    to_before: IdMap<u64>,
    /// Whether all objects have the same ids in both captures.
    pub are_identical: bool,
}

impl Objects {
    pub(super) fn from_pairs(before: &Side<'_>, after: &Side<'_>, pairs: &Pairs) -> Self {
        let limit = |side: &Side<'_>| 2 * side.record_count + 1024;
        let mut this = Self {
            to_after: IdMap::new(limit(before)),
            to_before: IdMap::new(limit(after)),
            are_identical: true,
        };
        for (x, entry) in (0u32..).zip(&before.entries).filter(|(_, entry)| entry.created != 0) {
            match pairs.to_after(x).map(|y| after.entries[y as usize].created) {
                Some(created @ 1..) => this.join(entry.created, created),
                _ => this.are_identical = false,
            }
        }
        this
    }

    fn join(&mut self, before: u64, after: u64) {
        self.are_identical &= before == after;
        self.to_after.insert(before, after);
        self.to_before.insert(after, before);
    }

    /// Whether two ids are of the same object.
    pub(super) fn is_same(&mut self, before: u64, after: u64) -> bool {
        match (self.to_after.get(before), self.to_before.get(after)) {
            (Some(expected), _) => *expected == after,
            (None, Some(_)) => false,
            (None, None) if before == 0 || after == 0 => before == after,
            (None, None) => {
                self.join(before, after);
                true
            }
        }
    }
}
