//! Which constant data a module passes to a function that it imports.

use std::collections::HashMap;

use rehal_base::Result;
use smallvec::SmallVec;

use super::ModuleFile;
use crate::ValueKind;
use crate::instruction::{FieldValue, Instruction};
use crate::operation::{Field, Op};
use crate::verify::{IMPORT_BIT, MOVE_BIT};

/// A call of an imported function: for each argument register, the rodata segment that was loaded into it
/// last, if a segment was.
pub type RodataArguments = SmallVec<[Option<usize>; 8]>;

impl ModuleFile {
    /// The calls of the import `name`, such as `hal.executable.create`, in the order of the code. Registers
    /// are followed in that order, not along branches: the compiler loads a constant in the block that uses
    /// it, or in one before. Fails if an instruction cannot be decoded.
    pub fn calls_with_rodata(&self, name: &str) -> Result<Vec<RodataArguments>> {
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
                if let Some(arguments) = call_of(&instruction, import) {
                    calls.push(arguments.map(|register| registers.segment(register)).collect());
                }
                registers.follow(&instruction);
                offset = instruction.end;
            }
        }
        Ok(calls)
    }
}

/// The argument registers of a plain call of this function, not of a variadic one.
fn call_of<'a>(instruction: &Instruction<'a>, function: u32) -> Option<impl Iterator<Item = u16> + use<'a>> {
    let is_call = matches!(instruction.operation.op, Op::Call | Op::CallYieldable);
    (is_call && instruction.ordinal(0) == function).then(|| instruction.list(1).iter())
}

/// The segments in the registers of a function.
#[derive(Default)]
struct Registers(HashMap<u16, usize>);

impl Registers {
    fn segment(&self, register: u16) -> Option<usize> {
        self.0.get(&(register & !MOVE_BIT)).copied()
    }

    fn set(&mut self, register: u16, segment: Option<usize>) {
        let register = register & !MOVE_BIT;
        match segment {
            Some(segment) => self.0.insert(register, segment),
            None => self.0.remove(&register),
        };
    }

    /// What the instruction writes: a segment, a copy of a register, or something else.
    fn follow(&mut self, instruction: &Instruction<'_>) {
        let written = match instruction.operation.op {
            Op::ConstRefRodata => Some(instruction.ordinal(0) as usize),
            Op::AssignRef => self.segment(instruction.register(0)),
            _ => None,
        };
        for (field, value) in instruction.operation.fields.iter().zip(&instruction.values) {
            match (field, value) {
                (Field::Write(ValueKind::Ref), FieldValue::Register(register)) => {
                    self.set(*register, written);
                }
                (Field::Results, FieldValue::List(list)) => {
                    list.iter().for_each(|register| self.set(register, None));
                }
                // Block arguments; which branch is taken is not known.
                (Field::Moves, FieldValue::Moves(list)) => {
                    let moved: Vec<_> = list.pairs().map(|(from, to)| (self.segment(from), to)).collect();
                    moved.into_iter().for_each(|(segment, to)| self.set(to, segment));
                }
                _ => {}
            }
        }
    }
}
