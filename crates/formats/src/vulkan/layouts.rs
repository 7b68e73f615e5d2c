use std::sync::Arc;

use rehal_base::{Error, Result};

use super::{AddressLayout, DispatchAbi, ROOT_BYTES, Shader, ShaderSupport, VulkanFormat};

/// Limit on the numbers of bindings: drivers keep a table of all up to the largest, used or not. In bare
/// modules also on the numbers of sets, and on the bindings of a layout.
pub(super) const MAX_BINDINGS: u32 = 4096;

/// An executable of any format, checked.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its format.
    pub format: VulkanFormat,
    /// Layouts of descriptor sets, by ordinal.
    pub set_layouts: Vec<DescriptorSetLayout>,
    /// Layouts of pipelines, by ordinal.
    pub pipeline_layouts: Vec<PipelineLayout>,
    /// SPIR-V modules, by ordinal.
    pub shaders: Vec<Shader>,
    /// Functions, by ordinal. Never empty.
    pub pipelines: Vec<Pipeline>,
    /// Source files that the compiler embedded.
    pub source_files: Vec<SourceFile>,
}

/// The layout of a descriptor set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescriptorSetLayout {
    /// Its bindings, in the order of the executable; binding numbers are unique.
    pub bindings: Vec<DescriptorBinding>,
}

impl DescriptorSetLayout {
    /// The number of its descriptors.
    pub fn descriptor_count(&self) -> u64 {
        self.bindings.iter().map(|binding| u64::from(binding.count)).sum()
    }

    /// The slots of its descriptors, in order, if it is the layout of `set`.
    pub fn slots(&self, set: u32) -> impl Iterator<Item = DescriptorSlot> + '_ {
        self.bindings.iter().flat_map(move |binding| {
            (0..binding.count).map(move |element| DescriptorSlot {
                set,
                binding: binding.binding,
                element,
                kind: binding.kind,
            })
        })
    }
}

/// A binding of a descriptor set layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorBinding {
    /// Its number, as in the shader; below 4096.
    pub binding: u32,
    /// The type of its descriptors.
    pub kind: DescriptorKind,
    /// Number of descriptors, at least 1.
    pub count: u32,
    /// `VkShaderStageFlags`; includes compute.
    pub stages: u32,
}

/// A type of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorKind {
    /// `VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER`.
    UniformBuffer,
    /// `VK_DESCRIPTOR_TYPE_STORAGE_BUFFER`.
    StorageBuffer,
}

impl From<DescriptorKind> for super::spirv::ResourceKind {
    fn from(kind: DescriptorKind) -> Self {
        match kind {
            DescriptorKind::UniformBuffer => Self::UniformBuffer,
            DescriptorKind::StorageBuffer => Self::StorageBuffer,
        }
    }
}

/// The layout of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineLayout {
    /// Ordinals in [`Image::set_layouts`], by descriptor set.
    pub sets: Vec<usize>,
    /// Ranges of push constants.
    pub push_constants: Vec<PushConstantRange>,
}

/// A range of push constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushConstantRange {
    /// `VkShaderStageFlags`; includes compute.
    pub stages: u32,
    /// Its first byte, a multiple of 4.
    pub offset: u32,
    /// Its size in bytes, a multiple of 4.
    pub size: u32,
}

impl PushConstantRange {
    /// The first byte after it.
    pub fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.size)
    }
}

impl PipelineLayout {
    /// Checks that the parts of `layout` are aligned, within the push constants, and do not overlap.
    pub(super) fn check_addresses(&self, layout: &AddressLayout) -> Result<(), (&'static str, String)> {
        let constant_bytes = 4 * u64::from(layout.constant_count);
        if !layout.root_offset.is_multiple_of(4) {
            return Err(("an offset of the root that is a multiple of 4", layout.root_offset.to_string()));
        }
        if !layout.constant_offset.is_multiple_of(4) {
            return Err((
                "an offset of constants that is a multiple of 4",
                layout.constant_offset.to_string(),
            ));
        }
        if !self.covers(layout.root_offset, u64::from(ROOT_BYTES)) {
            return Err(("a root within the push constants", format!("offset {}", layout.root_offset)));
        }
        if !self.covers(layout.constant_offset, constant_bytes) {
            let found = format!("{} at offset {}", layout.constant_count, layout.constant_offset);
            return Err(("constants within the push constants", found));
        }
        if constant_bytes != 0 && layout.overlaps_root(constant_bytes) {
            return Err(("constants outside of the root", format!("offset {}", layout.constant_offset)));
        }
        Ok(())
    }

    /// Bytes of push constants, from offset 0.
    pub fn push_constant_bytes(&self) -> u64 {
        self.push_constants.iter().map(PushConstantRange::end).max().unwrap_or(0)
    }

