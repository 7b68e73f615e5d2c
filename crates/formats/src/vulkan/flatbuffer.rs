//! Executables as the compiler writes them: a header and a flatbuffer.
//!
//! Source of the layout: IREE's `vulkan_executable_def.fbs` and `executable_debug_info.fbs` (release 3.13.0).
//! A field's id is its position here.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rehal_base::flatbuffer::{self as fb, Envelope, FieldType, StructSchema, Table};
use rehal_base::{Cursor, Fault, FormatError, flatbuffer_tables};

use crate::container;
pub(super) use crate::container::HEADER_BYTES;

use super::layouts::MAX_BINDINGS;
use super::{
    AddressLayout, BindingRequirement, DebugInfo, DescriptorBinding, DescriptorKind, DescriptorSetLayout,
    DescriptorSlot, Dispatch, DispatchAbi, Image, Pipeline, PipelineLayout, PushConstantRange, Shader,
    SourceFile, SourceLocation, VulkanFormat, address,
};

/// The name of the format in errors.
const FORMAT: &str = "Vulkan executable";
/// The first bytes of the header, and the flatbuffer's identifier.
pub(super) const MAGIC: &[u8; 4] = b"VKE1";
/// `VK_SHADER_STAGE_COMPUTE_BIT`.
const STAGE_COMPUTE: u32 = 0x20;
/// Limit on the descriptors of a set, and of a pipeline; a dispatch has as many bindings.
const MAX_DESCRIPTORS: u64 = u16::MAX as u64;
/// Limit on the descriptors of all pipeline layouts together.
const MAX_TOTAL_DESCRIPTORS: usize = 1 << 20;
/// Limit on the ranges of push constants of a pipeline layout. All of them are of the same stage, for which
/// Vulkan allows one.
const MAX_RANGES: usize = 32;
/// Limit on the pipelines, and on what is compared of their shaders with their layouts.
const MAX_PIPELINES: usize = 16 << 10;
const MAX_COMPARISONS: usize = 1 << 24;

static ENVELOPE: Envelope =
    Envelope { format: FORMAT, identifier: MAGIC, prefix_bytes: 0, root: &EXECUTABLE };

static RANGE: StructSchema =
    StructSchema { members: &[("stage_flags", 4, None), ("offset", 4, None), ("size", 4, None)] };

flatbuffer_tables! {
    /// A line of a file.
    LOCATION = "FileLineLocDef" {
        "filename": FieldType::Text,
        "line": FieldType::I32,
    }
    /// A line of a file after a stage of the compilation.
    STAGE_LOCATION = "StageLocationDef" {
        "stage": FieldType::Text,
        "location": FieldType::Table(&LOCATION),
    }
    /// Where a function is from.
    EXPORT = "ExportDef" {
        "name": FieldType::Text,
        "location": FieldType::Table(&LOCATION),
        "stage_locations": FieldType::Tables(&STAGE_LOCATION),
    }
    /// An embedded source file.
    SOURCE_FILE = "SourceFileDef" {
        "path": FieldType::Text,
        "content": FieldType::Bytes,
    }
    /// A binding of a descriptor set.
    SET_BINDING = "DescriptorSetLayoutBindingDef" {
        "binding": FieldType::U32(0),
        "descriptor_type": FieldType::U32(0),
        "descriptor_count": FieldType::U32(0),
        "stage_flags": FieldType::U32(0),
    }
    /// A layout of a descriptor set.
    SET_LAYOUT = "DescriptorSetLayoutDef" {
        "bindings": FieldType::Tables(&SET_BINDING),
    }
    /// A layout of a pipeline.
    PIPELINE_LAYOUT = "PipelineLayoutDef" {
        "descriptor_set_layout_ordinals": FieldType::U32s,
        "push_constant_ranges": FieldType::Structs(&RANGE),
    }
    /// A shader's requirements of a binding.
    ADDRESS_BINDING = "BdaBindingDef" {
        "minimum_alignment": FieldType::U32(1),
        "minimum_length": FieldType::U64,
    }
    /// Where a pipeline expects addresses.
    ADDRESS_LAYOUT = "BdaDispatchLayoutDef" {
        "abi_version": FieldType::U32(1),
        "root_push_constant_offset": FieldType::U32(0),
        "root_push_constant_length": FieldType::U32(32),
        "constant_push_constant_offset": FieldType::U32(32),
        "constant_count": FieldType::U32(0),
        "binding_table_entry_type": FieldType::U8,
        "binding_count": FieldType::U32(0),
        "bindings": FieldType::Tables(&ADDRESS_BINDING),
    }
    /// A SPIR-V module.
    SHADER = "ShaderModuleDef" {
        "spirv_code": FieldType::U32s,
    }
    /// A function.
    PIPELINE = "PipelineDef" {
        "shader_module_ordinal": FieldType::U32(0),
        "entry_point": FieldType::Text,
        "pipeline_layout_ordinal": FieldType::U32(0),
        "subgroup_size": FieldType::U32(0),
        "debug_info": FieldType::Table(&EXPORT),
        "dispatch_abi": FieldType::U8,
        "bda_dispatch_layout": FieldType::Table(&ADDRESS_LAYOUT),
    }
    /// An executable.
    EXECUTABLE = "ExecutableDef" {
        "pipelines": FieldType::Tables(&PIPELINE),
        "descriptor_set_layouts": FieldType::Tables(&SET_LAYOUT),
        "pipeline_layouts": FieldType::Tables(&PIPELINE_LAYOUT),
        "shader_modules": FieldType::Tables(&SHADER),
        "source_files": FieldType::Tables(&SOURCE_FILE),
    }
}

