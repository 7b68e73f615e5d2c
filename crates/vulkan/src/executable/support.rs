//! A device's support of the features that shaders may require.

use std::ops::RangeInclusive;

use ash::vk;

use crate::gpu::Gpu;
use rehal_formats::vulkan::{Feature, ShaderSupport};

impl ShaderSupport for Gpu {
    fn supports(&self, feature: Feature) -> bool {
        let features = self.enabled();
        supports_core(&features.core, feature)
            || supports_v11(&features.v11, feature)
            || supports_v12(&features.v12, feature)
            || supports_float_controls(&self.physical().v12_properties, feature)
            || supports_subgroups(self, feature)
            || match feature {
                Feature::ShaderIntegerDotProduct => features.integer_dot_product,
                Feature::Maintenance4 => features.maintenance4,
                Feature::CooperativeMatrix => features.cooperative_matrix,
                Feature::ShaderBFloat16Type => features.bfloat16.types,
                Feature::ShaderBFloat16DotProduct => features.bfloat16.dot_product,
                Feature::ShaderBFloat16CooperativeMatrix => features.bfloat16.cooperative_matrix,
                Feature::NonSemanticInfo => self.has(c"VK_KHR_shader_non_semantic_info"),
                Feature::DecorateString => self.has(c"VK_GOOGLE_decorate_string"),
                Feature::HlslFunctionality => self.has(c"VK_GOOGLE_hlsl_functionality1"),
                Feature::UserType => self.has(c"VK_GOOGLE_user_type"),
                _ => false,
            }
    }

    fn spirv_version(&self) -> (u8, u8) {
        let is_1_3 = self.physical().properties.api_version >= vk::API_VERSION_1_3;
        if is_1_3 { (1, 6) } else { (1, 5) }
    }

    fn subgroup_sizes(&self) -> Option<RangeInclusive<u32>> {
        let subgroup = &self.physical().subgroup;
        let is_for_compute = subgroup.required_size_stages & vk::ShaderStageFlags::COMPUTE.as_raw() != 0;
        (self.enabled().subgroup_size_control && is_for_compute)
            .then_some(subgroup.min_size..=subgroup.max_size)
    }
}

fn is(value: vk::Bool32) -> bool {
    value == vk::TRUE
}

fn supports_core(core: &vk::PhysicalDeviceFeatures, feature: Feature) -> bool {
    match feature {
        Feature::ShaderFloat64 => is(core.shader_float64),
        Feature::ShaderInt64 => is(core.shader_int64),
        Feature::ShaderInt16 => is(core.shader_int16),
        Feature::ShaderUniformBufferArrayDynamicIndexing => {
            is(core.shader_uniform_buffer_array_dynamic_indexing)
        }
        Feature::ShaderStorageBufferArrayDynamicIndexing => {
            is(core.shader_storage_buffer_array_dynamic_indexing)
        }
        _ => false,
    }
}

fn supports_v11(v11: &vk::PhysicalDeviceVulkan11Features<'_>, feature: Feature) -> bool {
    match feature {
        Feature::StorageBuffer16BitAccess => is(v11.storage_buffer16_bit_access),
        Feature::UniformAndStorageBuffer16BitAccess => is(v11.uniform_and_storage_buffer16_bit_access),
        Feature::StoragePushConstant16 => is(v11.storage_push_constant16),
        Feature::VariablePointersStorageBuffer => is(v11.variable_pointers_storage_buffer),
        Feature::VariablePointers => is(v11.variable_pointers),
        _ => false,
    }
}

fn supports_v12(v12: &vk::PhysicalDeviceVulkan12Features<'_>, feature: Feature) -> bool {
    match feature {
        Feature::StorageBuffer8BitAccess => is(v12.storage_buffer8_bit_access),
        Feature::UniformAndStorageBuffer8BitAccess => is(v12.uniform_and_storage_buffer8_bit_access),
        Feature::StoragePushConstant8 => is(v12.storage_push_constant8),
        Feature::ShaderBufferInt64Atomics => is(v12.shader_buffer_int64_atomics),
        Feature::ShaderSharedInt64Atomics => is(v12.shader_shared_int64_atomics),
        Feature::ShaderFloat16 => is(v12.shader_float16),
        Feature::ShaderInt8 => is(v12.shader_int8),
        Feature::BufferDeviceAddress => is(v12.buffer_device_address),
        Feature::VulkanMemoryModel => is(v12.vulkan_memory_model),
        Feature::VulkanMemoryModelDeviceScope => is(v12.vulkan_memory_model_device_scope),
        _ => false,
    }
}

fn supports_float_controls(v12: &vk::PhysicalDeviceVulkan12Properties<'_>, feature: Feature) -> bool {
    is(match feature {
        Feature::DenormPreserveFloat16 => v12.shader_denorm_preserve_float16,
        Feature::DenormPreserveFloat32 => v12.shader_denorm_preserve_float32,
        Feature::DenormPreserveFloat64 => v12.shader_denorm_preserve_float64,
        Feature::DenormFlushToZeroFloat16 => v12.shader_denorm_flush_to_zero_float16,
        Feature::DenormFlushToZeroFloat32 => v12.shader_denorm_flush_to_zero_float32,
        Feature::DenormFlushToZeroFloat64 => v12.shader_denorm_flush_to_zero_float64,
        Feature::SignedZeroInfNanPreserveFloat16 => v12.shader_signed_zero_inf_nan_preserve_float16,
        Feature::SignedZeroInfNanPreserveFloat32 => v12.shader_signed_zero_inf_nan_preserve_float32,
        Feature::SignedZeroInfNanPreserveFloat64 => v12.shader_signed_zero_inf_nan_preserve_float64,
        Feature::RoundingModeRteFloat16 => v12.shader_rounding_mode_rte_float16,
        Feature::RoundingModeRteFloat32 => v12.shader_rounding_mode_rte_float32,
        Feature::RoundingModeRteFloat64 => v12.shader_rounding_mode_rte_float64,
        Feature::RoundingModeRtzFloat16 => v12.shader_rounding_mode_rtz_float16,
        Feature::RoundingModeRtzFloat32 => v12.shader_rounding_mode_rtz_float32,
        Feature::RoundingModeRtzFloat64 => v12.shader_rounding_mode_rtz_float64,
        _ => vk::FALSE,
    })
}

fn supports_subgroups(gpu: &Gpu, feature: Feature) -> bool {
    use vk::SubgroupFeatureFlags as Flags;
    let needed = match feature {
        Feature::SubgroupBasic => Flags::BASIC,
        Feature::SubgroupVote => Flags::VOTE,
        Feature::SubgroupArithmetic => Flags::ARITHMETIC,
        Feature::SubgroupBallot => Flags::BALLOT,
        Feature::SubgroupShuffle => Flags::SHUFFLE,
        Feature::SubgroupShuffleRelative => Flags::SHUFFLE_RELATIVE,
        Feature::SubgroupClustered => Flags::CLUSTERED,
        Feature::SubgroupQuad => Flags::QUAD,
        _ => return false,
    };
    let subgroup = &gpu.physical().subgroup;
    Flags::from_raw(subgroup.operations).contains(needed)
        && subgroup.stages & vk::ShaderStageFlags::COMPUTE.as_raw() != 0
}
