//! The ABI of pipelines that take buffer device addresses.

use std::sync::Arc;

use rehal_base::{Fault, FormatError};
use spirv::Capability;

use super::Shader;

/// Size of the root in push constants.
pub const ROOT_BYTES: u32 = 32;
/// Offsets of the root's members.
const ROOT_OFFSETS: [u32; 6] = [0, 8, 16, 20, 24, 28];
/// Prefix of texts of metadata.
const METADATA: &str = "iree.vulkan.bda.v1";

/// Where a pipeline expects addresses and constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressLayout {
    /// Offset of the [`Root`] in push constants, a multiple of 4.
    pub root_offset: u32,
    /// Offset of the first constant in push constants, a multiple of 4. Constants do not overlap the root.
    pub constant_offset: u32,
    /// Number of 32-bit constants.
    pub constant_count: u16,
    /// Number of bindings; `None` if the module does not say, and a dispatch has none.
    pub binding_count: Option<u16>,
    /// The shader's requirements of each binding. Empty if none. Shared by the entry points of a module.
    pub requirements: Arc<[BindingRequirement]>,
}

/// A shader's requirements of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingRequirement {
    /// Alignment of its address in bytes, a power of two.
    pub alignment: u32,
    /// Its least length in bytes.
    pub length: u64,
}

impl BindingRequirement {
    /// Requires nothing.
    const NONE: Self = Self { alignment: 1, length: 0 };
}

/// The data of a dispatch in push constants at [`AddressLayout::root_offset`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Device address of a table of 64-bit device addresses, one for each binding.
    pub bindings: u64,
    /// Device address of a table of 32-bit constants, or 0 if they are push constants.
    pub constants: u64,
    /// Index of the dispatch's first binding in the table.
    pub binding_base: u32,
    /// Index of its first constant in the table.
    pub constant_base: u32,
}

impl Root {
    /// Its bytes in push constants.
    pub fn to_bytes(self) -> [u8; ROOT_BYTES as usize] {
        let mut bytes = [0; ROOT_BYTES as usize];
        bytes[0..8].copy_from_slice(&self.bindings.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.constants.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.binding_base.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.constant_base.to_le_bytes());
        // Flags, and a reserved word: 0 in this version of the ABI.
        bytes
    }
}

impl AddressLayout {
    /// Whether as many bytes of constants overlap the root.
    pub(super) fn overlaps_root(&self, constant_bytes: u64) -> bool {
        let (root, constants) = (u64::from(self.root_offset), u64::from(self.constant_offset));
        root < constants + constant_bytes && constants < root + u64::from(ROOT_BYTES)
    }

    /// The first byte after root and constants in push constants.
    pub(super) fn end(&self) -> u64 {
        let root = u64::from(self.root_offset) + u64::from(ROOT_BYTES);
        match self.constant_count {
            0 => root,
            count => root.max(u64::from(self.constant_offset) + 4 * u64::from(count)),
        }
    }
}

/// Checks that a module takes addresses and nothing else.
pub(super) fn check_module(shader: &Shader, base: usize) -> Result<(), FormatError> {
    let error = |expected: &str, found: String| {
        FormatError::new(super::spirv::FORMAT, Fault::Corrupt, base as u64, "dispatch ABI", expected, found)
    };
    if !shader.declares(Capability::PhysicalStorageBufferAddresses) {
        return Err(error("the capability PhysicalStorageBufferAddresses", "none".to_owned()));
    }
    let (addressing, memory) = shader.models();
    if addressing != spirv::AddressingModel::PhysicalStorageBuffer64 as u32 {
        return Err(error("the addressing model PhysicalStorageBuffer64", addressing.to_string()));
    }
    let is_vulkan = memory == spirv::MemoryModel::Vulkan as u32;
    if !is_vulkan && memory != spirv::MemoryModel::GLSL450 as u32 {
        return Err(error("the memory model GLSL450 or Vulkan", memory.to_string()));
    }
    if is_vulkan && !shader.declares(Capability::VulkanMemoryModel) {
        return Err(error("the capability VulkanMemoryModel for its memory model", "none".to_owned()));
    }
    if shader.uses_descriptors() {
        return Err(error("a module without descriptors", "descriptors".to_owned()));
    }
    Ok(())
}

/// Checks that the push constants of a module start with a root. Compilers also make modules of other
/// shapes, to which only their executables say what they take.
pub(super) fn check_root(shader: &Shader, base: usize) -> Result<(), FormatError> {
    let error = |expected: String, found: String| {
        FormatError::new(
            super::spirv::FORMAT,
            Fault::Unsupported,
            base as u64,
            "push constants",
            expected,
            found,
        )
    };
    let count = shader.push_constant_variables();
    if count != 1 {
        return Err(error("one variable with the root".to_owned(), count.to_string()));
    }
    let Some(block) = shader.push_constant_block() else {
        return Err(error("a struct".to_owned(), "another type".to_owned()));
    };
    if !block.is_block {
        return Err(error("a struct with the decoration Block".to_owned(), "one without".to_owned()));
    }
    let expected = ROOT_OFFSETS.map(Some);
    if block.offsets != expected {
        let offsets: Vec<_> =
            block.offsets.iter().map(|offset| offset.map_or("none".to_owned(), |o| o.to_string())).collect();
        return Err(error("members at offsets 0, 8, 16, 20, 24 and 28".to_owned(), offsets.join(", ")));
    }
    Ok(())
}

