//! The interpreter: one match for each instruction of a warp, then a loop over its lanes.
//!
//! Registers are arrays over the lanes, which the compiler turns into vector instructions. A result is
//! computed for all lanes, and stored in those of the mask.

#![allow(clippy::needless_range_loop, reason = "a lane is an index of several registers")]

mod convert;
mod float;
mod integer;
mod lanes;
mod matrix;
mod memory;
mod warp;

use super::op::Op;
use super::program::{Program, Special};
use crate::engine::{Action, BarrierUse, BlockMemory, BlockPlace, Event, Group, InstructionSet, WarpPlace};
use crate::fault::Cause;
pub(crate) use lanes::Warp;
use lanes::{LANES, Short, Step, mask_of, truth};

impl InstructionSet for Program {
    const LANES: u32 = LANES as u32;
    type Warp = Warp;

    fn warp(&self) -> Warp {
        let mut warp = Warp::new(self.shorts, self.longs);
        for (reg, value) in &self.short_constants {
            warp.short[*reg as usize] = [*value; LANES];
        }
        for (reg, value) in &self.long_constants {
            warp.long[*reg as usize] = [*value; LANES];
        }
        warp
    }

    fn start(&self, warp: &mut Warp, place: &WarpPlace) {
        for range in &self.short_variables {
            warp.short[range.clone()].fill([0; LANES]);
        }
        for range in &self.long_variables {
            warp.long[range.clone()].fill([0; LANES]);
        }
        for (special, reg) in &self.specials {
            warp.short[*reg as usize] = self.special(*special, place);
        }
    }

    fn run(&self, warp: &mut Warp, group: &mut Group, memory: &mut BlockMemory<'_>, fuel: &mut u64) -> Event {
        let active = group.mask as u32;
        let threads = u64::from(active.count_ones());
        let mut pc = group.pc;
        loop {
            group.pc = pc;
            if pc >= group.limit {
                return Event::Limit;
            }
            if *fuel == 0 {
                return Event::Limit;
            }
            *fuel -= 1;
            let inst = &self.code[pc as usize];
            memory.instructions += if inst.counts { threads } else { 0 };
            let mut mask = active;
            if inst.guard != 0 {
                let guard = mask_of(&warp.short[inst.guard as usize]);
                mask &= if inst.is_negated { !guard } else { guard };
            }
            pc += 1;
            if mask == 0 {
                continue;
            }
            if inst.op == Op::Branch {
                let target = inst.imm as u32;
                if mask != active {
                    group.pc = pc;
                    return Event::Lanes(mask.into(), Action::Branch(target));
                }
                let is_backwards = target < pc;
                pc = target;
                if is_backwards && group.is_watched {
                    group.pc = pc;
                    return Event::Limit;
                }
                continue;
            }
            if let Some(event) = warp.execute(Step { inst, mask, lists: &self.lists }, group, memory) {
                return event;
            }
        }
    }

    fn store_barrier(&self, warp: &mut Warp, pc: u32, mask: u64, value: u32) {
        let inst = &self.code[pc as usize - 1];
        if let Op::Barrier(kind) = inst.op
            && !matches!(kind, super::BarrierKind::Sync | super::BarrierKind::Arrive)
        {
            warp.set(inst.d, mask as u32, &[value; LANES]);
        }
    }

    fn place(&self, pc: u32) -> u32 {
        self.code.get(pc as usize).map_or(0, |it| it.at)
    }
}

impl Program {
    /// The value of a special register in each lane of a warp.
    fn special(&self, (special, dimension): (Special, usize), place: &WarpPlace) -> Short {
        let BlockPlace { block, grid, size, dynamic_shared_bytes } = place.block;
        let [x, y, _] = size;
        let lanes = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|lane| f(lane as u32));
        let thread = |lane: u32| place.index * LANES as u32 + lane;
        let all = |value: u32| [value; LANES];
        match special {
            Special::Thread => lanes(&|lane| {
                let thread = thread(lane);
                [thread % x, thread / x % y, thread / x / y][dimension]
            }),
            Special::Threads => all(size[dimension]),
            Special::Block => all(block[dimension]),
            Special::Blocks => all(grid[dimension]),
            Special::Lane => lanes(&|lane| lane),
            Special::Warp => all(place.index),
            Special::Warps => all(size.iter().product::<u32>().div_ceil(LANES as u32)),
            Special::MaskEq => lanes(&|lane| 1 << lane),
            Special::MaskLt => lanes(&|lane| (1 << lane) - 1),
            Special::MaskLe => lanes(&|lane| (1 << lane) | ((1 << lane) - 1)),
            Special::MaskGt => lanes(&|lane| !((1 << lane) | ((1 << lane) - 1))),
            Special::MaskGe => lanes(&|lane| !((1 << lane) - 1)),
            Special::DynamicShared => all(dynamic_shared_bytes),
            Special::TotalShared => all(self.shared_bytes + dynamic_shared_bytes),
        }
    }
}

