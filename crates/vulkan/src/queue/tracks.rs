use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ash::vk;

use super::{Frontier, LANES};

/// Work that is issued to the lanes: the plan of batches, without calls of Vulkan.
#[derive(Default)]
pub(super) struct Tracks {
    lanes: [Track; LANES],
    /// Work that was complete when it was last looked at.
    completed: Frontier,
}

#[derive(Default)]
struct Track {
    /// The position of the last work.
    last: u64,
    /// The position up to which it is submitted to Vulkan.
    submitted: u64,
    /// The position up to which work is ordered before all that is issued from now on.
    ordered: u64,
    /// The commands that are collected.
    open: Vec<vk::CommandBuffer>,
    open_count: usize,
    /// The work of other lanes that they wait for; its work is submitted.
    waits: Frontier,
    /// The batches that are not known to be complete: their last positions, and what they wait for on other
    /// lanes.
    in_flight: VecDeque<(u64, Frontier)>,
    /// When the first batch in flight could begin, as far as is known.
    since: Option<Instant>,
}

/// A batch to submit.
pub(super) struct Batch<'a> {
    pub(super) commands: &'a [vk::CommandBuffer],
    /// The work that it waits for.
    pub(super) waits: Frontier,
    /// The position that the lane reaches with it.
    pub(super) position: u64,
}

impl Tracks {
    /// Another lane with work that has to be submitted before work that needs `after` is added to `lane`. So
    /// a batch waits only for what is submitted, and no two batches wait for one another.
    pub(super) fn unsubmitted(&self, lane: usize, after: &Frontier) -> Option<usize> {
        (0..LANES).find(|other| *other != lane && after.on(*other) > self.lanes[*other].submitted)
    }

    /// Adds commands to the batch of a lane, after the work of `after`, behind `barrier` if that includes
    /// work of the lane that nothing orders yet. Returns their position.
    pub(super) fn add(
        &mut self,
        lane: usize,
        commands: vk::CommandBuffer,
        barrier: vk::CommandBuffer,
        after: &Frontier,
        completed: &Frontier,
    ) -> u64 {
        let track = &mut self.lanes[lane];
        for other in (0..LANES).filter(|other| *other != lane && after.on(*other) > completed.on(*other)) {
            track.waits.join(&Frontier::at(other, after.on(other)));
        }
        if after.on(lane) > completed.on(lane).max(track.ordered) {
            track.open.push(barrier);
            track.ordered = track.last;
        }
        track.open.push(commands);
        track.open_count += 1;
        track.last += 1;
        track.last
    }

