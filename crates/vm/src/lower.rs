use crate::arithmetic::Math;
use crate::coalesce::Coalesced;
use crate::code::{Argument, Callee, Code, Division, Insn, Site, Slice, Width};
use crate::convention::Argument as Declared;
use crate::instruction::{FieldValue, Instruction, List};
use crate::liveness::Liveness;
use crate::operation::{Field, Op};
use crate::tables::{Function, Tables};
use crate::verify::{Frame, IMPORT_BIT, MOVE_BIT, REF_BIT, REF_MASK, argument_registers, ends_block};
use crate::{Convention, Result, ValueKind};

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

    /// Where a block that is lowered already starts with a condition, as loops do: that, and the instruction that
    /// follows it. At the end of a loop it can stand in the place of a jump to it.
    fn condition_at(&self, block: u32) -> Option<(Insn, u32)> {
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

    /// Goes to a block with moves; no jump is needed to what comes next anyway.
    fn branch(&mut self, target: u32, moves: Vec<(u16, u16)>) {
        let counter = self.take_counter(target, &moves);
        self.moves(moves.into_iter());
        if let Some(counter) = counter {
            self.push(counter);
        }
        if target != self.next {
            self.jump(target);
        }
    }

    /// Takes off the last instruction where it is a count that the condition at the start of `target` compares, and the
    /// moves on the way do not care when it is made: it becomes one with the condition.
    fn take_counter(&mut self, target: u32, moves: &[(u16, u16)]) -> Option<Insn> {
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

    fn conditional(&mut self, from: &Instruction<'_>) {
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
    fn push_condition(&mut self, insn: Insn) {
        let Some(before) = self.last() else { return self.push(insn) };
        let (first, count) = before.unpair().map_or((None, before), |(first, count)| (Some(first), count));
        let Some(both) = fuse_count(count, insn) else { return self.push(insn) };
        self.replace_last(1, first.unwrap_or(both));
        if first.is_some() {
            self.push(both);
        }
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

    fn call(&mut self, callee: u32, segments: Option<List<'_>>, operands: List<'_>, results: List<'_>) {
        let (callee, convention) = if callee & IMPORT_BIT == 0 {
            (Callee::Function(callee), &self.tables.functions[callee as usize].convention)
        } else {
            let import = callee & !IMPORT_BIT;
            (Callee::Import(import), &self.tables.imports[import as usize].convention)
        };
        let (mut arguments, starts): (Box<[Argument]>, _) = match segments {
            Some(segments) => {
                let (arguments, starts) = variadic_arguments(convention, segments, operands);
                (arguments, Some(starts))
            }
            None => {
                let places = argument_registers(convention).zip(operands.iter());
                let argument = |((kind, target), source)| Argument { kind, source, target, is_lent: false };
                (places.map(argument).collect(), None)
            }
        };
        lend(&mut arguments);
        let results = results.iter().map(|register| self.coalesced.result(self.offset as usize, register));
        let results: Box<[_]> = convention.results().iter().copied().zip(results).collect();
        for argument in &arguments {
            self.used(argument.source, argument.kind);
        }
        for (kind, register) in &results {
            self.used(*register, *kind);
        }
        let site = self.sites.len() as u32;
        self.sites.push(Site { callee, arguments, starts, results });
        self.push(Insn::Call { site });
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

/// The arguments of a call with spans, and where each of the convention's starts.
fn variadic_arguments(
    convention: &Convention,
    segments: List<'_>,
    operands: List<'_>,
) -> (Box<[Argument]>, Box<[u32]>) {
    let mut starts = vec![0];
    let mut arguments = Vec::new();
    let mut sources = operands.iter();
    for (argument, count) in convention.arguments().iter().zip(segments.iter()) {
        let (kinds, count) = match argument {
            Declared::One(kind) => (std::slice::from_ref(kind), 1),
            Declared::Span(kinds) => (&**kinds, count),
        };
        // Verified: there is an operand for each.
        let values = std::iter::repeat_n(kinds, count.into()).flatten().zip(sources.by_ref());
        arguments.extend(values.map(|(kind, source)| Argument {
            kind: *kind,
            source,
            target: 0,
            is_lent: false,
        }));
        starts.push(arguments.len() as u32);
    }
    (arguments.into(), starts.into())
}

/// Finds the references that are passed once and kept.
fn lend(arguments: &mut [Argument]) {
    let references = || arguments.iter().filter(|argument| argument.kind == ValueKind::Ref);
    let mut registers: Vec<u16> = references().map(|argument| argument.source & REF_MASK).collect();
    registers.sort_unstable();
    for argument in arguments.iter_mut().filter(|argument| argument.kind == ValueKind::Ref) {
        let register = argument.source & REF_MASK;
        let count = registers[registers.partition_point(|other| *other < register)..]
            .iter()
            .take_while(|other| **other == register);
        argument.is_lent = argument.source & MOVE_BIT == 0 && count.take(2).count() == 1;
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

/// Instructions that become one by their fields alone.
fn simple(from: &Instruction<'_>) -> Option<Insn> {
    let divide = |op| Insn::Divide { op, registers: std::array::from_fn(|index| from.register(index)) };
    let load = |width| Insn::Load { width, registers: std::array::from_fn(|index| from.register(index)) };
    let store = |width| Insn::Store { width, registers: std::array::from_fn(|index| from.register(index)) };
    let (ordinal, last) = (from.ordinal(0), from.register(1));
    Some(match from.operation.op {
        Op::ConstI32Zero | Op::ConstF32Zero => Insn::Const32 { result: from.register(0), value: 0 },
        Op::ConstI64Zero | Op::ConstF64Zero => Insn::Const64 { result: from.register(0), value: 0 },
        Op::ConstI32 | Op::ConstF32 => Insn::Const32 { result: last, value: from.bits(0) as u32 },
        Op::ConstI64 | Op::ConstF64 => Insn::Const64 { result: last, value: from.bits(0) },
        Op::DivI32S => divide(Division::DivI32S),
        Op::DivI32U => divide(Division::DivI32U),
        Op::RemI32S => divide(Division::RemI32S),
        Op::RemI32U => divide(Division::RemI32U),
        Op::DivI64S => divide(Division::DivI64S),
        Op::DivI64U => divide(Division::DivI64U),
        Op::RemI64S => divide(Division::RemI64S),
        Op::RemI64U => divide(Division::RemI64U),
        Op::GlobalLoadI32 | Op::GlobalLoadF32 => Insn::GlobalLoad32 { offset: ordinal, result: last },
        Op::GlobalStoreI32 | Op::GlobalStoreF32 => Insn::GlobalStore32 { offset: ordinal, value: last },
        Op::GlobalLoadI64 | Op::GlobalLoadF64 => Insn::GlobalLoad64 { offset: ordinal, result: last },
        Op::GlobalStoreI64 | Op::GlobalStoreF64 => Insn::GlobalStore64 { offset: ordinal, value: last },
        Op::GlobalLoadRef => {
            Insn::GlobalLoadRef { global: ordinal, type_id: from.ordinal(1) as u16, result: from.register(2) }
        }
        Op::GlobalStoreRef => {
            Insn::GlobalStoreRef { global: ordinal, type_id: from.ordinal(1) as u16, value: from.register(2) }
        }
        Op::ConstRefRodata => Insn::Rodata { segment: ordinal, result: last },
        Op::ImportResolved => Insn::ImportResolved { import: ordinal & !IMPORT_BIT, result: last },
        Op::AssignRef => Insn::MoveRef { source: from.register(0), target: last },
        Op::BufferLoadI8U => load(Width::U8),
        Op::BufferLoadI8S => load(Width::I8),
        Op::BufferLoadI16U => load(Width::U16),
        Op::BufferLoadI16S => load(Width::I16),
        Op::BufferLoadI32 | Op::BufferLoadF32 => load(Width::B32),
        Op::BufferLoadI64 | Op::BufferLoadF64 => load(Width::B64),
        Op::BufferStoreI8 => store(Width::U8),
        Op::BufferStoreI16 => store(Width::U16),
        Op::BufferStoreI32 | Op::BufferStoreF32 => store(Width::B32),
        Op::BufferStoreI64 | Op::BufferStoreF64 => store(Width::B64),
        _ => return None,
    })
}

/// Any instruction of registers and types, in their order.
fn other(from: &Instruction<'_>) -> Insn {
    debug_assert!(
        from.operation
            .fields
            .iter()
            .all(|field| matches!(field, Field::Read(_) | Field::Write(_) | Field::Take | Field::TypeId)),
        "{:?} has to be lowered by name",
        from.operation.op
    );
    let mut operands = [0; 6];
    for (operand, value) in operands.iter_mut().zip(&from.values) {
        *operand = match value {
            FieldValue::Register(register) => *register,
            // A module has at most 65536 types.
            FieldValue::Ordinal(ordinal) => *ordinal as u16,
            _ => 0,
        };
    }
    Insn::Other { op: from.operation.op, operands }
}
