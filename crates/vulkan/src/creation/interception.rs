//! A loader whose calls fail when a test says so: it hands out functions that count calls and pass them on.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use ash::vk;

/// The loader that calls are passed to.
static LOADER: OnceLock<ash::Entry> = OnceLock::new();
/// The function of which a call fails: its position in [`FUNCTIONS`].
static FUNCTION: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The calls of that function that succeed before.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// Whether all calls after it fail, too, of all functions.
static IS_LASTING: AtomicBool = AtomicBool::new(false);
/// The error that they return.
static ERROR: AtomicI32 = AtomicI32::new(0);
/// Whether it has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// The machine's loader. What is made with it is under the control of this module, whose state is the
/// process's: one test at a time has it.
pub(super) fn entry() -> ash::Entry {
    LOADER.get_or_init(|| crate::loader::load(&[]).unwrap());
    // SAFETY: the function below is one of a loader, since it passes on what the machine's loader returns.
    unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }) }
}

/// The names of the functions that may fail.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name.to_str().unwrap())
}

/// Makes a call of the function at a position in [`names`] fail from now on, after `calls` that succeed, or
/// that and all later ones of all functions.
pub(super) fn fail(function: usize, calls: usize, is_lasting: bool, error: vk::Result) {
    HAS_FAILED.store(false, Ordering::SeqCst);
    LEFT.store(calls, Ordering::SeqCst);
    IS_LASTING.store(is_lasting, Ordering::SeqCst);
    ERROR.store(error.as_raw(), Ordering::SeqCst);
    FUNCTION.store(function, Ordering::SeqCst);
}

/// Makes no call fail from now on. Returns whether one has failed since [`fail`].
pub(super) fn stop() -> bool {
    FUNCTION.store(usize::MAX, Ordering::SeqCst);
    IS_LASTING.store(false, Ordering::SeqCst);
    HAS_FAILED.load(Ordering::SeqCst)
}

/// Counts a call of a function, and fails if that is to fail.
fn count(function: usize) -> Result<(), vk::Result> {
    let error = Err(vk::Result::from_raw(ERROR.load(Ordering::SeqCst)));
    if HAS_FAILED.load(Ordering::SeqCst) {
        return if IS_LASTING.load(Ordering::SeqCst) { error } else { Ok(()) };
    }
    if function != FUNCTION.load(Ordering::SeqCst) {
        return Ok(());
    }
    let next = |left: usize| left.checked_sub(1);
    if LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok() {
        return Ok(());
    }
    // Two threads may be here.
    if HAS_FAILED.swap(true, Ordering::SeqCst) { Ok(()) } else { error }
}

/// A function that is intercepted.
struct Function {
    name: &'static CStr,
    /// The address of the function that is called instead.
    substitute: fn() -> *const c_void,
    /// The address of the loader's or the driver's function.
    address: AtomicUsize,
}

impl Function {
    fn address(&self) -> *const c_void {
        std::ptr::without_provenance(self.address.load(Ordering::SeqCst))
    }
}

/// Declares substitutes, and the table of them.
macro_rules! functions {
    ($($name:ident as $type:ident ($($argument:ident: $kind:ty),*) $(before $before:block)?;)*) => {
        /// Positions in the table.
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types, reason = "names of Vulkan")]
        enum Position { $($name),* }

        $(
            #[allow(non_snake_case, reason = "names of Vulkan")]
            #[allow(clippy::too_many_arguments, reason = "as Vulkan has them")]
            unsafe extern "system" fn $name($($argument: $kind),*) -> vk::Result {
                $($before)?
                if let Err(error) = count(Position::$name as usize) {
                    return error;
                }
                // SAFETY: it is the address of the function with this name, which has this type; the caller
                // keeps its rules.
                unsafe {
                    let function: vk::$type = transmute(FUNCTIONS[Position::$name as usize].address());
                    function($($argument),*)
                }
            }
        )*

        static FUNCTIONS: [Function; [$(Position::$name),*].len()] = [$(Function {
            // The name ends in a zero byte.
            name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name with a zero byte"),
            },
            substitute: || {
                let substitute: vk::$type = $name;
                substitute as *const c_void
            },
            address: AtomicUsize::new(0),
        }),*];
    };
}

