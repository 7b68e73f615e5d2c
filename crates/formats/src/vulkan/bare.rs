//! SPIR-V modules by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use rehal_base::{Fault, FormatError};

use super::layouts::MAX_BINDINGS;
use super::spirv::{self, EntryPoint, FORMAT, ResourceKind};
use super::{
    AddressLayout, DescriptorBinding, DescriptorKind, DescriptorSetLayout, Dispatch, DispatchAbi, Image,
    Pipeline, PipelineLayout, PushConstantRange, Shader, VulkanFormat, address,
};

/// `VK_SHADER_STAGE_COMPUTE_BIT`.
const STAGE_COMPUTE: u32 = 0x20;

/// Reads a module; its compute entry points become the functions, in order.
pub(super) fn read(format: VulkanFormat, bytes: &[u8]) -> Result<Image, FormatError> {
    let shader = Shader::read(spirv::words(bytes)?, 0)?;
    if shader.entry_points().is_empty() {
        let expected = "a compute entry point";
        return Err(FormatError::new(FORMAT, Fault::Unsupported, 0, "entry points", expected, "none"));
    }
    match format.dispatch_abi() {
        DispatchAbi::Addresses => with_addresses(format, shader),
        DispatchAbi::Descriptors => with_descriptors(format, shader),
    }
}

fn with_addresses(format: VulkanFormat, shader: Shader) -> Result<Image, FormatError> {
    let layout = address::of_metadata(&shader, 0)?;
    address::check_module(&shader, 0)?;
    address::check_root(&shader, 0)?;
    // The module may declare more than the ABI uses of it.
    let size = layout.end().max(u64::from(shader.declared_push_constant_bytes())).next_multiple_of(4);
    let size = u32::try_from(size).map_err(|_| {
        let expected = format!("at most {} bytes", u32::MAX);
        FormatError::new(FORMAT, Fault::Unsupported, 0, "push constants", expected, size.to_string())
    })?;
    let pipeline = |entry: &EntryPoint, layout: &AddressLayout| Pipeline {
        constant_count: layout.constant_count,
        binding_count: layout.binding_count.unwrap_or(0),
        ..bare(entry, Dispatch::Addresses(layout.clone()))
    };
    Ok(Image {
        format,
        set_layouts: Vec::new(),
        pipeline_layouts: vec![PipelineLayout { sets: Vec::new(), push_constants: whole(size) }],
        pipelines: shader.entry_points().iter().map(|entry| pipeline(entry, &layout)).collect(),
        shaders: vec![shader],
        source_files: Vec::new(),
    })
}

/// Layouts of what the module declares, used or not. Bindings between are storage buffers, so that the number
/// of a binding is its position.
fn with_descriptors(format: VulkanFormat, shader: Shader) -> Result<Image, FormatError> {
    let sets = sets(&shader)?;
    let constants = shader.declared_push_constant_bytes().div_ceil(4);
    let constant_count = u16::try_from(constants).map_err(|_| {
        let expected = format!("at most {} constants", u16::MAX);
        FormatError::new(FORMAT, Fault::Unsupported, 0, "push constants", expected, constants.to_string())
    })?;
    let slots: Arc<[_]> = (0..).zip(&sets).flat_map(|(set, layout)| layout.slots(set)).collect();
    let pipeline = |entry: &EntryPoint| Pipeline {
        constant_count,
        binding_count: slots.len() as u16,
        ..bare(entry, Dispatch::Descriptors(slots.clone()))
    };
    Ok(Image {
        format,
        pipelines: shader.entry_points().iter().map(pipeline).collect(),
        pipeline_layouts: vec![PipelineLayout {
            sets: (0..sets.len()).collect(),
            push_constants: whole(4 * u32::from(constant_count)),
        }],
        set_layouts: sets,
        shaders: vec![shader],
        source_files: Vec::new(),
    })
}

fn bare(entry: &EntryPoint, dispatch: Dispatch) -> Pipeline {
    Pipeline {
        entry_point: entry.name.clone(),
        shader: 0,
        layout: 0,
        subgroup_size: None,
        constant_count: 0,
        binding_count: 0,
        dispatch,
        debug: None,
    }
}

fn whole(size: u32) -> Vec<PushConstantRange> {
    match size {
        0 => Vec::new(),
        size => vec![PushConstantRange { stages: STAGE_COMPUTE, offset: 0, size }],
    }
}

fn sets(shader: &Shader) -> Result<Vec<DescriptorSetLayout>, FormatError> {
    let mut used: BTreeMap<u32, BTreeMap<u32, DescriptorBinding>> = BTreeMap::new();
    for resource in shader.declared_resources() {
        let (set, binding, count) = (resource.set, resource.binding, resource.count.unwrap_or(0));
        let error = |expected: String| {
            let found = format!("{:?} at binding {binding} of set {set}", resource.kind);
            FormatError::new(FORMAT, Fault::Unsupported, 0, "descriptors", expected, found)
        };
        let kind = match resource.kind {
            ResourceKind::StorageBuffer => DescriptorKind::StorageBuffer,
            ResourceKind::UniformBuffer => DescriptorKind::UniformBuffer,
            ResourceKind::Other => return Err(error("buffers".to_owned())),
        };
        if count == 0 || [count, set, binding].iter().any(|number| *number >= MAX_BINDINGS) {
            return Err(error(format!("sets, bindings and arrays of fixed size below {MAX_BINDINGS}")));
        }
        let descriptor = DescriptorBinding { binding, kind, count, stages: STAGE_COMPUTE };
        used.entry(set).or_default().insert(binding, descriptor);
    }
    let total: u64 = used.values().map(filled_count).sum();
    if total > u64::from(MAX_BINDINGS) {
        let expected = format!("at most {MAX_BINDINGS}");
        return Err(FormatError::new(
            FORMAT,
            Fault::Unsupported,
            0,
            "descriptors",
            expected,
            total.to_string(),
        ));
    }
    let sets = used.last_key_value().map_or(0, |(set, _)| *set + 1);
    Ok((0..sets).map(|set| used.get(&set).map(filled).unwrap_or_default()).collect())
}

/// Number of descriptors of a set with all bindings up to the last used one.
fn filled_count(used: &BTreeMap<u32, DescriptorBinding>) -> u64 {
    let last = used.last_key_value().map_or(0, |(binding, _)| *binding);
    let more: u64 = used.values().map(|binding| u64::from(binding.count) - 1).sum();
    u64::from(last) + 1 + more
}

/// All bindings up to the last used one.
fn filled(used: &BTreeMap<u32, DescriptorBinding>) -> DescriptorSetLayout {
    let last = used.last_key_value().map_or(0, |(binding, _)| *binding);
    let unused = |binding| DescriptorBinding {
        binding,
        kind: DescriptorKind::StorageBuffer,
        count: 1,
        stages: STAGE_COMPUTE,
    };
    let bindings =
        (0..=last).map(|binding| used.get(&binding).copied().unwrap_or_else(|| unused(binding))).collect();
    DescriptorSetLayout { bindings }
}
