use rehal_base::{Error, Result};

/// What one invocation may use: for programs that nobody vouches for. See [`Context::limited`](crate::Context::limited).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Instructions that it may run, a call of a native function counted as one.
    pub instructions: u64,
    /// Bytes that its instructions may allocate, and read or write in bulk, in all; registers of calls among them.
    pub bytes: u64,
}

/// Counts what a program uses. The interpreter is compiled once for each, so that programs without a budget pay nothing.
pub(crate) trait Meter {
    /// Whether there is anything to count.
    const LIMITED: bool;

    /// Before each instruction.
    fn step(&mut self) -> Result<()>;

    /// Before bytes are allocated, read or written in bulk.
    fn take_bytes(&mut self, bytes: u64) -> Result<()>;
}

/// Counts nothing.
pub(crate) struct Unlimited;

impl Meter for Unlimited {
    const LIMITED: bool = false;

    #[inline]
    fn step(&mut self) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn take_bytes(&mut self, _bytes: u64) -> Result<()> {
        Ok(())
    }
}

impl Meter for Budget {
    const LIMITED: bool = true;

    fn step(&mut self) -> Result<()> {
        self.instructions = self.instructions.checked_sub(1).ok_or_else(|| exhausted("instructions"))?;
        Ok(())
    }

    fn take_bytes(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| exhausted("bytes"))?;
        Ok(())
    }
}

#[cold]
fn exhausted(what: &str) -> Error {
    Error::resource_exhausted(format!("the program has used up its budget of {what}"))
}
