use std::sync::Arc;

use rehal_base::Result;

use crate::budget::{Budget, Meter};
use crate::code::Code;
use crate::dump::InstructionText;
use crate::instruction::Instruction;
use crate::operation::Op;
use crate::program::{Program, function_name};

/// Where the text of what a program executes goes, a line for each instruction: where it is, and what.
pub type TraceSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Tells a sink of each instruction, and counts for a budget where there is one.
pub(crate) struct Traced<'t> {
    pub(crate) sink: &'t TraceSink,
    pub(crate) left: &'t mut Option<Budget>,
    /// The instruction that was told last, by the offset in its function.
    pub(crate) last: Option<u32>,
}

impl Meter for Traced<'_> {
    const LIMITED: bool = true;

    fn step(&mut self, code: &Code, program: &Program, at: usize) -> Result<()> {
        // The moves of a branch are decoded as instructions of their own, and are part of it all the same.
        let offset = code.offsets.get(at).copied();
        if self.last != offset || at == 0 {
            trace(self.sink, code, program, at);
        }
        self.last = offset;
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

/// Tells of the instructions that the decoded one at `at` came from.
fn trace(sink: &TraceSink, code: &Code, program: &Program, at: usize) {
    let Some(ordinal) = program.codes.iter().position(|other| std::ptr::eq(other, code)) else { return };
    let bytecode = program.file.function_bytecode(ordinal).unwrap_or_default();
    let name = function_name(&program.file, ordinal);
    let offset = |at: usize| code.offsets.get(at).map(|offset| *offset as usize);
    let Some(mut next) = offset(at) else { return };
    // One may stand for several in a row; what comes before a branch's target is the branch's.
    let end = offset(at + 1).filter(|end| *end > next).unwrap_or(next + 1);
    while next < end {
        let Ok(instruction) = Instruction::read(bytecode, next) else { return };
        if instruction.operation.op != Op::Block {
            let text = InstructionText { file: &program.file, blocks: None, instruction: &instruction };
            sink(&format!("[{}.{name}+{next:08X}]    {text}", program.file.name()));
        }
        next = instruction.end;
    }
}
