//! A device as `--list_devices` and `--dump_devices` print it: lines as the reference's driver prints them,
//! and then what that does not report.

use ash::vk;
use rehal_hal::{DeviceDescription, DeviceSection};

use crate::physical::Physical;

/// The description of a device.
pub(crate) fn describe(physical: &Physical) -> DeviceDescription {
    DeviceDescription {
        name: display_name(physical),
        identifier: Some(physical.uuids().identifier()),
        path: physical.path.clone(),
        report: report(physical),
        sections: vec![driver(physical), features(physical), limits(physical)],
    }
}

fn named<const N: usize>(title: &str, properties: [(&str, String); N]) -> DeviceSection {
    DeviceSection {
        title: title.into(),
        properties: properties.map(|(key, value)| (key.to_string(), value)).into(),
    }
}

fn display_name(physical: &Physical) -> String {
    let mut name = physical.name();
    if !physical.driver_name.is_empty() {
        name.push_str(&format!(" ({}", physical.driver_name));
        if !physical.driver_info.is_empty() {
            name.push_str(&format!(" {}", physical.driver_info));
        }
        name.push(')');
    }
    if !physical.missing().is_empty() {
        name.push_str(" [below baseline]");
    }
    name
}

/// The lines that the reference's driver prints.
fn report(physical: &Physical) -> Vec<String> {
    let mut lines = identity(physical);
    lines.extend(feature_tier(physical));
    lines.extend(capabilities(physical));
    lines.extend(listed("queue_families", physical.queue_families.iter().map(queue_family)));
    let memory = &physical.memory;
    lines.extend(listed("memory_heaps", memory.memory_heaps_as_slice().iter().map(memory_heap)));
    lines.extend(listed("memory_types", memory.memory_types_as_slice().iter().map(memory_type)));
    lines.push(format!("device_extensions: {}", physical.extensions.len()));
    lines.extend(physical.extensions.iter().map(|name| format!("  {name}")));
    lines
}

/// A number of items, and each with its index.
fn listed(title: &str, items: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let head = format!("{title}: {}", items.len());
    std::iter::once(head)
        .chain(items.enumerate().map(|(index, item)| format!("  [{index}] {item}")))
        .collect()
}

fn identity(physical: &Physical) -> Vec<String> {
    let properties = &physical.properties;
    let version = properties.api_version;
    let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
    let mut lines = vec![
        format!("name: {}", physical.name()),
        format!("path: {}", physical.path),
        format!("api: {major}.{minor}.{}", vk::api_version_patch(version)),
        format!("type: {}", kind(properties.device_type)),
        format!("vendor_id: 0x{:04x}", properties.vendor_id),
        format!("device_id: 0x{:04x}", properties.device_id),
        format!("driver: {}", physical.driver_name),
    ];
    if !physical.driver_info.is_empty() {
        lines.push(format!("driver_info: {}", physical.driver_info));
    }
    lines.push(format!("device_uuid: {}", hex::encode(physical.device_uuid)));
    lines.push(format!("driver_uuid: {}", hex::encode(physical.driver_uuid)));
    lines
}

/// Whether the device has what the reference's driver requires, which is more than this driver does.
fn feature_tier(physical: &Physical) -> Vec<String> {
    let (features, v12) = (&physical.features, &physical.features.v12);
    let needs = [
        ("Vulkan API 1.3", physical.properties.api_version >= vk::API_VERSION_1_3),
        ("timelineSemaphore", v12.timeline_semaphore == vk::TRUE),
        ("scalarBlockLayout", v12.scalar_block_layout == vk::TRUE),
        ("synchronization2", features.synchronization2),
        ("compute queue family", physical.compute_family(true).is_some()),
    ];
    let missing: Vec<_> = needs.iter().filter(|(_, is_there)| !is_there).collect();
    let verdict = if missing.is_empty() { "supported" } else { "unsupported" };
    let head = format!("feature_tier[vulkan-1.3]: {verdict}");
    std::iter::once(head).chain(missing.iter().map(|(name, _)| format!("  missing: {name}"))).collect()
}

fn capabilities(physical: &Physical) -> Vec<String> {
    let features = &physical.features;
    let (core, v11, v12) = (&features.core, &features.v11, &features.v12);
    let is = |value: vk::Bool32| yes(value == vk::TRUE);
    let features_line = joined([
        ("bufferDeviceAddress", is(v12.buffer_device_address)),
        ("timelineSemaphore", is(v12.timeline_semaphore)),
        ("scalarBlockLayout", is(v12.scalar_block_layout)),
        ("synchronization2", yes(features.synchronization2)),
        ("storageBuffer8BitAccess", is(v12.storage_buffer8_bit_access)),
        ("storageBuffer16BitAccess", is(v11.storage_buffer16_bit_access)),
        ("shaderInt8", is(v12.shader_int8)),
        ("shaderFloat16", is(v12.shader_float16)),
        ("shaderBFloat16Type", yes(features.bfloat16.types)),
        ("shaderBFloat16DotProduct", yes(features.bfloat16.dot_product)),
        ("shaderBFloat16CooperativeMatrix", yes(features.bfloat16.cooperative_matrix)),
        ("shaderIntegerDotProduct", yes(features.integer_dot_product)),
        ("subgroupSizeControl", yes(features.subgroup_size_control)),
        ("cooperativeMatrix", yes(features.cooperative_matrix)),
    ]);
    let mut lines = vec![format!("features: {features_line}")];
    if let Some(matrix) = physical.cooperative_matrix() {
        let (stages, rows) = (matrix.stages, matrix.combinations);
        lines.push(format!("cooperative_matrix: stages=0x{stages:08x} property_rows={rows}"));
    }
    let sparse = joined([
        ("binding", is(core.sparse_binding)),
        ("residencyBuffer", is(core.sparse_residency_buffer)),
        ("residencyAliased", is(core.sparse_residency_aliased)),
    ]);
    let subgroup = &physical.subgroup;
    let subgroups = joined([
        ("size", subgroup.size.to_string()),
        ("operations", format!("0x{:08x}", subgroup.operations)),
        ("quadOperationsInAllStages", yes(subgroup.quad_in_all_stages)),
        ("minSubgroupSize", subgroup.min_size.to_string()),
        ("maxSubgroupSize", subgroup.max_size.to_string()),
        ("requiredSubgroupSizeStages", format!("0x{:08x}", subgroup.required_size_stages)),
    ]);
    lines.extend([format!("sparse: {sparse}"), format!("subgroup: {subgroups}")]);
    lines
}

