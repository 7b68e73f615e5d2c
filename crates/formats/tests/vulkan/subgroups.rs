//! The subgroup sizes that code is compiled for.

use rehal_formats::vulkan::{Image, Shader};
use spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, GroupOperation,
    MemoryModel, Op, Scope, StorageClass,
};

use crate::assembler::Module;
use crate::fixtures::{embedded, executables};

const U32: u32 = 1;
const UVEC3: u32 = 2;
const INVOCATION: u32 = 3;
const INDEX: u32 = 4;
const SIZE: u32 = 5;
const SUBGROUP: u32 = 6;
const ENTRY: u32 = 10;
const X: u32 = 11;
const VALUE: u32 = 12;
const LABEL: u32 = 20;
const FUNCTION: u32 = 21;
const VOID: u32 = 22;
/// Ids of constants: that of `n` is `CONSTANT + n`.
const CONSTANT: u32 = 100;

/// An entry point with workgroups of this size, whose body `write` adds to. `X` is the first component of an
/// invocation's id.
fn kernel(size: [u32; 3], write: impl FnOnce(Module) -> Module) -> Shader {
    let [x, y, z] = size;
    let mut module = Module::new()
        .op(Op::Capability, &[Capability::GroupNonUniformArithmetic as u32])
        .op(Op::Capability, &[Capability::GroupNonUniformShuffle as u32])
        .op(Op::MemoryModel, &[AddressingModel::Logical as u32, MemoryModel::GLSL450 as u32])
        .op_text(Op::EntryPoint, &[ExecutionModel::GLCompute as u32, ENTRY], "main")
        .op(Op::ExecutionMode, &[ENTRY, ExecutionMode::LocalSize as u32, x, y, z])
        .op(Op::Decorate, &[INVOCATION, Decoration::BuiltIn as u32, BuiltIn::LocalInvocationId as u32])
        .op(Op::Decorate, &[INDEX, Decoration::BuiltIn as u32, BuiltIn::LocalInvocationIndex as u32])
        .op(Op::Decorate, &[SIZE, Decoration::BuiltIn as u32, BuiltIn::SubgroupSize as u32])
        .op(Op::TypeVoid, &[VOID])
        .op(Op::TypeFunction, &[FUNCTION, VOID])
        .op(Op::TypeInt, &[U32, 32, 0])
        .op(Op::TypeVector, &[UVEC3, U32, 3])
        .op(Op::TypePointer, &[30, StorageClass::Input as u32, UVEC3])
        .op(Op::TypePointer, &[31, StorageClass::Input as u32, U32])
        .op(Op::Variable, &[30, INVOCATION, StorageClass::Input as u32])
        .op(Op::Variable, &[31, INDEX, StorageClass::Input as u32])
        .op(Op::Variable, &[31, SIZE, StorageClass::Input as u32])
        .op(Op::Constant, &[U32, SUBGROUP, Scope::Subgroup as u32]);
    for value in 0..=64 {
        module = module.op(Op::Constant, &[U32, CONSTANT + value, value]);
    }
    module = module
        .op(Op::Function, &[VOID, ENTRY, 0, FUNCTION])
        .op(Op::Label, &[LABEL])
        .op(Op::Load, &[UVEC3, 13, INVOCATION])
        .op(Op::CompositeExtract, &[U32, X, 13, 0])
        .op(Op::CopyObject, &[U32, VALUE, CONSTANT]);
    let module = write(module).op(Op::Return, &[]).op(Op::FunctionEnd, &[]);
    Shader::read(module.words, 0).unwrap()
}

fn sum(module: Module) -> Module {
    module.op(Op::GroupNonUniformIAdd, &[U32, 40, SUBGROUP, GroupOperation::Reduce as u32, VALUE])
}

fn barrier(module: Module) -> Module {
    module.op(Op::ControlBarrier, &[CONSTANT + 2, CONSTANT + 2, CONSTANT])
}

/// The sizes from 1 to 128 with which it works; all, if it says nothing.
fn works_with(shader: &Shader) -> Vec<u32> {
    let sizes = shader.subgroup_sizes("main", &[]);
    (0..8).map(|bit| 1 << bit).filter(|size| sizes.as_ref().is_none_or(|it| it.contains(*size))).collect()
}

const ANY: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

#[test]
fn a_workgroup_may_be_one_subgroup() {
    assert_eq!(works_with(&kernel([32, 1, 1], sum)), [32, 64, 128]);
    assert_eq!(works_with(&kernel([48, 1, 1], sum)), [64, 128]);
    // Or one of its rows.
    assert_eq!(works_with(&kernel([16, 4, 1], sum)), [16, 32, 64, 128]);
    assert_eq!(works_with(&kernel([1, 1, 1], sum)), ANY);
}