    /// Whether a range has all of `offset..offset + length`.
    pub(super) fn covers(&self, offset: u32, length: u64) -> bool {
        let end = u64::from(offset) + length;
        length == 0 || self.push_constants.iter().any(|range| range.offset <= offset && end <= range.end())
    }
}

/// A function of an executable: a compute pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The entry point's name, which is also the function's.
    pub entry_point: String,
    /// Ordinal of its module in [`Image::shaders`].
    pub shader: usize,
    /// Ordinal in [`Image::pipeline_layouts`].
    pub layout: usize,
    /// The subgroup size that it requires, if any.
    pub subgroup_size: Option<u32>,
    /// Number of 32-bit constants of a dispatch.
    pub constant_count: u16,
    /// Number of buffer bindings of a dispatch. 0 for a pipeline that declares none; see
    /// [`AddressLayout::binding_count`].
    pub binding_count: u16,
    /// How it receives bindings and constants.
    pub dispatch: Dispatch,
    /// Where it is from, unless stripped.
    pub debug: Option<DebugInfo>,
}

/// How a pipeline receives bindings and constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// As descriptors: for each binding of a dispatch, its place. Constants are push constants from offset 0.
    Descriptors(Arc<[DescriptorSlot]>),
    /// As buffer device addresses.
    Addresses(AddressLayout),
}

impl Dispatch {
    /// The ABI.
    pub fn abi(&self) -> DispatchAbi {
        match self {
            Self::Descriptors(_) => DispatchAbi::Descriptors,
            Self::Addresses(_) => DispatchAbi::Addresses,
        }
    }
}

/// The descriptor of a binding of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorSlot {
    /// The set, an index into [`PipelineLayout::sets`].
    pub set: u32,
    /// The binding's number.
    pub binding: u32,
    /// The element of the binding's array.
    pub element: u32,
    /// The descriptor's type.
    pub kind: DescriptorKind,
}

/// Where a function is from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugInfo {
    /// Its name in the tool that produced the executable, or empty.
    pub name: String,
    /// Its location in the source, if known.
    pub location: Option<SourceLocation>,
    /// Its locations by the name of the compilation stage.
    pub stage_locations: Vec<(String, SourceLocation)>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file's name; not empty.
    pub file: String,
    /// The line, from 1.
    pub line: i32,
}

/// An embedded source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path.
    pub path: String,
    /// Its content.
    pub content: Vec<u8>,
}

impl Image {
    /// The entry point of one of its pipelines in the shader.
    pub fn entry_point(&self, pipeline: &Pipeline) -> Option<&super::spirv::EntryPoint> {
        self.shaders.get(pipeline.shader)?.entry_point(&pipeline.entry_point)
    }

    /// Checks that a device supports what the executable uses: the features of shaders and the required
    /// subgroup sizes. Fails with `UNAVAILABLE`; the error names the feature and the function.
    pub fn check_device(&self, device: &dyn ShaderSupport) -> Result<()> {
        if self.format.needs_addresses() && !device.supports(super::Feature::BufferDeviceAddress) {
            return Err(super::spirv::lacking(super::Feature::BufferDeviceAddress.name())
                .context(format!("executable of format '{}'", self.format.name())));
        }
        let mut is_checked = vec![false; self.shaders.len()];
        for (ordinal, pipeline) in self.pipelines.iter().enumerate() {
            let Some(shader) = self.shaders.get(pipeline.shader) else { continue };
            let place = || format!("function {ordinal} '{}'", pipeline.entry_point);
            if !std::mem::replace(&mut is_checked[pipeline.shader], true) {
                shader.check_device(device).map_err(|error| error.context(place()))?;
            }
            if let Some(size) = pipeline.subgroup_size {
                check_subgroup_size(device, size).map_err(|error| error.context(place()))?;
            }
        }
        Ok(())
    }

    /// Checks that each of `constants` can be passed to the specialization constant with its index as id: 32
    /// bits wide.
    pub fn check_constants(&self, constants: &[u32]) -> Result<()> {
        for constant in self.shaders.iter().flat_map(Shader::specialization_constants) {
            if (constant.id as usize) < constants.len() && constant.bytes != 4 {
                return Err(Error::invalid_argument(format!(
                    "specialization constant {} of the executable has {} bits; constants have 32",
                    constant.id,
                    8 * u32::from(constant.bytes)
                )));
            }
        }
        Ok(())
    }
}

fn check_subgroup_size(device: &dyn ShaderSupport, size: u32) -> Result<()> {
    match device.subgroup_sizes() {
        None => Err(super::spirv::lacking("subgroupSizeControl")),
        Some(sizes) if sizes.contains(&size) => Ok(()),
        Some(sizes) => Err(super::spirv::lacking(&format!(
            "subgroups of {size} invocations (it has {} to {})",
            sizes.start(),
            sizes.end()
        ))),
    }
}
