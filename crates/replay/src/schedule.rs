//! Derives from a plan when the host must wait in a replay in captured order.
//!
//! `access.rs` derives the accesses of an operation: ranges of buffers and files, through binding tables,
//! command buffers (summarised once, as merged ranges) and workgroup counts. A kernel may read and write what
//! is bound to it, unless the memory is read-only or `ReplayOptions::written_bindings` says otherwise. The
//! walk follows run order, in which a deferred submission follows the signal of the last of its waits, and
//! emits a `HostWait` whenever a submission or a host access conflicts with something that is not ordered
//! before it.
//!
//! The walk is one pass over the steps: the planner has noted the sizes of buffers and the payloads of
//! semaphores, and lists are found by dense index (`lists.rs`). Sets, fragments of a buffer and ranges of a
//! command buffer are bounded; beyond a bound, accesses are over-approximated, which may add waits but misses
//! no conflict.

use std::ops::Range;

use rehal_hal::{HostOp, Indexed, Timepoint, WrittenBindings};

use crate::Plan;
use crate::effects::{Footprint, Footprints};
use crate::hazards::{Conflict, MAX_FRAGMENTS, Slots, Tracker};
use crate::plan::{ObjectKind, StepOp};

/// Words of a set of submissions: up to 64 per word are in flight in a replay.
const WORDS: usize = 4;

/// Maximum number of ranges of a command buffer's accesses; more are approximated.
const MAX_RANGES: usize = 256;

/// Maximum work per step, averaged over the plan. Beyond it, accesses are no longer tracked by byte: planning
/// a hostile capture takes time linear in its size.
const WORK_PER_STEP: u64 = 4096;

/// When a run in captured order waits.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Sorted by step.
    pub waits: Vec<HostWait>,
    /// By semaphore.
    signallers: Vec<Signallers>,
}

/// How many submissions signal a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signallers {
    None,
    One,
    Several,
}

/// Before step `step` the host waits for a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostWait {
    pub step: u32,
    /// Its position in the run order, in which submissions become runnable: when they are issued or, if they
    /// are deferred, when the last of their waits is signalled.
    pub position: u32,
    /// The step from which on it can run.
    pub runnable: u32,
    pub cause: WaitCause,
}

/// Why the host waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitCause {
    /// A submission conflicts with another, which no timepoint orders before it.
    Submission,
    /// The host accesses bytes, or a scope begins or ends.
    Host,
    /// Too many submissions are in flight.
    Limit,
}

impl Schedule {
    /// The schedule of a plan, of whose executables this is known: see [`Footprints::set_written`].
    pub(crate) fn from_plan(plan: &Plan, written: Vec<WrittenBindings>) -> Self {
        let policy =
            Self { waits: Vec::new(), signallers: vec![Signallers::None; plan.initial_payloads.len()] };
        let mut walk = Walk::<_, WORDS>::new(plan, policy, MAX_RANGES, MAX_FRAGMENTS, WORK_PER_STEP);
        walk.footprints.set_written(written);
        walk.all();
        let mut this = walk.policy;
        // A wait for what one step makes runnable comes one step later.
        this.waits.sort_by_key(|wait| wait.step);
        this
    }

    /// The number of waits within these steps between submissions that no timepoint orders.
    pub(crate) fn order_wait_count(&self, steps: Range<u32>) -> u64 {
        let first = self.waits.partition_point(|wait| wait.step < steps.start);
        let within = self.waits[first..].iter().take_while(|wait| wait.step < steps.end);
        let is_counted =
            |wait: &&HostWait| wait.cause == WaitCause::Submission && wait.runnable >= steps.start;
        within.filter(is_counted).count() as u64
    }

    /// Whether other submissions, too, signal one of these semaphores. `true` if that is not known.
    pub(crate) fn share_signals(&self, signals: &[Timepoint<u32>]) -> bool {
        let is_shared = |signallers: &Signallers| *signallers == Signallers::Several;
        signals.iter().any(|it| self.signallers.get(it.semaphore as usize).is_none_or(is_shared))
    }
}