#[test]
fn quotient_and_remainder_show_several_subgroups() {
    let divided = |module: Module, ops: [Op; 2], operands: [u32; 2]| {
        let module = module.op(ops[0], &[U32, 50, X, CONSTANT + operands[0]]);
        barrier(sum(module.op(ops[1], &[U32, 51, X, CONSTANT + operands[1]])))
    };
    for (ops, operands) in [
        ([Op::UDiv, Op::UMod], [16, 16]),
        ([Op::SDiv, Op::SRem], [16, 16]),
        ([Op::ShiftRightLogical, Op::BitwiseAnd], [4, 15]),
    ] {
        assert_eq!(works_with(&kernel([64, 1, 1], |it| divided(it, ops, operands))), [16], "{ops:?}");
    }
    // By the size of the workgroup: there is one.
    let by_all = |it| divided(it, [Op::UDiv, Op::UMod], [64, 64]);
    assert_eq!(works_with(&kernel([64, 1, 1], by_all)), [64, 128]);
    // What is divided is not an invocation's id.
    let other = |it: Module| {
        let it = it.op(Op::UDiv, &[U32, 50, VALUE, CONSTANT + 16]);
        barrier(sum(it.op(Op::UMod, &[U32, 51, VALUE, CONSTANT + 16])))
    };
    assert_eq!(works_with(&kernel([64, 1, 1], other)), [64, 128]);
    // Of quotients alone, none is certain.
    let quotient = |it: Module| sum(it.op(Op::UDiv, &[U32, 50, X, CONSTANT + 16]));
    assert_eq!(works_with(&kernel([64, 1, 1], quotient)), [16, 64, 128]);
}

#[test]
fn operations_need_as_many_invocations_as_they_name() {
    let shuffle =
        |op: Op, operand: u32| move |it: Module| it.op(op, &[U32, 40, SUBGROUP, VALUE, CONSTANT + operand]);
    let least = |op, operand| works_with(&kernel([64, 1, 1], shuffle(op, operand)))[0];
    assert_eq!(least(Op::GroupNonUniformShuffleXor, 1), 2);
    assert_eq!(least(Op::GroupNonUniformShuffleXor, 16), 32);
    assert_eq!(least(Op::GroupNonUniformShuffle, 0), 1);
    assert_eq!(least(Op::GroupNonUniformShuffle, 15), 16);
    assert_eq!(least(Op::GroupNonUniformShuffleDown, 8), 16);
    let clustered = GroupOperation::ClusteredReduce as u32;
    let clusters =
        |it: Module| it.op(Op::GroupNonUniformIAdd, &[U32, 40, SUBGROUP, clustered, VALUE, CONSTANT + 8]);
    assert_eq!(works_with(&kernel([64, 1, 1], clusters))[0], 8);
}

#[test]
fn code_that_adapts_works_with_any_size() {
    let asks = |it: Module| sum(it.op(Op::Load, &[U32, 50, SIZE]));
    assert_eq!(works_with(&kernel([64, 1, 1], asks)), ANY);
    let elects = |it: Module| sum(it.op(Op::GroupNonUniformElect, &[U32, 50, SUBGROUP]));
    assert_eq!(works_with(&kernel([64, 1, 1], elects)), ANY);
    // As does code without subgroups.
    assert_eq!(works_with(&kernel([64, 1, 1], barrier)), ANY);
    let of_workgroup = |it: Module| {
        it.op(Op::GroupNonUniformIAdd, &[U32, 40, CONSTANT + 2, GroupOperation::Reduce as u32, VALUE])
    };
    assert_eq!(works_with(&kernel([64, 1, 1], of_workgroup)), ANY);
}

#[test]
fn functions_that_are_called_count() {
    let calls = |it: Module| {
        let it = it.op(Op::FunctionCall, &[VOID, 60, 70]).op(Op::Return, &[]).op(Op::FunctionEnd, &[]);
        sum(it.op(Op::Function, &[VOID, 70, 0, FUNCTION]).op(Op::Label, &[71]))
    };
    assert_eq!(works_with(&kernel([32, 1, 1], calls)), [32, 64, 128]);
    let is_not_called = |it: Module| {
        let it = it.op(Op::Return, &[]).op(Op::FunctionEnd, &[]);
        sum(it.op(Op::Function, &[VOID, 70, 0, FUNCTION]).op(Op::Label, &[71]))
    };
    assert_eq!(works_with(&kernel([32, 1, 1], is_not_called)), ANY);
}

#[test]
fn the_size_of_a_compiler_s_target_is_found() {
    let sizes = |bytes: &Vec<u8>| {
        let image = Image::read("vulkan-spirv-fb", bytes).unwrap();
        let [pipeline] = &image.pipelines[..] else { panic!("one function") };
        let sizes = image.shaders[pipeline.shader].subgroup_sizes(&pipeline.entry_point, &[]);
        sizes.map(|it| it.to_string())
    };
    let found: Vec<_> = embedded("subgroups.vmfb").iter().map(sizes).collect();
    assert_eq!(found, [Some("at least 32".to_owned()), Some("32".to_owned()), None]);
    // The default target has no subgroups.
    for (path, bytes) in executables() {
        let image = Image::read(rehal_formats::vulkan::infer(&bytes).unwrap(), &bytes).unwrap();
        for pipeline in &image.pipelines {
            let sizes = image.shaders[pipeline.shader].subgroup_sizes(&pipeline.entry_point, &[]);
            assert_eq!(sizes, None, "{}", path.display());
        }
    }
}
