//! `VK_KHR_shader_bfloat16`, which is newer than the bindings.
#![allow(unsafe_code, reason = "declares a structure of Vulkan")]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;

use ash::vk;

/// The extension's name.
pub(crate) const NAME: &CStr = c"VK_KHR_shader_bfloat16";

/// A device's support of numbers of type bfloat16.
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

// SAFETY: it begins with the type and the pointer to the next structure, and its type is the one that Vulkan
// gives it.
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
    /// The features that are set.
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
        use std::mem::offset_of;
        type Structure = ShaderBfloat16Features<'static>;
        assert_eq!((size_of::<Structure>(), offset_of!(Structure, p_next)), (32, 8));
        assert_eq!(offset_of!(Structure, types), 16);
        assert_eq!(offset_of!(Structure, dot_product), 20);
        assert_eq!(offset_of!(Structure, cooperative_matrix), 24);
    }

    #[test]
    fn each_feature_is_a_field() {
        for set in 0..3 {
            let features = Bfloat16 { types: set == 0, dot_product: set == 1, cooperative_matrix: set == 2 };
            let structure = ShaderBfloat16Features::from(features);
            let fields = [structure.types, structure.dot_product, structure.cooperative_matrix];
            assert_eq!(fields, [0, 1, 2].map(|field| vk::Bool32::from(field == set)));
            assert_eq!(structure.get(), features);
            assert!(features.is_any());
        }
        assert!(!Bfloat16::default().is_any());
    }
}
