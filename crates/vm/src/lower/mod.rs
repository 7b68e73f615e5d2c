//! Lowers verified functions to the code that the dispatch loop executes.
//!
//! One pass over the blocks in order: values are coalesced with the block arguments they become, each instruction is
//! lowered as its row in `isa.rs` says, and every instruction that is emitted goes through the peephole, which fuses it
//! with the one before it as long as the table of superinstructions has a row for the two.

mod branch;
mod call;
mod moves;
mod straight;

use crate::coalesce::Coalesced;
use crate::code::{Code, Insn, OutOfLine, Site, Slice, Width};
use crate::instruction::Instruction;
use crate::isa::instructions;
use crate::liveness::Liveness;
use crate::operation::Op;
use crate::superinstructions::{IsDead, fuse, split};
use crate::tables::{Function, Tables};
use crate::verify::{Frame, argument_registers};
use crate::{Result, ValueKind};

/// Lowers the verified function `ordinal`, which uses the registers of `frame`.
///
/// Superinstructions are fused and values coalesced only if `optimizes`: tracing wants to see each instruction of the
/// bytecode. Block arguments become moves on the edge.
pub(crate) fn lower(
    tables: &Tables,
    ordinal: u32,
    frame: Frame,
    bytecode: &[u8],
    optimizes: bool,
) -> Result<Code> {
    let function = &tables.functions[ordinal as usize];
    let liveness = Liveness::of(tables, function, frame.words, bytecode);
    let mut lowering = Lowering::new(tables, liveness, optimizes);
    lowering.is_half = vec![false; frame.words.into()];
    for (kind, register) in argument_registers(&function.convention) {
        lowering.used(register, kind);
    }
    let mut offset = 0;
    let mut block = Vec::new();
    while offset < bytecode.len() {
        let instruction = Instruction::read(bytecode, offset)?;
        offset = instruction.end;
        let is_last = instruction.operation.is_terminator;
        block.push(instruction);
        if is_last {
            lowering.block(function, &mut block);
            block.clear();
        }
    }
    lowering.push(Insn::OutOfLine(OutOfLine::End));
    lowering.resolve();
    Ok(Code {
        ordinal,
        insns: lowering.insns.into(),
        offsets: lowering.offsets.into(),
        words: frame.words,
        refs: frame.refs,
        sites: lowering.sites.into(),
        registers: lowering.registers.into(),
        jump_tables: lowering.jump_tables.into_iter().map(Into::into).collect(),
        texts: lowering.texts.into(),
    })
}

/// The state of lowering a function.
struct Lowering<'a> {
    tables: &'a Tables,
    /// Offset of the instruction that is lowered, and of the next one.
    offset: u32,
    next: u32,
    insns: Vec<Insn>,
    offsets: Vec<u32>,
    /// For each 32-bit register, whether its last use was as half of a register pair.
    is_half: Vec<bool>,
    liveness: Liveness,
    /// The block arguments of the current block that need no move.
    coalesced: Coalesced,
    /// Instructions from this one on may fuse with what is emitted next.
    fusible: usize,
    optimizes: bool,
    /// Offset of each block's marker and index of its first lowered instruction, ascending.
    blocks: Vec<(u32, u32)>,
    sites: Vec<Site>,
    registers: Vec<u16>,
    jump_tables: Vec<Vec<u32>>,
    texts: Vec<Box<str>>,
}

/// Until all blocks are lowered, jump targets are offsets of blocks, or indexes of instructions with this bit.
const RESOLVED: u32 = 1 << 31;
/// The target of a branch that is being lowered.
const UNKNOWN: u32 = u32::MAX;

