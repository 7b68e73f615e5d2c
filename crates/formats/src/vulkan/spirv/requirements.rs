//! Requirements of a module's capabilities and extensions on a device.

use std::ops::RangeInclusive;

use rehal_base::{Error, Result, StatusCode};
use spirv::Capability;

/// Features that a device supports, and has enabled.
pub trait ShaderSupport {
    /// Whether the feature is enabled.
    fn supports(&self, feature: Feature) -> bool;

    /// The newest version of SPIR-V, such as (1, 5) for Vulkan 1.2.
    fn spirv_version(&self) -> (u8, u8);

    /// The sizes that a pipeline may require for its subgroups, or `None` if it may not
    /// (`subgroupSizeControl`, and compute among `requiredSubgroupSizeStages`).
    fn subgroup_sizes(&self) -> Option<RangeInclusive<u32>>;
}

macro_rules! features {
    ($($variant:ident = $name:literal,)*) => {
        /// A feature of a device that shaders may require.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Feature {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Feature {
            /// All features.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in Vulkan: a member of a structure of features or properties, a bit of
            /// `subgroupSupportedOperations`, or a device extension.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

features! {
    // VkPhysicalDeviceFeatures
    ShaderFloat64 = "shaderFloat64",
    ShaderInt64 = "shaderInt64",
    ShaderInt16 = "shaderInt16",
    ShaderImageGatherExtended = "shaderImageGatherExtended",
    ShaderStorageImageMultisample = "shaderStorageImageMultisample",
    ShaderUniformBufferArrayDynamicIndexing = "shaderUniformBufferArrayDynamicIndexing",
    ShaderSampledImageArrayDynamicIndexing = "shaderSampledImageArrayDynamicIndexing",
    ShaderStorageBufferArrayDynamicIndexing = "shaderStorageBufferArrayDynamicIndexing",
    ShaderStorageImageArrayDynamicIndexing = "shaderStorageImageArrayDynamicIndexing",
    ShaderResourceResidency = "shaderResourceResidency",
    ShaderResourceMinLod = "shaderResourceMinLod",
    ShaderStorageImageExtendedFormats = "shaderStorageImageExtendedFormats",
    ShaderStorageImageReadWithoutFormat = "shaderStorageImageReadWithoutFormat",
    ShaderStorageImageWriteWithoutFormat = "shaderStorageImageWriteWithoutFormat",
    ImageCubeArray = "imageCubeArray",
    // VkPhysicalDeviceVulkan11Features
    StorageBuffer16BitAccess = "storageBuffer16BitAccess",
    UniformAndStorageBuffer16BitAccess = "uniformAndStorageBuffer16BitAccess",
    StoragePushConstant16 = "storagePushConstant16",
    VariablePointersStorageBuffer = "variablePointersStorageBuffer",
    VariablePointers = "variablePointers",
    // VkPhysicalDeviceVulkan12Features
    StorageBuffer8BitAccess = "storageBuffer8BitAccess",
    UniformAndStorageBuffer8BitAccess = "uniformAndStorageBuffer8BitAccess",
    StoragePushConstant8 = "storagePushConstant8",
    ShaderBufferInt64Atomics = "shaderBufferInt64Atomics",
    ShaderSharedInt64Atomics = "shaderSharedInt64Atomics",
    ShaderFloat16 = "shaderFloat16",
    ShaderInt8 = "shaderInt8",
    DescriptorIndexing = "descriptorIndexing",
    ShaderUniformTexelBufferArrayDynamicIndexing = "shaderUniformTexelBufferArrayDynamicIndexing",
    ShaderStorageTexelBufferArrayDynamicIndexing = "shaderStorageTexelBufferArrayDynamicIndexing",
    ShaderUniformBufferArrayNonUniformIndexing = "shaderUniformBufferArrayNonUniformIndexing",
    ShaderSampledImageArrayNonUniformIndexing = "shaderSampledImageArrayNonUniformIndexing",
    ShaderStorageBufferArrayNonUniformIndexing = "shaderStorageBufferArrayNonUniformIndexing",
    ShaderStorageImageArrayNonUniformIndexing = "shaderStorageImageArrayNonUniformIndexing",
    ShaderUniformTexelBufferArrayNonUniformIndexing = "shaderUniformTexelBufferArrayNonUniformIndexing",
    ShaderStorageTexelBufferArrayNonUniformIndexing = "shaderStorageTexelBufferArrayNonUniformIndexing",
    RuntimeDescriptorArray = "runtimeDescriptorArray",
    BufferDeviceAddress = "bufferDeviceAddress",
    VulkanMemoryModel = "vulkanMemoryModel",
    VulkanMemoryModelDeviceScope = "vulkanMemoryModelDeviceScope",
    // VkPhysicalDeviceVulkan13Features
    ShaderDemoteToHelperInvocation = "shaderDemoteToHelperInvocation",
    ShaderIntegerDotProduct = "shaderIntegerDotProduct",
    ShaderTerminateInvocation = "shaderTerminateInvocation",
    Maintenance4 = "maintenance4",
    // VkPhysicalDeviceVulkan14Features and extensions
    ShaderSubgroupRotate = "shaderSubgroupRotate",
    ShaderFloatControls2 = "shaderFloatControls2",
    ShaderExpectAssume = "shaderExpectAssume",
    WorkgroupMemoryExplicitLayout = "workgroupMemoryExplicitLayout",
    WorkgroupMemoryExplicitLayout8BitAccess = "workgroupMemoryExplicitLayout8BitAccess",
    WorkgroupMemoryExplicitLayout16BitAccess = "workgroupMemoryExplicitLayout16BitAccess",
    ShaderSubgroupClock = "shaderSubgroupClock",
    ShaderDeviceClock = "shaderDeviceClock",
    CooperativeMatrix = "cooperativeMatrix",
    ShaderBFloat16Type = "shaderBFloat16Type",
    ShaderBFloat16DotProduct = "shaderBFloat16DotProduct",
    ShaderBFloat16CooperativeMatrix = "shaderBFloat16CooperativeMatrix",
    ShaderBufferFloat32AtomicAdd = "shaderBufferFloat32AtomicAdd",
    ShaderSharedFloat32AtomicAdd = "shaderSharedFloat32AtomicAdd",
    ShaderBufferFloat64AtomicAdd = "shaderBufferFloat64AtomicAdd",
    ShaderSharedFloat64AtomicAdd = "shaderSharedFloat64AtomicAdd",
    ShaderBufferFloat16AtomicAdd = "shaderBufferFloat16AtomicAdd",
    ShaderSharedFloat16AtomicAdd = "shaderSharedFloat16AtomicAdd",
    ShaderBufferFloat16AtomicMinMax = "shaderBufferFloat16AtomicMinMax",
    ShaderSharedFloat16AtomicMinMax = "shaderSharedFloat16AtomicMinMax",
    ShaderBufferFloat32AtomicMinMax = "shaderBufferFloat32AtomicMinMax",
    ShaderSharedFloat32AtomicMinMax = "shaderSharedFloat32AtomicMinMax",
    ShaderBufferFloat64AtomicMinMax = "shaderBufferFloat64AtomicMinMax",
    ShaderSharedFloat64AtomicMinMax = "shaderSharedFloat64AtomicMinMax",
    ComputeDerivativeGroupQuads = "computeDerivativeGroupQuads",
    ComputeDerivativeGroupLinear = "computeDerivativeGroupLinear",
    ShaderReplicatedComposites = "shaderReplicatedComposites",
    ShaderMaximalReconvergence = "shaderMaximalReconvergence",
    NonSemanticInfo = "VK_KHR_shader_non_semantic_info",
    RelaxedExtendedInstruction = "VK_KHR_shader_relaxed_extended_instruction",
    DecorateString = "VK_GOOGLE_decorate_string",
    HlslFunctionality = "VK_GOOGLE_hlsl_functionality1",
    UserType = "VK_GOOGLE_user_type",
    // VkPhysicalDeviceVulkan11Properties::subgroupSupportedOperations, for compute
    SubgroupBasic = "VK_SUBGROUP_FEATURE_BASIC_BIT",
    SubgroupVote = "VK_SUBGROUP_FEATURE_VOTE_BIT",
    SubgroupArithmetic = "VK_SUBGROUP_FEATURE_ARITHMETIC_BIT",
    SubgroupBallot = "VK_SUBGROUP_FEATURE_BALLOT_BIT",
    SubgroupShuffle = "VK_SUBGROUP_FEATURE_SHUFFLE_BIT",
    SubgroupShuffleRelative = "VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT",
    SubgroupClustered = "VK_SUBGROUP_FEATURE_CLUSTERED_BIT",
    SubgroupQuad = "VK_SUBGROUP_FEATURE_QUAD_BIT",
    // VkPhysicalDeviceVulkan12Properties
    DenormPreserveFloat16 = "shaderDenormPreserveFloat16",
    DenormPreserveFloat32 = "shaderDenormPreserveFloat32",
    DenormPreserveFloat64 = "shaderDenormPreserveFloat64",
    DenormFlushToZeroFloat16 = "shaderDenormFlushToZeroFloat16",
    DenormFlushToZeroFloat32 = "shaderDenormFlushToZeroFloat32",
    DenormFlushToZeroFloat64 = "shaderDenormFlushToZeroFloat64",
    SignedZeroInfNanPreserveFloat16 = "shaderSignedZeroInfNanPreserveFloat16",
    SignedZeroInfNanPreserveFloat32 = "shaderSignedZeroInfNanPreserveFloat32",
    SignedZeroInfNanPreserveFloat64 = "shaderSignedZeroInfNanPreserveFloat64",
    RoundingModeRteFloat16 = "shaderRoundingModeRTEFloat16",
    RoundingModeRteFloat32 = "shaderRoundingModeRTEFloat32",
    RoundingModeRteFloat64 = "shaderRoundingModeRTEFloat64",
    RoundingModeRtzFloat16 = "shaderRoundingModeRTZFloat16",
    RoundingModeRtzFloat32 = "shaderRoundingModeRTZFloat32",
    RoundingModeRtzFloat64 = "shaderRoundingModeRTZFloat64",
}

/// A module's requirements, besides its version of SPIR-V.
#[derive(Clone, Debug, Default)]
pub(super) struct Requirements {
    /// For each requirement, features of which one suffices.
    any_of: Vec<&'static [Feature]>,
    /// Names of capabilities and extensions that no device of this driver enables.
    unknown: Vec<String>,
}

impl Requirements {
    /// The requirements of a module with these capabilities, extensions, and execution modes; those of float
    /// controls with their widths.
    pub(super) fn new(capabilities: &[u32], extensions: &[String], modes: &[(u32, u32)]) -> Self {
        let mut this = Self::default();
        for number in capabilities {
            let capability = Capability::from_u32(*number);
            match capability.and_then(features_of) {
                Some([]) => {}
                Some(features) => this.any_of.push(features),
                None => this.unknown.push(match capability {
                    Some(capability) => format!("SPIR-V capability {capability:?}"),
                    None => format!("SPIR-V capability {number}"),
                }),
            }
        }
        for name in extensions {
            match features_of_extension(name) {
                Some([]) => {}
                Some(features) => this.any_of.push(features),
                None => this.unknown.push(format!("SPIR-V extension {name}")),
            }
        }
        this.any_of.extend(modes.iter().filter_map(|(mode, width)| feature_of_mode(*mode, *width)));
        this
    }

    pub(super) fn check(&self, version: (u8, u8), device: &dyn ShaderSupport) -> Result<()> {
        let newest = device.spirv_version();
        if version > newest {
            let what = format!("SPIR-V {}.{} (it has {}.{})", version.0, version.1, newest.0, newest.1);
            return Err(lacking(&what));
        }
        if let Some(unknown) = self.unknown.first() {
            return Err(lacking(unknown));
        }
        for features in &self.any_of {
            if !features.iter().any(|feature| device.supports(*feature)) {
                let names: Vec<_> = features.iter().map(|feature| feature.name()).collect();
                return Err(lacking(&names.join(" or ")));
            }
        }
        Ok(())
    }
}

/// The features of which a capability requires one; none if every device of Vulkan 1.2 has it. `None` for
/// capabilities that the driver does not enable. Source: the Vulkan specification's environment for SPIR-V.
fn features_of(capability: Capability) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match capability {
        Capability::Matrix
        | Capability::Shader
        | Capability::InputAttachment
        | Capability::Sampled1D
        | Capability::Image1D
        | Capability::SampledBuffer
        | Capability::ImageBuffer
        | Capability::ImageQuery
        | Capability::DerivativeControl
        | Capability::DeviceGroup => &[],
        Capability::Float64 => &[F::ShaderFloat64],
        Capability::Int64 => &[F::ShaderInt64],
        Capability::Int16 => &[F::ShaderInt16],
        Capability::Int8 => &[F::ShaderInt8],
        Capability::Float16 => &[F::ShaderFloat16],
        Capability::Int64Atomics => &[F::ShaderBufferInt64Atomics, F::ShaderSharedInt64Atomics],
        Capability::VulkanMemoryModel => &[F::VulkanMemoryModel],
        Capability::VulkanMemoryModelDeviceScope => &[F::VulkanMemoryModelDeviceScope],
        Capability::PhysicalStorageBufferAddresses => &[F::BufferDeviceAddress],
        Capability::VariablePointersStorageBuffer => &[F::VariablePointersStorageBuffer],
        Capability::VariablePointers => &[F::VariablePointers],
        Capability::DemoteToHelperInvocation => &[F::ShaderDemoteToHelperInvocation],
        Capability::DotProductInputAll
        | Capability::DotProductInput4x8Bit
        | Capability::DotProductInput4x8BitPacked
        | Capability::DotProduct => &[F::ShaderIntegerDotProduct],
        Capability::ExpectAssumeKHR => &[F::ShaderExpectAssume],
        Capability::FloatControls2 => &[F::ShaderFloatControls2],
        Capability::ShaderClockKHR => &[F::ShaderSubgroupClock, F::ShaderDeviceClock],
        Capability::CooperativeMatrixKHR => &[F::CooperativeMatrix],
        Capability::BFloat16TypeKHR => &[F::ShaderBFloat16Type],
        Capability::BFloat16DotProductKHR => &[F::ShaderBFloat16DotProduct],
        Capability::BFloat16CooperativeMatrixKHR => &[F::ShaderBFloat16CooperativeMatrix],
        Capability::ComputeDerivativeGroupQuadsKHR => &[F::ComputeDerivativeGroupQuads],
        Capability::ComputeDerivativeGroupLinearKHR => &[F::ComputeDerivativeGroupLinear],
        Capability::ReplicatedCompositesEXT => &[F::ShaderReplicatedComposites],
        Capability::WorkgroupMemoryExplicitLayoutKHR => &[F::WorkgroupMemoryExplicitLayout],
        Capability::WorkgroupMemoryExplicitLayout8BitAccessKHR => {
            &[F::WorkgroupMemoryExplicitLayout8BitAccess]
        }
        Capability::WorkgroupMemoryExplicitLayout16BitAccessKHR => {
            &[F::WorkgroupMemoryExplicitLayout16BitAccess]
        }
        _ => {
            return storage_features(capability)
                .or_else(|| subgroup_features(capability))
                .or_else(|| atomic_features(capability))
                .or_else(|| float_controls(capability))
                .or_else(|| indexing_features(capability))
                .or_else(|| image_features(capability));
        }
    })
}