/// Ids of fields: positions in the tables of the same names above.
pub(super) mod id {
    pub(in super::super) const LOCATION_FILE: usize = 0;
    pub(in super::super) const LOCATION_LINE: usize = 1;
    pub(in super::super) const STAGE: usize = 0;
    pub(in super::super) const STAGE_LOCATION: usize = 1;
    pub(in super::super) const EXPORT_NAME: usize = 0;
    pub(in super::super) const EXPORT_LOCATION: usize = 1;
    pub(in super::super) const EXPORT_STAGES: usize = 2;
    pub(in super::super) const SOURCE_PATH: usize = 0;
    pub(in super::super) const SOURCE_CONTENT: usize = 1;
    pub(in super::super) const BINDING: usize = 0;
    pub(in super::super) const BINDING_TYPE: usize = 1;
    pub(in super::super) const BINDING_COUNT: usize = 2;
    pub(in super::super) const BINDING_STAGES: usize = 3;
    pub(in super::super) const SET_BINDINGS: usize = 0;
    pub(in super::super) const LAYOUT_SETS: usize = 0;
    pub(in super::super) const LAYOUT_RANGES: usize = 1;
    pub(in super::super) const REQUIRED_ALIGNMENT: usize = 0;
    pub(in super::super) const REQUIRED_LENGTH: usize = 1;
    pub(in super::super) const ADDRESS_VERSION: usize = 0;
    pub(in super::super) const ADDRESS_ROOT_OFFSET: usize = 1;
    pub(in super::super) const ADDRESS_ROOT_LENGTH: usize = 2;
    pub(in super::super) const ADDRESS_CONSTANT_OFFSET: usize = 3;
    pub(in super::super) const ADDRESS_CONSTANT_COUNT: usize = 4;
    pub(in super::super) const ADDRESS_ENTRY_TYPE: usize = 5;
    pub(in super::super) const ADDRESS_BINDING_COUNT: usize = 6;
    pub(in super::super) const ADDRESS_BINDINGS: usize = 7;
    pub(in super::super) const SHADER_CODE: usize = 0;
    pub(in super::super) const PIPELINE_SHADER: usize = 0;
    pub(in super::super) const PIPELINE_ENTRY_POINT: usize = 1;
    pub(in super::super) const PIPELINE_LAYOUT: usize = 2;
    pub(in super::super) const PIPELINE_SUBGROUP_SIZE: usize = 3;
    pub(in super::super) const PIPELINE_DEBUG: usize = 4;
    pub(in super::super) const PIPELINE_ABI: usize = 5;
    pub(in super::super) const PIPELINE_ADDRESSES: usize = 6;
    pub(in super::super) const PIPELINES: usize = 0;
    pub(in super::super) const SET_LAYOUTS: usize = 1;
    pub(in super::super) const PIPELINE_LAYOUTS: usize = 2;
    pub(in super::super) const SHADERS: usize = 3;
    pub(in super::super) const SOURCE_FILES: usize = 4;
}

