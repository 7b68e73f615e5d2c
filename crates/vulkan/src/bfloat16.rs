//! `VK_KHR_shader_bfloat16`, which is newer than the bindings.
#![allow(unsafe_code, reason = "declares a structure of Vulkan")]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;

use ash::vk;

/// The extension's name.
pub(crate) const NAME: &CStr = c"VK_KHR_shader_bfloat16";

/// What a device can do with numbers of type bfloat16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bfloat16 {
    /// `shaderBFloat16Type`.
    pub(crate) types: bool,
    /// `shaderBFloat16DotProduct`.
    pub(crate) dot_product: bool,
    /// `shaderBFloat16CooperativeMatrix`.
    pub(crate) cooperative_matrix: bool,
}

impl Bfloat16 {
    /// Whether the device has any of it.
    pub(crate) fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`.
#[repr(C)]
pub(crate) struct ShaderBfloat16Features<'a> {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    types: vk::Bool32,
    dot_product: vk::Bool32,
    cooperative_matrix: vk::Bool32,
    _marker: PhantomData<&'a ()>,
}

// SAFETY: it begins with the type and the pointer to the next structure, and its type is the one that Vulkan gives it.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for ShaderBfloat16Features<'_> {}

// SAFETY: the number of `VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR`.
unsafe impl vk::TaggedStructure for ShaderBfloat16Features<'_> {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(1_000_141_000);
}

impl From<Bfloat16> for ShaderBfloat16Features<'_> {
    fn from(features: Bfloat16) -> Self {
        Self {
            s_type: <Self as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            types: features.types.into(),
            dot_product: features.dot_product.into(),
            cooperative_matrix: features.cooperative_matrix.into(),
            _marker: PhantomData,
        }
    }
}

impl ShaderBfloat16Features<'_> {
    /// What is set.
    pub(crate) fn get(&self) -> Bfloat16 {
        let is = |value| value == vk::TRUE;
        Bfloat16 {
            types: is(self.types),
            dot_product: is(self.dot_product),
            cooperative_matrix: is(self.cooperative_matrix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_layout_of_vulkan() {
        assert_eq!(size_of::<ShaderBfloat16Features<'_>>(), 32);
        assert_eq!(std::mem::offset_of!(ShaderBfloat16Features<'_>, p_next), 8);
        assert_eq!(std::mem::offset_of!(ShaderBfloat16Features<'_>, types), 16);
        let features = Bfloat16 { types: true, dot_product: false, cooperative_matrix: true };
        assert_eq!(ShaderBfloat16Features::from(features).get(), features);
        assert!(features.is_any() && !Bfloat16::default().is_any());
    }
}