functions! {
    vkEnumerateInstanceExtensionProperties as PFN_vkEnumerateInstanceExtensionProperties(
        layer: *const c_char, count: *mut u32, properties: *mut vk::ExtensionProperties);
    vkEnumerateInstanceLayerProperties as PFN_vkEnumerateInstanceLayerProperties(
        count: *mut u32, properties: *mut vk::LayerProperties);
    vkCreateInstance as PFN_vkCreateInstance(
        info: *const vk::InstanceCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        instance: *mut vk::Instance);
    vkCreateDebugUtilsMessengerEXT as PFN_vkCreateDebugUtilsMessengerEXT(
        instance: vk::Instance, info: *const vk::DebugUtilsMessengerCreateInfoEXT<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, messenger: *mut vk::DebugUtilsMessengerEXT);
    vkEnumeratePhysicalDevices as PFN_vkEnumeratePhysicalDevices(
        instance: vk::Instance, count: *mut u32, devices: *mut vk::PhysicalDevice);
    vkEnumerateDeviceExtensionProperties as PFN_vkEnumerateDeviceExtensionProperties(
        device: vk::PhysicalDevice, layer: *const c_char, count: *mut u32,
        properties: *mut vk::ExtensionProperties);
    vkGetPhysicalDeviceCalibrateableTimeDomainsEXT as PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsKHR(
        device: vk::PhysicalDevice, count: *mut u32, domains: *mut vk::TimeDomainKHR);
    vkCreateDevice as PFN_vkCreateDevice(
        physical: vk::PhysicalDevice, info: *const vk::DeviceCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, device: *mut vk::Device);
    vkCreatePipelineCache as PFN_vkCreatePipelineCache(
        device: vk::Device, info: *const vk::PipelineCacheCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, cache: *mut vk::PipelineCache);
    vkCreateSemaphore as PFN_vkCreateSemaphore(
        device: vk::Device, info: *const vk::SemaphoreCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, semaphore: *mut vk::Semaphore);
    vkCreateBuffer as PFN_vkCreateBuffer(
        device: vk::Device, info: *const vk::BufferCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, buffer: *mut vk::Buffer);
    vkAllocateMemory as PFN_vkAllocateMemory(
        device: vk::Device, info: *const vk::MemoryAllocateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, memory: *mut vk::DeviceMemory);
    vkBindBufferMemory as PFN_vkBindBufferMemory(
        device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: vk::DeviceSize);
    vkMapMemory as PFN_vkMapMemory(
        device: vk::Device, memory: vk::DeviceMemory, offset: vk::DeviceSize, size: vk::DeviceSize,
        flags: vk::MemoryMapFlags, data: *mut *mut c_void);
    vkGetMemoryHostPointerPropertiesEXT as PFN_vkGetMemoryHostPointerPropertiesEXT(
        device: vk::Device, kind: vk::ExternalMemoryHandleTypeFlags, pointer: *const c_void,
        properties: *mut vk::MemoryHostPointerPropertiesEXT<'_>);
    vkCreateShaderModule as PFN_vkCreateShaderModule(
        device: vk::Device, info: *const vk::ShaderModuleCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, module: *mut vk::ShaderModule);
    vkCreateDescriptorSetLayout as PFN_vkCreateDescriptorSetLayout(
        device: vk::Device, info: *const vk::DescriptorSetLayoutCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, layout: *mut vk::DescriptorSetLayout);
    vkCreatePipelineLayout as PFN_vkCreatePipelineLayout(
        device: vk::Device, info: *const vk::PipelineLayoutCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, layout: *mut vk::PipelineLayout);
    vkCreateComputePipelines as PFN_vkCreateComputePipelines(
        device: vk::Device, cache: vk::PipelineCache, count_: u32,
        infos: *const vk::ComputePipelineCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, pipelines: *mut vk::Pipeline
    ) before {
        // Those that a driver cannot create are null.
        // SAFETY: the caller has room for all.
        unsafe { (0..count_ as usize).for_each(|index| pipelines.add(index).write(vk::Pipeline::null())) }
    };
    vkCreateCommandPool as PFN_vkCreateCommandPool(
        device: vk::Device, info: *const vk::CommandPoolCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, pool: *mut vk::CommandPool);
    vkAllocateCommandBuffers as PFN_vkAllocateCommandBuffers(
        device: vk::Device, info: *const vk::CommandBufferAllocateInfo<'_>, buffers: *mut vk::CommandBuffer);
    vkResetCommandPool as PFN_vkResetCommandPool(
        device: vk::Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags);
    vkBeginCommandBuffer as PFN_vkBeginCommandBuffer(
        buffer: vk::CommandBuffer, info: *const vk::CommandBufferBeginInfo<'_>);
    vkEndCommandBuffer as PFN_vkEndCommandBuffer(buffer: vk::CommandBuffer);
    vkCreateDescriptorPool as PFN_vkCreateDescriptorPool(
        device: vk::Device, info: *const vk::DescriptorPoolCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, pool: *mut vk::DescriptorPool);
    vkAllocateDescriptorSets as PFN_vkAllocateDescriptorSets(
        device: vk::Device, info: *const vk::DescriptorSetAllocateInfo<'_>, sets: *mut vk::DescriptorSet);
    vkCreateEvent as PFN_vkCreateEvent(
        device: vk::Device, info: *const vk::EventCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, event: *mut vk::Event);
    vkResetEvent as PFN_vkResetEvent(device: vk::Device, event: vk::Event);
    vkCreateQueryPool as PFN_vkCreateQueryPool(
        device: vk::Device, info: *const vk::QueryPoolCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, pool: *mut vk::QueryPool);
    vkGetQueryPoolResults as PFN_vkGetQueryPoolResults(
        device: vk::Device, pool: vk::QueryPool, first: u32, count_: u32, size: usize, data: *mut c_void,
        stride: vk::DeviceSize, flags: vk::QueryResultFlags);
    vkGetCalibratedTimestampsEXT as PFN_vkGetCalibratedTimestampsKHR(
        device: vk::Device, count_: u32, infos: *const vk::CalibratedTimestampInfoKHR<'_>,
        timestamps: *mut u64, deviation: *mut u64);
}

/// The substitute for a function that the loader or the driver has, if it is intercepted.
fn substitute(name: &CStr, real: vk::PFN_vkVoidFunction) -> vk::PFN_vkVoidFunction {
    let real = real?;
    let Some(function) = FUNCTIONS.iter().find(|it| it.name == name) else { return Some(real) };
    function.address.store((real as *const c_void).addr(), Ordering::SeqCst);
    // SAFETY: it is the address of a function.
    Some(unsafe { transmute::<*const c_void, unsafe extern "system" fn()>((function.substitute)()) })
}

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let loader = LOADER.get().unwrap().static_fn();
    // SAFETY: the caller keeps the rules of the function, among them that the name is a string.
    let (real, name) = unsafe { ((loader.get_instance_proc_addr)(instance, name), CStr::from_ptr(name)) };
    if name != c"vkGetDeviceProcAddr" {
        return substitute(name, real);
    }
    DEVICE_FUNCTIONS.store((real? as *const c_void).addr(), Ordering::SeqCst);
    let own: vk::PFN_vkGetDeviceProcAddr = get_device_proc_addr;
    // SAFETY: it is the address of a function.
    Some(unsafe { transmute::<vk::PFN_vkGetDeviceProcAddr, unsafe extern "system" fn()>(own) })
}

/// The address of the loader's `vkGetDeviceProcAddr`.
static DEVICE_FUNCTIONS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "system" fn get_device_proc_addr(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let address: *const c_void = std::ptr::without_provenance(DEVICE_FUNCTIONS.load(Ordering::SeqCst));
    // SAFETY: it is the address of the function with this type; the caller keeps its rules.
    let (real, name) = unsafe {
        let function: vk::PFN_vkGetDeviceProcAddr = transmute(address);
        (function(device, name), CStr::from_ptr(name))
    };
    substitute(name, real)
}
