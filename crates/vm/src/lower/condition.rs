//! Conditions: branches that are taken or not, and what becomes one with them.

use crate::code::Insn;
use crate::instruction::{Instruction, List};

use super::{Lowering, UNKNOWN, jump_target};

impl Lowering<'_> {
    /// Where a block that is lowered already starts with a condition, as loops do: that, and the instruction that
    /// follows it. At the end of a loop it can stand in the place of a jump to it.
    pub(super) fn condition_at(&self, block: u32) -> Option<(Insn, u32)> {
        if self.keeps_apart {
            return None;
        }
        let at = self.blocks.binary_search_by_key(&block, |(offset, _)| *offset).ok()?;
        let index = self.blocks[at].1;
        let mut insn = *self.insns.get(index as usize)?;
        if jump_target(&mut insn).is_some_and(|to| *to == UNKNOWN) {
            return None;
        }
        match insn {
            Insn::If { .. }
            | Insn::IfI64 { .. }
            | Insn::IfEQI32 { .. }
            | Insn::IfNEI32 { .. }
            | Insn::IfLTI32S { .. }
            | Insn::IfLTI32U { .. }
            | Insn::IfEQI64 { .. }
            | Insn::IfNEI64 { .. }
            | Insn::IfLTI64S { .. }
            | Insn::WhenEQI32 { .. }
            | Insn::WhenNEI32 { .. }
            | Insn::WhenLTI32S { .. }
            | Insn::WhenLTI32U { .. }
            | Insn::WhenEQI64 { .. }
            | Insn::WhenNEI64 { .. }
            | Insn::WhenLTI64S { .. }
            | Insn::WhenLTI64U { .. }
            | Insn::IfLTI64U { .. } => Some((insn, index + 1)),
            _ => None,
        }
    }

    /// Takes off the last instruction where it is a count that the condition at the start of `target` compares, and the
    /// moves on the way do not care when it is made: it becomes one with the condition.
    pub(super) fn take_counter(&mut self, target: u32, moves: &[(u16, u16)]) -> Option<Insn> {
        let counter = self.last()?;
        let (condition, _) = self.condition_at(target)?;
        fuse_count(counter, condition)?;
        let ([left, right, result], count) = match counter {
            Insn::AddI32(registers) | Insn::SubI32(registers) => (registers, 1),
            Insn::AddI64(registers) | Insn::SubI64(registers) => (registers, 2),
            _ => return None,
        };
        let is = |register: u16, first: u16| (first..first + count).contains(&register);
        let matters = |(source, target): &(u16, u16)| {
            is(*source, result) || [left, right, result].iter().any(|first| is(*target, *first))
        };
        if moves.iter().any(matters) {
            return None;
        }
        self.take_last()
    }

    pub(super) fn conditional(&mut self, from: &Instruction<'_>) {
        let (yes, yes_moves) = (from.ordinal(1), from.list(2));
        let condition = from.register(0);
        let reads = |moves: List<'_>| moves.pairs().any(|(source, _)| source == condition);
        let is_read = reads(yes_moves)
            || reads(from.list(4))
            || self.liveness.is_live(yes, condition)
            || self.liveness.is_live(from.ordinal(3), condition);
        let at = self.conditional_jump(condition, is_read);
        self.barrier();
        if yes_moves.len() == 0 {
            self.branch(from.ordinal(3), from.list(4).pairs().collect());
            return self.set_jump(at, yes);
        }
        self.moves(from.list(4).pairs());
        self.jump(from.ordinal(3));
        let yes = self.edge(yes, yes_moves);
        self.set_jump(at, yes);
    }

    /// Adds a jump that is taken where `condition` is not 0, as one with the comparison before it where it can be. Gives
    /// where it stands; where it leads is set later.
    fn conditional_jump(&mut self, condition: u16, is_read: bool) -> usize {
        let to = UNKNOWN;
        // What is compared with 0 is the condition itself, even where the result lies in its place.
        let nonzero = match self.last() {
            Some(Insn::CmpNZI32([value, result])) if result == condition => {
                Some(Insn::If { condition: value, to })
            }
            Some(Insn::CmpNZI64([value, result])) if result == condition => {
                Some(Insn::IfI64 { condition: value, to })
            }
            _ => None,
        };
        if let Some(insn) = nonzero {
            if is_read {
                self.push(insn);
            } else {
                self.take_last();
                self.push_condition(insn);
            }
            return self.insns.len() - 1;
        }
        let compared = self.last().and_then(|last| {
            let (registers, insn) = match last {
                Insn::CmpEQI32(registers) => (registers, Insn::IfEQI32 { registers, to }),
                Insn::CmpNEI32(registers) => (registers, Insn::IfNEI32 { registers, to }),
                Insn::CmpLTI32S(registers) => (registers, Insn::IfLTI32S { registers, to }),
                Insn::CmpLTI32U(registers) => (registers, Insn::IfLTI32U { registers, to }),
                Insn::CmpEQI64(registers) => (registers, Insn::IfEQI64 { registers, to }),
                Insn::CmpNEI64(registers) => (registers, Insn::IfNEI64 { registers, to }),
                Insn::CmpLTI64S(registers) => (registers, Insn::IfLTI64S { registers, to }),
                Insn::CmpLTI64U(registers) => (registers, Insn::IfLTI64U { registers, to }),
                _ => return None,
            };
            (registers[2] == condition).then_some(insn)
        });
        match compared {
            Some(insn) => {
                self.take_last();
                self.push_condition(if is_read { insn } else { without_result(insn) });
            }
            None => self.push_condition(Insn::If { condition, to }),
        }
        self.insns.len() - 1
    }

    /// Adds a condition, as one with the count before it where it can be.
    pub(super) fn push_condition(&mut self, insn: Insn) {
        let Some(before) = self.last() else { return self.push(insn) };
        let (first, count) = before.unpair().map_or((None, before), |(first, count)| (Some(first), count));
        let Some(both) = fuse_count(count, insn) else { return self.push(insn) };
        self.replace_last(1, first.unwrap_or(both));
        if first.is_some() {
            self.push(both);
        }
    }
}

/// A count and a condition that compares it, as one instruction.
fn fuse_count(count: Insn, condition: Insn) -> Option<Insn> {
    match (count, condition) {
        (Insn::AddI32([left, right, sum]), Insn::IfLTI32S { registers: [a, limit, result], to })
            if a == sum =>
        {
            Some(Insn::AddI32IfLT { registers: [left, right, sum, limit, result], to })
        }
        (Insn::AddI64([left, right, sum]), Insn::IfLTI64S { registers: [a, limit, result], to })
            if a == sum =>
        {
            Some(Insn::AddI64IfLT { registers: [left, right, sum, limit, result], to })
        }
        _ => count.count(condition),
    }
}

/// A condition that does not keep its result.
fn without_result(insn: Insn) -> Insn {
    macro_rules! without {
        ($($insn:ident $short:ident)*) => {
            match insn {
                $(Insn::$insn { registers: [left, right, _], to } => {
                    Insn::$short { registers: [left, right], to }
                })*
                _ => insn,
            }
        };
    }
    without!(
        IfEQI32 WhenEQI32
        IfNEI32 WhenNEI32
        IfLTI32S WhenLTI32S
        IfLTI32U WhenLTI32U
        IfEQI64 WhenEQI64
        IfNEI64 WhenNEI64
        IfLTI64S WhenLTI64S
        IfLTI64U WhenLTI64U
    )
}
