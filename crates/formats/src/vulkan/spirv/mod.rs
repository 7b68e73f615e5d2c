//! SPIR-V modules: their instructions, and what reflection says of their entry points.

mod access;
mod instructions;
mod reflect;
mod requirements;
mod subgroups;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use rehal_base::{Fault, FormatError, Result};

pub use access::Access;
pub use requirements::{Feature, ShaderSupport};
pub use subgroups::SubgroupSizes;

pub(super) use instructions::FORMAT;
use instructions::{HEADER_WORDS, Instructions};
use requirements::Requirements;
pub(super) use requirements::lacking;

/// The first word of a module.
const MAGIC: u32 = 0x0723_0203;

/// A SPIR-V module, whose instructions are within its bounds and whose declarations have been read. That a
/// module is valid SPIR-V beyond that is for its author to guarantee.
#[derive(Clone, Debug)]
pub struct Shader {
    words: Vec<u32>,
    version: (u8, u8),
    addressing_model: u32,
    memory_model: u32,
    capabilities: Vec<u32>,
    extensions: Vec<String>,
    entry_points: Vec<EntryPoint>,
    /// Positions in `entry_points` by name.
    ordinals: HashMap<String, usize>,
    /// All descriptors and bytes of push constants that it declares, used or not.
    declared: (Vec<Resource>, u32),
    specialization_constants: Vec<SpecializationConstant>,
    processed: Vec<String>,
    push_constant_block: Option<types::Block>,
    push_constant_variables: usize,
    uses_descriptors: bool,
    requirements: Requirements,
}

/// A compute entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name.
    pub name: String,
    /// Its workgroup size.
    pub workgroup_size: WorkgroupSize,
    /// The descriptors that it uses, ordered by set and binding; each place is listed once.
    pub resources: Vec<Resource>,
    /// Bytes of push constants that it declares, from offset 0; 0 if it uses none.
    pub push_constant_bytes: u32,
    /// The memory that the invocations of a workgroup share.
    pub shared_memory: SharedMemory,
}

/// The memory that the invocations of a workgroup share: variables of the storage class `Workgroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedMemory {
    /// Bytes of variables whose size is constant.
    pub bytes: u64,
    /// Arrays whose lengths are specialization constants.
    pub arrays: Vec<SharedArray>,
}

/// An array in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedArray {
    /// Size of an element in bytes.
    pub element_bytes: u64,
    /// Its lengths, from the outermost array to the innermost.
    pub lengths: Arc<[Component]>,
}

impl SharedMemory {
    /// The bytes of all variables, without padding, if specialization constant `i` is `constants[i]`.
    /// Variables whose size the module leaves to the driver, such as lengths that are computed, are not
    /// counted.
    pub fn total(&self, constants: &[u32]) -> u64 {
        self.arrays.iter().fold(self.bytes, |total, array| total.saturating_add(array.total(constants)))
    }
}

impl SharedArray {
    /// Its bytes; see [`SharedMemory::total`].
    pub fn total(&self, constants: &[u32]) -> u64 {
        let lengths = self.lengths.iter().map(|length| u64::from(length.value(constants)));
        lengths.fold(self.element_bytes, u64::saturating_mul)
    }
}

/// A workgroup size, of which parts may be specialization constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkgroupSize(pub [Component; 3]);

/// A dimension of a workgroup, or a length of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// A constant; 0 if the module does not say.
    Value(u32),
    /// A specialization constant.
    Specialized {
        /// Its id.
        id: u32,
        /// Its value if it is not specialized.
        default: u32,
    },
}

impl WorkgroupSize {
    /// The size in x, y and z if specialization constant `i` is `constants[i]`; 0 if unknown.
    pub fn value(&self, constants: &[u32]) -> [u32; 3] {
        self.0.map(|component| component.value(constants))
    }

    /// The id of a specialization constant that makes it 0 if specialization constant `i` is `constants[i]`.
    pub fn zeroed_by(&self, constants: &[u32]) -> Option<u32> {
        self.0.iter().find_map(|component| match component {
            Component::Specialized { id, .. } if component.value(constants) == 0 => Some(*id),
            _ => None,
        })
    }
}

impl Component {
    /// Its value if specialization constant `i` is `constants[i]`; 0 if unknown.
    pub fn value(self, constants: &[u32]) -> u32 {
        match self {
            Self::Value(value) => value,
            Self::Specialized { id, default } => constants.get(id as usize).copied().unwrap_or(default),
        }
    }
}

/// A descriptor that an entry point uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The descriptor set.
    pub set: u32,
    /// The binding's number.
    pub binding: u32,
    /// Its type.
    pub kind: ResourceKind,
    /// Number of descriptors; `None` if it is a runtime array.
    pub count: Option<u32>,
    /// How the entry point may access it.
    pub access: Access,
}

