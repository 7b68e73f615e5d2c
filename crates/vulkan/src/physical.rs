//! The properties of a physical device: its limits, features, queues and memory.
#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::ffi::CStr;
use std::sync::Arc;

use ash::vk;
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::DispatchLimits;

use crate::bfloat16::{self, Bfloat16, ShaderBfloat16Features};
use crate::cooperative_matrix::CooperativeMatrix;
use crate::emulation::Emulation;
use crate::error::failure;
use crate::instance::Instance;

/// A device of the machine, as its driver describes it.
pub(crate) struct Physical {
    pub(crate) instance: Arc<Instance>,
    pub(crate) handle: vk::PhysicalDevice,
    /// The path of the device's URI: see [`paths`].
    pub(crate) path: String,
    pub(crate) properties: vk::PhysicalDeviceProperties,
    pub(crate) device_uuid: [u8; 16],
    pub(crate) driver_uuid: [u8; 16],
    pub(crate) driver_name: String,
    pub(crate) driver_id: vk::DriverId,
    pub(crate) driver_info: String,
    pub(crate) subgroup: Subgroup,
    /// Float controls, among others.
    pub(crate) v12_properties: vk::PhysicalDeviceVulkan12Properties<'static>,
    /// The largest `vkAllocateMemory`, in bytes.
    pub(crate) max_allocation_bytes: u64,
    /// The largest `vkCreateBuffer`, in bytes; unlimited if the device does not tell.
    pub(crate) max_buffer_bytes: u64,
    /// The descriptors that every layout of a set may have; larger ones are supported or not.
    pub(crate) max_per_set_descriptors: u32,
    pub(crate) features: Features,
    pub(crate) queue_families: Vec<vk::QueueFamilyProperties>,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    pub(crate) extensions: Vec<String>,
    /// `VkPhysicalDevicePushDescriptorPropertiesKHR::maxPushDescriptors`, or 0.
    pub(crate) max_push_descriptors: u32,
    /// Alignment of host memory that can be imported, or 0 if none can.
    pub(crate) import_alignment: u64,
    /// Whether the clocks of device and host can be read at the same time.
    pub(crate) has_calibrated_clock: bool,
    /// How it differs from what Vulkan says of it.
    pub(crate) emulation: Emulation,
}

/// The identifiers of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uuids {
    pub(crate) device: [u8; 16],
    pub(crate) driver: [u8; 16],
}

impl Uuids {
    /// `GPU-` and the UUID of the device.
    pub(crate) fn identifier(self) -> String {
        format!("GPU-{}", hex::encode(self.device))
    }
}

/// The paths of devices' URIs: their identifiers. Where several drivers have the same device, that of the
/// driver follows, and an ordinal where that does not tell them apart either, as of devices with earlier
/// versions of Vulkan, whose UUIDs are not known.
pub(crate) fn paths(devices: &[Uuids]) -> Vec<String> {
    let path = |(index, it): (usize, &Uuids)| {
        let mut path = it.identifier();
        if devices.iter().filter(|other| other.device == it.device).count() > 1 {
            path = format!("{path}-{}", hex::encode(it.driver));
        }
        let earlier = devices.iter().take(index).filter(|other| *other == it).count();
        if earlier > 0 { format!("{path}-{earlier}") } else { path }
    };
    devices.iter().enumerate().map(path).collect()
}

/// A device's support of subgroups.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subgroup {
    pub(crate) size: u32,
    pub(crate) operations: u32,
    pub(crate) stages: u32,
    pub(crate) quad_in_all_stages: bool,
    pub(crate) min_size: u32,
    pub(crate) max_size: u32,
    pub(crate) required_size_stages: u32,
    /// The most subgroups of a workgroup whose pipeline requires a subgroup size.
    pub(crate) max_per_workgroup: u32,
}

/// The features that a device has, of those that this driver knows.
#[derive(Clone, Copy, Default)]
pub(crate) struct Features {
    pub(crate) core: vk::PhysicalDeviceFeatures,
    pub(crate) v11: vk::PhysicalDeviceVulkan11Features<'static>,
    pub(crate) v12: vk::PhysicalDeviceVulkan12Features<'static>,
    pub(crate) subgroup_size_control: bool,
    pub(crate) compute_full_subgroups: bool,
    pub(crate) synchronization2: bool,
    pub(crate) integer_dot_product: bool,
    pub(crate) maintenance4: bool,
    pub(crate) cooperative_matrix: bool,
    pub(crate) bfloat16: Bfloat16,
}

