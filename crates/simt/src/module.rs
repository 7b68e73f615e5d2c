use std::sync::Arc;

use rehal_base::{Error, FormatError, HostMemory, Result};

use crate::Limits;
use crate::ptx;

/// A parsed and verified module: all of its instructions are known, and its jumps and registers are valid.
#[derive(Debug)]
pub struct Module {
    pub(crate) code: ptx::Code,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name.
    pub name: String,
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Bytes of the arguments, which have the layout of the parameters.
    pub argument_bytes: u32,
    /// `.reqntid`: the only block size with which it may be launched.
    pub required_block: Option<[u32; 3]>,
    /// `.maxntid`: no block may have more threads than the product.
    pub max_block: Option<[u32; 3]>,
    /// Bytes of memory of a block that it declares, alone or by functions that it calls.
    pub shared_bytes: u32,
    /// Whether it uses the memory of a block that the launch adds.
    pub uses_dynamic_shared: bool,
    /// Bytes of memory of a thread.
    pub local_bytes: u32,
    /// Instructions, with those of the functions that it calls.
    pub instructions: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Bytes from the start of the arguments.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
    /// Whether it is marked as an address. Not all compilers mark them.
    pub is_pointer: bool,
}

/// A variable of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name.
    pub name: String,
    /// Bytes from the start of the module's variables.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
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
