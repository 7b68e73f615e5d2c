use std::ops::Range;

use rehal_hal::WorkgroupSchedule;

/// The workgroups of a dispatch that a thread runs, as scheduled.
pub(super) struct Scheduled {
    schedule: WorkgroupSchedule,
    /// Number of workgroups of the dispatch.
    total: u64,
    /// The rest of the last range.
    rest: Range<u64>,
}

impl Scheduled {
    pub(super) fn new(schedule: WorkgroupSchedule, total: u64) -> Self {
        Self { schedule, total, rest: 0..0 }
    }

    /// The next workgroups to run, of the ranges that `more` returns, which are within the total and do not
    /// overlap.
    pub(super) fn next(&mut self, more: &mut dyn FnMut() -> Option<Range<u64>>) -> Option<Range<u64>> {
        loop {
            if self.rest.is_empty() {
                let range = more()?;
                self.rest = match self.schedule {
                    // On one thread, the first range has the last workgroups.
                    WorkgroupSchedule::Reversed => self.total - range.end..self.total - range.start,
                    _ => range,
                };
            }
            if let Some(next) = self.take() {
                return Some(next);
            }
        }
    }

    /// The next ones of what is left, if any of them run.
    fn take(&mut self) -> Option<Range<u64>> {
        let Range { start, end } = self.rest.clone();
        match self.schedule {
            WorkgroupSchedule::All => {
                self.rest.start = end;
                Some(start..end).filter(|range| !range.is_empty())
            }
            WorkgroupSchedule::Reversed => {
                self.rest.end = end.checked_sub(1).filter(|_| start < end)?;
                Some(self.rest.end..end)
            }
            WorkgroupSchedule::Where { bit, is_set } => {
                // Numbers with equal upper bits are in sequence.
                let length = 1_u64.checked_shl(bit).unwrap_or(u64::MAX);
                let next = (start / length + 1).saturating_mul(length).min(end);
                self.rest.start = next;
                let is_chosen = (start / length) % 2 == u64::from(is_set);
                Some(start..next).filter(|range| is_chosen && !range.is_empty())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the order in which they run.
    fn run(schedule: WorkgroupSchedule, total: u64, ranges: &[Range<u64>]) -> Vec<u64> {
        let mut ranges = ranges.iter().cloned();
        let mut scheduled = Scheduled::new(schedule, total);
        let next = || scheduled.next(&mut || ranges.next());
        std::iter::from_fn(next).flatten().collect()
    }

    #[test]
    fn each_workgroup_runs_once_or_not_at_all() {
        let ranges = [0..3, 3..3, 3..17, 17..23];
        let all: Vec<u64> = (0..23).collect();
        assert_eq!(run(WorkgroupSchedule::All, 23, &ranges), all);
        let reversed: Vec<u64> = (0..23).rev().collect();
        assert_eq!(run(WorkgroupSchedule::Reversed, 23, &ranges), reversed);
        for bit in [0, 1, 2, 4, 5, 63] {
            for is_set in [false, true] {
                let expected: Vec<u64> =
                    all.iter().copied().filter(|it| (it >> bit & 1 != 0) == is_set).collect();
                let schedule = WorkgroupSchedule::Where { bit, is_set };
                assert_eq!(run(schedule, 23, &ranges), expected, "{schedule:?}");
            }
        }
    }
}