fn storage_features(capability: Capability) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match capability {
        Capability::StorageBuffer16BitAccess => &[F::StorageBuffer16BitAccess],
        Capability::UniformAndStorageBuffer16BitAccess => &[F::UniformAndStorageBuffer16BitAccess],
        Capability::StoragePushConstant16 => &[F::StoragePushConstant16],
        Capability::StorageBuffer8BitAccess => &[F::StorageBuffer8BitAccess],
        Capability::UniformAndStorageBuffer8BitAccess => &[F::UniformAndStorageBuffer8BitAccess],
        Capability::StoragePushConstant8 => &[F::StoragePushConstant8],
        _ => return None,
    })
}

fn subgroup_features(capability: Capability) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match capability {
        Capability::GroupNonUniform => &[F::SubgroupBasic],
        Capability::GroupNonUniformVote => &[F::SubgroupVote],
        Capability::GroupNonUniformArithmetic => &[F::SubgroupArithmetic],
        Capability::GroupNonUniformBallot => &[F::SubgroupBallot],
        Capability::GroupNonUniformShuffle => &[F::SubgroupShuffle],
        Capability::GroupNonUniformShuffleRelative => &[F::SubgroupShuffleRelative],
        Capability::GroupNonUniformClustered => &[F::SubgroupClustered],
        Capability::GroupNonUniformQuad => &[F::SubgroupQuad],
        Capability::GroupNonUniformRotateKHR => &[F::ShaderSubgroupRotate],
        _ => return None,
    })
}

