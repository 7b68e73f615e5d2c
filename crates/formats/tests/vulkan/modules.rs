use std::ops::RangeInclusive;

use rehal_base::StatusCode;
use rehal_formats::vulkan::spirv::{Access, Component, ResourceKind};
use rehal_formats::vulkan::{
    BindingRequirement, Dispatch, Feature, Image, Root, Shader, ShaderSupport, infer,
};
use spirv::{BuiltIn, Capability, Decoration, ExecutionMode, Op, StorageClass};

use crate::assembler::Module;

fn shader(module: &Module) -> Shader {
    Shader::read(module.words.clone(), 0).unwrap()
}

/// The accesses of an entry point by binding.
fn accesses(module: &Module, entry: &str) -> Vec<(u32, Access)> {
    let shader = shader(module);
    shader.entry_point(entry).unwrap().resources.iter().map(|it| (it.binding, it.access)).collect()
}

fn access(reads: bool, writes: bool) -> Access {
    Access { reads, writes }
}

#[test]
fn accesses_follow_pointers_and_calls() {
    let module = Module::for_descriptors()
        .entry(20, "first")
        .entry(21, "second")
        .types()
        .buffer(30, 0, 0)
        .buffer(31, 0, 1)
        .buffer(32, 0, 2)
        .buffer(33, 0, 3)
        .buffer(34, 0, 4)
        .function(20, |body| body.load(40, 30).store(42, 31).op(Op::FunctionCall, &[1, 44, 22]))
        .function(21, |body| body.op(Op::ArrayLength, &[3, 45, 34, 0]))
        .function(22, |body| {
            // An increment, and a pointer that is selected: not tracked, so anything may happen.
            let atomic =
                body.op(Op::AccessChain, &[7, 46, 32, 8, 8]).op(Op::AtomicIIncrement, &[3, 47, 46, 8, 8]);
            atomic.op(Op::AccessChain, &[7, 48, 33, 8, 8]).op(Op::Select, &[7, 49, 8, 48, 48])
        });
    let expected = [
        (0, access(true, false)),
        (1, access(false, true)),
        (2, access(true, true)),
        (3, access(true, true)),
    ];
    assert_eq!(accesses(&module, "first"), expected);
    assert_eq!(accesses(&module, "second"), [(4, access(false, false))]);
}

#[test]
fn decorations_limit_accesses_and_aliases_join_them() {
    let module = Module::for_descriptors()
        .entry(20, "main")
        .types()
        .op(Op::Decorate, &[30, Decoration::NonWritable as u32])
        .buffer(30, 0, 0)
        .buffer(31, 0, 1)
        .buffer(32, 0, 1)
        .function(20, |body| body.op(Op::Select, &[7, 40, 8, 30, 30]).load(41, 31).store(43, 32));
    assert_eq!(accesses(&module, "main"), [(0, access(true, false)), (1, access(true, true))]);
}

#[test]
fn workgroup_sizes_may_be_specialized() {
    let specialized = Module::for_descriptors()
        .entry(20, "main")
        .op(Op::Decorate, &[10, Decoration::SpecId as u32, 1])
        .op(Op::Decorate, &[12, Decoration::BuiltIn as u32, BuiltIn::WorkgroupSize as u32])
        .types()
        .op(Op::SpecConstant, &[3, 10, 64])
        .op(Op::Constant, &[3, 11, 2])
        .op(Op::TypeVector, &[9, 3, 3])
        .op(Op::SpecConstantComposite, &[9, 12, 10, 11, 11])
        .function(20, |body| body);
    let shader = shader(&specialized);
    let size = shader.entry_point("main").unwrap().workgroup_size;
    assert_eq!(size.0[0], Component::Specialized { id: 1, default: 64 });
    assert_eq!(size.value(&[]), [64, 2, 2]);
    assert_eq!(size.value(&[7, 8]), [8, 2, 2]);
    assert_eq!(shader.specialization_constants().iter().map(|it| it.id).collect::<Vec<_>>(), [1]);
}

#[test]
fn local_sizes_may_be_ids() {
    let module = Module::for_descriptors()
        .op_text(Op::EntryPoint, &[5, 20], "main")
        .op(Op::ExecutionModeId, &[20, ExecutionMode::LocalSizeId as u32, 10, 11, 11])
        .types()
        .op(Op::Constant, &[3, 10, 32])
        .op(Op::Constant, &[3, 11, 1])
        .function(20, |body| body);
    assert_eq!(shader(&module).entry_point("main").unwrap().workgroup_size.value(&[]), [32, 1, 1]);
}

