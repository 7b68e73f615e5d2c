//! The logical device: its functions, what is enabled, and how much memory is allocated.
#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::collections::HashSet;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ash::vk;
use parking_lot::Mutex;
use rehal_base::{Advice, Error, HostMemory, Result};

use crate::VulkanOptions;
use crate::bfloat16::{self, ShaderBfloat16Features};
use crate::error::failure;
use crate::memory::Kind;
use crate::physical::{Features, Physical};

/// The logical devices of the process.
static DEVICES: AtomicUsize = AtomicUsize::new(0);

/// The bytes of the smallest page of any host: what is around memory in such a page is mapped, too.
const PAGE: u64 = 4096;

/// A logical device. Every object of it owns a clone of its `Arc`.
pub(crate) struct Gpu {
    device: ash::Device,
    physical: Physical,
    /// The enabled features.
    enabled: Features,
    push_descriptors: Option<ash::khr::push_descriptor::Device>,
    import: Option<ash::ext::external_memory_host::Device>,
    clock: Option<ash::ext::calibrated_timestamps::Device>,
    labels: Option<ash::ext::debug_utils::Device>,
    has_addresses: bool,
    /// Queue families that are used: of dispatches, and of transfers if it is another.
    families: Vec<u32>,
    /// See [`usable_memory`].
    memory: vk::PhysicalDeviceMemoryProperties,
    /// Bytes of the blocks in each heap.
    heap_bytes: [AtomicU64; vk::MAX_MEMORY_HEAPS],
    block_count: AtomicU32,
    pipeline_cache: vk::PipelineCache,
    loss: OnceLock<Error>,
    /// Whether work hangs, so that the device cannot be destroyed.
    is_stuck: AtomicBool,
    /// See [`VulkanOptions::refuses_subgroup_mismatches`].
    refuses_mismatches: bool,
    /// The warnings about dispatches that were given.
    warned: Mutex<HashSet<String>>,
}

/// Pages of the host that memory is in: as long as it is, all of them are mapped.
#[derive(Clone, Copy)]
pub(crate) struct Pages {
    /// The first byte.
    pub(crate) start: *mut u8,
    /// Bytes.
    pub(crate) length: u64,
    /// Of the memory in the pages.
    pub(crate) offset: u64,
}

