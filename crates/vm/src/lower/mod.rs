//! Makes of verified functions what the interpreter runs.

mod call;
mod condition;
mod simple;

use crate::arithmetic::Math;
use crate::coalesce::Coalesced;
use crate::code::{Code, Insn, Site, Slice};
use crate::instruction::{FieldValue, Instruction, List};
use crate::liveness::Liveness;
use crate::operation::{Field, Op};
use crate::tables::{Function, Tables};
use crate::verify::{Frame, REF_BIT, argument_registers, ends_block};
use crate::{Result, ValueKind};

use simple::{other, simple};

/// Makes of the verified function `ordinal`, which uses the registers of `frame`, what the interpreter runs.
///
/// Instructions that often follow each other become one, unless `keeps_apart`, as tracing wants it. Where an instruction
/// branches with moves, the moves become instructions of their own on the way.
pub(crate) fn lower(
    tables: &Tables,
    ordinal: u32,
    frame: Frame,
    bytecode: &[u8],
    keeps_apart: bool,
) -> Result<Code> {
    let function = &tables.functions[ordinal as usize];
    let liveness = Liveness::of(tables, function, frame.words, bytecode);
    let mut lowering = Lowering::new(tables, liveness, keeps_apart);
    lowering.is_half = vec![false; frame.words.into()];
    for (kind, register) in argument_registers(&function.convention) {
        lowering.used(register, kind);
    }
    let mut offset = 0;
    let mut block = Vec::new();
    while offset < bytecode.len() {
        let instruction = Instruction::read(bytecode, offset)?;
        offset = instruction.end;
        let is_last = ends_block(instruction.operation.op);
        block.push(instruction);
        if is_last {
            lowering.block(function, &mut block);
            block.clear();
        }
    }
    lowering.push(Insn::End);
    lowering.resolve();
    Ok(Code {
        ordinal,
        insns: lowering.insns.into(),
        offsets: lowering.offsets.into(),
        words: frame.words,
        refs: frame.refs,
        sites: lowering.sites.into(),
        registers: lowering.registers.into(),
        tables: lowering.jump_tables.into_iter().map(Into::into).collect(),
        texts: lowering.texts.into(),
    })
}

struct Lowering<'a> {
    tables: &'a Tables,
    /// Offset of the instruction that is lowered, and of the next one.
    offset: u32,
    next: u32,
    insns: Vec<Insn>,
    offsets: Vec<u32>,
    /// As what each 32-bit register was used last: whether as half of a pair.
    is_half: Vec<bool>,
    /// What is read where.
    liveness: Liveness,
    /// Which moves at the end of the block need not be made.
    coalesced: Coalesced,
    /// From where on instructions may become one with those that follow.
    fusible: usize,
    /// Whether each instruction of the bytecode is to stay apart, so that it can be traced.
    keeps_apart: bool,
    /// Offset of each block's marker and the instruction it became, ascending.
    blocks: Vec<(u32, u32)>,
    sites: Vec<Site>,
    registers: Vec<u16>,
    jump_tables: Vec<Vec<u32>>,
    texts: Vec<Box<str>>,
}

/// Until all blocks are known, targets are offsets of blocks, or instructions with this bit.
const RESOLVED: u32 = 1 << 31;
/// No target at all: that of a condition which is being lowered.
const UNKNOWN: u32 = u32::MAX;

impl<'a> Lowering<'a> {
    fn new(tables: &'a Tables, liveness: Liveness, keeps_apart: bool) -> Self {
        Self {
            tables,
            offset: 0,
            next: 0,
            insns: Vec::new(),
            offsets: Vec::new(),
            is_half: Vec::new(),
            liveness,
            coalesced: Coalesced::nothing(),
            fusible: 0,
            keeps_apart,
            blocks: Vec::new(),
            sites: Vec::new(),
            registers: Vec::new(),
            jump_tables: Vec::new(),
            texts: Vec::new(),
        }
    }

