//! Which variables a function accesses, and how.

use std::collections::{HashMap, HashSet};

use super::instructions::Instruction;

/// How memory is accessed. Where it is not known, both are assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written.
    pub writes: bool,
}

impl Access {
    pub(super) const READ: Self = Self { reads: true, writes: false };
    pub(super) const WRITE: Self = Self { reads: false, writes: true };
    pub(super) const ANY: Self = Self { reads: true, writes: true };
    pub(super) const NONE: Self = Self { reads: false, writes: false };

    /// All of both.
    pub(super) fn with(self, other: Self) -> Self {
        Self { reads: self.reads | other.reads, writes: self.writes | other.writes }
    }

    /// Accesses that both have.
    pub(super) fn within(self, other: Self) -> Self {
        Self { reads: self.reads & other.reads, writes: self.writes & other.writes }
    }
}

/// The accesses and calls of a function.
#[derive(Default)]
pub(super) struct Function {
    /// Accesses by the id of the variable.
    pub(super) accesses: HashMap<u32, Access>,
    /// Ids of the functions that it calls; some more than once.
    pub(super) calls: Vec<u32>,
}

/// Derives what a function accesses from its instructions, which it must be shown twice: a pointer may be
/// used before it is derived.
pub(super) struct Tracker<'a> {
    /// For each pointer into a variable, the variable's id. Variables are in it from the start.
    pub(super) pointers: &'a mut HashMap<u32, u32>,
    /// Ids of instruction sets without meaning.
    pub(super) non_semantic: &'a HashSet<u32>,
    pub(super) function: &'a mut Function,
}

impl Tracker<'_> {
    /// An instruction of the body.
    pub(super) fn visit(&mut self, instruction: &Instruction<'_>) {
        use spirv::Op;

        let operands = instruction.operands;
        let Some(op) = Op::from_u32(u32::from(instruction.opcode)) else {
            return self.escape(operands);
        };
        match op {
            Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::CopyObject => self.derive(operands),
            Op::Load | Op::AtomicLoad => self.access(operands.get(2), Access::READ),
            Op::ArrayLength => self.access(operands.get(2), Access::NONE),
            Op::Store | Op::AtomicStore => {
                self.access(operands.first(), Access::WRITE);
                self.escape(operands.get(1..).unwrap_or_default());
            }
            Op::CopyMemory | Op::CopyMemorySized => {
                self.access(operands.first(), Access::WRITE);
                self.access(operands.get(1), Access::READ);
            }
            Op::FunctionCall => {
                self.function.calls.extend(operands.get(2));
                self.escape(operands.get(3..).unwrap_or_default());
            }
            Op::ExtInst if operands.get(2).is_some_and(|set| self.non_semantic.contains(set)) => {}
            Op::Label | Op::Branch | Op::Line | Op::NoLine | Op::Function | Op::FunctionParameter => {}
            _ => self.escape(operands),
        }
    }

    fn derive(&mut self, operands: &[u32]) {
        if let (Some(result), Some(variable)) = (operands.get(1), self.variable(operands.get(2))) {
            self.pointers.insert(*result, variable);
            self.note(variable, Access::NONE);
        }
    }

    fn access(&mut self, pointer: Option<&u32>, access: Access) {
        if let Some(variable) = self.variable(pointer) {
            self.note(variable, access);
        }
    }

    /// Pointers among `operands` are used in a way that is not tracked. Literals that equal the id of a
    /// pointer are taken for it, which over-approximates.
    fn escape(&mut self, operands: &[u32]) {
        for operand in operands {
            self.access(Some(operand), Access::ANY);
        }
    }

    fn variable(&self, pointer: Option<&u32>) -> Option<u32> {
        self.pointers.get(pointer?).copied()
    }

    fn note(&mut self, variable: u32, access: Access) {
        let known = self.function.accesses.entry(variable).or_default();
        *known = known.with(access);
    }
}
