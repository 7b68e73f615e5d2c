//! Lowers verified functions to the code that the dispatch loop executes.
//!
//! One pass over the blocks in order: values are coalesced with the block arguments they become, each
//! instruction is lowered by the method that its row in `isa.rs` names, and each emitted instruction goes
//! through the peephole, which fuses it with its predecessor while the table of superinstructions has a row
//! for the two.
//!
//! Block arguments become moves, `liveness.rs` finds dead values, and loops are rotated so that a back edge
//! ends with the condition of the loop. Either part of a superinstruction may fail: `Code::first_offsets`
//! keeps the offset of the first part, so that an error names the same instruction as without fusion. A
//! bounded scan of the block and the liveness of its successors decides which intermediate results need not
//! be written (`Lowering::is_dead_after`). A differential test compares optimized with unoptimized execution
//! of random programs.

mod branch;
mod call;
mod moves;
mod straight;
mod unused;

use crate::access::{Access, accesses};
use crate::coalesce::Coalesced;
use crate::code::{Code, Insn, OutOfLine, Site, Slice};
use crate::instruction::Instruction;
use crate::isa::instructions;
use crate::liveness::{Liveness, successors};
use crate::operation::Op;
use crate::superinstructions::{fuse, is_access, split};
use crate::tables::{Function, Tables};
use crate::verify::{Frame, argument_registers};
use crate::{Result, ValueKind};

use unused::unused_ref_arguments;

/// Lowers the verified function `ordinal`, which uses the registers of `frame`.
///
/// Superinstructions are fused and values coalesced only if `optimizes`: tracing needs each instruction of
/// the bytecode. Block arguments become moves on the edge.
pub(crate) fn lower<'a>(
    tables: &'a Tables,
    ordinal: u32,
    frame: Frame,
    bytecode: &'a [u8],
    optimizes: bool,
) -> Result<Code> {
    let function = &tables.functions[ordinal as usize];
    let liveness = Liveness::from_function(tables, function, frame.words, bytecode);
    let mut lowering = Lowering::new(tables, function, liveness, optimizes);
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
            lowering.block(std::mem::take(&mut block));
        }
    }
    lowering.push(Insn::OutOfLine(OutOfLine::End));
    lowering.resolve();
    Ok(Code {
        ordinal,
        first_offsets: lowering.first_offsets_of_accesses(),
        insns: lowering.insns.into(),
        offsets: lowering.offsets.into(),
        words: frame.words,
        refs: frame.refs,
        unused_refs: if optimizes { unused_ref_arguments(&function.convention, bytecode) } else { 0 },
        sites: lowering.sites.into(),
        registers: lowering.registers.into(),
        jump_tables: lowering.jump_tables.into_iter().map(Into::into).collect(),
        texts: lowering.texts.into(),
    })
}

/// The state of lowering a function.
struct Lowering<'a> {
    tables: &'a Tables,
    /// Offset of the instruction being lowered, and of the next one.
    offset: u32,
    next: u32,
    insns: Vec<Insn>,
    offsets: Vec<u32>,
    /// For each instruction, the offset of its first part.
    first_offsets: Vec<u32>,
    /// The function, the block being lowered, and the index of the instruction in it; none in the terminator.
    function: &'a Function,
    block: Vec<Instruction<'a>>,
    at: Option<usize>,
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