    fn block(&mut self, function: &Function, block: &mut [Instruction<'_>]) {
        self.coalesced = match self.keeps_apart {
            true => Coalesced::nothing(),
            false => Coalesced::of(self.tables, function, &self.liveness, block),
        };
        for instruction in block {
            self.offset = instruction.offset as u32;
            self.next = instruction.end as u32;
            self.instruction(instruction);
        }
    }

    fn push(&mut self, insn: Insn) {
        self.insns.push(insn);
        self.offsets.push(self.offset);
    }

    fn instruction(&mut self, from: &Instruction<'_>) {
        for (field, value) in from.operation.fields.iter().zip(&from.values) {
            if let (Field::Read(kind) | Field::Write(kind), FieldValue::Register(register)) = (field, value) {
                self.used(*register, *kind);
            }
        }
        let register = |index| from.register(index);
        let op = from.operation.op;
        if let Some(insn) = Insn::quick(op, register) {
            return match self.last().and_then(|last| last.pair(insn)) {
                Some(both) => self.replace_last(1, both),
                None => self.push(insn),
            };
        }
        if let Some(math) = Math::new(op, register) {
            return self.push(Insn::Math(math));
        }
        if let Some(insn) = simple(from) {
            return self.push(insn);
        }
        match op {
            Op::Block => {
                self.blocks.push((self.offset, self.insns.len() as u32));
                self.barrier();
            }
            Op::Branch => {
                let moves = from.list(1).pairs().enumerate();
                let left: Vec<_> =
                    moves.filter(|(index, _)| self.coalesced.is_left(*index)).map(|(_, pair)| pair).collect();
                self.branch(from.ordinal(0), left);
            }
            Op::Break => self.branch(from.ordinal(0), from.list(1).pairs().collect()),
            Op::CondBreak => self.branch(from.ordinal(1), from.list(2).pairs().collect()),
            Op::CondBranch => self.conditional(from),
            Op::BranchTable => self.branch_table(from),
            Op::Yield => {
                self.moves(from.list(1).pairs());
                self.push(Insn::Yield { to: from.ordinal(0) });
            }
            Op::Call => self.call(from.ordinal(0), None, from.list(1), from.list(2)),
            Op::CallVariadic => {
                self.call(from.ordinal(0), Some(from.list(1)), from.list(2), from.list(3));
            }
            Op::CallYieldable => {
                self.call(from.ordinal(0), None, from.list(1), from.list(3));
                self.jump(from.ordinal(2));
            }
            Op::CallVariadicYieldable => {
                self.call(from.ordinal(0), Some(from.list(1)), from.list(2), from.list(4));
                self.jump(from.ordinal(3));
            }
            Op::Return => {
                let values = self.slice(from.list(0).iter());
                self.push(Insn::Return { values });
            }
            Op::Fail => {
                let text = self.texts.len() as u32;
                self.texts.push(String::from_utf8_lossy(from.text(1)).into());
                self.push(Insn::Fail { status: from.register(0), text });
            }
            // Nothing is traced or printed, as in the reference; what is passed is given up.
            Op::Trace | Op::Print => {
                let given_up = from.list(1).iter().filter(|register| register & 0xC000 == 0xC000);
                let registers = self.slice(given_up);
                self.push(Insn::Discard { registers });
            }
            Op::DiscardRefs => {
                let registers = self.slice(from.list(0).iter());
                self.push(Insn::Discard { registers });
            }
            Op::SwitchI32 => self.switch(from, ValueKind::I32),
            Op::SwitchF32 => self.switch(from, ValueKind::F32),
            Op::SwitchI64 => self.switch(from, ValueKind::I64),
            Op::SwitchF64 => self.switch(from, ValueKind::F64),
            Op::SwitchRef => {
                let [default, result] = [from.register(2), from.register(4)];
                let registers = self.slice([default, result].into_iter().chain(from.list(3).iter()));
                self.push(Insn::SwitchRef {
                    type_id: from.ordinal(1) as u16,
                    index: from.register(0),
                    registers,
                });
            }
            _ => self.push(other(from)),
        }
    }

    fn switch(&mut self, from: &Instruction<'_>, kind: ValueKind) {
        let [index, default, result] = [0, 1, 3].map(|field| from.register(field));
        let registers = self.slice([default, result].into_iter().chain(from.list(2).iter()));
        self.push(Insn::Switch { kind, index, registers });
    }

    fn slice(&mut self, registers: impl Iterator<Item = u16>) -> Slice {
        let start = self.registers.len();
        self.registers.extend(registers);
        Slice { start: start as u32, length: (self.registers.len() - start) as u32 }
    }

    /// Notes as what a register is used.
    fn used(&mut self, register: u16, kind: ValueKind) {
        let (count, is_half) = match kind {
            ValueKind::I32 | ValueKind::F32 => (1, false),
            ValueKind::I64 | ValueKind::F64 => (2, true),
            ValueKind::Ref => return,
        };
        if let Some(uses) = self.is_half.get_mut(register.into()..usize::from(register) + count) {
            uses.fill(is_half);
        }
    }

    /// Whether a move is of the first half of a pair, and `next` that of the second. Two registers that are no pair
    /// can look like one; those are better moved as they were written, because a processor waits for what was written
    /// in parts and is read as a whole.
    fn is_pair(&self, (source, target): (u16, u16), next: (u16, u16)) -> bool {
        source % 2 == 0
            && target % 2 == 0
            && next == (source + 1, target + 1)
            && self.is_half.get(usize::from(source)) == Some(&true)
    }

    fn moves(&mut self, moves: impl Iterator<Item = (u16, u16)>) {
        let mut moves = moves.peekable();
        while let Some((source, target)) = moves.next() {
            let insn = if source & REF_BIT != 0 {
                Insn::MoveRef { source, target }
            } else if moves.next_if(|next| self.is_pair((source, target), *next)).is_some() {
                // Both halves at once; aligned pairs are the same or apart.
                self.used(target, ValueKind::I64);
                Insn::Move64 { source, target }
            } else {
                self.used(target, ValueKind::I32);
                Insn::Move32 { source, target }
            };
            match self.last().and_then(|last| fuse_moves(last, insn)) {
                Some(both) => self.replace_last(1, both),
                None => self.push(insn),
            }
        }
    }

    /// Goes to a block.
    fn jump(&mut self, to: u32) {
        let fused = self.last().and_then(|last| match last {
            Insn::Move32 { source, target } => Some(Insn::Move32Jump { source, target, to }),
            Insn::Move64 { source, target } => Some(Insn::Move64Jump { source, target, to }),
            Insn::Moves32(moves) => Some(Insn::Moves32Jump { moves, to }),
            Insn::Moves64(moves) => Some(Insn::Moves64Jump { moves, to }),
            _ => None,
        });
        if fused.is_none()
            && let Some((copy, other)) = self.condition_at(to)
        {
            self.push_condition(copy);
            return self.push(Insn::Jump { to: other | RESOLVED });
        }
        match fused {
            Some(insn) => self.replace_last(1, insn),
            None => self.push(Insn::Jump { to }),
        }
    }

    /// Goes to a block with moves; no jump is needed to what comes next anyway.
    fn branch(&mut self, target: u32, moves: Vec<(u16, u16)>) {
        let counter = self.take_counter(target, &moves);
        self.moves(moves.into_iter());
        self.carry(target, counter);
        if let Some(counter) = counter {
            self.push(counter);
        }
        if target != self.next {
            self.jump(target);
        }
    }

    /// Lets a computation and the moves behind it become one, where neither `counter`, which comes next, nor `target`
    /// reads the result where it was.
    fn carry(&mut self, target: u32, counter: Option<Insn>) {
        let Some([.., computation, moves]) = self.insns.get(self.fusible..) else { return };
        let (Some(both), Insn::Moves32([.., result, _]) | Insn::Moves64([.., result, _])) =
            (computation.carry(*moves), *moves)
        else {
            return;
        };
        let counted: &[u16] = match &counter {
            Some(Insn::AddI32(registers) | Insn::SubI32(registers)) => registers,
            Some(Insn::AddI64(registers) | Insn::SubI64(registers)) => registers,
            _ => &[],
        };
        // Of 64 bits at most, each of them.
        let is_read = |register: u16| {
            self.liveness.is_live(target, register)
                || counted.iter().any(|first| register.abs_diff(*first) < 2)
        };
        if !(is_read(result) || matches!(moves, Insn::Moves64(_)) && is_read(result + 1)) {
            self.replace_last(2, both);
        }
    }

    /// Where to go for a branch with moves: the block itself without any, else instructions added here.
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

    fn set_jump(&mut self, at: usize, target: u32) {
        if let Some(to) = self.insns.get_mut(at).and_then(jump_target) {
            *to = target;
        }
    }

    /// The last instruction, where one that follows may become one with it.
    fn last(&self) -> Option<Insn> {
        self.insns.get(self.fusible..)?.last().copied()
    }

    fn take_last(&mut self) -> Option<Insn> {
        self.offsets.pop();
        self.insns.pop()
    }

    /// Puts one instruction in the place of the last `count`.
    fn replace_last(&mut self, count: usize, insn: Insn) {
        let start = self.insns.len() - count;
        self.insns.truncate(start);
        self.offsets.truncate(start);
        self.push(insn);
    }

    /// What comes next can be reached by a jump, or is not to become one with what is before.
    fn barrier(&mut self) {
        self.fusible = if self.keeps_apart { usize::MAX } else { self.insns.len() };
    }

    fn branch_table(&mut self, from: &Instruction<'_>) {
        let table = self.jump_tables.len() as u32;
        self.push(Insn::JumpTable { index: from.register(0), table });
        let mut targets = Vec::new();
        for (target, moves) in from.cases(3) {
            targets.push(self.edge(*target, *moves));
        }
        targets.push(self.edge(from.ordinal(1), from.list(2)));
        self.jump_tables.push(targets);
    }

    /// Turns the offsets of blocks into instructions.
    fn resolve(&mut self) {
        let blocks = &self.blocks;
        let resolve = |target: &mut u32| {
            if *target & RESOLVED != 0 {
                *target &= !RESOLVED;
            } else if let Ok(at) = blocks.binary_search_by_key(target, |(offset, _)| *offset) {
                *target = blocks[at].1;
            }
        };
        self.insns.iter_mut().filter_map(jump_target).for_each(resolve);
        self.jump_tables.iter_mut().flatten().for_each(resolve);
    }
}

/// Where an instruction goes on elsewhere.
fn jump_target(insn: &mut Insn) -> Option<&mut u32> {
    match insn {
        Insn::Jump { to }
        | Insn::Yield { to }
        | Insn::If { to, .. }
        | Insn::IfI64 { to, .. }
        | Insn::IfEQI32 { to, .. }
        | Insn::IfNEI32 { to, .. }
        | Insn::IfLTI32S { to, .. }
        | Insn::IfLTI32U { to, .. }
        | Insn::IfEQI64 { to, .. }
        | Insn::IfNEI64 { to, .. }
        | Insn::IfLTI64S { to, .. }
        | Insn::IfLTI64U { to, .. }
        | Insn::WhenEQI32 { to, .. }
        | Insn::WhenNEI32 { to, .. }
        | Insn::WhenLTI32S { to, .. }
        | Insn::WhenLTI32U { to, .. }
        | Insn::WhenEQI64 { to, .. }
        | Insn::WhenNEI64 { to, .. }
        | Insn::WhenLTI64S { to, .. }
        | Insn::WhenLTI64U { to, .. }
        | Insn::AddI32IfLT { to, .. }
        | Insn::AddI64IfLT { to, .. }
        | Insn::Move32Jump { to, .. }
        | Insn::Move64Jump { to, .. }
        | Insn::Moves32Jump { to, .. }
        | Insn::Moves64Jump { to, .. } => Some(to),
        count => count.count_target(),
    }
}

/// Two moves as one instruction, which does them in order.
fn fuse_moves(first: Insn, second: Insn) -> Option<Insn> {
    match (first, second) {
        (Insn::Move32 { source: a, target: b }, Insn::Move32 { source: c, target: d }) => {
            Some(Insn::Moves32([a, b, c, d]))
        }
        (Insn::Move64 { source: a, target: b }, Insn::Move64 { source: c, target: d }) => {
            Some(Insn::Moves64([a, b, c, d]))
        }
        _ => None,
    }
}