    /// The batch of a lane, with `tail` at its end; `None` if nothing is collected. What the host has seen
    /// complete is visible to it, too: such waits are over.
    pub(super) fn close(
        &mut self,
        lane: usize,
        tail: vk::CommandBuffer,
        completed: &Frontier,
    ) -> Option<Batch<'_>> {
        let track = &mut self.lanes[lane];
        if track.open_count == 0 {
            return None;
        }
        track.open.push(tail);
        let mut waits = track.waits;
        waits.join(completed);
        Some(Batch { commands: &track.open, waits, position: track.last })
    }

    /// The closed batch of a lane was submitted.
    pub(super) fn submit(&mut self, lane: usize, now: Instant) {
        let track = &mut self.lanes[lane];
        let waits = std::mem::take(&mut track.waits);
        if track.in_flight.is_empty() {
            track.since = Some(now);
        }
        track.submitted = track.last;
        track.in_flight.push_back((track.last, waits));
        track.drop_open();
    }

    /// The closed batch of a lane could not be submitted: it never is.
    pub(super) fn reject(&mut self, lane: usize) {
        self.lanes[lane].waits = Frontier::default();
        self.lanes[lane].drop_open();
    }

    /// Takes note of complete work.
    pub(super) fn complete(&mut self, completed: &Frontier, now: Instant) {
        for (lane, track) in self.lanes.iter_mut().enumerate() {
            let was_blocked =
                track.in_flight.front().is_some_and(|(_, waits)| !waits.is_included_in(&self.completed));
            let before = track.in_flight.len();
            while track.in_flight.front().is_some_and(|(last, _)| *last <= completed.on(lane)) {
                track.in_flight.pop_front();
            }
            if was_blocked || track.in_flight.len() != before {
                track.since = Some(now);
            }
        }
        self.completed.join(completed);
    }

    /// The first batch of a lane that may have been executing for `timeout`. A batch that waits for another
    /// lane does not execute.
    pub(super) fn late(&self, timeout: Duration, now: Instant) -> Option<Frontier> {
        self.lanes.iter().enumerate().find_map(|(lane, track)| {
            let (last, waits) = track.in_flight.front()?;
            let is_late = now.saturating_duration_since(track.since?) >= timeout;
            (is_late && waits.is_included_in(&self.completed)).then_some(Frontier::at(lane, *last))
        })
    }

    /// The first batches in flight.
    pub(super) fn next(&self) -> Frontier {
        let mut next = Frontier::default();
        for (lane, track) in self.lanes.iter().enumerate() {
            next.join(&Frontier::at(lane, track.in_flight.front().map_or(0, |(last, _)| *last)));
        }
        next
    }

    /// The work that is submitted to Vulkan.
    pub(super) fn submitted(&self) -> Frontier {
        let mut submitted = Frontier::default();
        for (lane, track) in self.lanes.iter().enumerate() {
            submitted.join(&Frontier::at(lane, track.submitted));
        }
        submitted
    }

    /// The number of batches of a lane that are not known to be complete.
    pub(super) fn batches_in_flight(&self, lane: usize) -> usize {
        self.lanes[lane].in_flight.len()
    }

    /// The number of submissions that are collected for a lane.
    pub(super) fn open_count(&self, lane: usize) -> usize {
        self.lanes[lane].open_count
    }

    /// Forgets everything: the device is lost.
    pub(super) fn clear(&mut self) {
        for track in &mut self.lanes {
            track.drop_open();
            track.in_flight.clear();
        }
    }
}