impl Warp {
    /// Executes an instruction for some lanes. Its place is that of the group; the result is the reason to
    /// stop, if it is one.
    #[inline(always)]
    fn execute(&mut self, step: Step<'_>, group: &mut Group, memory: &mut BlockMemory<'_>) -> Option<Event> {
        match step.inst.op {
            Op::Fma32 => self.fma32(step),
            Op::Add32 => self.floats(step, |a, b| a + b),
            Op::Sub32 => self.floats(step, |a, b| a - b),
            Op::Mul32 => self.floats(step, |a, b| a * b),
            Op::Mov => self.one(step, |a| a),
            Op::MovLong => self.one_long(step, |a| a),
            Op::Int(op, width) => self.int(op, width, step),
            Op::Cmp(cmp, kind, ftz) => self.compare(cmp, kind, ftz, step),
            Op::Select => self.three(step, |a, b, c| (a & c) | (b & !c)),
            Op::SelectLong => self.select_long(step),
            Op::Extend => self.widen(step, |a| a.into()),
            Op::ExtendSigned => self.widen(step, |a| a as i32 as i64 as u64),
            Op::Truncate => self.narrow(step, |a| a as u32),
            Op::Float(float) => self.float(float, step),
            Op::Convert(convert) => self.convert(&convert, step),
            Op::Load(access) => self.load(&access, step, memory),
            Op::Store(access) => self.store(&access, step, memory),
            _ => return self.rarer(step, group, memory),
        }
        None
    }

