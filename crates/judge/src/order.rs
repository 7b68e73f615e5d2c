use fastrand::Rng;

/// The order of repetitions.
pub(crate) enum Order {
    /// One benchmark after another.
    Given,
    /// Randomly in proportion to the repetitions left, which is a random permutation of all repetitions
    /// without materialising it.
    Random(Rng),
}

impl Order {
    /// A new random order each time.
    pub(crate) fn random() -> Self {
        Self::Random(Rng::new())
    }

    /// The index of the next benchmark, given the repetitions each has `remaining`; `None` if none has any.
    pub(crate) fn next(&mut self, remaining: impl Iterator<Item = u32> + Clone) -> Option<usize> {
        let mut remaining = remaining.map(u64::from);
        let total: u64 = remaining.clone().sum();
        if total == 0 {
            return None;
        }
        let mut pick = match self {
            Self::Given => 0,
            Self::Random(random) => random.u64(..total),
        };
        remaining.position(|count| {
            let here = pick < count;
            pick = pick.saturating_sub(count);
            here
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_order_is_sequential() {
        assert_eq!(Order::Given.next([2, 3].into_iter()), Some(0));
        assert_eq!(Order::Given.next([0, 0, 3].into_iter()), Some(2));
        assert_eq!(Order::Given.next([0, 0].into_iter()), None);
        assert_eq!(Order::Given.next([].into_iter()), None);
    }

    #[test]
    fn the_random_order_is_fair() {
        let firsts: usize = (0..4000)
            .map(|seed| Order::Random(Rng::with_seed(seed)).next([1, 0, 3].into_iter()).unwrap())
            .sum();
        // Three of four repetitions belong to the last one: 3000 times 2, within 4 standard deviations.
        assert!((2890 * 2..=3110 * 2).contains(&firsts), "{firsts}");
        assert_eq!(Order::random().next([0, 0].into_iter()), None);
    }

    #[test]
    fn counts_exceed_32_bits() {
        let mut order = Order::Random(Rng::with_seed(1));
        let picks: Vec<_> = (0..100).map(|_| order.next([u32::MAX, u32::MAX].into_iter()).unwrap()).collect();
        assert!(picks.contains(&0) && picks.contains(&1));
    }
}