/// Lookahead in instructions when searching the next access of a register, so that long blocks do not take
/// quadratic time.
const REACH: usize = 32;
/// Until all blocks are lowered, jump targets are offsets of blocks, or indexes of instructions with this
/// bit.
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
    fn new(tables: &'a Tables, function: &'a Function, liveness: Liveness, optimizes: bool) -> Self {
        Self {
            tables,
            offset: 0,
            next: 0,
            insns: Vec::new(),
            offsets: Vec::new(),
            first_offsets: Vec::new(),
            function,
            block: Vec::new(),
            at: None,
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

    fn block(&mut self, mut block: Vec<Instruction<'a>>) {
        self.coalesced = match self.optimizes {
            true => Coalesced::from_block(self.tables, self.function, &self.liveness, &mut block),
            false => Coalesced::none(),
        };
        self.block = block;
        for index in 0..self.block.len() {
            // Moved out, so that lowering can borrow the rest mutably; nothing reads lowered instructions
            // again.
            let instruction = self.block[index].clone();
            self.at = (index + 1 < self.block.len()).then_some(index);
            self.offset = instruction.offset as u32;
            self.next = instruction.end as u32;
            self.note_uses(&instruction);
            lower_instruction(self, &instruction);
        }
    }

    /// Appends an instruction as it is.
    fn push(&mut self, insn: Insn) {
        self.push_with(insn, self.offset);
    }

    /// Appends an instruction whose first part comes from the offset `first`.
    fn push_with(&mut self, insn: Insn, first: u32) {
        self.insns.push(insn);
        self.offsets.push(self.offset);
        self.first_offsets.push(first);
    }

    /// Appends an instruction, fused with its predecessors if possible. In a terminator every register counts
    /// as live.
    fn emit(&mut self, insn: Insn) {
        self.emit_with(insn, None);
    }

    /// Appends a branch, fused with its predecessors if possible; its condition is dead after it.
    fn emit_last_use(&mut self, insn: Insn, condition: u16) {
        self.emit_with(insn, Some(condition));
    }

    fn emit_with(&mut self, mut insn: Insn, condition: Option<u16>) {
        let mut first = self.offset;
        while let Some(last) = self.last() {
            let is_dead = |register: u16, words: u16| match condition {
                Some(condition) => (register, words) == (condition, 1),
                None => (register..register + words).all(|register| self.is_dead_after(register)),
            };
            if let Some(fused) = fuse(last, insn, &is_dead) {
                first = self.take_last().map_or(first, |(_, first)| first);
                insn = fused;
            } else if insn.is_conditional()
                && let Some([before, second]) = split(last)
                && let Some(fused) = fuse(second, insn, &is_dead)
            {
                // A branch waits for its operand longer than arithmetic does.
                self.replace_last(1, before);
                insn = fused;
            } else {
                break;
            }
        }
        self.push_with(insn, first);
    }

    /// Whether a 32-bit register is dead after the instruction being lowered: written before it is read.
    /// Unknown, so false, in a terminator, whose moves are lowered one by one.
    fn is_dead_after(&self, register: u16) -> bool {
        let Some(at) = self.at else { return false };
        for instruction in self.block.iter().skip(at + 1).take(REACH) {
            let (mut is_read, mut is_written) = (false, false);
            accesses(self.tables, self.function, instruction, |access, first, count| {
                if (first..first + count).contains(&register) {
                    match access {
                        Access::Read => is_read = true,
                        Access::Write => is_written = true,
                    }
                }
            });
            if is_read || is_written {
                return !is_read;
            }
            if instruction.operation.is_terminator {
                return successors(instruction).all(|block| !self.liveness.is_live(block, register));
            }
        }
        false
    }

    /// The last instruction, if the next one may fuse with it.
    fn last(&self) -> Option<Insn> {
        self.insns.get(self.fusible..)?.last().copied()
    }

    /// Removes and returns the last instruction, and the offset of its first part.
    fn take_last(&mut self) -> Option<(Insn, u32)> {
        self.offsets.pop();
        self.insns.pop().zip(self.first_offsets.pop())
    }

    /// Replaces the last `count` instructions.
    fn replace_last(&mut self, count: usize, insn: Insn) {
        let start = self.insns.len() - count;
        self.insns.truncate(start);
        self.offsets.truncate(start);
        let first = self.first_offsets.get(start).copied().unwrap_or(self.offset);
        self.first_offsets.truncate(start);
        self.push_with(insn, first);
    }

    /// Prevents fusion of the next instruction with its predecessors: it is a jump target, or they are
    /// complete.
    fn barrier(&mut self) {
        self.fusible = if self.optimizes { self.insns.len() } else { usize::MAX };
    }

    fn slice(&mut self, registers: impl Iterator<Item = u16>) -> Slice {
        let start = self.registers.len();
        self.registers.extend(registers);
        Slice { start: start as u32, length: (self.registers.len() - start) as u32 }
    }

    /// Index and offset of the first part of each superinstruction whose first part may fail.
    fn first_offsets_of_accesses(&self) -> Box<[(u32, u32)]> {
        let insns = self.insns.iter().zip(&self.first_offsets).zip(0..);
        insns.filter(|((insn, _), _)| is_access(**insn)).map(|((_, first), index)| (index, *first)).collect()
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