/// Generates [`lower_instruction`] from the table of instructions.
macro_rules! lowerings {
    (
        inline $inline:tt
        fallible $fallible:tt
        library $library:tt
        routines $routines:tt
        lowered { $($set:ident $opcode:literal $op:ident $mnemonic:literal $($syntax:literal)?
            [$($field:ident)*] => $lower:expr;)* }
        terminators { $($t_set:ident $t_opcode:literal $t_op:ident $t_mnemonic:literal $($t_syntax:literal)?
            [$($t_field:ident)*] => $t_lower:expr;)* }
    ) => {
        /// Lowers one instruction.
        fn lower_instruction<'a>(to: &mut Lowering<'a>, from: &Instruction<'_>) {
            let lower: fn(&mut Lowering<'a>, &Instruction<'_>) = match from.operation.op {
                $(Op::$op => $lower,)*
                $(Op::$t_op => $t_lower,)*
                op => match Insn::computation(op, |index| from.register(index)) {
                    Some(insn) => return to.emit(insn),
                    None => Lowering::out_of_line,
                },
            };
            lower(to, from);
        }
    };
}
instructions!(lowerings);

impl<'a> Lowering<'a> {
    fn new(tables: &'a Tables, liveness: Liveness, optimizes: bool) -> Self {
        Self {
            tables,
            offset: 0,
            next: 0,
            insns: Vec::new(),
            offsets: Vec::new(),
            is_half: Vec::new(),
            liveness,
            coalesced: Coalesced::none(),
            fusible: 0,
            optimizes,
            blocks: Vec::new(),
            sites: Vec::new(),
            registers: Vec::new(),
            jump_tables: Vec::new(),
            texts: Vec::new(),
        }
    }

    fn block(&mut self, function: &Function, block: &mut [Instruction<'_>]) {
        self.coalesced = match self.optimizes {
            true => Coalesced::of(self.tables, function, &self.liveness, block),
            false => Coalesced::none(),
        };
        for instruction in block {
            self.offset = instruction.offset as u32;
            self.next = instruction.end as u32;
            self.note_uses(instruction);
            lower_instruction(self, instruction);
        }
    }

    /// Appends an instruction as it is.
    fn push(&mut self, insn: Insn) {
        self.insns.push(insn);
        self.offsets.push(self.offset);
    }

    /// Appends an instruction, fused with what is before it. Nothing counts as dead.
    fn emit(&mut self, insn: Insn) {
        self.emit_with(insn, &|_, _| false);
    }

    /// Appends an instruction, fused with what is before it; `is_dead` tells what is dead behind it.
    fn emit_with(&mut self, mut insn: Insn, is_dead: IsDead<'_>) {
        while let Some(last) = self.last() {
            if let Some(fused) = fuse(last, insn, is_dead) {
                self.take_last();
                insn = fused;
            } else if insn.is_conditional()
                && let Some([first, second]) = split(last)
                && let Some(fused) = fuse(second, insn, is_dead)
            {
                // A branch waits for its operand longer than arithmetic does.
                self.replace_last(1, first);
                insn = fused;
            } else {
                break;
            }
        }
        self.push(insn);
    }

    /// The last instruction, if what follows may fuse with it.
    fn last(&self) -> Option<Insn> {
        self.insns.get(self.fusible..)?.last().copied()
    }

    fn take_last(&mut self) -> Option<Insn> {
        self.offsets.pop();
        self.insns.pop()
    }

    /// Replaces the last `count` instructions.
    fn replace_last(&mut self, count: usize, insn: Insn) {
        let start = self.insns.len() - count;
        self.insns.truncate(start);
        self.offsets.truncate(start);
        self.push(insn);
    }

    /// Keeps what is emitted next from fusing with what is there: it is a jump target, or what is there is complete.
    fn barrier(&mut self) {
        self.fusible = if self.optimizes { self.insns.len() } else { usize::MAX };
    }

    fn slice(&mut self, registers: impl Iterator<Item = u16>) -> Slice {
        let start = self.registers.len();
        self.registers.extend(registers);
        Slice { start: start as u32, length: (self.registers.len() - start) as u32 }
    }

    /// Turns the offsets of blocks into indexes of instructions.
    fn resolve(&mut self) {
        let blocks = &self.blocks;
        let resolve = |target: &mut u32| {
            if *target & RESOLVED != 0 {
                *target &= !RESOLVED;
            } else if let Ok(at) = blocks.binary_search_by_key(target, |(offset, _)| *offset) {
                *target = blocks[at].1;
            }
        };
        self.insns.iter_mut().filter_map(Insn::target_mut).for_each(resolve);
        self.jump_tables.iter_mut().flatten().for_each(resolve);
    }
}