fn joined<const N: usize>(pairs: [(&str, String); N]) -> String {
    pairs.map(|(key, value)| format!("{key}={value}")).join(" ")
}

/// This driver's view of the device.
fn driver(physical: &Physical) -> DeviceSection {
    let missing = physical.missing();
    let usable = if missing.is_empty() { "yes".into() } else { format!("no, lacks {}", missing.join(", ")) };
    named("", [("usable", usable)])
}

fn kind(kind: vk::PhysicalDeviceType) -> &'static str {
    match kind {
        vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated-gpu",
        vk::PhysicalDeviceType::DISCRETE_GPU => "discrete-gpu",
        vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual-gpu",
        vk::PhysicalDeviceType::CPU => "cpu",
        vk::PhysicalDeviceType::OTHER => "other",
        _ => "unknown",
    }
}

fn yes(is_there: bool) -> String {
    if is_there { "yes" } else { "no" }.into()
}

/// Features that kernels may need, in addition to those of the report.
fn features(physical: &Physical) -> DeviceSection {
    let (core, v12) = (&physical.features.core, &physical.features.v12);
    let is = |value: vk::Bool32| yes(value == vk::TRUE);
    named(
        "features",
        [
            ("shaderInt16", is(core.shader_int16)),
            ("shaderInt64", is(core.shader_int64)),
            ("shaderFloat64", is(core.shader_float64)),
            ("vulkanMemoryModel", is(v12.vulkan_memory_model)),
        ],
    )
}

fn limits(physical: &Physical) -> DeviceSection {
    let limits = &physical.properties.limits;
    let triple = |values: [u32; 3]| format!("{} x {} x {}", values[0], values[1], values[2]);
    named(
        "limits",
        [
            ("maxComputeWorkGroupCount", triple(limits.max_compute_work_group_count)),
            ("maxComputeWorkGroupSize", triple(limits.max_compute_work_group_size)),
            ("maxComputeWorkGroupInvocations", limits.max_compute_work_group_invocations.to_string()),
            ("maxComputeSharedMemorySize", limits.max_compute_shared_memory_size.to_string()),
            ("maxPushConstantsSize", limits.max_push_constants_size.to_string()),
            ("maxStorageBufferRange", limits.max_storage_buffer_range.to_string()),
            ("minStorageBufferOffsetAlignment", limits.min_storage_buffer_offset_alignment.to_string()),
            ("nonCoherentAtomSize", limits.non_coherent_atom_size.to_string()),
            ("maxMemoryAllocationCount", limits.max_memory_allocation_count.to_string()),
            ("maxMemoryAllocationSize", physical.max_allocation_bytes.to_string()),
            ("maxPushDescriptors", physical.max_push_descriptors.to_string()),
            ("minImportedHostPointerAlignment", physical.import_alignment.to_string()),
            ("timestampPeriod", format!("{} ns", limits.timestamp_period)),
            ("calibratedTimestamps", yes(physical.has_calibrated_clock)),
        ],
    )
}

fn queue_family(family: &vk::QueueFamilyProperties) -> String {
    let (flags, bits) = (queue_flags(family.queue_flags), family.timestamp_valid_bits);
    format!("count={} flags={flags} timestampValidBits={bits}", family.queue_count)
}

fn queue_flags(flags: vk::QueueFlags) -> String {
    const NAMES: [(vk::QueueFlags, &str); 9] = [
        (vk::QueueFlags::GRAPHICS, "graphics"),
        (vk::QueueFlags::COMPUTE, "compute"),
        (vk::QueueFlags::TRANSFER, "transfer"),
        (vk::QueueFlags::SPARSE_BINDING, "sparse"),
        (vk::QueueFlags::PROTECTED, "protected"),
        (vk::QueueFlags::VIDEO_DECODE_KHR, "video-decode"),
        (vk::QueueFlags::from_raw(0x40), "video-encode"),
        (vk::QueueFlags::OPTICAL_FLOW_NV, "optical-flow"),
        (vk::QueueFlags::from_raw(0x400), "data-graph"),
    ];
    let mut names: Vec<String> =
        NAMES.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| (*name).into()).collect();
    let known = NAMES.iter().fold(vk::QueueFlags::empty(), |all, (flag, _)| all | *flag);
    let unknown = flags.as_raw() & !known.as_raw();
    if unknown != 0 {
        names.push(format!("unknown(0x{unknown:08x})"));
    }
    if names.is_empty() { "none".into() } else { names.join("|") }
}

fn memory_heap(heap: &vk::MemoryHeap) -> String {
    format!("size={} flags=0x{:08x}", heap.size, heap.flags.as_raw())
}

fn memory_type(kind: &vk::MemoryType) -> String {
    format!("heap={} flags=0x{:08x}", kind.heap_index, kind.property_flags.as_raw())
}
