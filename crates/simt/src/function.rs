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