/// The format of a flatbuffer that is one: the first pipeline that takes addresses tells.
pub(super) fn infer(bytes: &[u8]) -> Option<VulkanFormat> {
    let buffer = flatbuffer(bytes).ok()?;
    fb::verify(buffer, HEADER_BYTES, &ENVELOPE).ok()?;
    let takes_addresses = |pipeline: Table<'_>| pipeline.u8(id::PIPELINE_ABI) == 1;
    match Table::root(buffer).tables(id::PIPELINES).iter().any(takes_addresses) {
        true => Some(VulkanFormat::Addresses),
        false => Some(VulkanFormat::Descriptors),
    }
}

/// Reads an executable in a flatbuffer.
pub(super) fn read(format: VulkanFormat, bytes: &[u8]) -> Result<Image, FormatError> {
    let buffer = flatbuffer(bytes)?;
    fb::verify(buffer, HEADER_BYTES, &ENVELOPE)?;
    let root = Table::root(buffer);
    let tables = |id| root.tables(id).iter().enumerate();
    let set_layouts = tables(id::SET_LAYOUTS)
        .map(|(i, table)| in_record(i, set_layout(table)))
        .collect::<Result<Vec<_>, _>>()?;
    let descriptor_counts: Vec<_> = set_layouts.iter().map(DescriptorSetLayout::descriptor_count).collect();
    let pipeline_layouts = tables(id::PIPELINE_LAYOUTS)
        .map(|(i, table)| in_record(i, pipeline_layout(table, &descriptor_counts)))
        .collect::<Result<Vec<_>, _>>()?;
    let shaders =
        tables(id::SHADERS).map(|(i, table)| in_record(i, shader(table))).collect::<Result<Vec<_>, _>>()?;
    let count = root.tables(id::PIPELINES).len();
    if count == 0 || count > MAX_PIPELINES {
        let expected = format!("1 to {MAX_PIPELINES}");
        return Err(corrupt("ExecutableDef.pipelines", expected, count.to_string()));
    }
    let parts = Parts {
        format,
        bindings: bindings_of(&set_layouts),
        slots: slots(&set_layouts, &pipeline_layouts)?,
        pipeline_layouts: &pipeline_layouts,
        shaders: &shaders,
        comparisons: Cell::new(MAX_COMPARISONS),
    };
    let pipelines = tables(id::PIPELINES)
        .map(|(i, table)| in_record(i, parts.pipeline(table)))
        .collect::<Result<Vec<_>, _>>()?;
    let source = |table: Table<'_>| SourceFile {
        path: table.text(id::SOURCE_PATH).unwrap_or_default().to_owned(),
        content: table.vector(id::SOURCE_CONTENT).map_or_else(Vec::new, |content| content.bytes().to_vec()),
    };
    let source_files = root.tables(id::SOURCE_FILES).iter().map(source).collect();
    Ok(Image { format, set_layouts, pipeline_layouts, shaders, pipelines, source_files })
}

/// The flatbuffer after the header.
pub(super) fn flatbuffer(bytes: &[u8]) -> Result<&[u8], FormatError> {
    container::flatbuffer(bytes, &ENVELOPE)
}

/// An error without a place of its own: the content of a table is wrong, not its encoding.
fn corrupt(field: &'static str, expected: impl Into<String>, found: impl Into<String>) -> FormatError {
    FormatError::new(FORMAT, Fault::Corrupt, HEADER_BYTES as u64, field, expected, found)
}

fn unsupported(field: &'static str, expected: impl Into<String>, found: impl Into<String>) -> FormatError {
    FormatError::new(FORMAT, Fault::Unsupported, HEADER_BYTES as u64, field, expected, found)
}

fn in_record<T>(index: usize, result: Result<T, FormatError>) -> Result<T, FormatError> {
    result.map_err(|error| error.in_record(index as u64))
}

fn check_stages(field: &'static str, stages: u32) -> Result<u32, FormatError> {
    match stages & STAGE_COMPUTE {
        0 => Err(corrupt(field, "stages with compute (0x20)", format!("{stages:#x}"))),
        _ => Ok(stages),
    }
}