/// Decides how to treat submissions that only a wait of the host can have ordered.
pub(crate) trait ConflictPolicy<const N: usize> {
    /// Whether to call [`ConflictPolicy::conflict`].
    const WANTS_CONFLICTS: bool;

    /// The submission that can run from `moment` on conflicts with another, which is not ordered before it.
    fn conflict(&mut self, walk: &Tracker<N>, submission: u32, moment: Moment, conflict: Conflict);

    /// The unordered `slots` conflict with a submission that has these waits and can run from `moment` on.
    /// Returns those that the host has waited for before.
    fn submission(
        &mut self,
        walk: &Tracker<N>,
        waits: &[Timepoint<u32>],
        moment: Moment,
        slots: Slots<N>,
    ) -> Slots<N>;

    /// Whether the host is assumed to have waited for everything in flight when a scope begins or ends.
    fn waits_at_scopes(&self) -> bool;

    /// The host waits for a submission.
    fn host_waits(&mut self, wait: HostWait);

    /// A submission with these signals is in flight.
    fn joins(&mut self, signals: &[Timepoint<u32>]);

    /// `slots` are forgotten, because too many submissions are in flight.
    fn retires(&mut self, slots: Slots<N>);

    /// Accesses are no longer tracked by their bytes.
    fn stops_tracking(&mut self);
}

/// A moment of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub step: u32,
    /// The last step before it in which the host accesses buffers, if any.
    pub host_access: Option<u32>,
}

impl ConflictPolicy<WORDS> for Schedule {
    const WANTS_CONFLICTS: bool = false;

    fn conflict(&mut self, _walk: &Tracker<WORDS>, _submission: u32, _moment: Moment, _conflict: Conflict) {}

    // The program's host must have waited here, which captures do not contain.
    fn submission(
        &mut self,
        _walk: &Tracker<WORDS>,
        _waits: &[Timepoint<u32>],
        _moment: Moment,
        slots: Slots<WORDS>,
    ) -> Slots<WORDS> {
        slots
    }

    // The run itself waits at the end of timed scopes.
    fn waits_at_scopes(&self) -> bool {
        false
    }

    fn host_waits(&mut self, wait: HostWait) {
        self.waits.push(wait);
    }

    fn joins(&mut self, signals: &[Timepoint<u32>]) {
        for signal in signals {
            let signallers = &mut self.signallers[signal.semaphore as usize];
            *signallers = match signallers {
                Signallers::None => Signallers::One,
                Signallers::One | Signallers::Several => Signallers::Several,
            };
        }
    }

    fn retires(&mut self, _slots: Slots<WORDS>) {}

    fn stops_tracking(&mut self) {}
}

/// A walk over the steps of a plan that tracks what is in flight.
pub(crate) struct Walk<'p, J, const N: usize> {
    plan: &'p Plan,
    pub footprints: Footprints<'p>,
    tracker: Tracker<N>,
    pub policy: J,
    step: u32,
    /// The last step in which the host accesses buffers.
    host_access: Option<u32>,
    footprint: Footprint,
    work_limit: u64,
    is_coarse: bool,
}

impl<'p, J: ConflictPolicy<N>, const N: usize> Walk<'p, J, N> {
    pub(crate) fn new(
        plan: &'p Plan,
        policy: J,
        max_ranges: usize,
        max_fragments: usize,
        work_per_step: u64,
    ) -> Self {
        let footprints = Footprints::new(plan, max_ranges);
        let (payloads, resources) = (plan.initial_payloads.clone(), footprints.resource_count());
        Self {
            plan,
            footprints,
            tracker: Tracker::new(payloads, resources, max_fragments),
            policy,
            step: 0,
            host_access: None,
            footprint: Footprint::default(),
            work_limit: work_per_step * (plan.steps.len() as u64 + 1024),
            is_coarse: false,
        }
    }

