//! The order of tests.

/// GoogleTest's random number generator, so that a seed gives the same order as there.
pub(crate) struct Random(u32);

impl Random {
    /// Starts at `seed`.
    pub fn new(seed: u32) -> Self {
        Self(seed)
    }

    fn below(&mut self, range: u32) -> u32 {
        let next = 1_103_515_245_u64 * u64::from(self.0) + 12_345;
        self.0 = (next as u32) & 0x7fff_ffff;
        self.0 % range
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for width in (2..=items.len()).rev() {
            let chosen = self.below(width as u32) as usize;
            items.swap(chosen, width - 1);
        }
    }
}

/// The largest seed; the one after it is 1.
pub(crate) const SEED_MAX: u32 = 99_999;

/// The seed of the next repetition.
pub(crate) fn next_seed(seed: u32) -> u32 {
    if seed >= SEED_MAX { 1 } else { seed + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_order() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..20).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        // Two items: the generator's first number from 1 is 1103527590, which is even.
        let mut two = ["a", "b"];
        Random::new(1).shuffle(&mut two);
        assert_eq!(two, ["b", "a"]);
        assert_eq!((next_seed(1), next_seed(SEED_MAX)), (2, 1));
    }
}