fn atomic_features(capability: Capability) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match capability {
        Capability::AtomicFloat16AddEXT => {
            &[F::ShaderBufferFloat16AtomicAdd, F::ShaderSharedFloat16AtomicAdd]
        }
        Capability::AtomicFloat32AddEXT => {
            &[F::ShaderBufferFloat32AtomicAdd, F::ShaderSharedFloat32AtomicAdd]
        }
        Capability::AtomicFloat64AddEXT => {
            &[F::ShaderBufferFloat64AtomicAdd, F::ShaderSharedFloat64AtomicAdd]
        }
        Capability::AtomicFloat16MinMaxEXT => {
            &[F::ShaderBufferFloat16AtomicMinMax, F::ShaderSharedFloat16AtomicMinMax]
        }
        Capability::AtomicFloat32MinMaxEXT => {
            &[F::ShaderBufferFloat32AtomicMinMax, F::ShaderSharedFloat32AtomicMinMax]
        }
        Capability::AtomicFloat64MinMaxEXT => {
            &[F::ShaderBufferFloat64AtomicMinMax, F::ShaderSharedFloat64AtomicMinMax]
        }
        _ => return None,
    })
}

/// A capability of float controls is for the widths that execution modes name; a device that has it for none
/// lacks it.
fn float_controls(capability: Capability) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match capability {
        Capability::DenormPreserve => {
            &[F::DenormPreserveFloat32, F::DenormPreserveFloat16, F::DenormPreserveFloat64]
        }
        Capability::DenormFlushToZero => {
            &[F::DenormFlushToZeroFloat32, F::DenormFlushToZeroFloat16, F::DenormFlushToZeroFloat64]
        }
        Capability::SignedZeroInfNanPreserve => &[
            F::SignedZeroInfNanPreserveFloat32,
            F::SignedZeroInfNanPreserveFloat16,
            F::SignedZeroInfNanPreserveFloat64,
        ],
        Capability::RoundingModeRTE => {
            &[F::RoundingModeRteFloat32, F::RoundingModeRteFloat16, F::RoundingModeRteFloat64]
        }
        Capability::RoundingModeRTZ => {
            &[F::RoundingModeRtzFloat32, F::RoundingModeRtzFloat16, F::RoundingModeRtzFloat64]
        }
        _ => return None,
    })
}

