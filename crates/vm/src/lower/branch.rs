//! Control flow between blocks: branches, jump tables, and the rotation of loops.

use crate::code::Insn;
use crate::instruction::{Instruction, List};
use crate::superinstructions::fuse;

use super::{Lowering, RESOLVED, UNKNOWN};

impl Lowering<'_> {
    /// `block`: the start of a basic block, which may be a jump target.
    pub(super) fn start_block(&mut self, _from: &Instruction<'_>) {
        self.blocks.push((self.offset, self.insns.len() as u32));
        self.barrier();
    }

    /// `br`: the only terminator whose block arguments are coalesced.
    pub(super) fn unconditional(&mut self, from: &Instruction<'_>) {
        let moves = from.list(1).pairs().enumerate();
        let moves = moves.filter(|(index, _)| !self.coalesced.contains(*index)).map(|(_, pair)| pair);
        let moves = moves.collect();
        self.branch(from.ordinal(0), moves);
    }

    /// `break`: no debugger is attached.
    pub(super) fn branch_always(&mut self, from: &Instruction<'_>) {
        self.branch(from.ordinal(0), from.list(1).pairs().collect());
    }

    /// `cond_break`: no debugger is attached.
    pub(super) fn branch_unless_broken(&mut self, from: &Instruction<'_>) {
        self.branch(from.ordinal(1), from.list(2).pairs().collect());
    }

    /// `yield`
    pub(super) fn yield_to(&mut self, from: &Instruction<'_>) {
        self.moves(from.list(1).pairs());
        self.emit(Insn::Yield { to: from.ordinal(0) });
    }

    /// `cond_br`
    pub(super) fn conditional(&mut self, from: &Instruction<'_>) {
        let (yes, yes_moves) = (from.ordinal(1), from.list(2));
        let (no, no_moves) = (from.ordinal(3), from.list(4));
        let condition = from.register(0);
        let is_moved = |moves: List<'_>| moves.pairs().any(|(source, _)| source == condition);
        let is_live = is_moved(yes_moves)
            || is_moved(no_moves)
            || self.liveness.is_live(yes, condition)
            || self.liveness.is_live(no, condition);
        let branch = Insn::BranchNZI32 { registers: [condition, 0, 0, 0, 0], to: UNKNOWN };
        match is_live {
            true => self.emit(branch),
            false => self.emit_last_use(branch, condition),
        }
        let at = self.insns.len() - 1;
        self.barrier();
        if yes_moves.len() == 0 {
            self.branch(no, no_moves.pairs().collect());
            return self.set_target(at, yes);
        }
        self.moves(no_moves.pairs());
        self.jump(no);
        let yes = self.edge(yes, yes_moves);
        self.set_target(at, yes);
    }

    /// `br_table`
    pub(super) fn branch_table(&mut self, from: &Instruction<'_>) {
        let table = self.jump_tables.len() as u32;
        self.emit(Insn::JumpTable { index: from.register(0), table });
        let mut targets = Vec::new();
        for (target, moves) in from.cases(3) {
            targets.push(self.edge(*target, *moves));
        }
        targets.push(self.edge(from.ordinal(1), from.list(2)));
        self.jump_tables.push(targets);
    }

    /// Jumps to a block.
    pub(super) fn jump(&mut self, to: u32) {
        let jump = Insn::Jump { to };
        let is_fused = self.last().and_then(|last| fuse(last, jump, &|_, _| false)).is_some();
        if !is_fused && let Some((copy, fall_through)) = self.condition_at(to) {
            self.emit(copy);
            return self.push(Insn::Jump { to: fall_through | RESOLVED });
        }
        self.emit(jump);
    }

    /// Branches to a block with moves; falls through to it if it is the next one.
    fn branch(&mut self, target: u32, moves: Vec<(u16, u16)>) {
        let step = self.take_step(target, &moves);
        self.moves(moves.into_iter());
        self.fuse_on_edge(target, step);
        if let Some(step) = step {
            self.emit(step);
        }
        if target != self.next {
            self.jump(target);
        }
    }

    /// The target of a branch with moves: the block itself without moves, else a new edge block that performs
    /// them.
    fn edge(&mut self, target: u32, moves: List<'_>) -> u32 {
        if moves.len() == 0 {
            return target;
        }
        let start = self.insns.len() as u32;
        self.barrier();
        self.moves(moves.pairs());
        self.jump(target);
        start | RESOLVED
    }

    fn set_target(&mut self, at: usize, target: u32) {
        if let Some(to) = self.insns.get_mut(at).and_then(Insn::target_mut) {
            *to = target;
        }
    }

    /// Loop rotation: the conditional branch that a block starts with, if the block is lowered already, as
    /// loop headers are, and the instruction that it falls through to. On a back edge a copy of it replaces
    /// the jump.
    fn condition_at(&self, block: u32) -> Option<(Insn, u32)> {
        if !self.optimizes {
            return None;
        }
        let at = self.blocks.binary_search_by_key(&block, |(offset, _)| *offset).ok()?;
        let index = self.blocks[at].1;
        let mut insn = *self.insns.get(index as usize)?;
        let is_known = insn.target_mut().is_some_and(|to| *to != UNKNOWN);
        (insn.is_conditional() && is_known).then_some((insn, index + 1))
    }

    /// Removes the last instruction, if it steps the variable that the loop header `target` tests and
    /// commutes with the moves of the edge: emitted after them, it fuses with the copy of the test.
    fn take_step(&mut self, target: u32, moves: &[(u16, u16)]) -> Option<Insn> {
        let step = self.last()?;
        let accessed = step.accessed()?;
        let (condition, _) = self.condition_at(target)?;
        fuse(step, condition, &|_, _| false)?;
        let is_in = |register: u16, (first, count): (u16, u16)| (first..first + count).contains(&register);
        let result = *accessed.last()?;
        let conflicts = |(source, target): &(u16, u16)| {
            is_in(*source, result) || accessed.iter().any(|registers| is_in(*target, *registers))
        };
        if moves.iter().any(conflicts) {
            return None;
        }
        self.take_last().map(|(step, _)| step)
    }
}
