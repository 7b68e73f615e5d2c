use std::sync::Arc;

use rehal_base::{Error, FormatError, HostMemory, Result};

use crate::Limits;
use crate::function::{Function, Symbol};
use crate::ptx;

/// A parsed and verified module: all of its instructions are known, and its jumps and registers are valid.
#[derive(Debug)]
pub struct Module {
    pub(crate) code: ptx::Code,
}

impl Module {
    /// Parses and verifies PTX. A NUL byte ends the text, as for drivers.
    pub fn parse_ptx(text: &[u8], limits: &Limits) -> Result<Self, FormatError> {
        Ok(Self { code: ptx::parse(text, limits)? })
    }

    /// The kernels, in the order of the text.
    pub fn functions(&self) -> &[Function] {
        &self.code.functions
    }

    /// The variables in `.global` and `.const`.
    pub fn symbols(&self) -> &[Symbol] {
        &self.code.symbols
    }

    /// The target, such as `sm_80`.
    pub fn target(&self) -> &str {
        &self.code.target
    }
}

/// A module with memory for its variables, which keep their values between launches.
pub struct Image {
    pub(crate) module: Arc<Module>,
    variables: HostMemory,
}

impl Image {
    /// Allocates the variables, with their initial values. Fails if the allocation fails.
    pub fn load(module: Arc<Module>) -> Result<Self> {
        let variables = HostMemory::allocate_aligned(module.code.variables.len() as u64, 256)?;
        variables.write(0, &module.code.variables)?;
        Ok(Self { module, variables })
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The memory of the variables. [`Symbol::offset`] counts from its start, and kernels see it at
    /// [`VARIABLES_ADDRESS`](crate::VARIABLES_ADDRESS).
    pub fn variables(&self) -> &HostMemory {
        &self.variables
    }

    /// The index of the kernel with a name.
    pub fn function(&self, name: &str) -> Result<usize> {
        let position = self.module.functions().iter().position(|it| it.name == name);
        position.ok_or_else(|| Error::not_found(format!("the module has no kernel '{name}'")))
    }
}