impl Gpu {
    /// Creates a logical device with every feature that kernels may need and the device has.
    pub(crate) fn create(physical: Physical, options: &VulkanOptions) -> Result<Self> {
        physical.require()?;
        let families = families(&physical, options)?;
        let enabled = enabled_features(&physical, options)?;
        let has = |name: &CStr| physical.has_extension(name);
        let has_push = options.push_descriptors && has(ash::khr::push_descriptor::NAME);
        let has_import = has(ash::ext::external_memory_host::NAME) && physical.import_alignment != 0;
        let is_1_3 = physical.properties.api_version >= vk::API_VERSION_1_3;
        let optional = [
            (has_push, ash::khr::push_descriptor::NAME),
            (has_import, ash::ext::external_memory_host::NAME),
            (physical.has_calibrated_clock, ash::ext::calibrated_timestamps::NAME),
            (!is_1_3 && enabled.subgroup_size_control, ash::ext::subgroup_size_control::NAME),
            (!is_1_3 && enabled.integer_dot_product, ash::khr::shader_integer_dot_product::NAME),
            (!is_1_3 && enabled.maintenance4, ash::khr::maintenance4::NAME),
            (enabled.cooperative_matrix, ash::khr::cooperative_matrix::NAME),
            (enabled.bfloat16.is_any(), bfloat16::NAME),
            (has(c"VK_KHR_shader_non_semantic_info") && !is_1_3, c"VK_KHR_shader_non_semantic_info"),
            (has(c"VK_GOOGLE_decorate_string"), c"VK_GOOGLE_decorate_string"),
            (has(c"VK_GOOGLE_hlsl_functionality1"), c"VK_GOOGLE_hlsl_functionality1"),
            (has(c"VK_GOOGLE_user_type"), c"VK_GOOGLE_user_type"),
            // Devices that have it require it.
            (has(c"VK_KHR_portability_subset"), c"VK_KHR_portability_subset"),
        ];
        let names: Vec<_> =
            optional.iter().filter(|(is_used, _)| *is_used).map(|(_, name)| name.as_ptr()).collect();
        let device = create_device(&physical, &enabled, &families, &names)?;
        let instance = physical.instance.functions();
        // SAFETY: the device was just created.
        let pipeline_cache =
            unsafe { device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None) };
        let pipeline_cache = match pipeline_cache {
            Ok(cache) => cache,
            // Pipelines are created without one.
            Err(_) => vk::PipelineCache::null(),
        };
        DEVICES.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            pipeline_cache,
            push_descriptors: has_push.then(|| ash::khr::push_descriptor::Device::new(instance, &device)),
            import: has_import.then(|| ash::ext::external_memory_host::Device::new(instance, &device)),
            clock: (physical.has_calibrated_clock)
                .then(|| ash::ext::calibrated_timestamps::Device::new(instance, &device)),
            labels: (physical.instance.has_debug_utils())
                .then(|| ash::ext::debug_utils::Device::new(instance, &device)),
            has_addresses: enabled.v12.buffer_device_address == vk::TRUE,
            device,
            enabled,
            families,
            memory: usable_memory(&physical),
            heap_bytes: Default::default(),
            block_count: AtomicU32::new(0),
            loss: OnceLock::new(),
            is_stuck: AtomicBool::new(false),
            refuses_mismatches: options.refuses_subgroup_mismatches,
            warned: Mutex::default(),
            physical,
        })
    }

    /// A kernel is about to run whose code is made for other devices: fails if the options say so, or warns
    /// once for each message.
    pub(crate) fn mismatched(&self, message: String, advice: &'static str) -> Result<()> {
        if self.refuses_mismatches {
            return Err(Error::failed_precondition(message).advise(advice));
        }
        let text = format!("{message}: {advice}");
        self.warn_once(message, text);
        Ok(())
    }

    /// A dispatch exceeds a limit that the device states: warns once for each message if the driver is known
    /// to run more than it states, fails otherwise.
    pub(crate) fn beyond_limits(&self, message: String, advice: impl Into<Advice>) -> Result<()> {
        if !self.physical.serves_more() {
            return Err(Error::out_of_range(message).advise(advice));
        }
        let driver = &self.physical.driver_name;
        let text = format!("{message}; {driver} is known to run more, other drivers may not");
        self.warn_once(message, text);
        Ok(())
    }

    fn warn_once(&self, message: String, text: String) {
        let is_new = self.warned.lock().insert(message);
        if is_new {
            self.physical.instance.warn(text);
        }
    }

    /// The functions of the device.
    pub(crate) fn functions(&self) -> &ash::Device {
        &self.device
    }

    /// The physical device.
    pub(crate) fn physical(&self) -> &Physical {
        &self.physical
    }

    /// Its limits.
    pub(crate) fn limits(&self) -> &vk::PhysicalDeviceLimits {
        &self.physical.properties.limits
    }

    /// Its memory, see [`usable_memory`].
    pub(crate) fn memory_properties(&self) -> &vk::PhysicalDeviceMemoryProperties {
        &self.memory
    }

    /// The enabled features.
    pub(crate) fn enabled(&self) -> &Features {
        &self.enabled
    }

    /// Pushes descriptors into command buffers, where the device can.
    pub(crate) fn push_descriptors(&self) -> Option<&ash::khr::push_descriptor::Device> {
        self.push_descriptors.as_ref()
    }

    /// Reads the clocks of host and device at once, where the device can.
    pub(crate) fn clock(&self) -> Option<&ash::ext::calibrated_timestamps::Device> {
        self.clock.as_ref()
    }

    /// Labels commands for debuggers, if there are any.
    pub(crate) fn labels(&self) -> Option<&ash::ext::debug_utils::Device> {
        self.labels.as_ref()
    }

    /// The cache of compiled pipelines.
    pub(crate) fn pipeline_cache(&self) -> vk::PipelineCache {
        self.pipeline_cache
    }

    /// Whether the device has an extension, enabled or not.
    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.physical.has_extension(name)
    }

    /// Whether the device has events for certain.
    pub(crate) fn has_events(&self) -> bool {
        // Its features would tell, but marks for the watchdog are the only use.
        !self.has(c"VK_KHR_portability_subset") && !self.physical.emulation.has_no_events
    }

    /// Whether buffers have addresses on the device.
    pub(crate) fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// Whether memory of the host can be imported.
    pub(crate) fn can_import(&self) -> bool {
        self.import.is_some()
    }

    /// Whether there are other Vulkan devices, which may share buffers with this one.
    pub(crate) fn has_siblings(&self) -> bool {
        DEVICES.load(Ordering::Relaxed) > 1
    }

    /// The queue family of each lane: of dispatches, and of transfers if it is another.
    pub(crate) fn families(&self) -> &[u32] {
        &self.families
    }

    /// The queue families that share memory, each once.
    pub(crate) fn distinct_families(&self) -> &[u32] {
        match &*self.families {
            [first, second] if first == second => &self.families[..1],
            families => families,
        }
    }

    /// Alignment of every buffer in bytes, a power of two: what descriptors and kernels assume.
    pub(crate) fn memory_alignment(&self) -> u64 {
        let limits = self.limits();
        let for_descriptors =
            limits.min_storage_buffer_offset_alignment.max(limits.min_uniform_buffer_offset_alignment);
        for_descriptors.max(64).next_power_of_two()
    }

    /// The largest block in bytes: one allocation with one buffer over all of it.
    pub(crate) fn largest_block(&self) -> u64 {
        self.physical.max_allocation_bytes.min(self.physical.max_buffer_bytes)
    }

    /// The error of an allocation of more than that.
    pub(crate) fn exceeds_largest(&self, length: u64) -> Error {
        let most = self.largest_block();
        Error::resource_exhausted(format!(
            "cannot allocate {length} bytes: the device allocates at most {most} at once"
        ))
    }

    /// Counts a block of `length` bytes that is about to be allocated, or imported: programs import each of
    /// their parameters, so imports are at most half of what the device allows. Fails with
    /// `RESOURCE_EXHAUSTED` if the heap or the number of allocations does not allow it.
    pub(crate) fn reserve_block(&self, heap: u32, length: u64, is_imported: bool) -> Result<()> {
        let size =
            self.memory_properties().memory_heaps_as_slice().get(heap as usize).map_or(0, |it| it.size);
        let used = &self.heap_bytes[heap as usize];
        let all = self.limits().max_memory_allocation_count;
        let most = if is_imported { all / 2 } else { all };
        if self.block_count.fetch_add(1, Ordering::Relaxed) >= most {
            self.block_count.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::resource_exhausted(format!(
                "the device allows {all} allocations of memory, and {} of them for memory that is imported",
                all / 2
            )));
        }
        let fits = |used: u64| used.checked_add(length).filter(|total| *total <= size);
        match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(used) => {
                self.block_count.fetch_sub(1, Ordering::Relaxed);
                Err(Error::resource_exhausted(format!(
                    "cannot allocate {length} bytes: {used} of the {size} bytes of the device's heap {heap} are in use"
                )))
            }
        }
    }

    /// Uncounts a block.
    pub(crate) fn release_block(&self, heap: u32, length: u64) {
        self.heap_bytes[heap as usize].fetch_sub(length, Ordering::Relaxed);
        self.block_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The bytes of a page that the device can import.
    pub(crate) fn import_page(&self) -> u64 {
        self.physical.import_alignment.next_power_of_two().max(PAGE)
    }

    /// The pages of the host's memory that the device can import. Fails with `OUT_OF_RANGE` if the memory is
    /// not aligned as the device needs.
    pub(crate) fn pages_of(&self, memory: &HostMemory) -> Result<Pages> {
        let (start, alignment) = (memory.as_ptr(), self.physical.import_alignment.max(1));
        let past = start.addr() as u64 % alignment;
        let length = (past + memory.length()).next_multiple_of(alignment);
        let is_in_pages = alignment <= PAGE || (past == 0 && length == memory.length());
        if !is_in_pages || !past.is_multiple_of(self.memory_alignment()) || memory.length() == 0 {
            return Err(Error::out_of_range(format!(
                "imported memory of {} bytes at {start:p} is not aligned as the device needs ({alignment} bytes for pages)",
                memory.length()
            )));
        }
        Ok(Pages { start: start.wrapping_sub(past as usize), length, offset: past })
    }

    /// The memory types, as bits, that can be made of pages of the host. Fails if the device cannot import
    /// them.
    pub(crate) fn importable_types(&self, pages: &Pages) -> Result<u32> {
        let Some(import) = &self.import else {
            return Err(Error::unimplemented("the device cannot import memory of the host"));
        };
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        // SAFETY: the extension is enabled, and the pages are mapped.
        let outcome = unsafe {
            (import.fp().get_memory_host_pointer_properties_ext)(
                self.device.handle(),
                kind,
                pages.start.cast(),
                &mut properties,
            )
        };
        outcome.result().map_err(|error| failure("importing memory of the host", error))?;
        Ok(self.physical.emulation.types(properties.memory_type_bits))
    }

    /// The memory type for memory of the host, of those in `types`.
    pub(crate) fn kind_for_host(&self, types: u32) -> Result<Kind> {
        use vk::MemoryPropertyFlags as Flags;
        let kinds = (0..).zip(self.memory_properties().memory_types_as_slice()).map(|(index, it)| Kind {
            index,
            heap: it.heap_index,
            flags: it.property_flags,
        });
        let needs = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        kinds
            .filter(|kind| types & (1 << kind.index) != 0 && kind.flags.contains(needs))
            .max_by_key(|kind| kind.flags.contains(Flags::HOST_CACHED))
            .ok_or_else(|| Error::unimplemented("the device has no memory type for memory of the host"))
    }

    /// Whether the host resets queries; otherwise commands do.
    pub(crate) fn resets_queries(&self) -> bool {
        self.enabled.v12.host_query_reset == vk::TRUE
    }

    /// The bits of timestamps of a queue family that are valid; 0 if it has none, or cannot use them.
    pub(crate) fn timestamp_mask(&self, family: u32) -> u64 {
        let family = self.physical.queue_families.get(family as usize);
        family.map_or(0, |family| timestamp_mask(family, self.resets_queries()))
    }

    /// Notes that the device is lost; the first reason wins. Returns it.
    pub(crate) fn lose(&self, error: Error) -> &Error {
        self.loss.get_or_init(|| error)
    }

    /// Why the device is lost, if it is.
    pub(crate) fn loss(&self) -> Option<&Error> {
        self.loss.get()
    }

    /// Notes that work of the device does not end: it is not waited for, and the device is not destroyed.
    pub(crate) fn set_stuck(&self) {
        self.is_stuck.store(true, Ordering::Release);
    }

    /// Whether work of the device does not end.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Acquire)
    }

    /// A queue of the device.
    pub(crate) fn queue(&self, family: u32) -> vk::Queue {
        // SAFETY: `create_device` has created one queue of each of these families.
        unsafe { self.device.get_device_queue(family, 0) }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        DEVICES.fetch_sub(1, Ordering::Relaxed);
        if self.is_stuck() {
            return;
        }
        // SAFETY: all objects of the device own it, so they are destroyed, and so is all work that used them.
        unsafe {
            self.device.destroy_pipeline_cache(self.pipeline_cache, None);
            self.device.destroy_device(None);
        }
    }
}