    fn rarer(&mut self, step: Step<'_>, group: &mut Group, memory: &mut BlockMemory<'_>) -> Option<Event> {
        match step.inst.op {
            Op::IntUnary(op, width) => self.int_unary(op, width, step),
            Op::BitCount(count, width) => self.bit_count(count, width, step),
            Op::MulWide { signed, width } => self.mul_wide(signed, width, step),
            Op::Carry { borrow, width } => self.carry(borrow, width, step),
            Op::Mul24 { signed, high } => self.mul24(signed, high, step),
            Op::Copysign { long } => self.copysign(long, step),
            Op::Testp { long, test } => self.testp(long, test, step),
            Op::Narrow { bits, signed, to } => self.narrow_bits(bits, signed, to, step),
            Op::Pack { bits, count } => self.pack(bits, count, step),
            Op::Unpack { bits, count } => self.unpack(bits, count, step),
            Op::Bfe { signed, long } => self.bfe(signed, long, step),
            Op::Bfi { long } => self.bfi(long, step),
            Op::Bmsk { clamp } => self.bmsk(clamp, step),
            Op::Prmt(mode) => self.three(step, |a, b, c| integer::prmt(mode, a, b, c)),
            Op::Shf { left, wrap } => self.three(step, |a, b, c| integer::shf(left, wrap, a, b, c)),
            Op::Lop3 => self.three(step, |a, b, c| integer::lop3(step.inst.imm as u32, a, b, c)),
            Op::Dp4a { a, b } => self.three(step, |x, y, z| integer::dp4a(a, b, x, y, z)),
            Op::Dp2a { a, b, high } => self.three(step, |x, y, z| integer::dp2a(a, b, high, x, y, z)),
            Op::Fns => self.three(step, integer::fns),
            Op::CopyAsync { bytes, short_address, sized } => {
                self.copy_async(bytes, short_address, sized, step, memory);
            }
            Op::Atomic(atomic) => self.atomic(&atomic, step, memory),
            Op::Fence => std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst),
            Op::IsSpace(place) => self.is_space(place, step),
            Op::ToGeneric(place) => self.space_to_generic(place, step),
            Op::FromGeneric(place) => self.generic_to_space(place, step),
            Op::ActiveMask => self.set(step.inst.d, step.mask, &[step.mask; LANES]),
            Op::Clock => self.set(step.inst.d, step.mask, &[memory.instructions as u32; LANES]),
            Op::ClockLong => self.set_long(step.inst.d, step.mask, &[memory.instructions; LANES]),
            Op::Nothing => {}
            _ => return self.together(step, group, memory),
        }
        None
    }

    /// Instructions of several lanes together, and control flow.
    fn together(&mut self, step: Step<'_>, group: &mut Group, memory: &mut BlockMemory<'_>) -> Option<Event> {
        let members = match step.inst.op {
            Op::Shuffle(_)
            | Op::Vote(_)
            | Op::MatchAny { .. }
            | Op::MatchAll { .. }
            | Op::Redux(_)
            | Op::SyncWarp => self.short[step.list(1)[0] as usize],
            Op::Mma(_) | Op::LoadMatrix { .. } | Op::StoreMatrix { .. } | Op::MoveMatrix => [u32::MAX; LANES],
            _ => return self.control(step, group),
        };
        // Lanes with different masks are different groups.
        let (mut left, mut waiting, mut awaited) = (step.mask, 0, 0);
        while left != 0 {
            let named = members[left.trailing_zeros() as usize];
            let same = left & mask_of(&members.map(|it| truth(it == named)));
            left &= !same;
            if same & !named != 0 {
                let what = format!("lanes {same:#x} execute an instruction for lanes {named:#x}");
                return Some(Event::Fault(Cause::Invalid(what)));
            }
            let missing = named & group.live as u32 & !same;
            if missing == 0 {
                memory.end_step(same.into(), group.live & !u64::from(same) == 0);
                self.exchange(Step { mask: same, ..step }, memory);
            } else {
                (waiting, awaited) = (waiting | same, awaited | missing);
            }
        }
        (waiting != 0).then(|| Event::Lanes(waiting.into(), Action::Wait(awaited.into())))
    }

    /// An instruction of lanes that have all reached it.
    fn exchange(&mut self, step: Step<'_>, memory: &mut BlockMemory<'_>) {
        match step.inst.op {
            Op::Shuffle(mode) => self.shuffle(mode, step),
            Op::Vote(vote) => self.vote(vote, step),
            Op::MatchAny { long } => self.match_any(long, step),
            Op::MatchAll { long } => self.match_all(long, step),
            Op::Redux(reduce) => self.redux(reduce, step),
            Op::Mma(matrix) => self.mma(&matrix, step),
            Op::LoadMatrix { count, transposed } => self.load_matrix(count, transposed, step, memory),
            Op::StoreMatrix { count, transposed } => self.store_matrix(count, transposed, step, memory),
            Op::MoveMatrix => self.move_matrix(step),
            _ => {}
        }
    }

    /// Control flow, and barriers of the block.
    fn control(&mut self, step: Step<'_>, group: &mut Group) -> Option<Event> {
        let Step { inst, mask, .. } = step;
        let (mut done, first) = (mask, mask.trailing_zeros() as usize);
        let action = match inst.op {
            Op::Barrier(kind) => {
                let id = self.short[inst.a as usize][first];
                let threads = (inst.imm != 0).then(|| self.short[inst.b as usize][first]);
                let is_multiple = threads.is_none_or(|it| it != 0 && it.is_multiple_of(LANES as u32));
                if id >= 16 || !is_multiple {
                    let count = threads.map_or("all".to_owned(), |it| it.to_string());
                    let what = format!("barrier {id} for {count} threads: at most 15, and a multiple of 32");
                    return Some(Event::Fault(Cause::Invalid(what)));
                }
                let predicate = mask_of(&self.short[inst.c as usize]).into();
                Action::Barrier(BarrierUse { id, threads, kind, predicate })
            }
            Op::BranchIndexed => {
                // Lanes with another index execute it again.
                let indices = &self.short[inst.a as usize];
                let index = indices[first];
                if index >= inst.d {
                    let what = format!("brx.idx by {index} of a list of {} targets", inst.d);
                    return Some(Event::Fault(Cause::Invalid(what)));
                }
                let same = (0..LANES).filter(|it| indices[*it] == index).fold(0, |all, it| all | 1 << it);
                done &= same;
                Action::Branch(step.lists[inst.imm as usize + index as usize])
            }
            Op::Call => Action::Call(inst.imm as u32),
            Op::Return => Action::Return,
            Op::Exit => Action::Exit,
            Op::Trap => return Some(Event::Fault(Cause::Trap)),
            _ => return None,
        };
        group.pc += u32::from(done == mask);
        Some(Event::Lanes(done.into(), action))
    }
}