fn set_layout(table: Table<'_>) -> Result<DescriptorSetLayout, FormatError> {
    let mut numbers = HashSet::new();
    let mut bindings = Vec::new();
    let mut left = MAX_DESCRIPTORS;
    for table in table.tables(id::SET_BINDINGS).iter() {
        let binding = table.u32(id::BINDING, 0);
        if binding >= MAX_BINDINGS {
            let expected = format!("a number below {MAX_BINDINGS}");
            return Err(unsupported("DescriptorSetLayoutBindingDef.binding", expected, binding.to_string()));
        }
        if !numbers.insert(binding) {
            let found = format!("a second {binding}");
            return Err(corrupt("DescriptorSetLayoutBindingDef.binding", "a number of its own", found));
        }
        let kind = match table.u32(id::BINDING_TYPE, 0) {
            6 => DescriptorKind::UniformBuffer,
            7 => DescriptorKind::StorageBuffer,
            other => {
                let field = "DescriptorSetLayoutBindingDef.descriptor_type";
                return Err(unsupported(
                    field,
                    "UNIFORM_BUFFER (6) or STORAGE_BUFFER (7)",
                    other.to_string(),
                ));
            }
        };
        let count = table.u32(id::BINDING_COUNT, 0);
        match left.checked_sub(u64::from(count)) {
            Some(rest) if count != 0 => left = rest,
            _ => {
                let field = "DescriptorSetLayoutBindingDef.descriptor_count";
                let expected = format!("1 or more, and at most {MAX_DESCRIPTORS} in a set");
                return Err(corrupt(field, expected, count.to_string()));
            }
        }
        let stages =
            check_stages("DescriptorSetLayoutBindingDef.stage_flags", table.u32(id::BINDING_STAGES, 0))?;
        bindings.push(DescriptorBinding { binding, kind, count, stages });
    }
    Ok(DescriptorSetLayout { bindings })
}

/// Reads a pipeline layout; `descriptor_counts` are those of the set layouts.
fn pipeline_layout(table: Table<'_>, descriptor_counts: &[u64]) -> Result<PipelineLayout, FormatError> {
    let mut sets = Vec::new();
    let mut descriptors = 0;
    if let Some(ordinals) = table.vector(id::LAYOUT_SETS) {
        for index in 0..ordinals.len() {
            let ordinal = u32::from_le_bytes(ordinals.element(index).unwrap_or_default()) as usize;
            let Some(count) = descriptor_counts.get(ordinal) else {
                let expected = format!("ordinals below the number of layouts, {}", descriptor_counts.len());
                let field = "PipelineLayoutDef.descriptor_set_layout_ordinals";
                return Err(corrupt(field, expected, ordinal.to_string()));
            };
            descriptors += count;
            // Within the loop: the same set may be listed often.
            if descriptors > MAX_DESCRIPTORS {
                let expected = format!("sets with at most {MAX_DESCRIPTORS} descriptors");
                return Err(corrupt("PipelineLayoutDef.descriptor_set_layout_ordinals", expected, "more"));
            }
            sets.push(ordinal);
        }
    }
    let mut push_constants = Vec::new();
    if let Some(ranges) = table.vector(id::LAYOUT_RANGES) {
        if ranges.len() > MAX_RANGES {
            let (expected, found) = (format!("at most {MAX_RANGES} ranges"), ranges.len().to_string());
            return Err(unsupported("PipelineLayoutDef.push_constant_ranges", expected, found));
        }
        for index in 0..ranges.len() {
            push_constants.push(push_constant_range(ranges.element(index).unwrap_or_default())?);
        }
    }
    Ok(PipelineLayout { sets, push_constants })
}

fn push_constant_range(bytes: [u8; RANGE.size_bytes()]) -> Result<PushConstantRange, FormatError> {
    let mut words = Cursor::new(&bytes);
    let mut word = || words.u32().unwrap_or(0);
    let (stages, offset, size) = (word(), word(), word());
    let range =
        PushConstantRange { stages: check_stages("PushConstantRange.stage_flags", stages)?, offset, size };
    let limit = 4 * u64::from(u16::MAX);
    if !offset.is_multiple_of(4) || !size.is_multiple_of(4) || range.end() > limit {
        let expected = format!("multiples of 4 within {limit} bytes");
        return Err(corrupt("PushConstantRange", expected, format!("{size} bytes at offset {offset}")));
    }
    Ok(range)
}

