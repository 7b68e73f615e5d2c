//! Which constants a module passes to a function that it imports.

use std::collections::HashMap;

use rehal_base::Result;
use smallvec::SmallVec;

use super::ModuleFile;
use crate::ValueKind;
use crate::instruction::{FieldValue, Instruction, List};
use crate::operation::{Field, Op};
use crate::verify::{IMPORT_BIT, MOVE_BIT, REF_BIT};

/// What is known of an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownArgument {
    /// The rodata segment that was loaded into its register last; of a result, the only one that its call was
    /// passed.
    pub rodata: Option<usize>,
    /// The constant, in the block that loads it.
    pub integer: Option<u64>,
}

/// A call of an imported function, by argument registers.
pub type KnownArguments = SmallVec<[KnownArgument; 8]>;

impl ModuleFile {
    /// The calls of the import `name`, such as `hal.executable.create`, in the order of the code. Registers
    /// are followed in that order, not along branches: the compiler loads a segment in the block that uses
    /// it, or in one before. Fails if an instruction cannot be decoded.
    pub fn calls_with_constants(&self, name: &str) -> Result<Vec<KnownArguments>> {
        let Some(import) = self.imports().position(|import| import.full_name == name) else {
            return Ok(Vec::new());
        };
        let import = import as u32 | IMPORT_BIT;
        let mut calls = Vec::new();
        for ordinal in 0..self.function_count() {
            let bytecode = self.function_bytecode(ordinal).unwrap_or(&[]);
            let mut registers = Registers::default();
            let mut offset = 0;
            while offset < bytecode.len() {
                let instruction = Instruction::read(bytecode, offset)?;
                if let Some(arguments) = arguments(&instruction).filter(|_| instruction.ordinal(0) == import)
                {
                    calls.push(arguments.iter().map(|register| registers.get(register)).collect());
                }
                registers.follow(&instruction);
                offset = instruction.end;
            }
        }
        Ok(calls)
    }
}

/// The argument registers of a call.
fn arguments<'a>(instruction: &Instruction<'a>) -> Option<List<'a>> {
    match instruction.operation.op {
        Op::Call | Op::CallYieldable => Some(instruction.list(1)),
        Op::CallVariadic | Op::CallVariadicYieldable => Some(instruction.list(2)),
        _ => None,
    }
}

/// What is known of the registers of a function.
#[derive(Default)]
struct Registers {
    refs: HashMap<u16, KnownArgument>,
    /// In a block.
    integers: HashMap<u16, KnownArgument>,
}

impl Registers {
    fn get(&self, register: u16) -> KnownArgument {
        let registers = if register & REF_BIT != 0 { &self.refs } else { &self.integers };
        registers.get(&(register & !MOVE_BIT)).copied().unwrap_or_default()
    }

    /// A register that `may_be_wide` may be the first half of 64 bits.
    fn set(&mut self, register: u16, may_be_wide: bool, known: KnownArgument) {
        let register = register & !MOVE_BIT;
        if register & REF_BIT != 0 {
            self.refs.insert(register, known);
            return;
        }
        self.integers.insert(register, known);
        if may_be_wide {
            self.integers.remove(&(register + 1));
        }
    }

    fn follow(&mut self, instruction: &Instruction<'_>) {
        let mut written = KnownArgument::default();
        match instruction.operation.op {
            Op::ConstRefRodata => written.rodata = Some(instruction.ordinal(0) as usize),
            Op::AssignRef => written = self.get(instruction.register(0)),
            Op::ConstI32Zero | Op::ConstI64Zero => written.integer = Some(0),
            Op::ConstI32 | Op::ConstI64 => written.integer = Some(instruction.bits(0)),
            Op::Block => self.integers.clear(),
            _ => {
                let passed = arguments(instruction).map(|it| it.iter().filter_map(|it| self.get(it).rodata));
                let passed: SmallVec<[usize; 2]> = passed.into_iter().flatten().collect();
                written.rodata = passed.first().copied().filter(|_| passed.len() == 1);
            }
        }
        for (field, value) in instruction.operation.fields.iter().zip(&instruction.values) {
            match (field, value) {
                (Field::Write(kind), FieldValue::Register(register)) => {
                    self.set(*register, matches!(kind, ValueKind::I64 | ValueKind::F64), written);
                }
                (Field::Results, FieldValue::List(list)) => {
                    list.iter().for_each(|register| self.set(register, true, written));
                }
                // Block arguments; which branch is taken is not known.
                (Field::Moves, FieldValue::Moves(list)) => {
                    let moved: Vec<_> = list.pairs().map(|(from, to)| (self.get(from), to)).collect();
                    moved.into_iter().for_each(|(known, to)| self.set(to, true, known));
                }
                _ => {}
            }
        }
    }
}
