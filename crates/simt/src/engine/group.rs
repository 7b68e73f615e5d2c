use super::barrier::BarrierUse;
use crate::fault::Cause;

/// Instructions of a group while others of its warp are ready: it may wait for what they do.
pub(crate) const GROUP_TURN: u64 = 1 << 9;

/// Lanes of a warp at the same place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub pc: u32,
    pub mask: u64,
    /// Where the calls that it is in return to, the first call first.
    pub calls: Vec<u32>,
    pub state: State,
    /// Lanes of the warp that have not ended.
    pub live: u64,
    /// It must not run at or beyond this place: another group is there.
    pub limit: u32,
    /// Whether it must stop after a jump backwards.
    pub is_watched: bool,
    /// Instructions that are left of its turn.
    pub turn: u64,
    /// Whether it used up its turn, and others run first.
    pub is_tired: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Ready,
    /// At a barrier of the block, of which it arrived.
    Barrier(u32),
    /// For these lanes of its warp to reach the same instruction.
    Lanes(u64),
}

/// Why a group stopped. Its place is that of the next instruction, or of the one that waits.
#[derive(Debug)]
pub(crate) enum Event {
    /// It is at or beyond its limit, jumped backwards while it is watched, or used up its fuel.
    Limit,
    /// The lanes of a mask do something, the others are at the place of the group.
    Lanes(u64, Action),
    Fault(Cause),
}

/// An action of lanes of a group.
#[derive(Debug)]
pub(crate) enum Action {
    /// They go on at a target.
    Branch(u32),
    Call(u32),
    Return,
    Exit,
    /// At this place, they need these others of their warp to reach it; the rest is at the next.
    Wait(u64),
    Barrier(BarrierUse),
}

/// The groups of a warp.
#[derive(Default)]
pub(crate) struct Groups {
    pub all: Vec<Group>,
    pub live: u64,
}

impl Groups {
    pub(crate) fn start(&mut self, mask: u64) {
        self.all.clear();
        self.live = mask;
        let group = Group { mask, live: mask, limit: u32::MAX, turn: GROUP_TURN, ..Group::default() };
        self.all.push(group);
    }

    /// Takes the group that runs next, with its limit; `None` if all wait.
    pub(crate) fn take_next(&mut self) -> Option<Group> {
        if self.all.len() == 1 {
            let mut group = self.all.pop_if(|it| it.state == State::Ready)?;
            (group.live, group.limit, group.is_watched) = (self.live, u32::MAX, false);
            return Some(group);
        }
        self.join();
        let next = |all: &[Group], with_tired: bool| {
            let ready = |it: &Group| it.state == State::Ready && (with_tired || !it.is_tired);
            (0..all.len()).filter(|it| ready(&all[*it])).min_by(|a, b| place(&all[*a]).cmp(place(&all[*b])))
        };
        let index = match next(&self.all, false) {
            Some(index) => index,
            None => {
                let index = next(&self.all, true)?;
                self.all.iter_mut().for_each(|it| it.is_tired = false);
                index
            }
        };
        let mut group = self.all.swap_remove(index);
        group.live = self.live;
        let others = self.all.iter().filter(|it| !matches!(it.state, State::Barrier(_)));
        group.limit = others.clone().filter_map(|it| limit(&group, it)).min().unwrap_or(u32::MAX);
        group.is_watched = others.count() > 0;
        Some(group)
    }

    pub(crate) fn put(&mut self, group: Group) {
        if group.mask != 0 {
            self.all.push(group);
        }
    }

    /// Joins groups at the same place.
    fn join(&mut self) {
        let mut index = 0;
        while index < self.all.len() {
            let mut other = index + 1;
            while other < self.all.len() {
                let (a, b) = (&self.all[index], &self.all[other]);
                let waits = |it: &Group| matches!(it.state, State::Barrier(_));
                if a.pc == b.pc && !waits(a) && !waits(b) && a.calls == b.calls {
                    let joined = self.all.swap_remove(other);
                    self.all[index].mask |= joined.mask;
                    self.all[index].is_tired &= joined.is_tired;
                    self.all[index].state = State::Ready;
                } else {
                    other += 1;
                }
            }
            index += 1;
        }
    }
}

/// The order of places: that of the outermost call first.
fn place(group: &Group) -> impl Iterator<Item = u32> {
    group.calls.iter().copied().chain([group.pc])
}

/// Where `group` reaches the place of `other`, or the one to which it returns; `None` if it is elsewhere or
/// before.
fn limit(group: &Group, other: &Group) -> Option<u32> {
    let depth = group.calls.len();
    let is_within = other.calls.starts_with(&group.calls);
    let at = other.calls.get(depth).copied().unwrap_or(other.pc);
    (is_within && at > group.pc).then_some(at)
}