    /// Walks all steps.
    pub(crate) fn all(&mut self) {
        let plan = self.plan;
        let mut completions = plan.completions.iter().peekable();
        let mut releases = plan.releases.iter().peekable();
        for (number, step) in (0u32..).zip(&plan.steps) {
            self.step = number;
            match step.op {
                StepOp::Host(index) => self.host_op(&plan.host_ops[index as usize]),
                StepOp::Command(index) => self.command(index),
                StepOp::Submission(index) => self.submission(index),
                StepOp::Deferred(_) => {}
            }
            while let Some(completion) = completions.next_if(|it| it.step == number) {
                self.submission(completion.submission);
            }
            while let Some(release) = releases.next_if(|it| it.step <= number) {
                if release.kind == ObjectKind::CommandBuffer {
                    self.footprints.release(release.index);
                }
            }
            if self.tracker.work > self.work_limit && !self.is_coarse {
                self.is_coarse = true;
                self.policy.stops_tracking();
            }
        }
    }

    fn host_op(&mut self, op: &HostOp<Indexed>) {
        if let HostOp::EndCommandBuffer { command_buffer } = op {
            self.footprints.end(*command_buffer);
        }
        if accesses_buffers(op) {
            self.host_access = Some(self.step);
        }
        let pending = self.tracker.pending();
        if pending.is_empty() {
            return;
        }
        if matches!(op, HostOp::ScopeBegin { .. } | HostOp::ScopeEnd { .. }) && self.policy.waits_at_scopes()
        {
            return self.wait_for(pending, WaitCause::Host);
        }
        self.host_access(|footprints, footprint| footprints.of_host_op(op, footprint));
    }

    fn command(&mut self, index: u32) {
        let (into, command) = &self.plan.commands[index as usize];
        self.footprints.record(*into, command);
        if !self.plan.inline_command_buffers[*into as usize] {
            return;
        }
        self.host_access(|footprints, footprint| footprints.of_command(command, footprint));
    }