impl Physical {
    /// Whether the driver is known to run dispatches beyond the limits that it states: software that
    /// addresses storage buffers and counts workgroups with 32 bits. A test holds it.
    pub(crate) fn serves_more(&self) -> bool {
        self.driver_id == vk::DriverId::MESA_LLVMPIPE
    }

    /// The limits of dispatches.
    pub(crate) fn dispatch_limits(&self) -> DispatchLimits {
        let limits = &self.properties.limits;
        DispatchLimits {
            binding_bytes: limits.max_storage_buffer_range.into(),
            workgroup_count: limits.max_compute_work_group_count,
            serves_more: self.serves_more(),
        }
    }

    /// Queries a device, which is made to look like another.
    pub(crate) fn query(
        instance: &Arc<Instance>,
        handle: vk::PhysicalDevice,
        emulation: &Emulation,
    ) -> Result<Self> {
        let functions = instance.functions();
        // SAFETY: the handle is one of the instance's devices.
        let (mut properties, mut queue_families, memory, extensions) = unsafe {
            (
                functions.get_physical_device_properties(handle),
                functions.get_physical_device_queue_family_properties(handle),
                functions.get_physical_device_memory_properties(handle),
                functions.enumerate_device_extension_properties(handle),
            )
        };
        let extensions = extensions.map_err(|error| failure("enumerating a device's extensions", error))?;
        let name = |it: &vk::ExtensionProperties| {
            it.extension_name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let mut extensions = extensions.iter().map(name).collect();
        emulation.restrict(&mut extensions, &mut properties, &mut queue_families);
        let mut physical = Self {
            instance: instance.clone(),
            handle,
            path: String::new(),
            properties,
            device_uuid: [0; 16],
            driver_uuid: [0; 16],
            driver_name: String::new(),
            driver_id: vk::DriverId::default(),
            driver_info: String::new(),
            subgroup: Subgroup::default(),
            v12_properties: vk::PhysicalDeviceVulkan12Properties::default(),
            max_allocation_bytes: 1 << 30,
            max_buffer_bytes: u64::MAX,
            max_per_set_descriptors: 0,
            features: Features::default(),
            queue_families,
            memory: emulation.memory(memory),
            extensions,
            max_push_descriptors: 0,
            import_alignment: 0,
            has_calibrated_clock: false,
            emulation: emulation.clone(),
        };
        // The structures below are of Vulkan 1.2.
        if properties.api_version >= vk::API_VERSION_1_2 {
            physical.query_properties();
            physical.query_features();
            physical.query_clock();
        }
        if emulation.has_narrow_limits {
            // Hardware holds to its limits.
            physical.driver_id = vk::DriverId::default();
        }
        Ok(physical)
    }

    /// Whether the device has an extension.
    pub(crate) fn has_extension(&self, name: &CStr) -> bool {
        self.extensions.iter().any(|it| it.as_bytes() == name.to_bytes())
    }

    /// The device's support of cooperative matrices; `None` if it has none, or does not tell.
    pub(crate) fn cooperative_matrix(&self) -> Option<CooperativeMatrix> {
        let (entry, instance) = (self.instance.entry(), self.instance.functions());
        // SAFETY: the device is one of the instance's, and its feature is of the extension.
        let query = || unsafe { CooperativeMatrix::query(entry, instance, self.handle) };
        self.features.cooperative_matrix.then(query).flatten()
    }

    /// The UUIDs of device and driver.
    pub(crate) fn uuids(&self) -> Uuids {
        Uuids { device: self.device_uuid, driver: self.driver_uuid }
    }

    /// The device's name.
    pub(crate) fn name(&self) -> String {
        self.properties
            .device_name_as_c_str()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// The features that the driver needs and the device lacks, by name.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let needs = [
            ("Vulkan 1.2", self.properties.api_version >= vk::API_VERSION_1_2),
            ("timelineSemaphore", self.features.v12.timeline_semaphore == vk::TRUE),
            ("a compute queue", self.compute_family(true).is_some()),
        ];
        needs.iter().filter(|(_, is_there)| !is_there).map(|(name, _)| *name).collect()
    }

    /// Fails, naming what is missing, unless the driver can use the device.
    pub(crate) fn require(&self) -> Result<()> {
        let missing = self.missing();
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!("device '{}' lacks {}", self.name(), missing.join(", "));
        Err(Error::new(StatusCode::Unavailable, message))
    }

