//! Which points of a space are tried, and in which order.

use std::collections::HashSet;

use rehal_base::Result;

use super::{SearchPoint, SearchSpace, Trial};

/// Chooses the points of a search.
pub trait Sampler {
    /// The next point; `None` ends the search. If it takes long to find one, `is_interrupted` is asked
    /// whether to stop.
    fn next(&mut self, space: &SearchSpace, is_interrupted: &dyn Fn() -> bool)
    -> Result<Option<SearchPoint>>;

    /// Called with the trial of each point, before limits of the search may end it.
    fn told(&mut self, trial: &Trial) -> Result<()>;
}

/// Points that are skipped between two questions whether to stop.
const UNINTERRUPTED: u64 = 1 << 12;

/// All points, in order: the last axis changes first.
#[derive(Clone, Copy, Debug, Default)]
pub struct GridSampler {
    next: u64,
}

impl Sampler for GridSampler {
    fn next(
        &mut self,
        space: &SearchSpace,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<SearchPoint>> {
        while self.next < space.size() {
            if self.next.is_multiple_of(UNINTERRUPTED) && is_interrupted() {
                return Ok(None);
            }
            self.next += 1;
            if let Some(point) = space.point(self.next - 1) {
                return Ok(Some(point));
            }
        }
        Ok(None)
    }

    fn told(&mut self, _: &Trial) -> Result<()> {
        Ok(())
    }
}

/// Points in random order, each once.
#[derive(Clone, Debug)]
pub struct RandomSampler {
    random: fastrand::Rng,
    seen: HashSet<u64>,
    /// The indices of a small space, of which the last is next.
    shuffled: Option<Vec<u64>>,
}

impl RandomSampler {
    /// A larger space is not shuffled: points are drawn, and those that were drawn before are skipped.
    const MAX_SHUFFLED: u64 = 1 << 16;
    /// Points of a larger space that are drawn in vain before the search ends.
    const MAX_DRAWN: u64 = 1 << 20;

    /// The same seed chooses the same points in the same order.
    pub fn with_seed(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), seen: HashSet::new(), shuffled: None }
    }
}

impl Sampler for RandomSampler {
    fn next(
        &mut self,
        space: &SearchSpace,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<SearchPoint>> {
        let size = space.size();
        if size <= Self::MAX_SHUFFLED {
            let random = &mut self.random;
            let shuffled = self.shuffled.get_or_insert_with(|| {
                let mut all: Vec<u64> = (0..size).collect();
                random.shuffle(&mut all);
                all
            });
            while let Some(index) = shuffled.pop() {
                if let Some(point) = space.point(index) {
                    return Ok(Some(point));
                }
            }
            return Ok(None);
        }
        for count in 0..Self::MAX_DRAWN {
            if count.is_multiple_of(UNINTERRUPTED) && is_interrupted() {
                return Ok(None);
            }
            let index = self.random.u64(..size);
            if self.seen.insert(index)
                && let Some(point) = space.point(index)
            {
                return Ok(Some(point));
            }
        }
        Ok(None)
    }

    fn told(&mut self, _: &Trial) -> Result<()> {
        Ok(())
    }
}

/// These points.
#[derive(Clone, Debug)]
pub struct ListSampler {
    points: std::vec::IntoIter<SearchPoint>,
}

impl ListSampler {
    /// In this order.
    pub fn for_points(points: Vec<SearchPoint>) -> Self {
        Self { points: points.into_iter() }
    }
}

impl Sampler for ListSampler {
    fn next(&mut self, _: &SearchSpace, _: &dyn Fn() -> bool) -> Result<Option<SearchPoint>> {
        Ok(self.points.next())
    }

    fn told(&mut self, _: &Trial) -> Result<()> {
        Ok(())
    }
}
