//! A device as `--list_devices` and `--dump_devices` print it.

use ash::vk;
use rehal_hal::{DeviceDescription, DeviceSection};

use crate::physical::{Physical, hex};

/// The description of a device.
pub(crate) fn describe(physical: &Physical) -> DeviceDescription {
    let path = physical.path();
    DeviceDescription {
        name: display_name(physical),
        identifier: Some(path.clone()),
        path,
        sections: vec![
            identity(physical),
            features(physical),
            subgroups(physical),
            limits(physical),
            queue_families(physical),
            memory_heaps(physical),
            memory_types(physical),
            extensions(physical),
        ],
    }
}

fn section(title: &str, properties: Vec<(String, String)>) -> DeviceSection {
    DeviceSection { title: title.into(), properties }
}

fn named<const N: usize>(title: &str, properties: [(&str, String); N]) -> DeviceSection {
    section(title, properties.map(|(key, value)| (key.to_string(), value)).into())
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

fn identity(physical: &Physical) -> DeviceSection {
    let properties = &physical.properties;
    let missing = physical.missing();
    let version = properties.api_version;
    let usable = if missing.is_empty() { "yes".into() } else { format!("no, lacks {}", missing.join(", ")) };
    named(
        "",
        [
            ("name", physical.name()),
            ("path", physical.path()),
            (
                "api",
                format!(
                    "{}.{}.{}",
                    vk::api_version_major(version),
                    vk::api_version_minor(version),
                    vk::api_version_patch(version)
                ),
            ),
            ("type", kind(properties.device_type).into()),
            ("vendor_id", format!("0x{:04x}", properties.vendor_id)),
            ("device_id", format!("0x{:04x}", properties.device_id)),
            ("driver", physical.driver_name.clone()),
            ("driver_info", physical.driver_info.clone()),
            ("device_uuid", hex(&physical.device_uuid)),
            ("driver_uuid", hex(&physical.driver_uuid)),
            ("usable", usable),
        ],
    )
}

fn kind(kind: vk::PhysicalDeviceType) -> &'static str {
    match kind {
        vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated-gpu",
        vk::PhysicalDeviceType::DISCRETE_GPU => "discrete-gpu",
        vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual-gpu",
        vk::PhysicalDeviceType::CPU => "cpu",
        _ => "other",
    }
}

fn yes(is_there: bool) -> String {
    if is_there { "yes" } else { "no" }.into()
}

fn features(physical: &Physical) -> DeviceSection {
    let features = &physical.features;
    let (core, v11, v12) = (&features.core, &features.v11, &features.v12);
    let is = |value: vk::Bool32| yes(value == vk::TRUE);
    named(
        "features",
        [
            ("bufferDeviceAddress", is(v12.buffer_device_address)),
            ("timelineSemaphore", is(v12.timeline_semaphore)),
            ("scalarBlockLayout", is(v12.scalar_block_layout)),
            ("synchronization2", yes(features.synchronization2)),
            ("storageBuffer8BitAccess", is(v12.storage_buffer8_bit_access)),
            ("storageBuffer16BitAccess", is(v11.storage_buffer16_bit_access)),
            ("shaderInt8", is(v12.shader_int8)),
            ("shaderInt16", is(core.shader_int16)),
            ("shaderInt64", is(core.shader_int64)),
            ("shaderFloat16", is(v12.shader_float16)),
            ("shaderFloat64", is(core.shader_float64)),
            ("shaderIntegerDotProduct", yes(features.integer_dot_product)),
            ("vulkanMemoryModel", is(v12.vulkan_memory_model)),
            ("subgroupSizeControl", yes(features.subgroup_size_control)),
            ("cooperativeMatrix", yes(features.cooperative_matrix)),
            ("sparseBinding", is(core.sparse_binding)),
            ("sparseResidencyBuffer", is(core.sparse_residency_buffer)),
            ("sparseResidencyAliased", is(core.sparse_residency_aliased)),
        ],
    )
}

fn subgroups(physical: &Physical) -> DeviceSection {
    let subgroup = &physical.subgroup;
    named(
        "subgroup",
        [
            ("size", subgroup.size.to_string()),
            ("operations", format!("0x{:08x}", subgroup.operations)),
            ("quadOperationsInAllStages", yes(subgroup.quad_in_all_stages)),
            ("minSubgroupSize", subgroup.min_size.to_string()),
            ("maxSubgroupSize", subgroup.max_size.to_string()),
            ("requiredSubgroupSizeStages", format!("0x{:08x}", subgroup.required_size_stages)),
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

fn queue_families(physical: &Physical) -> DeviceSection {
    let row = |(index, it): (usize, &vk::QueueFamilyProperties)| {
        let value = format!(
            "count={} flags={} timestampValidBits={}",
            it.queue_count,
            queue_flags(it.queue_flags),
            it.timestamp_valid_bits
        );
        (index.to_string(), value)
    };
    section("queue_families", physical.queue_families.iter().enumerate().map(row).collect())
}

fn queue_flags(flags: vk::QueueFlags) -> String {
    const NAMES: [(vk::QueueFlags, &str); 8] = [
        (vk::QueueFlags::GRAPHICS, "graphics"),
        (vk::QueueFlags::COMPUTE, "compute"),
        (vk::QueueFlags::TRANSFER, "transfer"),
        (vk::QueueFlags::SPARSE_BINDING, "sparse"),
        (vk::QueueFlags::PROTECTED, "protected"),
        (vk::QueueFlags::VIDEO_DECODE_KHR, "video-decode"),
        (vk::QueueFlags::from_raw(0x40), "video-encode"),
        (vk::QueueFlags::OPTICAL_FLOW_NV, "optical-flow"),
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

fn memory_heaps(physical: &Physical) -> DeviceSection {
    let heaps = physical.memory.memory_heaps_as_slice().iter().enumerate();
    let row = |(index, heap): (usize, &vk::MemoryHeap)| {
        (index.to_string(), format!("size={} flags=0x{:08x}", heap.size, heap.flags.as_raw()))
    };
    section("memory_heaps", heaps.map(row).collect())
}

fn memory_types(physical: &Physical) -> DeviceSection {
    let types = physical.memory.memory_types_as_slice().iter().enumerate();
    let row = |(index, it): (usize, &vk::MemoryType)| {
        (index.to_string(), format!("heap={} flags=0x{:08x}", it.heap_index, it.property_flags.as_raw()))
    };
    section("memory_types", types.map(row).collect())
}

fn extensions(physical: &Physical) -> DeviceSection {
    let rows = physical.extensions.iter().enumerate().map(|(index, name)| (index.to_string(), name.clone()));
    section("device_extensions", rows.collect())
}