fn indexing_features(capability: Capability) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match capability {
        Capability::UniformBufferArrayDynamicIndexing => &[F::ShaderUniformBufferArrayDynamicIndexing],
        Capability::SampledImageArrayDynamicIndexing => &[F::ShaderSampledImageArrayDynamicIndexing],
        Capability::StorageBufferArrayDynamicIndexing => &[F::ShaderStorageBufferArrayDynamicIndexing],
        Capability::StorageImageArrayDynamicIndexing => &[F::ShaderStorageImageArrayDynamicIndexing],
        Capability::ShaderNonUniform => &[F::DescriptorIndexing],
        Capability::RuntimeDescriptorArray => &[F::RuntimeDescriptorArray],
        Capability::UniformTexelBufferArrayDynamicIndexing => {
            &[F::ShaderUniformTexelBufferArrayDynamicIndexing]
        }
        Capability::StorageTexelBufferArrayDynamicIndexing => {
            &[F::ShaderStorageTexelBufferArrayDynamicIndexing]
        }
        Capability::UniformBufferArrayNonUniformIndexing => &[F::ShaderUniformBufferArrayNonUniformIndexing],
        Capability::SampledImageArrayNonUniformIndexing => &[F::ShaderSampledImageArrayNonUniformIndexing],
        Capability::StorageBufferArrayNonUniformIndexing => &[F::ShaderStorageBufferArrayNonUniformIndexing],
        Capability::StorageImageArrayNonUniformIndexing => &[F::ShaderStorageImageArrayNonUniformIndexing],
        Capability::UniformTexelBufferArrayNonUniformIndexing => {
            &[F::ShaderUniformTexelBufferArrayNonUniformIndexing]
        }
        Capability::StorageTexelBufferArrayNonUniformIndexing => {
            &[F::ShaderStorageTexelBufferArrayNonUniformIndexing]
        }
        _ => return None,
    })
}

