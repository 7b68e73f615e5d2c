use std::ops::Range;
use std::sync::Arc;

use crate::elf;

/// An executable, as its bytes describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Executable {
    /// The processor that it is compiled for, such as `sm_80` or `gfx942:sramecc+:xnack-`. `None` if the code
    /// does not tell, or if its images are for several.
    pub target: Option<String>,
    /// Its images, by module ordinal.
    pub images: Vec<CodeImage>,
    /// Its functions, by ordinal. Several may have the same kernel.
    pub functions: Vec<Function>,
}

/// Code for a device within an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeImage {
    /// Its kind.
    pub kind: ImageKind,
    /// Where it is in the executable.
    pub bytes: Range<usize>,
    /// The processor that it is compiled for, if it tells.
    pub target: Option<String>,
}

/// A kind of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageKind {
    /// PTX text.
    Ptx,
    /// Machine code for one NVIDIA GPU: an ELF file.
    Cubin,
    /// Code for NVIDIA GPUs in a container.
    Fatbin,
    /// Machine code for one AMD GPU: an ELF file.
    Hsaco,
    /// A SPIR-V module.
    SpirV,
}

impl ImageKind {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ptx => "PTX",
            Self::Cubin => "cubin",
            Self::Fatbin => "fatbin",
            Self::Hsaco => "HSACO",
            Self::SpirV => "SPIR-V",
        }
    }

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
            Self::Fatbin => "fatbin",
            Self::Hsaco => "hsaco",
            Self::SpirV => "spv",
        }
    }

    /// Whether these may be the first bytes of its files.
    pub(crate) fn fits(self, head: &[u8]) -> bool {
        let is_for = |machine: u16| {
            let found = head.get(18..20).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
            head.starts_with(&elf::MAGIC) && found == Some(machine)
        };
        match self {
            Self::Cubin => is_for(object::elf::EM_CUDA.0),
            Self::Hsaco => is_for(object::elf::EM_AMDGPU.0),
            Self::Fatbin => head.starts_with(&0xBA55_ED50_u32.to_le_bytes()),
            Self::SpirV => head.starts_with(&0x0723_0203_u32.to_le_bytes()),
            Self::Ptx => {
                !head.is_empty() && !head.starts_with(&elf::MAGIC) && !head[..head.len().min(64)].contains(&0)
            }
        }
    }
}

/// A function of an executable. `None` is what the code does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, which is that of its kernel.
    pub name: String,
    /// The name that programs look it up by, if its container has one beside that of the kernel.
    pub export_name: Option<String>,
    /// The ordinal of its image.
    pub image: usize,
    /// The workgroup size in x, y and z.
    pub workgroup_size: Option<[u32; 3]>,
    /// Whether that is the most that the code is compiled for, and a dispatch may have fewer.
    pub is_size_limit: bool,
    /// Number of 32-bit constants.
    pub constant_count: Option<u16>,
    /// Its buffer bindings, in order.
    pub bindings: Option<Vec<Binding>>,
    /// Bytes of workgroup memory that its code declares.
    pub static_memory_bytes: Option<u32>,
    /// Bytes of workgroup memory that a dispatch adds.
    pub dynamic_memory_bytes: Option<u32>,
    /// Registers of an invocation.
    pub registers: Option<Registers>,
    /// The parameters of its kernel, in order, with those that the driver fills in.
    pub parameters: Option<Arc<[Parameter]>>,
}

/// A buffer binding, as its executable describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Whether it is only read.
    pub is_read_only: bool,
    /// Whether it may be bound through a table at the time of the dispatch.
    pub is_indirect: bool,
}

/// Registers of an invocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Registers that each invocation has of its own.
    pub vector: u32,
    /// Registers of a whole subgroup, on AMD.
    pub scalar: u32,
    /// Registers that only matrix instructions use, on AMD.
    pub accumulation: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its kind.
    pub kind: ParameterKind,
    /// Its offset in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
}

/// A kind of parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterKind {
    /// The address of a buffer that the kernel may write.
    Buffer,
    /// The address of a buffer that the kernel only reads.
    ReadOnlyBuffer,
    /// A value.
    Value,
    /// One that the driver fills in, by its name, such as `hidden_block_count_x`.
    Hidden(String),
    /// Another one, by its name, such as `dynamic_shared_pointer`.
    Other(String),
}

impl Function {
    /// The number of its bindings.
    pub fn binding_count(&self) -> Option<u16> {
        self.bindings.as_ref().map(|it| it.len() as u16)
    }

    /// Sets bindings and constants from its parameters, if these are buffers and 32-bit words.
    pub(crate) fn derive_from_parameters(&mut self) {
        let Some(parameters) = &self.parameters else { return };
        let (mut bindings, mut words) = (Vec::new(), Some(0));
        for parameter in parameters.iter() {
            let is_read_only = parameter.kind == ParameterKind::ReadOnlyBuffer;
            match parameter.kind {
                ParameterKind::Buffer | ParameterKind::ReadOnlyBuffer => {
                    bindings.push(Binding { is_read_only, is_indirect: false });
                }
                ParameterKind::Value if parameter.size.is_multiple_of(4) => {
                    words = words.map(|it: u32| it.saturating_add(parameter.size / 4));
                }
                ParameterKind::Hidden(_) => {}
                ParameterKind::Value | ParameterKind::Other(_) => words = None,
            }
        }
        self.constant_count = words.and_then(|it| it.try_into().ok());
        self.bindings = Some(bindings);
    }
}
