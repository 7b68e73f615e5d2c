//! A device's support of cooperative matrices, for its description.
#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use ash::vk;

/// A device's support of cooperative matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CooperativeMatrix {
    /// `VkShaderStageFlags` of the shaders that may use them.
    pub(crate) stages: u32,
    /// The number of combinations of sizes and types.
    pub(crate) combinations: usize,
}

impl CooperativeMatrix {
    /// Queries a device. `None` if the query fails, or if the loader lacks it.
    ///
    /// # Safety
    ///
    /// The device is one of the instance's and has `VK_KHR_cooperative_matrix`.
    pub(crate) unsafe fn query(
        entry: &ash::Entry,
        instance: &ash::Instance,
        device: vk::PhysicalDevice,
    ) -> Option<Self> {
        let name = c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR";
        // SAFETY: the name is a string. The bindings panic if they call a function that the loader lacks.
        unsafe { entry.get_instance_proc_addr(instance.handle(), name.as_ptr()) }?;
        let functions = ash::khr::cooperative_matrix::Instance::new(entry, instance);
        // SAFETY: the device has the extension, and the loader has the function.
        let combinations =
            unsafe { functions.get_physical_device_cooperative_matrix_properties(device) }.ok()?;
        let mut matrix = vk::PhysicalDeviceCooperativeMatrixPropertiesKHR::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut matrix);
        // SAFETY: the device has the extension, so it knows the structure.
        unsafe { instance.get_physical_device_properties2(device, &mut properties) };
        let stages = matrix.cooperative_matrix_supported_stages.as_raw();
        Some(Self { stages, combinations: combinations.len() })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_char};
    use std::mem::transmute;

    use super::*;

    type Get = unsafe extern "system" fn(vk::Instance, *const c_char) -> vk::PFN_vkVoidFunction;

    /// Queries a device of a loader with these functions and no others.
    fn query(get_instance_proc_addr: Get) -> Option<CooperativeMatrix> {
        let functions = ash::StaticFn { get_instance_proc_addr };
        // SAFETY: the functions of the loader have the types of their names, and do not use the handles.
        unsafe {
            let instance = ash::Instance::load(&functions, vk::Instance::null());
            let entry = ash::Entry::from_static_fn(functions);
            CooperativeMatrix::query(&entry, &instance, vk::PhysicalDevice::null())
        }
    }

    unsafe extern "system" fn no_function(_: vk::Instance, _: *const c_char) -> vk::PFN_vkVoidFunction {
        None
    }

    unsafe extern "system" fn failing(_: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction {
        unsafe extern "system" fn combinations(
            _: vk::PhysicalDevice,
            _: *mut u32,
            _: *mut vk::CooperativeMatrixPropertiesKHR<'_>,
        ) -> vk::Result {
            vk::Result::ERROR_OUT_OF_HOST_MEMORY
        }
        // SAFETY: the caller passes a string.
        unsafe { function(name, combinations) }
    }

    unsafe extern "system" fn working(_: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction {
        unsafe extern "system" fn combinations(
            _: vk::PhysicalDevice,
            count: *mut u32,
            _: *mut vk::CooperativeMatrixPropertiesKHR<'_>,
        ) -> vk::Result {
            // SAFETY: the caller passes a pointer to a count.
            unsafe { *count = 2 };
            vk::Result::SUCCESS
        }
        // SAFETY: the caller passes a string.
        unsafe { function(name, combinations) }
    }

    /// The function with this name: `combinations`, or the one that reports the stages.
    ///
    /// # Safety
    ///
    /// The name is a string.
    unsafe fn function(
        name: *const c_char,
        combinations: vk::PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR,
    ) -> vk::PFN_vkVoidFunction {
        type Combinations = vk::PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR;
        type Properties = vk::PFN_vkGetPhysicalDeviceProperties2;
        // SAFETY: guaranteed by the caller; who calls a function does so by the type of its name.
        unsafe {
            match CStr::from_ptr(name).to_bytes() {
                b"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR" => {
                    transmute::<Combinations, vk::PFN_vkVoidFunction>(combinations)
                }
                b"vkGetPhysicalDeviceProperties2" => {
                    transmute::<Properties, vk::PFN_vkVoidFunction>(report_stages)
                }
                _ => None,
            }
        }
    }

    unsafe extern "system" fn report_stages(
        _: vk::PhysicalDevice,
        properties: *mut vk::PhysicalDeviceProperties2<'_>,
    ) {
        // SAFETY: the query's chain has this structure and no other.
        unsafe {
            let matrix: *mut vk::PhysicalDeviceCooperativeMatrixPropertiesKHR<'_> =
                (*properties).p_next.cast();
            (*matrix).cooperative_matrix_supported_stages = vk::ShaderStageFlags::COMPUTE;
        }
    }

    #[test]
    fn a_query_that_is_missing_or_fails_leaves_nothing() {
        assert_eq!(query(no_function), None);
        assert_eq!(query(failing), None);
        assert_eq!(query(working), Some(CooperativeMatrix { stages: 0x20, combinations: 2 }));
    }
}