fn image_features(capability: Capability) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match capability {
        Capability::ImageGatherExtended => &[F::ShaderImageGatherExtended],
        Capability::StorageImageMultisample | Capability::ImageMSArray => &[F::ShaderStorageImageMultisample],
        Capability::ImageCubeArray | Capability::SampledCubeArray => &[F::ImageCubeArray],
        Capability::SparseResidency => &[F::ShaderResourceResidency],
        Capability::MinLod => &[F::ShaderResourceMinLod],
        Capability::StorageImageExtendedFormats => &[F::ShaderStorageImageExtendedFormats],
        Capability::StorageImageReadWithoutFormat => &[F::ShaderStorageImageReadWithoutFormat],
        Capability::StorageImageWriteWithoutFormat => &[F::ShaderStorageImageWriteWithoutFormat],
        _ => return None,
    })
}

/// The features of which an extension requires one; none if it is part of Vulkan 1.2, or needs nothing beyond
/// the features of its capabilities. `None` for extensions that the driver does not enable.
fn features_of_extension(name: &str) -> Option<&'static [Feature]> {
    use Feature as F;

    Some(match name {
        "SPV_KHR_16bit_storage"
        | "SPV_KHR_8bit_storage"
        | "SPV_KHR_bfloat16"
        | "SPV_KHR_compute_shader_derivatives"
        | "SPV_KHR_cooperative_matrix"
        | "SPV_KHR_device_group"
        | "SPV_KHR_expect_assume"
        | "SPV_KHR_float_controls"
        | "SPV_KHR_float_controls2"
        | "SPV_KHR_integer_dot_product"
        | "SPV_KHR_multiview"
        | "SPV_KHR_no_integer_wrap_decoration"
        | "SPV_KHR_physical_storage_buffer"
        | "SPV_KHR_shader_clock"
        | "SPV_KHR_shader_draw_parameters"
        | "SPV_KHR_storage_buffer_storage_class"
        | "SPV_KHR_subgroup_rotate"
        | "SPV_KHR_variable_pointers"
        | "SPV_KHR_vulkan_memory_model"
        | "SPV_KHR_workgroup_memory_explicit_layout"
        | "SPV_EXT_demote_to_helper_invocation"
        | "SPV_EXT_descriptor_indexing"
        | "SPV_EXT_physical_storage_buffer"
        | "SPV_EXT_replicated_composites"
        | "SPV_EXT_shader_atomic_float16_add"
        | "SPV_EXT_shader_atomic_float_add"
        | "SPV_EXT_shader_atomic_float_min_max" => &[],
        "SPV_KHR_maximal_reconvergence" => &[F::ShaderMaximalReconvergence],
        "SPV_KHR_non_semantic_info" => &[F::NonSemanticInfo],
        "SPV_KHR_relaxed_extended_instruction" => &[F::RelaxedExtendedInstruction],
        "SPV_KHR_terminate_invocation" => &[F::ShaderTerminateInvocation],
        "SPV_GOOGLE_decorate_string" => &[F::DecorateString],
        "SPV_GOOGLE_hlsl_functionality1" => &[F::HlslFunctionality],
        "SPV_GOOGLE_user_type" => &[F::UserType],
        _ => return None,
    })
}

