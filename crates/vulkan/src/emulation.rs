//! Other hardware than the machine has, for tests: what a device is found to have is changed before the
//! driver sees it. What it is said to have and lacks, such as memory that is not coherent, behaves as
//! hardware would where the driver is wrong.
//!
//! It has memory types of a GPU with a bus and a small window, or of one that is not coherent with the host,
//! whose caches it emulates, so that a flush which is forgotten has visible consequences; a second lane on
//! the same queue; devices that import no mappings; narrow limits; Vulkan 1.2; and devices without features,
//! extensions, timestamps or events. The conformance suite runs on these, too. `VulkanDriver::emulating` is
//! hidden from the documentation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk::{self, MemoryPropertyFlags as Flags};

/// Properties that the devices of a driver pretend to have. By default they have their own.
#[derive(Clone, Debug, Default)]
pub struct Emulation {
    /// The memory types, if they are not the device's.
    pub memory: Option<EmulatedMemory>,
    /// Whether a queue family for transfers alone is added: a second lane of the driver, on the same queue of
    /// Vulkan.
    pub has_transfer_family: bool,
    /// Whether the device has Vulkan 1.2 at most.
    pub is_vulkan_1_2: bool,
    /// Whether the device has only the features that the driver cannot do without.
    pub has_no_features: bool,
    /// The number of drivers, beside the first, that have each device, with its UUID and one of their own.
    pub other_drivers: u8,
    /// The extensions that the device does not have, by name.
    pub missing_extensions: &'static [&'static str],
    /// Whether a device imports no memory that is a mapping of another's, as the drivers of GPUs, which
    /// import pages of the process.
    pub refuses_mappings: bool,
    /// Whether the device has the limits of some GPU where the machine's are wider.
    pub has_narrow_limits: bool,
    /// Whether queues have no timestamps.
    pub has_no_timestamps: bool,
    /// Whether the device has no events, as some that translate Vulkan have not.
    pub has_no_events: bool,
    /// The clock by which the watchdog measures work, if it is not the system's.
    pub clock: Option<TestClock>,
}

/// A clock that is stopped until a test lets it run. Then each reading is an hour after the one before.
#[derive(Clone, Debug)]
pub struct TestClock {
    start: Instant,
    /// The hours that have passed, plus one; 0 while it is stopped.
    hours: Arc<AtomicU64>,
    /// The milliseconds by which a test advanced it.
    advanced_ms: Arc<AtomicU64>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self { start: Instant::now(), hours: Arc::default(), advanced_ms: Arc::default() }
    }
}

impl TestClock {
    /// Lets the clock run.
    pub fn run(&self) {
        self.hours.fetch_max(1, Ordering::Relaxed);
    }

    /// Advances the clock, which stays stopped.
    pub fn advance(&self, milliseconds: u64) {
        self.advanced_ms.fetch_add(milliseconds, Ordering::Relaxed);
    }

    fn now(&self) -> Instant {
        let advanced = Duration::from_millis(self.advanced_ms.load(Ordering::Relaxed));
        let next = |hours: u64| (hours > 0).then_some(hours + 1);
        let hours = self.hours.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
        self.start + Duration::from_secs(3600 * hours) + advanced
    }
}

/// The bytes of the memory of a GPU with a bus that the host can map: a quarter of what such GPUs have at
/// least.
const WINDOW: u64 = 64 << 20;
/// The bytes of the memory of the host that such a GPU uses: few, so that tests exhaust them.
const HOST_HEAP: u64 = 256 << 20;

/// Memory types. All are memory of the device that is emulated, which has one type that does everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatedMemory {
    /// A GPU with a bus: its own memory, which the host cannot map except through a window of 64 MiB, and
    /// memory of the host, cached or not.
    Separate,
    /// A GPU that shares the memory of a host without coherence. The host sees what the device writes when it
    /// invalidates its caches, and the device what the host writes when it flushes them: until then, each has
    /// bytes of its own.
    Incoherent,
}

impl EmulatedMemory {
    /// The properties and the heap of each type.
    fn types(self) -> &'static [(Flags, u32)] {
        const COHERENT: Flags = Flags::from_raw(Flags::HOST_VISIBLE.as_raw() | Flags::HOST_COHERENT.as_raw());
        const CACHED: Flags = Flags::from_raw(Flags::HOST_VISIBLE.as_raw() | Flags::HOST_CACHED.as_raw());
        const SEPARATE: [(Flags, u32); 4] = [
            (Flags::DEVICE_LOCAL, 0),
            (COHERENT, 1),
            (Flags::from_raw(COHERENT.as_raw() | Flags::HOST_CACHED.as_raw()), 1),
            (Flags::from_raw(COHERENT.as_raw() | Flags::DEVICE_LOCAL.as_raw()), 2),
        ];
        const INCOHERENT: [(Flags, u32); 3] = [
            (Flags::from_raw(Flags::DEVICE_LOCAL.as_raw() | CACHED.as_raw()), 0),
            (CACHED, 1),
            // Vulkan promises one.
            (COHERENT, 1),
        ];
        match self {
            Self::Separate => &SEPARATE,
            Self::Incoherent => &INCOHERENT,
        }
    }
}