impl Track {
    fn drop_open(&mut self) {
        self.open.clear();
        self.open_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle;

    use super::*;

    const NONE: Frontier = Frontier::at(0, 0);

    fn commands(id: u64) -> vk::CommandBuffer {
        vk::CommandBuffer::from_raw(id)
    }

    fn at(first: u64, second: u64) -> Frontier {
        let mut both = Frontier::at(0, first);
        both.join(&Frontier::at(1, second));
        both
    }

    /// Adds commands `id` to a lane; barriers are commands 100 and 101.
    fn add(tracks: &mut Tracks, lane: usize, id: u64, after: Frontier, completed: Frontier) -> u64 {
        tracks.add(lane, commands(id), commands(100 + lane as u64), &after, &completed)
    }

    /// Submits what is collected for a lane: the commands without the tail, which is 200, and the waits.
    fn submit(tracks: &mut Tracks, lane: usize, completed: Frontier, now: Instant) -> (Vec<u64>, Frontier) {
        let batch = tracks.close(lane, commands(200), &completed).unwrap();
        let mut ids: Vec<_> = batch.commands.iter().map(|it| it.as_raw()).collect();
        let waits = batch.waits;
        assert_eq!(ids.pop(), Some(200));
        tracks.submit(lane, now);
        assert!(tracks.close(lane, commands(200), &completed).is_none());
        (ids, waits)
    }

    #[test]
    fn dependencies_on_the_same_lane_are_barriers() {
        let (mut tracks, now) = (Tracks::default(), Instant::now());
        assert_eq!(add(&mut tracks, 0, 1, NONE, NONE), 1);
        assert_eq!(add(&mut tracks, 0, 2, NONE, NONE), 2);
        assert_eq!(add(&mut tracks, 0, 3, at(1, 0), NONE), 3);
        // The barrier before 3 orders 2, too.
        assert_eq!(add(&mut tracks, 0, 4, at(2, 0), NONE), 4);
        assert_eq!(add(&mut tracks, 0, 5, at(3, 0), NONE), 5);
        assert_eq!(submit(&mut tracks, 0, NONE, now), (vec![1, 2, 100, 3, 4, 100, 5], NONE));
        // Work of an earlier batch needs a barrier, unless it is complete.
        add(&mut tracks, 0, 6, at(5, 0), NONE);
        add(&mut tracks, 0, 7, at(6, 0), at(6, 0));
        assert_eq!(submit(&mut tracks, 0, at(5, 0), now), (vec![100, 6, 7], at(5, 0)));
    }

    #[test]
    fn dependencies_on_another_lane_are_waits_for_submitted_work() {
        let (mut tracks, now) = (Tracks::default(), Instant::now());
        add(&mut tracks, 0, 1, NONE, NONE);
        assert_eq!(tracks.unsubmitted(1, &at(1, 0)), Some(0));
        assert_eq!(tracks.unsubmitted(0, &at(1, 0)), None, "its own lane needs no wait");
        submit(&mut tracks, 0, NONE, now);
        assert_eq!(tracks.unsubmitted(1, &at(1, 0)), None);
        add(&mut tracks, 1, 2, at(1, 0), NONE);
        // The other direction, in the same batch as work that waits for nothing.
        add(&mut tracks, 0, 3, NONE, NONE);
        assert_eq!(tracks.unsubmitted(0, &at(0, 1)), Some(1));
        assert_eq!(submit(&mut tracks, 1, NONE, now), (vec![2], at(1, 0)));
        add(&mut tracks, 0, 4, at(1, 1), NONE);
        assert_eq!(submit(&mut tracks, 0, NONE, now), (vec![3, 100, 4], at(0, 1)));
        // What is complete is not waited for when the work is added; at submission, the host's view is passed
        // on.
        add(&mut tracks, 1, 5, at(1, 0), at(1, 1));
        assert_eq!(submit(&mut tracks, 1, at(1, 1), now), (vec![5], at(1, 1)));
        assert_eq!((tracks.next(), tracks.submitted()), (at(1, 1), at(3, 2)));
        tracks.complete(&at(3, 1), now);
        assert_eq!((tracks.next(), tracks.batches_in_flight(0)), (at(0, 2), 0));
    }

    #[test]
    fn what_is_rejected_is_not_submitted() {
        let (mut tracks, now) = (Tracks::default(), Instant::now());
        add(&mut tracks, 0, 1, NONE, NONE);
        submit(&mut tracks, 0, NONE, now);
        add(&mut tracks, 0, 2, NONE, NONE);
        tracks.reject(0);
        assert_eq!((tracks.submitted(), tracks.next(), tracks.open_count(0)), (at(1, 0), at(1, 0), 0));
    }

    #[test]
    fn a_batch_is_late_from_when_it_could_begin() {
        let (mut tracks, start) = (Tracks::default(), Instant::now());
        let second = Duration::from_secs(1);
        let limit = 3 * second;
        for id in 1..3 {
            add(&mut tracks, 0, id, NONE, NONE);
            submit(&mut tracks, 0, NONE, start);
        }
        // On the second lane, one that waits for both.
        add(&mut tracks, 1, 3, at(2, 0), NONE);
        submit(&mut tracks, 1, NONE, start);
        assert_eq!(tracks.late(limit, start + 2 * second), None);
        assert_eq!(tracks.late(limit, start + limit), Some(at(1, 0)));
        // The first took two seconds; so the second has five, and then the third has eight.
        tracks.complete(&at(1, 0), start + 2 * second);
        assert_eq!(tracks.late(limit, start + 4 * second), None);
        assert_eq!(tracks.late(limit, start + 5 * second), Some(at(2, 0)));
        tracks.complete(&at(2, 0), start + 5 * second);
        assert_eq!(tracks.late(limit, start + 7 * second), None);
        assert_eq!(tracks.late(limit, start + 8 * second), Some(at(0, 1)));
        // Progress of another lane does not excuse it.
        add(&mut tracks, 0, 4, NONE, NONE);
        submit(&mut tracks, 0, NONE, start + 7 * second);
        tracks.complete(&at(3, 0), start + 8 * second);
        assert_eq!(tracks.late(limit, start + 8 * second), Some(at(0, 1)));
        // The clock of a lane that was idle starts with the next submission.
        tracks.complete(&at(3, 1), start + 9 * second);
        add(&mut tracks, 0, 5, NONE, NONE);
        submit(&mut tracks, 0, NONE, start + 100 * second);
        assert_eq!(tracks.late(limit, start + 102 * second), None);
        assert_eq!(tracks.late(limit, start + 103 * second), Some(at(4, 0)));
    }
}
