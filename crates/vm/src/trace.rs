use std::sync::Arc;

use rehal_base::Result;

use crate::budget::{Budget, Meter};
use crate::code::Code;
use crate::dump::InstructionText;
use crate::instruction::Instruction;
use crate::program::{Program, function_name};

/// A sink for the trace of a program: a line of text per instruction, with its location.
pub type TraceSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Traces each instruction to a sink, and counts against the budget, if any.
pub(crate) struct Traced<'t> {
    pub(crate) sink: &'t TraceSink,
    pub(crate) left: &'t mut Option<Budget>,
}

impl Meter for Traced<'_> {
    const LIMITED: bool = true;

    fn step(&mut self, code: &Code, program: &Program, at: usize) -> Result<()> {
        // The moves of a branch are lowered to separate instructions with the branch's offset.
        let offset = code.offsets.get(at).copied();
        let before = at.checked_sub(1).and_then(|before| code.offsets.get(before).copied());
        if let Some(offset) = offset
            && before != Some(offset)
        {
            trace(self.sink, code, program, offset as usize);
        }
        match self.left {
            Some(left) => left.take_instruction(),
            None => Ok(()),
        }
    }

    fn take_bytes(&mut self, bytes: u64) -> Result<()> {
        match self.left {
            Some(left) => left.take_bytes(bytes),
            None => Ok(()),
        }
    }
}

/// Traces the instruction at `offset`.
fn trace(sink: &TraceSink, code: &Code, program: &Program, offset: usize) {
    let bytecode = program.file.function_bytecode(code.ordinal as usize).unwrap_or_default();
    let name = function_name(&program.file, code.ordinal as usize);
    if let Ok(instruction) = Instruction::read(bytecode, offset) {
        let text = InstructionText { file: &program.file, blocks: None, instruction: &instruction };
        sink(&format!("[{}.{name}+{offset:08X}]    {text}", program.file.name()));
    }
}
