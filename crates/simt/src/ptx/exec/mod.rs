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

use super::op::{Inst, Op};
use super::program::{Program, Special};
use crate::engine::{BarrierUse, BlockMemory, Event, Group, InstructionSet, Site, WarpPlace};
use crate::fault::Cause;
pub(crate) use lanes::Warp;
use lanes::{LANES, Short, mask_of};

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
                return Event::Fuel;
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
                    return Event::Branch { mask: mask.into(), target };
                }
                let is_backwards = target < pc;
                pc = target;
                if is_backwards && group.is_watched {
                    group.pc = pc;
                    return Event::Limit;
                }
                continue;
            }
            if let Some(event) = self.execute(inst, mask, warp, group, memory) {
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

    fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }
}

impl Program {
    /// The value of a special register in each lane of a warp.
    fn special(&self, special: Special, place: &WarpPlace) -> Short {
        let [x, y, _] = place.block_size;
        let lanes = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|lane| f(lane as u32));
        let thread = |lane: u32| place.index * LANES as u32 + lane;
        let all = |value: u32| [value; LANES];
        match special {
            Special::Thread(0) => lanes(&|lane| thread(lane) % x),
            Special::Thread(1) => lanes(&|lane| thread(lane) / x % y),
            Special::Thread(_) => lanes(&|lane| thread(lane) / x / y),
            Special::Threads(dimension) => all(place.block_size[usize::from(dimension)]),
            Special::Block(dimension) => all(place.block[usize::from(dimension)]),
            Special::Blocks(dimension) => all(place.grid[usize::from(dimension)]),
            Special::Lane => lanes(&|lane| lane),
            Special::Warp => all(place.index),
            Special::Warps => all(place.block_size.iter().product::<u32>().div_ceil(LANES as u32)),
            Special::MaskEq => lanes(&|lane| 1 << lane),
            Special::MaskLt => lanes(&|lane| (1 << lane) - 1),
            Special::MaskLe => lanes(&|lane| (1 << lane) | ((1 << lane) - 1)),
            Special::MaskGt => lanes(&|lane| !((1 << lane) | ((1 << lane) - 1))),
            Special::MaskGe => lanes(&|lane| !((1 << lane) - 1)),
            Special::DynamicShared => all(place.dynamic_shared_bytes),
            Special::TotalShared => all(self.shared_bytes + place.dynamic_shared_bytes),
        }
    }

    /// Executes an instruction for some lanes. Its place is that of the group; the result is the reason to
    /// stop, if it is one.
    #[inline(always)]
    fn execute(
        &self,
        inst: &Inst,
        mask: u32,
        warp: &mut Warp,
        group: &mut Group,
        memory: &mut BlockMemory<'_>,
    ) -> Option<Event> {
        match inst.op {
            Op::Fma32 => warp.fma32(inst, mask),
            Op::Add32 => warp.floats(inst, mask, |a, b| a + b),
            Op::Sub32 => warp.floats(inst, mask, |a, b| a - b),
            Op::Mul32 => warp.floats(inst, mask, |a, b| a * b),
            Op::Mov => warp.one(inst, mask, |a| a),
            Op::MovLong => warp.one_long(inst, mask, |a| a),
            Op::Int(op, width) => warp.int(op, width, inst, mask),
            Op::Cmp(cmp, kind, ftz) => warp.compare(cmp, kind, ftz, inst, mask),
            Op::Select => warp.three(inst, mask, |a, b, c| (a & c) | (b & !c)),
            Op::SelectLong => warp.select_long(inst, mask),
            Op::Extend => warp.widen(inst, mask, |a| a.into()),
            Op::ExtendSigned => warp.widen(inst, mask, |a| a as i32 as i64 as u64),
            Op::Truncate => warp.narrow(inst, mask, |a| a as u32),
            Op::Float(float) => warp.float(float, inst, mask),
            Op::Convert(convert) => warp.convert(&convert, inst, mask),
            Op::Load(access) => warp.load(&access, inst, mask, &self.lists, memory),
            Op::Store(access) => warp.store(&access, inst, mask, &self.lists, memory),
            _ => return self.execute_rarer(inst, mask, warp, group, memory),
        }
        None
    }

    fn execute_rarer(
        &self,
        inst: &Inst,
        mask: u32,
        warp: &mut Warp,
        group: &mut Group,
        memory: &mut BlockMemory<'_>,
    ) -> Option<Event> {
        let lists = &self.lists;
        match inst.op {
            Op::IntUnary(op, width) => warp.int_unary(op, width, inst, mask),
            Op::BitCount(count, width) => warp.bit_count(count, width, inst, mask),
            Op::MulWide { signed, width } => warp.mul_wide(signed, width, inst, mask),
            Op::Carry { borrow, width } => warp.carry(borrow, width, inst, mask),
            Op::Mul24 { signed, high } => warp.mul24(signed, high, inst, mask),
            Op::Copysign { long } => warp.copysign(long, inst, mask),
            Op::Testp { long, test } => warp.testp(long, test, inst, mask),
            Op::Narrow { bits, signed, to } => warp.narrow_bits(bits, signed, to, inst, mask),
            Op::Pack { bits, count } => warp.pack(bits, count, inst, mask, lists),
            Op::Unpack { bits, count } => warp.unpack(bits, count, inst, mask, lists),
            Op::Bfe { signed, long } => warp.bfe(signed, long, inst, mask),
            Op::Bfi { long } => warp.bfi(long, inst, mask, lists),
            Op::Bmsk { clamp } => warp.bmsk(clamp, inst, mask),
            Op::Prmt(mode) => warp.three(inst, mask, |a, b, c| integer::prmt(mode, a, b, c)),
            Op::Shf { left, wrap } => warp.three(inst, mask, |a, b, c| integer::shf(left, wrap, a, b, c)),
            Op::Lop3 => warp.three(inst, mask, |a, b, c| integer::lop3(inst.imm as u32, a, b, c)),
            Op::Dp4a { a, b } => warp.three(inst, mask, |x, y, z| integer::dp4a(a, b, x, y, z)),
            Op::Dp2a { a, b, high } => warp.three(inst, mask, |x, y, z| integer::dp2a(a, b, high, x, y, z)),
            Op::Fns => warp.three(inst, mask, integer::fns),
            Op::CopyAsync { bytes, short_address, sized } => {
                warp.copy_async(bytes, short_address, sized, inst, mask, lists, memory);
            }
            Op::Atomic(atomic) => warp.atomic(&atomic, inst, mask, memory),
            Op::IsSpace(place) => warp.is_space(place, inst, mask),
            Op::ToGeneric(place) => warp.space_to_generic(place, inst, mask),
            Op::FromGeneric(place) => warp.generic_to_space(place, inst, mask),
            Op::ActiveMask => warp.set(inst.d, mask, &[mask; LANES]),
            Op::Clock => warp.set(inst.d, mask, &[memory.instructions as u32; LANES]),
            Op::ClockLong => warp.set_long(inst.d, mask, &[memory.instructions; LANES]),
            Op::Nothing => {}
            _ => return self.execute_together(inst, mask, warp, group, memory),
        }
        None
    }

    /// Instructions of several lanes together, and control flow.
    fn execute_together(
        &self,
        inst: &Inst,
        mask: u32,
        warp: &mut Warp,
        group: &mut Group,
        memory: &mut BlockMemory<'_>,
    ) -> Option<Event> {
        let wide = u64::from(mask);
        let site = Site { at: inst.at, lane: mask.trailing_zeros() };
        let live = group.live as u32;
        let members = match inst.op {
            Op::Shuffle(_)
            | Op::Vote(_)
            | Op::MatchAny { .. }
            | Op::MatchAll { .. }
            | Op::Redux(_)
            | Op::SyncWarp => {
                let reg = self.lists[inst.imm as usize];
                Some(warp.short[reg as usize][site.lane as usize])
            }
            Op::Mma(_) | Op::LoadMatrix { .. } | Op::StoreMatrix { .. } | Op::MoveMatrix => Some(u32::MAX),
            _ => None,
        };
        if let Some(members) = members {
            if members & live & !mask != 0 {
                return Some(Event::Lanes { mask: wide });
            }
            memory.end_step();
        }
        let next = group.pc + 1;
        match inst.op {
            Op::Shuffle(mode) => warp.shuffle(mode, inst, mask, &self.lists),
            Op::Vote(vote) => warp.vote(vote, inst, mask),
            Op::MatchAny { long } => warp.match_any(long, inst, mask),
            Op::MatchAll { long } => warp.match_all(long, inst, mask),
            Op::Redux(reduce) => warp.redux(reduce, inst, mask),
            Op::SyncWarp => {}
            Op::Mma(matrix) => warp.mma(&matrix, inst, &self.lists),
            Op::LoadMatrix { count, transposed } => {
                warp.load_matrix(count, transposed, inst, &self.lists, memory);
            }
            Op::StoreMatrix { count, transposed } => {
                warp.store_matrix(count, transposed, inst, &self.lists, memory);
            }
            Op::MoveMatrix => warp.move_matrix(inst),
            Op::Barrier(kind) => {
                let lane = site.lane as usize;
                let id = warp.short[inst.a as usize][lane];
                let threads = (inst.imm != 0).then(|| warp.short[inst.b as usize][lane]);
                let is_multiple = threads.is_none_or(|it| it != 0 && it.is_multiple_of(LANES as u32));
                if id >= 16 || !is_multiple {
                    let what =
                        format!("barrier {id} for {threads:?} threads: at most 15, and a multiple of 32");
                    return Some(Event::Fault(Cause::Invalid(what)));
                }
                let predicate = mask_of(&warp.short[inst.c as usize]).into();
                group.pc = next;
                return Some(Event::Barrier {
                    mask: wide,
                    barrier: BarrierUse { id, threads, kind, predicate },
                });
            }
            Op::BranchIndexed => {
                // Lanes with another index execute it again.
                let indices = &warp.short[inst.a as usize];
                let index = indices[site.lane as usize];
                if index >= inst.d {
                    let what = format!("brx.idx by {index} of a list of {} targets", inst.d);
                    return Some(Event::Fault(Cause::Invalid(what)));
                }
                let same = (0..LANES).filter(|it| indices[*it] == index).fold(0, |all, it| all | 1 << it);
                let target = self.lists[inst.imm as usize + index as usize];
                if mask & !same == 0 {
                    group.pc = next;
                }
                return Some(Event::Branch { mask: (mask & same).into(), target });
            }
            Op::Call => {
                group.pc = next;
                return Some(Event::Call { mask: wide, target: inst.imm as u32 });
            }
            Op::Return => {
                group.pc = next;
                return Some(Event::Return { mask: wide });
            }
            Op::Exit => {
                group.pc = next;
                return Some(Event::Exit { mask: wide });
            }
            Op::Trap => return Some(Event::Fault(Cause::Trap)),
            _ => {}
        }
        None
    }
}