    /// The queue family for dispatches; one without graphics, if `prefers_dedicated` and there is one.
    pub(crate) fn compute_family(&self, prefers_dedicated: bool) -> Option<u32> {
        let families = || (0..).zip(&self.queue_families).filter(|(_, it)| it.queue_count != 0);
        let mut compute = families().filter(|(_, it)| it.queue_flags.contains(vk::QueueFlags::COMPUTE));
        let dedicated = compute.clone().find(|(_, it)| !it.queue_flags.contains(vk::QueueFlags::GRAPHICS));
        let first = compute.next();
        let found = if prefers_dedicated { dedicated.or(first) } else { first };
        found.map(|(index, _)| index)
    }

    /// A queue family for transfers alone.
    pub(crate) fn transfer_family(&self) -> Option<u32> {
        // Engines of their own, too, whose transfers may be slow or restricted.
        let media = vk::QueueFlags::VIDEO_DECODE_KHR | vk::QueueFlags::VIDEO_ENCODE_KHR;
        let other =
            vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE | media | vk::QueueFlags::OPTICAL_FLOW_NV;
        (0..)
            .zip(&self.queue_families)
            .find(|(_, it)| {
                it.queue_count != 0
                    && it.queue_flags.contains(vk::QueueFlags::TRANSFER)
                    && !it.queue_flags.intersects(other)
            })
            .map(|(index, _)| index)
    }

