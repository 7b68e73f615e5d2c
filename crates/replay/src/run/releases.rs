use crate::plan::Release;

/// Maximum bytes that a timed scope may hold of the objects that it frees: they are freed after its time.
const HELD_BYTES: u64 = 64 << 20;

/// Bytes that an object counts for besides the bytes of a buffer.
const OBJECT_BYTES: u64 = 512;

/// The objects that a run has yet to release, in order.
pub(super) struct Releases<'r> {
    left: &'r [Release],
    /// The number of the first ones whose last use is issued and that a timed scope holds, and what they
    /// count.
    held: usize,
    held_bytes: u64,
}

impl<'r> Releases<'r> {
    /// The releases from step `first` on.
    pub(super) fn new(all: &'r [Release], first: u32) -> Self {
        Self { left: &all[all.partition_point(|it| it.step < first)..], held: 0, held_bytes: 0 }
    }

    /// The next object to release after a step. `bytes_of` says what a release frees of a buffer.
    #[inline]
    pub(super) fn next(
        &mut self,
        step: u32,
        is_timed: bool,
        bytes_of: impl Fn(Release) -> u64,
    ) -> Option<Release> {
        let (first, rest) = self.left.split_first().filter(|(first, _)| first.step <= step)?;
        if is_timed {
            while let Some(release) = self.left.get(self.held).filter(|it| it.step <= step) {
                self.held_bytes += OBJECT_BYTES + bytes_of(*release);
                self.held += 1;
            }
            if self.held_bytes <= HELD_BYTES {
                return None;
            }
        }
        if self.held != 0 {
            self.held -= 1;
            // A buffer may have got its memory since it is held.
            self.held_bytes = self.held_bytes.saturating_sub(OBJECT_BYTES + bytes_of(*first));
        }
        self.left = rest;
        Some(*first)
    }

    /// The releases up to step `end` that are left, such as those held by a scope that does not end.
    pub(super) fn rest(&self, end: u32) -> impl Iterator<Item = Release> + use<'r> {
        self.left.iter().take_while(move |it| it.step < end).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ObjectKind;

    #[test]
    fn a_timed_scope_holds_some_bytes() {
        let kind = ObjectKind::Buffer;
        let all: Vec<_> = (0..8).map(|index| Release { step: index, index, kind }).collect();
        const NONE: [u32; 0] = [];
        // Two of them fit.
        let bytes_of = |it: Release| if it.index < 7 { HELD_BYTES / 2 - OBJECT_BYTES } else { 0 };
        let mut releases = Releases::new(&all, 1);
        let mut after = |step, is_timed| {
            let next = std::iter::from_fn(|| releases.next(step, is_timed, bytes_of));
            next.map(|it| it.index).collect::<Vec<u32>>()
        };
        assert_eq!(after(1, false), [1]);
        assert_eq!(after(2, true), NONE);
        assert_eq!(after(3, true), NONE);
        assert_eq!(after(4, true), [2]);
        assert_eq!(after(6, true), [3, 4]);
        assert_eq!(after(6, false), [5, 6]);
        assert_eq!(after(6, false), NONE);
        assert_eq!(after(7, true), NONE);
        assert_eq!(releases.rest(8).map(|it| it.index).collect::<Vec<_>>(), [7]);
        assert_eq!(releases.rest(7).count(), 0);
        assert_eq!((releases.held, releases.held_bytes), (1, OBJECT_BYTES));
    }
}