/// A type of descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// A uniform buffer.
    UniformBuffer,
    /// A storage buffer.
    StorageBuffer,
    /// An image, a sampler or the like, which no dispatch provides.
    Other,
}

/// A specialization constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecializationConstant {
    /// Its `SpecId`.
    pub id: u32,
    /// Its size in bytes, as passed to Vulkan: 4 for booleans.
    pub bytes: u8,
}

impl Shader {
    /// Reads a module; `base` is its offset in the file, for errors.
    pub fn read(words: Vec<u32>, base: usize) -> Result<Self, FormatError> {
        reflect::read(words, base)
    }

    /// Its words, of which the first is the magic number.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Its version of SPIR-V: major and minor.
    pub fn version(&self) -> (u8, u8) {
        self.version
    }

    /// The numbers of the capabilities that it declares, in order and without repetitions.
    pub fn capabilities(&self) -> &[u32] {
        &self.capabilities
    }

    /// The extensions that it declares, such as `SPV_KHR_16bit_storage`, in order and without repetitions.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }

    /// Its compute entry points; names are unique.
    pub fn entry_points(&self) -> &[EntryPoint] {
        &self.entry_points
    }

    /// The descriptors that the module declares, whether an entry point uses them or not, ordered like those
    /// of an entry point. Their accesses are not known.
    pub fn declared_resources(&self) -> &[Resource] {
        &self.declared.0
    }

    /// Bytes of push constants that the module declares, from offset 0, whether an entry point uses them or
    /// not.
    pub fn declared_push_constant_bytes(&self) -> u32 {
        self.declared.1
    }

    /// The compute entry point with this name.
    pub fn entry_point(&self, name: &str) -> Option<&EntryPoint> {
        self.entry_points.get(*self.ordinals.get(name)?)
    }

    /// The sizes of subgroups with which a compute entry point works, if specialization constant `i` is
    /// `constants[i]`; `None` if it works with any, as far as its code tells.
    pub fn subgroup_sizes(&self, entry_point: &str, constants: &[u32]) -> Option<SubgroupSizes> {
        let entry = self.entry_point(entry_point)?;
        subgroups::sizes(self, &entry.name, &entry.workgroup_size, constants)
    }

    /// Its specialization constants, in order of declaration.
    pub fn specialization_constants(&self) -> &[SpecializationConstant] {
        &self.specialization_constants
    }

    /// The texts with which tools have marked that they have processed it (`OpModuleProcessed`).
    pub(super) fn processed(&self) -> &[String] {
        &self.processed
    }

    /// The block of its push constants, if there is exactly one variable of them.
    pub(super) fn push_constant_block(&self) -> Option<&types::Block> {
        self.push_constant_block.as_ref()
    }

    /// Number of variables with push constants.
    pub(super) fn push_constant_variables(&self) -> usize {
        self.push_constant_variables
    }

    /// Whether it declares variables that are descriptors, used or not.
    pub(super) fn uses_descriptors(&self) -> bool {
        self.uses_descriptors
    }

    /// Addressing model and memory model, as in SPIR-V.
    pub(super) fn models(&self) -> (u32, u32) {
        (self.addressing_model, self.memory_model)
    }

    /// Whether it declares the capability with this number.
    pub fn declares(&self, capability: spirv::Capability) -> bool {
        self.capabilities.contains(&(capability as u32))
    }

    /// Checks that a device supports what the module declares: its version, capabilities and extensions.
    /// Fails with `UNAVAILABLE`; the error names the feature.
    pub fn check_device(&self, device: &dyn ShaderSupport) -> Result<()> {
        self.requirements.check(self.version, device)
    }
}

/// Whether `bytes` start like a SPIR-V module in this machine's byte order.
pub(super) fn is_module(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Whether the module in `bytes` declares physical addressing of storage buffers. Reads up to the memory
/// model.
pub(super) fn uses_physical_addressing(bytes: &[u8]) -> bool {
    let limit = bytes.len().min(64 << 10);
    let Ok(words) = words(&bytes[..limit - limit % 4]) else { return false };
    let mut instructions = Instructions::new(&words, 0);
    while let Some(Ok(instruction)) = instructions.next() {
        if instruction.opcode == spirv::Op::MemoryModel as u16 {
            return instruction.operands.first()
                == Some(&(spirv::AddressingModel::PhysicalStorageBuffer64 as u32));
        }
    }
    false
}

/// The words of `bytes`, which are little-endian. Fails if a part of one is left over.
pub fn words(bytes: &[u8]) -> Result<Vec<u32>, FormatError> {
    let (chunks, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let found = format!("{} bytes", bytes.len());
        return Err(FormatError::new(
            FORMAT,
            Fault::Truncated,
            bytes.len() as u64,
            "length",
            "a multiple of 4 bytes",
            found,
        ));
    }
    Ok(chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect())
}