/// The layout that the metadata of a bare module describes, or that of one without metadata.
pub(super) fn of_metadata(shader: &Shader, base: usize) -> Result<AddressLayout, FormatError> {
    let mut metadata = Metadata::default();
    for text in shader.processed() {
        metadata.read(text).map_err(|(expected, found)| {
            FormatError::new(super::spirv::FORMAT, Fault::Corrupt, base as u64, "metadata", expected, found)
        })?;
    }
    metadata.layout().map_err(|(expected, found)| {
        FormatError::new(super::spirv::FORMAT, Fault::Corrupt, base as u64, "metadata", expected, found)
    })
}

/// Expected and found.
type Mismatch = (String, String);

#[derive(Default)]
struct Metadata {
    is_present: bool,
    root: Option<(u32, u32)>,
    constant_offset: Option<u32>,
    constants: Option<u16>,
    bindings: Option<u16>,
    requirements: Vec<(u16, BindingRequirement)>,
}

impl Metadata {
    /// Reads a text of a tool; those of others are ignored.
    fn read(&mut self, text: &str) -> Result<(), Mismatch> {
        let Some(rest) = text.strip_prefix(METADATA) else { return Ok(()) };
        if rest.is_empty() {
            self.is_present = true;
            return Ok(());
        }
        let Some(field) = rest.strip_prefix('.') else { return Ok(()) };
        self.is_present = true;
        let malformed = || ("FIELD=VALUE".to_owned(), format!("'{text}'"));
        let (name, value) = field.split_once('=').ok_or_else(malformed)?;
        match name {
            "root" => set(&mut self.root, pair(text, value)?, text),
            "constant_offset" => set(&mut self.constant_offset, number(text, value)?, text),
            "constants" => set(&mut self.constants, number(text, value)?, text),
            "bindings" => set(&mut self.bindings, number(text, value)?, text),
            _ => {
                let ordinal = name.strip_prefix("binding.").ok_or_else(|| {
                    let expected = "root, constant_offset, constants, bindings or binding.ORDINAL";
                    (expected.to_owned(), format!("'{text}'"))
                })?;
                self.require(text, number(text, ordinal)?, pair(text, value)?)
            }
        }
    }

    fn require(&mut self, text: &str, ordinal: u16, (alignment, length): (u32, u64)) -> Result<(), Mismatch> {
        if !alignment.is_power_of_two() {
            return Err(("an alignment that is a power of two".to_owned(), format!("'{text}'")));
        }
        self.requirements.push((ordinal, BindingRequirement { alignment, length }));
        Ok(())
    }

    fn layout(self) -> Result<AddressLayout, Mismatch> {
        let root = self.root.unwrap_or((0, ROOT_BYTES));
        if root != (0, ROOT_BYTES) {
            let found = format!("{} bytes at {}", root.1, root.0);
            return Err((format!("a root of {ROOT_BYTES} bytes at 0"), found));
        }
        let layout = AddressLayout {
            root_offset: 0,
            constant_offset: self.constant_offset.unwrap_or(ROOT_BYTES),
            constant_count: self.constants.unwrap_or(0),
            binding_count: self.is_present.then(|| self.bindings.unwrap_or(0)),
            requirements: placed(&self.requirements, self.bindings.unwrap_or(0))?,
        };
        let constant_bytes = 4 * u64::from(layout.constant_count);
        if !layout.constant_offset.is_multiple_of(4) || layout.end() > u64::from(u32::MAX) {
            let expected = "constants at a multiple of 4 within 4 GiB".to_owned();
            return Err((expected, format!("offset {}", layout.constant_offset)));
        }
        if constant_bytes != 0 && layout.overlaps_root(constant_bytes) {
            let found = format!("offset {}", layout.constant_offset);
            return Err(("constants after the root".to_owned(), found));
        }
        Ok(layout)
    }
}

/// Requirements by binding.
fn placed(
    requirements: &[(u16, BindingRequirement)],
    count: u16,
) -> Result<Arc<[BindingRequirement]>, Mismatch> {
    if requirements.is_empty() {
        return Ok(Arc::default());
    }
    let mut placed = vec![None; usize::from(count)];
    for (ordinal, requirement) in requirements {
        let place = placed.get_mut(usize::from(*ordinal)).ok_or_else(|| {
            (format!("a binding below the number of bindings, {count}"), format!("binding {ordinal}"))
        })?;
        if place.replace(*requirement).is_some() {
            let expected = "one requirement for a binding".to_owned();
            return Err((expected, format!("a second one for binding {ordinal}")));
        }
    }
    Ok(placed.into_iter().map(|requirement| requirement.unwrap_or(BindingRequirement::NONE)).collect())
}

fn set<T>(place: &mut Option<T>, value: T, text: &str) -> Result<(), Mismatch> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(("each field once".to_owned(), format!("a second '{text}'"))),
    }
}

fn number<T: std::str::FromStr>(text: &str, value: &str) -> Result<T, Mismatch> {
    let is_decimal = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if is_decimal { value.parse().ok() } else { None };
    parsed.ok_or_else(|| ("a decimal number in range".to_owned(), format!("'{text}'")))
}

fn pair<A: std::str::FromStr, B: std::str::FromStr>(text: &str, value: &str) -> Result<(A, B), Mismatch> {
    let (a, b) = value.split_once(',').ok_or_else(|| ("two numbers".to_owned(), format!("'{text}'")))?;
    Ok((number(text, a)?, number(text, b)?))
}