/// The feature that an execution mode of float controls requires for a width in bits.
fn feature_of_mode(mode: u32, width: u32) -> Option<&'static [Feature]> {
    use Feature as F;
    use spirv::ExecutionMode as Mode;

    Some(match (Mode::from_u32(mode)?, width) {
        (Mode::DenormPreserve, 16) => &[F::DenormPreserveFloat16],
        (Mode::DenormPreserve, 32) => &[F::DenormPreserveFloat32],
        (Mode::DenormPreserve, 64) => &[F::DenormPreserveFloat64],
        (Mode::DenormFlushToZero, 16) => &[F::DenormFlushToZeroFloat16],
        (Mode::DenormFlushToZero, 32) => &[F::DenormFlushToZeroFloat32],
        (Mode::DenormFlushToZero, 64) => &[F::DenormFlushToZeroFloat64],
        (Mode::SignedZeroInfNanPreserve, 16) => &[F::SignedZeroInfNanPreserveFloat16],
        (Mode::SignedZeroInfNanPreserve, 32) => &[F::SignedZeroInfNanPreserveFloat32],
        (Mode::SignedZeroInfNanPreserve, 64) => &[F::SignedZeroInfNanPreserveFloat64],
        (Mode::RoundingModeRTE, 16) => &[F::RoundingModeRteFloat16],
        (Mode::RoundingModeRTE, 32) => &[F::RoundingModeRteFloat32],
        (Mode::RoundingModeRTE, 64) => &[F::RoundingModeRteFloat64],
        (Mode::RoundingModeRTZ, 16) => &[F::RoundingModeRtzFloat16],
        (Mode::RoundingModeRTZ, 32) => &[F::RoundingModeRtzFloat32],
        (Mode::RoundingModeRTZ, 64) => &[F::RoundingModeRtzFloat64],
        (Mode::LocalSizeId, _) => &[F::Maintenance4],
        _ => return None,
    })
}

/// The error for a device that lacks something.
pub(in crate::vulkan) fn lacking(what: &str) -> Error {
    Error::new(StatusCode::Unavailable, format!("the device lacks {what}"))
}
