use rehal_base::{Error, Result};

use crate::code::Code;
use crate::program::Program;

/// The fuel of one invocation, for untrusted programs. See [`Context::limited`](crate::Context::limited).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Limit on executed instructions; a call of a native function counts as one, and so does a
    /// superinstruction.
    pub instructions: u64,
    /// Limit on the bytes that instructions allocate, and read or write in bulk, in total; includes call
    /// frames.
    pub bytes: u64,
}

/// Counts what a program consumes. The dispatch loop is compiled for each meter, so that programs without a
/// budget have no overhead.
pub(crate) trait Meter {
    /// Whether it counts at all.
    const LIMITED: bool;

    /// Before each instruction, of a function of the program.
    fn step(&mut self, code: &Code, program: &Program, at: usize) -> Result<()>;

    /// Before bytes are allocated, read or written in bulk.
    fn take_bytes(&mut self, bytes: u64) -> Result<()>;
}

/// The meter of programs without a budget.
pub(crate) struct Unlimited;

impl Meter for Unlimited {
    const LIMITED: bool = false;

    #[inline]
    fn step(&mut self, _code: &Code, _program: &Program, _at: usize) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn take_bytes(&mut self, _bytes: u64) -> Result<()> {
        Ok(())
    }
}

impl Meter for Budget {
    const LIMITED: bool = true;

    fn step(&mut self, _code: &Code, _program: &Program, _at: usize) -> Result<()> {
        #[cfg(test)]
        crate::tests_lowering::executes(_code.insns[_at]);
        self.take_instruction()
    }

    fn take_bytes(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| exhausted("bytes"))?;
        Ok(())
    }
}

impl Budget {
    /// Before an instruction, or a call that counts as one.
    pub(crate) fn take_instruction(&mut self) -> Result<()> {
        self.instructions = self.instructions.checked_sub(1).ok_or_else(|| exhausted("instructions"))?;
        Ok(())
    }
}

#[cold]
fn exhausted(what: &str) -> Error {
    Error::resource_exhausted(format!("the program has exhausted its budget of {what}"))
}