fn shader(table: Table<'_>) -> Result<Shader, FormatError> {
    let Some(code) = table.vector(id::SHADER_CODE) else {
        return Err(corrupt("ShaderModuleDef.spirv_code", "a SPIR-V module", "none"));
    };
    let word = |index| u32::from_le_bytes(code.element(index).unwrap_or_default());
    Shader::read((0..code.len()).map(word).collect(), HEADER_BYTES + code.at())
}

/// The bindings of set layouts, by the layout's ordinal and the binding's number.
fn bindings_of(set_layouts: &[DescriptorSetLayout]) -> HashMap<(usize, u32), DescriptorBinding> {
    let layouts = set_layouts.iter().enumerate();
    layouts
        .flat_map(|(ordinal, layout)| layout.bindings.iter().map(move |b| ((ordinal, b.binding), *b)))
        .collect()
}

/// For each pipeline layout its descriptors, in the order of the bindings of a dispatch.
fn slots(
    set_layouts: &[DescriptorSetLayout],
    pipeline_layouts: &[PipelineLayout],
) -> Result<Vec<Arc<[DescriptorSlot]>>, FormatError> {
    let mut left = MAX_TOTAL_DESCRIPTORS;
    let of_layout = |layout: &PipelineLayout| {
        let sets = (0..).zip(&layout.sets);
        let slots: Arc<[_]> = sets.flat_map(|(set, ordinal)| set_layouts[*ordinal].slots(set)).collect();
        left = left.checked_sub(slots.len()).ok_or_else(|| {
            let expected = format!("at most {MAX_TOTAL_DESCRIPTORS} descriptors in all pipeline layouts");
            unsupported("ExecutableDef.pipeline_layouts", expected, "more")
        })?;
        Ok(slots)
    };
    pipeline_layouts.iter().map(of_layout).collect()
}

/// The parts that pipelines refer to.
struct Parts<'a> {
    format: VulkanFormat,
    bindings: HashMap<(usize, u32), DescriptorBinding>,
    /// Descriptors by pipeline layout.
    slots: Vec<Arc<[DescriptorSlot]>>,
    pipeline_layouts: &'a [PipelineLayout],
    shaders: &'a [Shader],
    /// Comparisons that are left.
    comparisons: Cell<usize>,
}