#[test]
fn a_bare_module_with_descriptors_has_the_layout_that_it_declares() {
    let module = Module::for_descriptors()
        .entry(20, "main")
        .types()
        .buffer(30, 0, 0)
        .buffer(31, 0, 3)
        .op(Op::MemberDecorate, &[9, 1, Decoration::Offset as u32, 8])
        .op(Op::TypeStruct, &[9, 3, 3])
        .op(Op::TypePointer, &[10, StorageClass::PushConstant as u32, 9])
        .op(Op::Variable, &[10, 11, StorageClass::PushConstant as u32])
        .function(20, |body| body.load(40, 30));
    let bytes = module.bytes();
    assert_eq!(infer(&bytes), Some("vulkan-spirv-raw"));
    let image = Image::read("vulkan-spirv-raw", &bytes).unwrap();
    let [function] = &image.functions()[..] else { panic!("one function") };
    let counts = (function.binding_count(), function.constant_count);
    assert_eq!((function.name.as_str(), counts), ("main", (Some(4), Some(3))));
    assert_eq!(function.workgroup_size, Some([4, 2, 1]));
    assert_eq!(image.set_layouts[0].bindings.len(), 4);
    let Dispatch::Descriptors(slots) = &image.pipelines[0].dispatch else { panic!("descriptors") };
    assert_eq!(slots.iter().map(|slot| slot.binding).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// A module whose push constants are the root and two constants.
fn with_root(texts: &[&str]) -> Module {
    let mut module = Module::for_addresses().entry(20, "main");
    for text in texts {
        module = module.processed(text);
    }
    for (member, offset) in [0, 8, 16, 20, 24, 28].into_iter().enumerate() {
        module = module.op(Op::MemberDecorate, &[9, member as u32, Decoration::Offset as u32, offset]);
    }
    module
        .op(Op::Decorate, &[9, Decoration::Block as u32])
        .types()
        .op(Op::TypeInt, &[12, 64, 0])
        .op(Op::TypeStruct, &[9, 12, 12, 3, 3, 3, 3])
        .op(Op::TypePointer, &[10, StorageClass::PushConstant as u32, 9])
        .op(Op::Variable, &[10, 11, StorageClass::PushConstant as u32])
        .function(20, |body| body)
}

#[test]
fn metadata_describes_the_addresses_of_a_bare_module() {
    let texts = [
        "another tool's mark",
        "iree.vulkan.bda.v1.bindings=2",
        "iree.vulkan.bda.v1.constants=3",
        "iree.vulkan.bda.v1.binding.1=16,1024",
    ];
    let bytes = with_root(&texts).bytes();
    assert_eq!(infer(&bytes), Some("vulkan-spirv-bda-raw"));
    let image = Image::read("vulkan-spirv-bda-raw", &bytes).unwrap();
    let [function] = &image.functions()[..] else { panic!("one function") };
    assert_eq!((function.binding_count(), function.constant_count), (Some(2), Some(3)));
    assert_eq!(image.pipeline_layouts[0].push_constant_bytes(), 44);
    let Dispatch::Addresses(layout) = &image.pipelines[0].dispatch else { panic!("addresses") };
    let none = BindingRequirement { alignment: 1, length: 0 };
    assert_eq!(*layout.requirements, [none, BindingRequirement { alignment: 16, length: 1024 }]);
    let bare = Image::read("vulkan-spirv-bda-raw", &with_root(&[]).bytes()).unwrap();
    let Dispatch::Addresses(layout) = &bare.pipelines[0].dispatch else { panic!("addresses") };
    assert_eq!(layout.binding_count, None);
}

#[test]
fn malformed_metadata_is_rejected() {
    let cases: [(&[&str], &str); 8] = [
        (&["iree.vulkan.bda.v1.bindings=2", "iree.vulkan.bda.v1.bindings=2"], "each field once"),
        (&["iree.vulkan.bda.v1.bindings=70000"], "a decimal number in range"),
        (&["iree.vulkan.bda.v1.bindings=+2"], "a decimal number in range"),
        (&["iree.vulkan.bda.v1.root=4,32"], "a root of 32 bytes at 0"),
        (
            &["iree.vulkan.bda.v1.constants=1", "iree.vulkan.bda.v1.constant_offset=28"],
            "constants after the root",
        ),
        (&["iree.vulkan.bda.v1.binding.0=3,0", "iree.vulkan.bda.v1.bindings=1"], "a power of two"),
        (
            &["iree.vulkan.bda.v1.binding.1=4,0", "iree.vulkan.bda.v1.bindings=1"],
            "a binding below the number",
        ),
        (&["iree.vulkan.bda.v1.colour=blue"], "expected root, constant_offset"),
    ];
    for (texts, expected) in cases {
        let error = Image::read("vulkan-spirv-bda-raw", &with_root(texts).bytes()).unwrap_err();
        assert!(error.message().contains(expected), "{texts:?}: {}", error.message());
    }
}

#[test]
fn a_module_without_a_root_takes_no_addresses() {
    let module = Module::for_addresses().entry(20, "main").types().function(20, |body| body);
    let error = Image::read("vulkan-spirv-bda-raw", &module.bytes()).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented);
    assert!(error.message().contains("one variable with the root"), "{}", error.message());
    let descriptors = Module::for_descriptors().entry(20, "main").types().function(20, |body| body);
    let error = Image::read("vulkan-spirv-bda-raw", &descriptors.bytes()).unwrap_err();
    assert!(error.message().contains("PhysicalStorageBufferAddresses"), "{}", error.message());
}

#[test]
fn the_root_has_the_layout_of_the_abi() {
    let root = Root { bindings: 0x1122_3344_5566_7788, constants: 2, binding_base: 3, constant_base: 4 };
    let bytes = root.to_bytes();
    assert_eq!(bytes[..8], 0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!((bytes[8], bytes[16], bytes[20]), (2, 3, 4));
    assert_eq!(bytes[24..], [0; 8]);
}

/// A device that supports what a function says.
struct Device<F>(F);

impl<F: Fn(Feature) -> bool> ShaderSupport for Device<F> {
    fn supports(&self, feature: Feature) -> bool {
        (self.0)(feature)
    }

    fn spirv_version(&self) -> (u8, u8) {
        (1, 5)
    }

    fn subgroup_sizes(&self) -> Option<RangeInclusive<u32>> {
        None
    }
}

#[test]
fn a_device_is_refused_by_the_name_of_what_it_lacks() {
    let lacks = |module: &Module, missing: Feature| {
        let shader = shader(module);
        let error = shader.check_device(&Device(|feature| feature != missing)).err();
        error.map(|error| {
            assert_eq!(error.code(), StatusCode::Unavailable);
            error.message().to_owned()
        })
    };
    let plain = Module::for_descriptors();
    let with = |capability: Capability| Module::for_descriptors().op(Op::Capability, &[capability as u32]);
    assert_eq!(lacks(&plain, Feature::ShaderInt64), None);
    assert_eq!(
        lacks(&with(Capability::Int64), Feature::ShaderInt64).unwrap(),
        "the device lacks shaderInt64"
    );
    assert_eq!(
        lacks(&with(Capability::GroupNonUniformArithmetic), Feature::SubgroupArithmetic).unwrap(),
        "the device lacks VK_SUBGROUP_FEATURE_ARITHMETIC_BIT"
    );
    assert_eq!(
        lacks(&with(Capability::StorageBuffer16BitAccess), Feature::StorageBuffer16BitAccess).unwrap(),
        "the device lacks storageBuffer16BitAccess"
    );
    // One of two suffices.
    assert_eq!(lacks(&with(Capability::Int64Atomics), Feature::ShaderBufferInt64Atomics), None);
    // Nothing of the driver enables these.
    assert_eq!(
        lacks(&with(Capability::RayTracingKHR), Feature::ShaderInt64).unwrap(),
        "the device lacks SPIR-V capability RayTracingKHR"
    );
    let unknown = Module::for_descriptors().op(Op::Capability, &[9_999_999]);
    assert_eq!(lacks(&unknown, Feature::ShaderInt64).unwrap(), "the device lacks SPIR-V capability 9999999");
    let extension = Module::for_descriptors().op_text(Op::Extension, &[], "SPV_NV_mesh_shader");
    assert_eq!(
        lacks(&extension, Feature::ShaderInt64).unwrap(),
        "the device lacks SPIR-V extension SPV_NV_mesh_shader"
    );
    let mut newer = Module::for_descriptors();
    newer.words[1] = 0x0001_0600;
    assert_eq!(lacks(&newer, Feature::ShaderInt64).unwrap(), "the device lacks SPIR-V 1.6 (it has 1.5)");
    let sized = Module::for_descriptors()
        .op(Op::ExecutionModeId, &[20, ExecutionMode::LocalSizeId as u32, 30, 30, 30]);
    assert_eq!(lacks(&sized, Feature::Maintenance4).unwrap(), "the device lacks maintenance4");
    let mode = plain.op(Op::ExecutionMode, &[20, ExecutionMode::DenormPreserve as u32, 64]);
    assert_eq!(
        lacks(&mode, Feature::DenormPreserveFloat64).unwrap(),
        "the device lacks shaderDenormPreserveFloat64"
    );
}

#[test]
fn names_of_features_are_unique() {
    let mut names: Vec<_> = Feature::ALL.iter().map(|feature| feature.name()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn images_are_not_buffers() {
    let module = Module::for_descriptors()
        .entry(20, "main")
        .types()
        .op(Op::TypeSampler, &[9])
        .op(Op::TypePointer, &[10, StorageClass::UniformConstant as u32, 9])
        .place(30, 0, 0)
        .op(Op::Variable, &[10, 30, StorageClass::UniformConstant as u32])
        .function(20, |body| body.op(Op::Load, &[9, 40, 30]));
    assert_eq!(shader(&module).entry_point("main").unwrap().resources[0].kind, ResourceKind::Other);
    let error = Image::read("vulkan-spirv-raw", &module.bytes()).unwrap_err();
    assert!(error.message().contains("expected buffers"), "{}", error.message());
}

/// A module with a specialization constant of `bits`.
fn specialized(bits: u32) -> Vec<u8> {
    let module = Module::for_descriptors()
        .entry(20, "main")
        .op(Op::Decorate, &[10, Decoration::SpecId as u32, 0])
        .types()
        .op(Op::TypeInt, &[9, bits, 0])
        .op(Op::SpecConstant, &[9, 10, 1, 0])
        .function(20, |body| body);
    module.bytes()
}

#[test]
fn constants_must_fit_what_they_specialize() {
    for bits in [8, 16, 64] {
        let image = Image::read("vulkan-spirv-raw", &specialized(bits)).unwrap();
        assert!(image.check_constants(&[]).is_ok());
        let error = image.check_constants(&[1]).unwrap_err();
        let expected =
            format!("specialization constant 0 of the executable has {bits} bits; constants have 32");
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn numbers_have_the_widths_of_vulkan() {
    for bits in [0, 1, 12, 33, 128, 256, u32::MAX] {
        // As drivers do: the constants are checked after the module is read.
        let image = Image::read("vulkan-spirv-raw", &specialized(bits));
        let error = image.and_then(|image| image.check_constants(&[1])).unwrap_err();
        let expected = format!("expected numbers of 8, 16, 32 or 64 bits, found {bits}");
        assert!(error.message().contains(&expected), "{}", error.message());
    }
}

#[test]
fn shared_memory_is_counted_for_each_entry_point() {
    let workgroup = StorageClass::Workgroup as u32;
    let module = |version| {
        let mut module = Module::for_descriptors();
        module.words[1] = version;
        module
            .op_text(Op::EntryPoint, &[5, 20], "first")
            // The interface follows the name: "second" and its end are two words.
            .op(
                Op::EntryPoint,
                &[5, 21, u32::from_le_bytes(*b"seco"), u32::from_le_bytes(*b"nd\0\0"), 61, 62],
            )
            .op(Op::Decorate, &[50, Decoration::SpecId as u32, 1])
            .types()
            .op(Op::SpecConstant, &[3, 50, 10])
            .op(Op::Constant, &[3, 51, 6])
            .op(Op::TypeArray, &[52, 3, 50])
            .op(Op::TypeArray, &[53, 52, 51])
            .op(Op::TypePointer, &[54, workgroup, 53])
            .op(Op::TypeVector, &[55, 3, 4])
            .op(Op::TypeArray, &[56, 55, 51])
            .op(Op::TypePointer, &[57, workgroup, 56])
            .op(Op::TypePointer, &[58, workgroup, 3])
            .op(Op::Variable, &[54, 61, workgroup])
            .op(Op::Variable, &[57, 62, workgroup])
            .op(Op::Variable, &[57, 63, workgroup])
            .function(20, |body| body)
            .function(21, |body| {
                body.op(Op::AccessChain, &[58, 70, 61, 8, 8]).op(Op::AccessChain, &[58, 71, 62, 8, 8])
            })
    };
    for version in [0x0001_0300, 0x0001_0500] {
        let shader = shader(&module(version));
        let total =
            |entry, constants: &[u32]| shader.entry_point(entry).unwrap().shared_memory.total(constants);
        assert_eq!(total("first", &[]), 0);
        // 6 times 10 words, and 6 vectors.
        assert_eq!(total("second", &[]), 240 + 96);
        assert_eq!(total("second", &[0, 100]), 2400 + 96);
        assert_eq!(total("second", &[0, u32::MAX]), 24 * u64::from(u32::MAX) + 96);
    }
}
