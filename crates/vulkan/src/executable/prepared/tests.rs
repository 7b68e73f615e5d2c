use spirv::{Decoration, ExecutionMode, ExecutionModel, Op};

use super::*;
use crate::assembler::Module;
use crate::gpu::tests::gpu;
use rehal_formats::vulkan::{DescriptorBinding, DescriptorSetLayout, PipelineLayout, PushConstantRange};

/// A module with an entry point `e`.
fn entry() -> Module {
    Module::for_descriptors().op_text(Op::EntryPoint, &[ExecutionModel::GLCompute as u32, 1], "e")
}

/// A module whose entry point `e` has workgroups of this many invocations.
fn module(invocations: u32) -> Vec<u8> {
    entry().op(Op::ExecutionMode, &[1, ExecutionMode::LocalSize as u32, invocations, 1, 1]).bytes()
}

#[test]
fn workgroups_have_as_many_subgroups_as_the_device_allows() {
    let gpu = gpu();
    let (invocations, most) =
        (gpu.limits().max_compute_work_group_invocations, gpu.physical().subgroup.max_per_workgroup);
    let mut image = Image::read("vulkan-spirv-raw", &module(invocations)).unwrap();
    check_limits(&gpu, &image, &[]).unwrap();
    image.pipelines[0].subgroup_size = Some(invocations.div_ceil(most));
    check_limits(&gpu, &image, &[]).unwrap();
    let too_small = invocations.div_ceil(most) - 1;
    if too_small != 0 {
        image.pipelines[0].subgroup_size = Some(too_small);
        let error = check_limits(&gpu, &image, &[]).unwrap_err();
        assert_eq!(error.code(), StatusCode::Unavailable);
        assert!(error.message().contains("maxComputeWorkgroupSubgroups"), "{error}");
    }
}

/// An executable with one function, two bindings and two constants.
fn affine() -> Image {
    let path = testing::fixtures().join("vulkan/executables/affine.descriptors.vk1");
    Image::read("vulkan-spirv-fb", &std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn nothing_is_made_of_what_no_function_uses() {
    let (gpu, mut image) = (gpu(), affine());
    let binding = image.set_layouts[0].bindings[0];
    let wild = DescriptorBinding { binding: u32::MAX, ..binding };
    image.set_layouts.push(DescriptorSetLayout { bindings: vec![wild] });
    let range = PushConstantRange { stages: binding.stages, offset: 0, size: 4 * u32::from(u16::MAX) };
    image.pipeline_layouts.push(PipelineLayout { sets: vec![0; 100], push_constants: vec![range] });
    image.shaders.push(image.shaders[0].clone());
    let mut parts = Parts::new(&gpu);
    parts.create_modules(&image).unwrap();
    assert_eq!(parts.modules.len(), 1);
    let parts = VulkanExecutable::from_image(&gpu, &image, "", &[]).unwrap().parts;
    assert_eq!((parts.set_layouts.len(), parts.layouts.len()), (1, 1));
}

#[test]
fn layouts_that_functions_use_are_within_the_limits() {
    let gpu = gpu();
    let refuse = |change: fn(&mut Image)| {
        let mut image = affine();
        change(&mut image);
        let error = VulkanExecutable::from_image(&gpu, &image, "", &[]).err().unwrap();
        assert_eq!(error.code(), StatusCode::Unavailable, "{error}");
        error.message().to_owned()
    };
    let message = refuse(|image| image.pipeline_layouts[0].sets = vec![0; 100]);
    assert!(message.contains("maxBoundDescriptorSets"), "{message}");
    let message = refuse(|image| image.pipeline_layouts[0].push_constants[0].size = 1 << 18);
    assert!(message.contains("maxPushConstantsSize"), "{message}");
    let message = refuse(|image| image.set_layouts[0].bindings[0].count = u32::MAX);
    assert!(message.contains("maxPerStageDescriptorStorageBuffers"), "{message}");
}

#[test]
fn workgroup_sizes_that_are_specialized_to_0_are_refused() {
    let size_ids = [1, ExecutionMode::LocalSizeId as u32, 11, 10, 11];
    let module = entry()
        .op(Op::ExecutionModeId, &size_ids)
        .op(Op::Decorate, &[10, Decoration::SpecId as u32, 1])
        .types()
        .op(Op::SpecConstant, &[3, 10, 1])
        .op(Op::Constant, &[3, 11, 1]);
    let image = Image::read("vulkan-spirv-raw", &module.bytes()).unwrap();
    let gpu = gpu();
    for constants in [&[][..], &[0], &[0, 2]] {
        check_limits(&gpu, &image, constants).unwrap();
    }
    let error = check_limits(&gpu, &image, &[7, 0]).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert!(
        error.message().contains("specialization constant 1, a workgroup size, is 0"),
        "{}",
        error.message()
    );
    // A module that does not say its size leaves it to the driver.
    let unknown = Image::read("vulkan-spirv-raw", &entry().bytes()).unwrap();
    check_limits(&gpu, &unknown, &[0]).unwrap();
}

#[test]
fn invalid_modules_are_refused_by_the_validator_or_the_driver() {
    let mut module = Module::for_descriptors();
    module.words[1] = 0x0001_0400;
    let module = module
        .entry(100, "sum")
        .op_text(Op::Name, &[20], "weights")
        .place(20, 0, 0)
        .types()
        .op(Op::Variable, &[6, 20, spirv::StorageClass::StorageBuffer as u32])
        .function(100, |body| body.load(300, 20))
        .bytes();
    let params = ExecutableParams { affinity: 1, ..ExecutableParams::new("vulkan-spirv-raw", &module) };
    let validated = VulkanOptions { validates_spirv: true, ..VulkanOptions::default() };
    let error = VulkanExecutable::prepare(&gpu(), &validated, &params).map(drop).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert!(error.message().contains("spirv-val: "), "{error}");
    // Users of the driver's refusal learn how to find out why.
    let error = VulkanExecutable::prepare(&gpu(), &VulkanOptions::default(), &params).map(drop).unwrap_err();
    let report = error.report();
    for part in ["function 'sum'", "compiling a pipeline", "spirv-val"] {
        assert!(report.contains(part), "{report}");
    }
}

#[test]
fn a_subgroup_size_that_the_code_works_with_is_required_if_the_device_has_several() {
    let one_of = |sizes: &[u32]| SubgroupSizes { one_of: sizes.to_vec(), at_least: None };
    let at_least = |size| SubgroupSizes { one_of: Vec::new(), at_least: Some(size) };
    let choose = |sizes: &SubgroupSizes| choose_size(sizes, 64, Some(32..=64), 1);
    assert_eq!(choose(&one_of(&[32])), Some(32));
    assert_eq!(choose(&at_least(32)), Some(64));
    assert_eq!(choose(&one_of(&[16])), None);
    assert_eq!(choose(&at_least(128)), None);
    assert_eq!(choose_size(&one_of(&[32]), 64, Some(32..=64), 64), None);
    // It cannot be required, or need not be.
    assert_eq!(choose_size(&one_of(&[32]), 64, None, 1), None);
    assert_eq!(choose_size(&one_of(&[8]), 8, Some(8..=8), 1), None);
}