impl Emulation {
    /// The memory types of a device with `memory`.
    pub(crate) fn memory(
        &self,
        mut memory: vk::PhysicalDeviceMemoryProperties,
    ) -> vk::PhysicalDeviceMemoryProperties {
        let Some(emulated) = self.memory else { return memory };
        let types = emulated.types();
        for (to, (flags, heap)) in memory.memory_types.iter_mut().zip(types) {
            (to.property_flags, to.heap_index) = (*flags, *heap);
        }
        memory.memory_type_count = types.len() as u32;
        let size = memory.memory_heaps[0].size;
        let of_host = if emulated == EmulatedMemory::Separate { HOST_HEAP.min(size) } else { size };
        memory.memory_heaps[0].flags = vk::MemoryHeapFlags::DEVICE_LOCAL;
        memory.memory_heaps[1] = vk::MemoryHeap { size: of_host, flags: vk::MemoryHeapFlags::empty() };
        memory.memory_heaps[2] =
            vk::MemoryHeap { size: WINDOW.min(size), flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
        memory.memory_heap_count = if emulated == EmulatedMemory::Separate { 3 } else { 2 };
        memory
    }

    /// The memory types, as bits, where Vulkan says `types`.
    pub(crate) fn types(&self, types: u32) -> u32 {
        match self.memory {
            Some(memory) if types & 1 != 0 => (1 << memory.types().len()) - 1,
            Some(_) => 0,
            None => types,
        }
    }

    /// Vulkan's index of a memory type.
    pub(crate) fn index(&self, kind: u32) -> u32 {
        if self.memory.is_some() { 0 } else { kind }
    }

    /// The time, for the watchdog.
    pub(crate) fn now(&self) -> Instant {
        self.clock.as_ref().map_or_else(Instant::now, TestClock::now)
    }

    /// Whether the host and the device have bytes of their own where memory is not coherent.
    pub(crate) fn has_caches(&self) -> bool {
        self.memory == Some(EmulatedMemory::Incoherent)
    }

    /// Removes extensions, and versions of Vulkan.
    pub(crate) fn restrict(
        &self,
        extensions: &mut Vec<String>,
        properties: &mut vk::PhysicalDeviceProperties,
        queue_families: &mut [vk::QueueFamilyProperties],
    ) {
        extensions.retain(|name| !self.missing_extensions.contains(&name.as_str()));
        if self.is_vulkan_1_2 {
            properties.api_version = properties.api_version.min(vk::API_VERSION_1_2);
        }
        if self.has_narrow_limits {
            narrow(&mut properties.limits);
            // As many as Vulkan requires of queues that have any.
            let bits = queue_families.iter_mut().map(|family| &mut family.timestamp_valid_bits);
            bits.for_each(|bits| *bits = (*bits).min(36));
        }
        if self.has_no_timestamps {
            queue_families.iter_mut().for_each(|family| family.timestamp_valid_bits = 0);
        }
    }
}

/// The least that Vulkan requires, or that GPUs have.
fn narrow(limits: &mut vk::PhysicalDeviceLimits) {
    let raise = |value: &mut u64, least: u64| *value = (*value).max(least);
    // Bindings of programs begin at such offsets. Those that need more are refused.
    raise(&mut limits.min_storage_buffer_offset_alignment, 64);
    raise(&mut limits.min_uniform_buffer_offset_alignment, 64);
    raise(&mut limits.non_coherent_atom_size, 256);
    let lower = |value: &mut u32, most: u32| *value = (*value).min(most);
    lower(&mut limits.max_push_constants_size, 128);
    lower(&mut limits.max_storage_buffer_range, 128 << 20);
    lower(&mut limits.max_uniform_buffer_range, 16 << 10);
    lower(&mut limits.max_memory_allocation_count, 4096);
    lower(&mut limits.max_compute_shared_memory_size, 32 << 10);
    lower(&mut limits.max_compute_work_group_invocations, 1024);
    lower(&mut limits.max_bound_descriptor_sets, 4);
    limits.max_compute_work_group_count.iter_mut().for_each(|count| lower(count, 65_535));
}
