/// The most memory that a block can have, in bytes (sm_90: 227 KiB).
pub const MAX_SHARED_BYTES: u32 = 227 << 10;
/// The most threads of a block.
pub const MAX_BLOCK_THREADS: u32 = 1024;
/// The address of the variables of the module that runs.
pub const VARIABLES_ADDRESS: u64 = 3 << 56;

/// Limits on modules, which keep untrusted text from using more than its share. All are far beyond what
/// compilers emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text. A longer one is not looked at.
    pub text_bytes: usize,
    /// Bytes of a name.
    pub name_bytes: usize,
    /// Directives, labels and instructions of the text.
    pub statements: usize,
    /// Decoded instructions of all kernels, each with the functions that it calls.
    pub instructions: usize,
    /// Parameters of a function.
    pub parameters: usize,
    /// Registers of a kernel with the functions that it calls, constants included.
    pub registers: u32,
    /// Nested blocks of statements.
    pub nesting: u32,
    /// Bytes of memory of a thread.
    pub local_bytes: u32,
    /// Bytes of memory of a block that a kernel declares.
    pub shared_bytes: u32,
    /// Bytes of the variables of a module.
    pub variable_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            text_bytes: 64 << 20,
            name_bytes: 16 << 10,
            statements: 4 << 20,
            instructions: 8 << 20,
            parameters: 4096,
            registers: 1 << 18,
            nesting: 100,
            local_bytes: 512 << 10,
            shared_bytes: MAX_SHARED_BYTES,
            variable_bytes: 256 << 20,
        }
    }
}