/// The valid bits of timestamps of a family. Commands that reset queries are for queues with graphics or
/// compute: others need a host that does.
fn timestamp_mask(family: &vk::QueueFamilyProperties, host_resets: bool) -> u64 {
    let resets = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    if !host_resets && !family.queue_flags.intersects(resets) {
        return 0;
    }
    match family.timestamp_valid_bits {
        0 => 0,
        64.. => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

/// The memory types and heaps, with the bytes that may be allocated from each. A software driver allocates
/// memory of the machine, whatever it says of its heap: Mesa's says 2 GiB.
fn usable_memory(physical: &Physical) -> vk::PhysicalDeviceMemoryProperties {
    let mut memory = physical.memory;
    let is_software = physical.properties.device_type == vk::PhysicalDeviceType::CPU;
    if is_software && physical.emulation.memory.is_none() {
        let machine_bytes = rehal_base::memory_bytes();
        memory.memory_heaps.iter_mut().for_each(|heap| heap.size = heap.size.max(machine_bytes));
    }
    memory
}

fn families(physical: &Physical, options: &VulkanOptions) -> Result<Vec<u32>> {
    let compute = physical
        .compute_family(options.prefers_dedicated_queue)
        .ok_or_else(|| Error::unimplemented(format!("device '{}' has no compute queue", physical.name())))?;
    let transfer = match physical.emulation.has_transfer_family {
        true => Some(compute),
        false => physical.transfer_family().filter(|family| *family != compute),
    };
    Ok([Some(compute), transfer].into_iter().flatten().collect())
}

/// The features to enable: those that kernels may need, if the device has them.
fn enabled_features(physical: &Physical, options: &VulkanOptions) -> Result<Features> {
    let available = &physical.features;
    let (core, v11, v12) = (&available.core, &available.v11, &available.v12);
    if options.robust_buffer_access && core.robust_buffer_access == vk::FALSE {
        return Err(lacks(physical, "robustBufferAccess"));
    }
    let wants_addresses = options.dispatch_abis == crate::DispatchAbis::BufferDeviceAddress;
    if wants_addresses && (v12.buffer_device_address == vk::FALSE || !options.buffer_device_addresses) {
        return Err(lacks(physical, "bufferDeviceAddress"));
    }
    Ok(Features {
        core: vk::PhysicalDeviceFeatures::default()
            .robust_buffer_access(options.robust_buffer_access)
            .shader_float64(core.shader_float64 == vk::TRUE)
            .shader_int16(core.shader_int16 == vk::TRUE)
            .shader_int64(core.shader_int64 == vk::TRUE)
            .shader_uniform_buffer_array_dynamic_indexing(
                core.shader_uniform_buffer_array_dynamic_indexing == vk::TRUE,
            )
            .shader_storage_buffer_array_dynamic_indexing(
                core.shader_storage_buffer_array_dynamic_indexing == vk::TRUE,
            ),
        v11: vk::PhysicalDeviceVulkan11Features::default()
            .storage_buffer16_bit_access(v11.storage_buffer16_bit_access == vk::TRUE)
            .uniform_and_storage_buffer16_bit_access(v11.uniform_and_storage_buffer16_bit_access == vk::TRUE)
            .storage_push_constant16(v11.storage_push_constant16 == vk::TRUE)
            .variable_pointers_storage_buffer(v11.variable_pointers_storage_buffer == vk::TRUE)
            .variable_pointers(v11.variable_pointers == vk::TRUE),
        v12: vk::PhysicalDeviceVulkan12Features::default()
            .storage_buffer8_bit_access(v12.storage_buffer8_bit_access == vk::TRUE)
            .uniform_and_storage_buffer8_bit_access(v12.uniform_and_storage_buffer8_bit_access == vk::TRUE)
            .storage_push_constant8(v12.storage_push_constant8 == vk::TRUE)
            .shader_buffer_int64_atomics(v12.shader_buffer_int64_atomics == vk::TRUE)
            .shader_shared_int64_atomics(v12.shader_shared_int64_atomics == vk::TRUE)
            .shader_float16(v12.shader_float16 == vk::TRUE)
            .shader_int8(v12.shader_int8 == vk::TRUE)
            .scalar_block_layout(v12.scalar_block_layout == vk::TRUE)
            .shader_subgroup_extended_types(v12.shader_subgroup_extended_types == vk::TRUE)
            .host_query_reset(v12.host_query_reset == vk::TRUE)
            .timeline_semaphore(true)
            .buffer_device_address(options.buffer_device_addresses && v12.buffer_device_address == vk::TRUE)
            .vulkan_memory_model(v12.vulkan_memory_model == vk::TRUE)
            .vulkan_memory_model_device_scope(v12.vulkan_memory_model_device_scope == vk::TRUE),
        ..*available
    })
}

fn lacks(physical: &Physical, feature: &str) -> Error {
    Error::new(
        rehal_base::StatusCode::Unavailable,
        format!("device '{}' does not have {feature}, which was requested", physical.name()),
    )
}

fn create_device(
    physical: &Physical,
    enabled: &Features,
    families: &[u32],
    extensions: &[*const c_char],
) -> Result<ash::Device> {
    let priorities = [1.0];
    let mut families = families.to_vec();
    families.dedup();
    let queues: Vec<_> = families
        .iter()
        .map(|family| {
            vk::DeviceQueueCreateInfo::default().queue_family_index(*family).queue_priorities(&priorities)
        })
        .collect();
    let (mut v11, mut v12) = (enabled.v11, enabled.v12);
    let mut sizes = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
        .subgroup_size_control(true)
        .compute_full_subgroups(enabled.compute_full_subgroups);
    let mut dot =
        vk::PhysicalDeviceShaderIntegerDotProductFeatures::default().shader_integer_dot_product(true);
    let mut maintenance4 = vk::PhysicalDeviceMaintenance4Features::default().maintenance4(true);
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
    let mut bfloat16 = ShaderBfloat16Features::from(enabled.bfloat16);
    let mut features =
        vk::PhysicalDeviceFeatures2::default().features(enabled.core).push_next(&mut v11).push_next(&mut v12);
    if enabled.subgroup_size_control {
        features = features.push_next(&mut sizes);
    }
    if enabled.integer_dot_product {
        features = features.push_next(&mut dot);
    }
    if enabled.maintenance4 {
        features = features.push_next(&mut maintenance4);
    }
    if enabled.cooperative_matrix {
        features = features.push_next(&mut matrix);
    }
    if enabled.bfloat16.is_any() {
        features = features.push_next(&mut bfloat16);
    }
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(extensions)
        .push_next(&mut features);
    // SAFETY: the structures live until the call returns, and name features and extensions that the device
    // has.
    unsafe { physical.instance.functions().create_device(physical.handle, &info, None) }
        .map_err(|error| failure(&format!("creating device '{}'", physical.name()), error))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use rehal_base::StatusCode;
    use rehal_hal::BufferParams;

    use super::*;
    use crate::VulkanDriverOptions;
    use crate::emulation::Emulation;
    use crate::instance::Instance;
    use crate::memory::Memory;

    /// The first device of the machine.
    pub(crate) fn gpu() -> Arc<Gpu> {
        emulated(&Emulation::default())
    }

    /// The first device of the machine, as if it were another.
    pub(crate) fn emulated(emulation: &Emulation) -> Arc<Gpu> {
        gpu_with(emulation, |_| ())
    }

    /// The first device of the machine, as if it were another, changed.
    fn gpu_with(emulation: &Emulation, change: impl FnOnce(&mut Physical)) -> Arc<Gpu> {
        let entry = crate::loader::load(&[]).unwrap();
        let instance = Arc::new(Instance::create(entry, &VulkanDriverOptions::default()).unwrap());
        let handle = instance.physical_devices().unwrap()[0];
        let mut physical = Physical::query(&instance, handle, emulation).unwrap();
        change(&mut physical);
        Arc::new(Gpu::create(physical, &VulkanOptions::default()).unwrap())
    }

    #[test]
    fn queues_for_transfers_have_timestamps_if_the_host_resets_them() {
        let mask = |queue_flags, timestamp_valid_bits, host_resets| {
            let family = vk::QueueFamilyProperties {
                queue_flags,
                timestamp_valid_bits,
                ..vk::QueueFamilyProperties::default()
            };
            timestamp_mask(&family, host_resets)
        };
        let (transfer, compute) = (vk::QueueFlags::TRANSFER, vk::QueueFlags::COMPUTE);
        assert_eq!((mask(transfer, 64, true), mask(transfer, 64, false)), (u64::MAX, 0));
        assert_eq!((mask(compute, 64, true), mask(compute, 64, false)), (u64::MAX, u64::MAX));
        assert_eq!(mask(vk::QueueFlags::GRAPHICS, 36, false), (1 << 36) - 1);
        assert_eq!((mask(compute, 0, true), mask(transfer, 0, true)), (0, 0));
    }

    #[test]
    fn no_buffer_is_larger_than_the_device_allows() {
        const MOST: u64 = 64 << 20;
        let gpu = gpu_with(&Emulation::default(), |physical| {
            assert_ne!(physical.max_buffer_bytes, 0);
            physical.max_buffer_bytes = MOST;
        });
        let memory = Memory::new(&gpu).unwrap();
        let kind = memory.best(&BufferParams::default(), MOST).unwrap();
        memory.allocate(kind, MOST / 2, 0).unwrap();
        let refused = [
            memory.allocate(kind, MOST + 1, 0).err(),
            memory.import(HostMemory::allocate(2 * MOST).unwrap()).err(),
        ];
        for error in refused {
            let error = error.expect("it is larger");
            assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
            assert!(error.message().contains("at most 67108864 at once"), "{}", error.message());
        }
        memory.import(HostMemory::allocate(MOST).unwrap()).unwrap();
    }

    #[test]
    fn imports_leave_allocations_for_the_rest() {
        let gpu = emulated(&Emulation { has_narrow_limits: true, ..Emulation::default() });
        let all = gpu.limits().max_memory_allocation_count;
        let reserve = |is_imported| gpu.reserve_block(0, 0, is_imported);
        let fill = |is_imported| (0..all).take_while(|_| reserve(is_imported).is_ok()).count() as u32;
        assert_eq!(fill(true), all / 2);
        let error = reserve(true).unwrap_err();
        assert!(error.message().contains(&format!("{} of them", all / 2)), "{error}");
        assert_eq!(fill(false), all - all / 2);
        assert_eq!(reserve(false).unwrap_err().code(), StatusCode::ResourceExhausted);
        (0..all).for_each(|_| gpu.release_block(0, 0));
    }
}