impl Parts<'_> {
    fn pipeline(&self, table: Table<'_>) -> Result<Pipeline, FormatError> {
        let shader =
            ordinal(table, id::PIPELINE_SHADER, "PipelineDef.shader_module_ordinal", self.shaders.len())?;
        let entry_point = table.text(id::PIPELINE_ENTRY_POINT).unwrap_or_default();
        if self.shaders[shader].entry_point(entry_point).is_none() {
            let names: Vec<_> =
                self.shaders[shader].entry_points().iter().map(|entry| entry.name.as_str()).collect();
            let expected = match names.is_empty() {
                true => "a module with compute entry points".to_owned(),
                false => format!("one of: {}", names.join(", ")),
            };
            return Err(corrupt("PipelineDef.entry_point", expected, format!("'{entry_point}'")));
        }
        let field = "PipelineDef.pipeline_layout_ordinal";
        let layout = ordinal(table, id::PIPELINE_LAYOUT, field, self.pipeline_layouts.len())?;
        let dispatch = self.dispatch(table, layout, &self.shaders[shader])?;
        let (constant_count, binding_count) = match &dispatch {
            Dispatch::Descriptors(slots) => {
                let bytes = self.pipeline_layouts[layout].push_constant_bytes();
                ((bytes / 4) as u16, slots.len() as u16)
            }
            Dispatch::Addresses(layout) => (layout.constant_count, layout.binding_count.unwrap_or(0)),
        };
        let subgroup_size = table.u32(id::PIPELINE_SUBGROUP_SIZE, 0);
        if subgroup_size != 0 && !subgroup_size.is_power_of_two() {
            let found = subgroup_size.to_string();
            return Err(corrupt("PipelineDef.subgroup_size", "0 or a power of two", found));
        }
        Ok(Pipeline {
            entry_point: entry_point.to_owned(),
            shader,
            layout,
            subgroup_size: (subgroup_size != 0).then_some(subgroup_size),
            constant_count,
            binding_count,
            dispatch,
            debug: table.table(id::PIPELINE_DEBUG).map(debug_info).transpose()?,
        })
    }

    fn dispatch(&self, table: Table<'_>, layout: usize, shader: &Shader) -> Result<Dispatch, FormatError> {
        let slots = &self.slots[layout];
        let layout = &self.pipeline_layouts[layout];
        let addresses = table.table(id::PIPELINE_ADDRESSES);
        let declared = match table.u8(id::PIPELINE_ABI) {
            0 => DispatchAbi::Descriptors,
            1 => DispatchAbi::Addresses,
            other => return Err(unsupported("PipelineDef.dispatch_abi", "0 or 1", other.to_string())),
        };
        if declared != self.format.dispatch_abi() {
            let expected = format!("{:?} for format '{}'", self.format.dispatch_abi(), self.format.name());
            return Err(corrupt("PipelineDef.dispatch_abi", expected, format!("{declared:?}")));
        }
        match (declared, addresses) {
            (DispatchAbi::Descriptors, None) => {
                self.check_resources(table, layout, shader)?;
                Ok(Dispatch::Descriptors(slots.clone()))
            }
            (DispatchAbi::Descriptors, Some(_)) => {
                Err(corrupt("PipelineDef.bda_dispatch_layout", "none with descriptors", "one"))
            }
            (DispatchAbi::Addresses, None) => Err(corrupt("PipelineDef.bda_dispatch_layout", "one", "none")),
            (DispatchAbi::Addresses, Some(addresses)) => {
                if !layout.sets.is_empty() {
                    let found = layout.sets.len().to_string();
                    return Err(corrupt("PipelineLayoutDef.descriptor_set_layout_ordinals", "none", found));
                }
                address::check_module(shader, HEADER_BYTES)?;
                check_push_constants(table, layout, shader)?;
                Ok(Dispatch::Addresses(address_layout(addresses, layout)?))
            }
        }
    }

    /// Checks that what the entry point uses is in the layout: Vulkan does not.
    fn check_resources(
        &self,
        table: Table<'_>,
        layout: &PipelineLayout,
        shader: &Shader,
    ) -> Result<(), FormatError> {
        let entry_point = table.text(id::PIPELINE_ENTRY_POINT).unwrap_or_default();
        let Some(entry) = shader.entry_point(entry_point) else { return Ok(()) };
        let left = self.comparisons.get().checked_sub(entry.resources.len()).ok_or_else(|| {
            let expected = format!("pipelines that use at most {MAX_COMPARISONS} descriptors");
            unsupported("ExecutableDef.pipelines", expected, "more")
        })?;
        self.comparisons.set(left);
        for resource in &entry.resources {
            let set = layout.sets.get(resource.set as usize);
            let binding = set.and_then(|ordinal| self.bindings.get(&(*ordinal, resource.binding)));
            let fits = binding.is_some_and(|binding| {
                resource.kind == binding.kind.into()
                    && resource.count.is_none_or(|count| count <= binding.count)
            });
            if !fits {
                let expected = format!("the descriptors that '{entry_point}' uses");
                let found = format!(
                    "no {:?} with {} descriptors at binding {} of set {}",
                    resource.kind,
                    resource.count.unwrap_or(1),
                    resource.binding,
                    resource.set
                );
                return Err(corrupt("PipelineLayoutDef", expected, found));
            }
        }
        check_push_constants(table, layout, shader)
    }
}

/// Checks that the push constants that the entry point uses are in the layout: Vulkan does not.
fn check_push_constants(
    table: Table<'_>,
    layout: &PipelineLayout,
    shader: &Shader,
) -> Result<(), FormatError> {
    let entry_point = table.text(id::PIPELINE_ENTRY_POINT).unwrap_or_default();
    let used = shader.entry_point(entry_point).map_or(0, |entry| entry.push_constant_bytes);
    let bytes = layout.push_constant_bytes();
    if u64::from(used) > bytes {
        let expected = format!("the {used} bytes that '{entry_point}' uses");
        return Err(corrupt("PipelineLayoutDef.push_constant_ranges", expected, bytes.to_string()));
    }
    Ok(())
}