    fn query_properties(&mut self) {
        let (mut v11, mut v12) = (
            vk::PhysicalDeviceVulkan11Properties::default(),
            vk::PhysicalDeviceVulkan12Properties::default(),
        );
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let mut maintenance4 = vk::PhysicalDeviceMaintenance4Properties::default().max_buffer_size(u64::MAX);
        let mut push = vk::PhysicalDevicePushDescriptorPropertiesKHR::default();
        let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let has_sizes = self.has_size_control();
        let has_push = self.has_extension(ash::khr::push_descriptor::NAME);
        let has_import = self.has_extension(ash::ext::external_memory_host::NAME);
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut v11).push_next(&mut v12);
        if has_sizes {
            properties = properties.push_next(&mut sizes);
        }
        if self.has_maintenance4() {
            properties = properties.push_next(&mut maintenance4);
        }
        if has_push {
            properties = properties.push_next(&mut push);
        }
        if has_import {
            properties = properties.push_next(&mut import);
        }
        // SAFETY: the chain has only structures that the device knows, by its version and extensions.
        unsafe { self.instance.functions().get_physical_device_properties2(self.handle, &mut properties) };
        (self.device_uuid, self.driver_uuid) = (v11.device_uuid, v11.driver_uuid);
        self.max_allocation_bytes = v11.max_memory_allocation_size;
        self.max_buffer_bytes = maintenance4.max_buffer_size;
        self.max_per_set_descriptors = v11.max_per_set_descriptors;
        self.driver_name = text(v12.driver_name_as_c_str());
        self.driver_id = v12.driver_id;
        self.driver_info = text(v12.driver_info_as_c_str());
        self.v12_properties = vk::PhysicalDeviceVulkan12Properties {
            p_next: std::ptr::null_mut(),
            _marker: std::marker::PhantomData,
            ..v12
        };
        self.max_push_descriptors = push.max_push_descriptors;
        self.import_alignment = import.min_imported_host_pointer_alignment;
        self.subgroup = Subgroup {
            size: v11.subgroup_size,
            operations: v11.subgroup_supported_operations.as_raw(),
            stages: v11.subgroup_supported_stages.as_raw(),
            quad_in_all_stages: v11.subgroup_quad_operations_in_all_stages == vk::TRUE,
            min_size: sizes.min_subgroup_size,
            max_size: sizes.max_subgroup_size,
            required_size_stages: sizes.required_subgroup_size_stages.as_raw(),
            max_per_workgroup: sizes.max_compute_workgroup_subgroups,
        };
    }

    fn query_features(&mut self) {
        let (mut v11, mut v12) =
            (vk::PhysicalDeviceVulkan11Features::default(), vk::PhysicalDeviceVulkan12Features::default());
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
        let mut synchronization2 = vk::PhysicalDeviceSynchronization2Features::default();
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
        let mut maintenance4 = vk::PhysicalDeviceMaintenance4Features::default();
        let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut bfloat16 = ShaderBfloat16Features::from(Bfloat16::default());
        let is_1_3 = self.properties.api_version >= vk::API_VERSION_1_3;
        let has = |name| is_1_3 || self.has_extension(name);
        let (has_sizes, has_synchronization2) =
            (self.has_size_control(), has(ash::khr::synchronization2::NAME));
        let has_dot = has(ash::khr::shader_integer_dot_product::NAME);
        let has_matrix = self.has_extension(ash::khr::cooperative_matrix::NAME);
        let has_bfloat16 = self.has_extension(bfloat16::NAME);
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut v11).push_next(&mut v12);
        if has_sizes {
            features = features.push_next(&mut sizes);
        }
        if has_synchronization2 {
            features = features.push_next(&mut synchronization2);
        }
        if has_dot {
            features = features.push_next(&mut dot);
        }
        if self.has_maintenance4() {
            features = features.push_next(&mut maintenance4);
        }
        if has_matrix {
            features = features.push_next(&mut matrix);
        }
        if has_bfloat16 {
            features = features.push_next(&mut bfloat16);
        }
        // SAFETY: the chain has only structures that the device knows, by its version and extensions.
        unsafe { self.instance.functions().get_physical_device_features2(self.handle, &mut features) };
        let core = features.features;
        // The copies outlive the chain.
        (v11.p_next, v12.p_next) = (std::ptr::null_mut(), std::ptr::null_mut());
        self.features = Features {
            core,
            v11: vk::PhysicalDeviceVulkan11Features { _marker: std::marker::PhantomData, ..v11 },
            v12: vk::PhysicalDeviceVulkan12Features { _marker: std::marker::PhantomData, ..v12 },
            subgroup_size_control: sizes.subgroup_size_control == vk::TRUE,
            compute_full_subgroups: sizes.compute_full_subgroups == vk::TRUE,
            synchronization2: synchronization2.synchronization2 == vk::TRUE,
            integer_dot_product: dot.shader_integer_dot_product == vk::TRUE,
            maintenance4: maintenance4.maintenance4 == vk::TRUE,
            cooperative_matrix: matrix.cooperative_matrix == vk::TRUE,
            bfloat16: bfloat16.get(),
        };
        if self.emulation.has_no_features {
            let v12 = vk::PhysicalDeviceVulkan12Features {
                timeline_semaphore: self.features.v12.timeline_semaphore,
                ..vk::PhysicalDeviceVulkan12Features::default()
            };
            self.features = Features { v12, ..Features::default() };
        }
    }

    /// Without an answer, times of the device are not correlated with the host's.
    fn query_clock(&mut self) {
        if !self.has_extension(ash::ext::calibrated_timestamps::NAME) {
            return;
        }
        let (entry, instance) = (self.instance.entry(), self.instance.functions());
        let name = c"vkGetPhysicalDeviceCalibrateableTimeDomainsEXT";
        // SAFETY: the name is a string. The bindings panic if they call a function that the loader lacks.
        if unsafe { entry.get_instance_proc_addr(instance.handle(), name.as_ptr()) }.is_none() {
            return;
        }
        let functions = ash::ext::calibrated_timestamps::Instance::new(entry, instance);
        // SAFETY: the device has the extension, and the loader has the function.
        let domains = unsafe { functions.get_physical_device_calibrateable_time_domains(self.handle) };
        let needs = [vk::TimeDomainEXT::DEVICE, vk::TimeDomainEXT::CLOCK_MONOTONIC];
        self.has_calibrated_clock =
            domains.is_ok_and(|domains| needs.iter().all(|domain| domains.contains(domain)));
    }

    fn has_maintenance4(&self) -> bool {
        self.properties.api_version >= vk::API_VERSION_1_3 || self.has_extension(ash::khr::maintenance4::NAME)
    }

    fn has_size_control(&self) -> bool {
        self.properties.api_version >= vk::API_VERSION_1_3
            || self.has_extension(ash::ext::subgroup_size_control::NAME)
    }
}

fn text(name: Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(device: u8, driver: u8) -> Uuids {
        Uuids { device: [device; 16], driver: [driver; 16] }
    }

    #[test]
    fn paths_of_devices_are_their_uuids_and_unique() {
        let one = paths(&[of(1, 9), of(2, 9)]);
        assert_eq!(one, [format!("GPU-{}", "01".repeat(16)), format!("GPU-{}", "02".repeat(16))]);
        // A device of two drivers, one of which is found twice.
        let devices = [of(1, 9), of(2, 9), of(1, 8), of(1, 9)];
        let first = format!("GPU-{}-{}", "01".repeat(16), "09".repeat(16));
        let other = format!("GPU-{}-{}", "01".repeat(16), "08".repeat(16));
        assert_eq!(paths(&devices), [first.clone(), one[1].clone(), other, format!("{first}-1")]);
    }
}
