use super::barrier::{BARRIERS, Barrier, BarrierUse};
use super::group::{Action, Event, GROUP_TURN, Group, Groups, State};
use super::instruction_set::{BlockPlace, InstructionSet, WarpPlace, first_lanes};
use super::memory::BlockMemory;
use crate::fault::{Cause, WarpAt};

/// Instructions of warps between two looks at the clock of the launch.
const TURN: u64 = 1 << 14;

/// The warps of a block, which are used for one block after the other.
pub(crate) struct Block<I: InstructionSet> {
    warps: Vec<Warp<I>>,
    barriers: [Barrier; BARRIERS],
    live: u32,
}

struct Warp<I: InstructionSet> {
    registers: I::Warp,
    groups: Groups,
    /// Lanes within the block.
    lanes: u32,
}

impl<I: InstructionSet> Block<I> {
    pub(crate) fn new(code: &I, threads: u32) -> Self {
        let warp = |index: u32| Warp {
            registers: code.warp(),
            groups: Groups::default(),
            lanes: (threads - index * I::LANES).min(I::LANES),
        };
        let warps = (0..threads.div_ceil(I::LANES)).map(warp).collect();
        Self { warps, barriers: Default::default(), live: 0 }
    }

    /// Runs a block to its end. `go_on` is asked after every turn, with the instructions of it.
    pub(crate) fn run(
        &mut self,
        code: &I,
        place: &BlockPlace,
        memory: &mut BlockMemory<'_>,
        go_on: &mut dyn FnMut(&BlockMemory<'_>) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        self.start(code, place);
        let mut fuel = TURN.min(memory.turn());
        loop {
            let (mut is_idle, mut is_done) = (true, true);
            for index in 0..self.warps.len() {
                memory.set_warp(index as u32);
                while let Some(mut group) = self.warps[index].groups.take_next() {
                    is_idle = false;
                    let registers = &mut self.warps[index].registers;
                    let turn = if group.is_watched { fuel.min(group.turn) } else { fuel };
                    let mut left = turn;
                    let event = code.run(registers, &mut group, memory, &mut left);
                    fuel -= turn - left;
                    group.turn = group.turn.saturating_sub(turn - left);
                    if group.turn == 0 {
                        (group.is_tired, group.turn) = (true, GROUP_TURN);
                    }
                    let is_turn_over = fuel == 0;
                    let handled = self.handle(code, index, group, event, memory);
                    if is_turn_over {
                        go_on(memory)?;
                        fuel = TURN.min(memory.turn());
                    }
                    handled?;
                    if is_turn_over {
                        break;
                    }
                }
                is_done &= self.warps[index].groups.all.is_empty();
            }
            if is_done {
                return Ok(());
            }
            if is_idle {
                return Err(Cause::Deadlock);
            }
        }
    }

    fn start(&mut self, code: &I, place: &BlockPlace) {
        self.live = 0;
        self.barriers = Default::default();
        for (index, warp) in self.warps.iter_mut().enumerate() {
            code.start(&mut warp.registers, &WarpPlace { block: *place, index: index as u32 });
            warp.groups.start(first_lanes(warp.lanes));
            self.live += warp.lanes;
        }
    }

    fn handle(
        &mut self,
        code: &I,
        index: usize,
        mut group: Group,
        event: Event,
        memory: &mut BlockMemory<'_>,
    ) -> Result<(), Cause> {
        let groups = &mut self.warps[index].groups;
        let (mask, action) = match event {
            Event::Lanes(mask, action) => (mask, action),
            Event::Limit | Event::Fault(_) => {
                groups.put(group);
                return if let Event::Fault(cause) = event { Err(cause) } else { Ok(()) };
            }
        };
        let mut part = Group { mask, calls: group.calls.clone(), ..group };
        group.mask &= !mask;
        match action {
            Action::Branch(target) => groups.put(Group { pc: target, ..part }),
            Action::Call(target) => {
                part.calls.push(part.pc);
                groups.put(Group { pc: target, ..part });
            }
            Action::Return => match part.calls.pop() {
                Some(pc) => groups.put(Group { pc, ..part }),
                None => self.exit(code, index, mask, memory),
            },
            Action::Exit => self.exit(code, index, mask, memory),
            Action::Wait(awaited) => {
                groups.put(Group { state: State::Lanes(awaited), ..part });
                group.pc += 1;
            }
            Action::Barrier(barrier) => {
                groups.put(Group { state: State::Barrier(barrier.id), ..part });
                groups.put(group);
                return self.arrive(code, index, mask, &barrier, memory);
            }
        }
        self.warps[index].groups.put(group);
        Ok(())
    }

    fn exit(&mut self, code: &I, index: usize, mask: u64, memory: &mut BlockMemory<'_>) {
        self.warps[index].groups.live &= !mask;
        self.live -= mask.count_ones();
        // Those that waited for these lanes do so no longer.
        let waits = |it: &&mut Group| matches!(it.state, State::Lanes(_));
        for group in self.warps[index].groups.all.iter_mut().filter(waits) {
            group.state = State::Ready;
        }
        for id in 0..BARRIERS {
            self.release_if_complete(code, id, memory);
        }
    }

    fn arrive(
        &mut self,
        code: &I,
        index: usize,
        mask: u64,
        how: &BarrierUse,
        memory: &mut BlockMemory<'_>,
    ) -> Result<(), Cause> {
        let warp = &mut self.warps[index];
        let absent = I::LANES - warp.lanes;
        if how.kind == crate::ptx::BarrierKind::Arrive {
            for group in &mut warp.groups.all {
                if group.state == State::Barrier(how.id) && group.mask == mask {
                    group.state = State::Ready;
                }
            }
        }
        let waits = how.kind != crate::ptx::BarrierKind::Arrive;
        let barrier = &mut self.barriers[how.id as usize];
        barrier.arrivals.extend(memory.arrive(index as u32, mask, waits));
        barrier.arrive(index as u32, mask, absent, how).map_err(Cause::Barrier)?;
        self.release_if_complete(code, how.id as usize, memory);
        Ok(())
    }

    fn release_if_complete(&mut self, code: &I, id: usize, memory: &mut BlockMemory<'_>) {
        if !self.barriers[id].is_complete(self.live) {
            return;
        }
        if memory.shared.checks.barriers && self.barriers[id].threads.is_none() {
            self.check_barrier(code, id, memory);
        }
        let barrier = &self.barriers[id];
        let all = &barrier.arrivals;
        let is_whole = all.iter().all(|it| it.waits)
            && all.iter().map(|it| it.mask.count_ones()).sum::<u32>() == self.live;
        memory.end_phase(all, barrier.threads.is_none() || is_whole);
        let value = self.barriers[id].release();
        for warp in &mut self.warps {
            for group in &mut warp.groups.all {
                if group.state == State::Barrier(id as u32) {
                    group.state = State::Ready;
                    code.store_barrier(&mut warp.registers, group.pc, group.mask, value);
                }
            }
        }
    }

    /// Finds threads that are at another instruction than the first, and those that ended.
    fn check_barrier(&self, code: &I, id: usize, memory: &mut BlockMemory<'_>) {
        let all = self.warps.iter().enumerate().flat_map(|(index, warp)| {
            let waiting = warp.groups.all.iter().filter(|it| it.state == State::Barrier(id as u32));
            waiting.map(move |it| (index as u32 * I::LANES + it.mask.trailing_zeros(), it.pc))
        });
        let all: Vec<_> = all.collect();
        let threads: u32 = self.warps.iter().map(|it| it.lanes).sum();
        let Some((first, pc)) = all.iter().min().copied() else { return };
        let other =
            all.iter().copied().find(|it| it.1 != pc).or((self.live < threads).then_some((first, pc)));
        if let Some((thread, pc)) = other {
            memory.find_barrier(thread, code.place(pc - 1), id);
        }
    }

    /// Where the warps are: each group of lanes of each.
    pub(crate) fn places(&self, code: &I) -> Vec<WarpAt> {
        let mut all = Vec::new();
        for (index, warp) in self.warps.iter().enumerate() {
            for group in &warp.groups.all {
                let (what, at) = match group.state {
                    State::Ready => ("runs".to_owned(), group.pc),
                    State::Lanes(awaited) => {
                        let what = "which its mask names, to execute the same instruction";
                        (format!("waits for lanes {awaited:#x}, {what},"), group.pc)
                    }
                    State::Barrier(id) => {
                        let arrived = self.barriers[id as usize].arrived;
                        (format!("waits at barrier {id}, which {arrived} threads reached"), group.pc - 1)
                    }
                };
                let mask = group.mask;
                all.push(WarpAt { warp: index as u32, mask, what, at: code.place(at) });
            }
        }
        all
    }
}
