use rehal_base::{Error, Result};
use rehal_formats::Function;
use serde::{Deserialize, Serialize};

/// The reflected properties of a function of an executable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionInfo {
    /// Its name, or empty.
    pub name: String,
    /// Behaviour flags (source: `iree_hal_executable_function_flags_t`).
    pub flags: u64,
    /// Static or minimum workgroup size in x, y and z.
    pub workgroup_size: [u32; 3],
    /// Number of 32-bit constants.
    pub constant_count: u16,
    /// Number of buffer bindings.
    pub binding_count: u16,
    /// Declared number of parameters.
    pub parameter_count: u16,
    /// Reflected parameters, if the executable has them.
    pub parameters: Vec<FunctionParameter>,
}

impl FunctionInfo {
    /// Functions as their code describes them, by ordinal. Fails if the bindings or constants of one are
    /// unknown.
    #[doc(hidden)]
    pub fn of_code(functions: Vec<Function>) -> Result<Vec<Self>> {
        let info = |function: Function| {
            let counts = function.binding_count().zip(function.constant_count);
            let (binding_count, constant_count) = counts.ok_or_else(|| {
                let name = function.name.escape_debug();
                Error::incompatible(format!("the code does not tell the bindings and constants of '{name}'"))
            })?;
            Ok(Self {
                workgroup_size: function.workgroup_size.unwrap_or_default(),
                constant_count,
                binding_count,
                name: function.name,
                ..Self::default()
            })
        };
        functions.into_iter().map(info).collect()
    }

    /// The ordinal of the first of `functions` with this name.
    pub fn find(functions: &[Self], name: &str) -> Option<u32> {
        functions.iter().position(|function| function.name == name).map(|ordinal| ordinal as u32)
    }
}

/// A reflected parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionParameter {
    /// 0 constant, 1 binding, 2 buffer pointer.
    pub kind: u8,
    /// Size in bytes.
    pub size: u8,
    /// Flags.
    pub flags: u16,
    /// Offset in bytes, or the binding's ordinal.
    pub offset: u16,
    /// Its name, or empty.
    pub name: String,
}