fn ordinal(table: Table<'_>, id: usize, field: &'static str, count: usize) -> Result<usize, FormatError> {
    let ordinal = table.u32(id, 0) as usize;
    if ordinal < count {
        return Ok(ordinal);
    }
    Err(corrupt(field, format!("an ordinal below {count}"), ordinal.to_string()))
}

fn address_layout(table: Table<'_>, pipeline: &PipelineLayout) -> Result<AddressLayout, FormatError> {
    let version = table.u32(id::ADDRESS_VERSION, 1);
    if version != 1 {
        return Err(unsupported("BdaDispatchLayoutDef.abi_version", "1", version.to_string()));
    }
    let root_length = table.u32(id::ADDRESS_ROOT_LENGTH, address::ROOT_BYTES);
    if root_length != address::ROOT_BYTES {
        let expected = address::ROOT_BYTES.to_string();
        return Err(corrupt(
            "BdaDispatchLayoutDef.root_push_constant_length",
            expected,
            root_length.to_string(),
        ));
    }
    match table.u8(id::ADDRESS_ENTRY_TYPE) {
        0 => {}
        other => {
            let field = "BdaDispatchLayoutDef.binding_table_entry_type";
            return Err(unsupported(field, "addresses (0)", other.to_string()));
        }
    }
    let constant_count = table.u32(id::ADDRESS_CONSTANT_COUNT, 0);
    let binding_count = table.u32(id::ADDRESS_BINDING_COUNT, 0);
    let counted = |field, count: u32| {
        u16::try_from(count).map_err(|_| corrupt(field, format!("at most {}", u16::MAX), count.to_string()))
    };
    let layout = AddressLayout {
        root_offset: table.u32(id::ADDRESS_ROOT_OFFSET, 0),
        constant_offset: table.u32(id::ADDRESS_CONSTANT_OFFSET, address::ROOT_BYTES),
        constant_count: counted("BdaDispatchLayoutDef.constant_count", constant_count)?,
        binding_count: Some(counted("BdaDispatchLayoutDef.binding_count", binding_count)?),
        requirements: requirements(table, binding_count)?,
    };
    pipeline
        .check_addresses(&layout)
        .map_err(|(expected, found)| corrupt("BdaDispatchLayoutDef", expected, found))?;
    Ok(layout)
}

fn requirements(table: Table<'_>, binding_count: u32) -> Result<Arc<[BindingRequirement]>, FormatError> {
    let tables = table.tables(id::ADDRESS_BINDINGS);
    if !tables.is_empty() && tables.len() != binding_count as usize {
        let expected = format!("0 or one for each of {binding_count} bindings");
        return Err(corrupt("BdaDispatchLayoutDef.bindings", expected, tables.len().to_string()));
    }
    let read = |table: Table<'_>| {
        let alignment = table.u32(id::REQUIRED_ALIGNMENT, 1);
        match alignment.is_power_of_two() {
            true => Ok(BindingRequirement { alignment, length: table.u64(id::REQUIRED_LENGTH) }),
            false => Err(corrupt("BdaBindingDef.minimum_alignment", "a power of two", alignment.to_string())),
        }
    };
    tables.iter().map(read).collect()
}

fn debug_info(table: Table<'_>) -> Result<DebugInfo, FormatError> {
    let stage = |table: Table<'_>| {
        let stage = table.text(id::STAGE).unwrap_or_default();
        if stage.is_empty() {
            return Err(corrupt("StageLocationDef.stage", "a name", "none"));
        }
        let place = table.table(id::STAGE_LOCATION).map(location).transpose()?;
        Ok(place.map(|place| (stage.to_owned(), place)))
    };
    let stages = table.tables(id::EXPORT_STAGES).iter().map(stage).collect::<Result<Vec<_>, _>>()?;
    Ok(DebugInfo {
        name: table.text(id::EXPORT_NAME).unwrap_or_default().to_owned(),
        location: table.table(id::EXPORT_LOCATION).map(location).transpose()?,
        stage_locations: stages.into_iter().flatten().collect(),
    })
}

fn location(table: Table<'_>) -> Result<SourceLocation, FormatError> {
    match table.text(id::LOCATION_FILE) {
        Some(file) if !file.is_empty() => {
            Ok(SourceLocation { file: file.to_owned(), line: table.i32(id::LOCATION_LINE) })
        }
        _ => Err(corrupt("FileLineLocDef.filename", "a name", "none")),
    }
}