    /// The host accesses bytes: it has waited for whatever accesses them.
    fn host_access(&mut self, find: impl FnOnce(&Footprints<'p>, &mut Footprint)) {
        find(&self.footprints, &mut self.footprint);
        let conflicts = self.tracker.conflicts(&self.footprint, Slots::default(), |_| {});
        self.wait_for(conflicts, WaitCause::Host);
    }

    /// A submission can run from this step on.
    fn submission(&mut self, index: u32) {
        let submission = &self.plan.submissions[index as usize];
        let lists = &self.plan.lists.timepoints;
        let (waits, signals) = (submission.waits.of(lists), submission.signals.of(lists));
        if self.tracker.is_full() {
            self.retire();
        }
        let mut footprint = std::mem::take(&mut self.footprint);
        match self.is_coarse {
            false => self.footprints.of_queue_op(&submission.op, &mut footprint),
            true => footprint.is_unbounded = true,
        }
        let before = self.tracker.before(waits);
        let mut before = self.order_signals(signals, before);
        let (tracker, policy) = (&mut self.tracker, &mut self.policy);
        let mut seen = Vec::new();
        let conflicts = tracker.conflicts(&footprint, before, |conflict| {
            if J::WANTS_CONFLICTS {
                seen.push(conflict);
            }
        });
        if !conflicts.is_empty() {
            let moment = Moment { step: self.step, host_access: self.host_access };
            let waited = policy.submission(tracker, waits, moment, conflicts);
            let unordered = conflicts.minus(waited);
            for conflict in seen.into_iter().filter(|conflict| unordered.contains(conflict.slot)) {
                policy.conflict(tracker, index, moment, conflict);
            }
            before = before.union(tracker.closed(unordered));
            before = self.wait_or_order(waited, before);
        }
        self.policy.joins(signals);
        self.tracker.join(index, self.step, before, signals, &footprint);
        self.footprint = footprint;
    }

    /// Payloads of a semaphore must increase, so the program ordered its signals, with a wait of the host if
    /// not on the device.
    fn order_signals(&mut self, signals: &[Timepoint<u32>], before: Slots<N>) -> Slots<N> {
        let earlier = self.tracker.signallers(signals).and(self.tracker.pending()).minus(before);
        match earlier.is_empty() {
            true => before,
            false => self.wait_or_order(earlier, before),
        }
    }

    /// The host waits for `slots` before this step. What only this step makes runnable cannot be waited for
    /// before it; returns `before` with those.
    fn wait_or_order(&mut self, slots: Slots<N>, before: Slots<N>) -> Slots<N> {
        let (mut earlier, mut same_step) = (Slots::default(), Slots::default());
        for slot in slots.iter() {
            let is_same_step = self.tracker.in_flight(slot).step == self.step;
            let set = if is_same_step { &mut same_step } else { &mut earlier };
            *set = set.with(slot);
        }
        let before = before.union(self.tracker.closed(same_step));
        // If everything in flight is complete, slots are renumbered; then nothing is in `before`.
        self.wait_for(earlier, WaitCause::Submission);
        if self.tracker.pending().is_empty() { Slots::default() } else { before }
    }

    fn wait_for(&mut self, slots: Slots<N>, cause: WaitCause) {
        if slots.is_empty() {
            return;
        }
        for slot in self.tracker.last_of(slots).iter() {
            self.host_waits(self.step, slot, cause);
        }
        self.tracker.complete(slots);
    }

    fn host_waits(&mut self, step: u32, slot: usize, cause: WaitCause) {
        let (position, runnable) = (self.tracker.position(slot), self.tracker.in_flight(slot).step);
        self.policy.host_waits(HostWait { step, position, runnable, cause });
    }

    /// Frees slots: the host waits for the oldest half.
    fn retire(&mut self) {
        let oldest = self.tracker.oldest().and(self.tracker.pending());
        for slot in self.tracker.last_of(oldest).iter() {
            let step = self.step.max(self.tracker.in_flight(slot).step.saturating_add(1));
            self.host_waits(step, slot, WaitCause::Limit);
        }
        self.policy.retires(oldest);
        self.tracker.complete(oldest);
        if self.tracker.is_full() {
            self.tracker.retire();
        }
    }
}

/// Whether the host reads or writes a buffer, or prepares that.
fn accesses_buffers(op: &HostOp<Indexed>) -> bool {
    matches!(op, HostOp::Map(_) | HostOp::Unmap(..) | HostOp::Flush(..) | HostOp::Invalidate(_))
}

#[cfg(test)]
mod tests {
    use rehal_hal::{BufferRef, QUEUE_AFFINITY_ANY, SemaphoreFlags};

    use super::*;
    use crate::plan_numbers::record;

    /// Without it, a run with more in flight than a set has may wait for work before the step that makes it
    /// runnable, and never end.
    #[test]
    fn the_oldest_half_of_too_many_submissions_is_waited_for_once_it_can_run() {
        let plan = record(|_, device, params| {
            let buffer = device.allocate_buffer(params, 2000)?;
            let gate = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
            let (queue, open) = (|| device.queue(QUEUE_AFFINITY_ANY), [gate.at(1)]);
            for at in 0..450 {
                // The first 300 can run once the gate opens, all in one step.
                if at == 300 {
                    queue().signal(&open).barrier(0)?;
                }
                let waits = if at < 300 { &open[..] } else { &[] };
                queue().wait(waits).fill(BufferRef::range(&buffer, 4 * at, 4), &[1], 0)?;
            }
            Ok(())
        });
        let plan = plan.unwrap();
        let waits = Schedule::from_plan(&plan, Vec::new()).waits;
        let same = waits.chunk_by(|one, next| (one.step, one.position + 1) == (next.step, next.position));
        let found = same.map(|it| {
            assert!(it.iter().all(|wait| (wait.runnable, wait.cause) == (it[0].runnable, WaitCause::Limit)));
            (it[0].step, it[0].position, it.len(), it[0].runnable)
        });
        assert_eq!(found.collect::<Vec<_>>(), [(303, 1, 127, 302), (386, 128, 128, 302)]);
    }
}
