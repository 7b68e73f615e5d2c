/// Limit on the queues of a device: one for dispatches, one for transfers.
pub(crate) const LANES: usize = 2;

/// Work of a device: on each lane, everything up to a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier([u64; LANES]);

impl Frontier {
    /// The work of one lane up to a position.
    pub(crate) const fn at(lane: usize, position: u64) -> Self {
        let mut frontier = Self([0; LANES]);
        frontier.0[lane] = position;
        frontier
    }

    /// The position on a lane; 0 for nothing.
    pub(crate) fn on(&self, lane: usize) -> u64 {
        self.0[lane]
    }

    /// Adds the work of `other`.
    pub(crate) fn join(&mut self, other: &Self) {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(other);
        }
    }

    /// The work of both.
    pub(crate) fn joined(&self, other: &Self) -> Self {
        let mut both = *self;
        both.join(other);
        both
    }

    /// Whether it has no work.
    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; LANES]
    }

    /// Whether all of its work is part of `other`.
    pub(crate) fn is_included_in(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(mine, other)| *mine <= other)
    }

    /// Whether all of its work is part of one or the other.
    pub(crate) fn is_included_in_either(&self, one: &Self, other: &Self) -> bool {
        self.is_included_in(&one.joined(other))
    }
}
