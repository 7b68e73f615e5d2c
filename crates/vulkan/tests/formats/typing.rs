//! The types of values, which are checked before a driver gets a module.

use rehal_vulkan::executable::format::Shader;
use spirv::{Op, StorageClass};

use crate::assembler::Module;

/// Instructions.
type Code<'a> = &'a [(Op, &'a [u32])];

/// A module with declarations and a body of its entry point. Besides the types of [`Module::types`]: 9 f32, 10 function from u32
/// to f32, 11 pointer to a variable of a function, 12 vector of 2 u32, 13 1.0, 14 the function, 15 vector of 2 f32.
fn module(declarations: Code<'_>, body: Code<'_>) -> Vec<u32> {
    let add = |module: Module, code: Code<'_>| {
        code.iter().fold(module, |module, (op, operands)| module.op(*op, operands))
    };
    let module = Module::for_descriptors()
        .entry(100, "e")
        .place(20, 0, 0)
        .types()
        .op(Op::TypeFloat, &[9, 32])
        .op(Op::TypeFunction, &[10, 9, 3])
        .op(Op::TypePointer, &[11, StorageClass::Function as u32, 3])
        .op(Op::TypeVector, &[12, 3, 2])
        .op(Op::Constant, &[9, 13, 0x3f80_0000])
        .op(Op::TypeVector, &[15, 9, 2])
        .op(Op::Variable, &[6, 20, StorageClass::StorageBuffer as u32]);
    let module = add(module, declarations)
        .op(Op::Function, &[9, 14, 0, 10])
        .op(Op::FunctionParameter, &[3, 16])
        .op(Op::Label, &[17])
        .op(Op::ReturnValue, &[13])
        .op(Op::FunctionEnd, &[]);
    let body = |module| add(module, body);
    module.function(100, |module| body(module.op(Op::AccessChain, &[7, 200, 20, 8, 8]))).words
}

fn check(declarations: Code<'_>, body: Code<'_>) -> Result<(), String> {
    let shader = Shader::read(module(declarations, body), 0).expect("the reader accepts it");
    shader.check_structure().map_err(|error| error.to_string())
}

#[test]
fn values_of_the_right_types_are_accepted() {
    let body: Code<'_> = &[
        (Op::Load, &[3, 201, 200]),
        (Op::FunctionCall, &[9, 202, 14, 201]),
        (Op::FAdd, &[9, 203, 202, 13]),
        (Op::IAdd, &[3, 204, 201, 8]),
        (Op::CopyObject, &[3, 205, 204]),
        (Op::Store, &[200, 205]),
        (Op::ControlBarrier, &[8, 8, 8]),
    ];
    check(&[(Op::ConstantComposite, &[12, 18, 8, 8])], body).unwrap();
}

#[test]
fn values_of_other_types_are_refused() {
    let cases: [(Code<'_>, &str); 18] = [
        (
            &[(Op::Load, &[9, 201, 200])],
            "expected type 3, the type that is pointed to, found type 9 in OpLoad",
        ),
        (&[(Op::Store, &[200, 13])], "expected type 3, the type that is pointed to, found type 9 in OpStore"),
        (
            &[(Op::FunctionCall, &[9, 201, 14])],
            "expected 1 arguments for function 14, found 0 in OpFunctionCall",
        ),
        (&[(Op::FunctionCall, &[9, 201, 14, 8, 8])], "found 2 in OpFunctionCall"),
        (
            &[(Op::FunctionCall, &[9, 201, 14, 13])],
            "expected type 3, the type of the parameter, found type 9",
        ),
        (
            &[(Op::FunctionCall, &[3, 201, 14, 8])],
            "expected type 9, the result type of the function, found type 3",
        ),
        (
            &[(Op::FAdd, &[9, 201, 13, 8])],
            "expected numbers of OpTypeFloat, found id 3 (OpTypeInt) in OpFAdd",
        ),
        (&[(Op::FMul, &[3, 201, 13, 13])], "found id 3 (OpTypeInt) in OpFMul"),
        (&[(Op::FNegate, &[15, 201, 18])], "found id 12 (OpTypeInt) in OpFNegate"),
        (
            &[(Op::IAdd, &[3, 201, 13, 8])],
            "expected numbers of OpTypeInt, found id 9 (OpTypeFloat) in OpIAdd",
        ),
        (&[(Op::CopyObject, &[9, 201, 8])], "expected type 9, the result type, found type 3 in OpCopyObject"),
        (&[(Op::FAdd, &[9, 201, 201, 13])], "found id 201 (OpFAdd) of a later one in OpFAdd"),
        (&[(Op::IAdd, &[3, 201, 16, 8])], "found id 16 (OpFunctionParameter) of function 14 in OpIAdd"),
        (&[(Op::Branch, &[17])], "found id 17 (OpLabel) of function 14 in OpBranch"),
        (
            &[(Op::ControlBarrier, &[13, 8, 8])],
            "expected a constant 32-bit integer, found id 13 (OpConstant)",
        ),
        (&[(Op::Load, &[3, 201, 200]), (Op::ControlBarrier, &[8, 201, 8])], "found id 201 (OpLoad)"),
        (&[(Op::ControlBarrier, &[19, 8, 8])], "expected a scope, found 264 in OpControlBarrier"),
        (&[(Op::ReturnValue, &[8])], "expected type 1, the result type of the function, found type 3"),
    ];
    let declarations: Code<'_> = &[(Op::Constant, &[3, 19, 264]), (Op::ConstantComposite, &[12, 18, 8, 8])];
    for (body, expected) in cases {
        let message = check(declarations, body).unwrap_err();
        assert!(message.contains(expected), "{message}; expected: {expected}");
    }
}

#[test]
fn constants_and_vectors_have_all_parts() {
    let cases: [(Code<'_>, &str); 5] = [
        (&[(Op::ConstantComposite, &[12, 18, 8])], "expected 2 parts, found 1 in OpConstantComposite"),
        (&[(Op::ConstantComposite, &[12, 18, 8, 8, 8])], "expected 2 parts, found 3"),
        (&[(Op::ConstantComposite, &[12, 18, 8, 13])], "expected type 3, the type of the part, found type 9"),
        (&[(Op::TypeVector, &[18, 3, 9])], "expected 2 to 4 components, found 9 in OpTypeVector"),
        (
            &[(Op::TypeStruct, &[18, 3, 9]), (Op::ConstantComposite, &[18, 19, 8, 8])],
            "type 9, the type of the part",
        ),
    ];
    for (declarations, expected) in cases {
        let message = check(declarations, &[]).unwrap_err();
        assert!(message.contains(expected), "{message}; expected: {expected}");
    }
}

#[test]
fn entry_points_take_and_return_nothing() {
    let entry = |function: Code<'_>, body: Code<'_>| {
        let module = Module::for_descriptors()
            .entry(100, "e")
            .types()
            .op(Op::TypeFunction, &[9, 1, 3])
            .op(Op::TypeFunction, &[10, 3]);
        let add = |module: Module, code: Code<'_>| {
            code.iter().fold(module, |module, (op, operands)| module.op(*op, operands))
        };
        let module = add(add(module, function).op(Op::Label, &[101]), body).op(Op::FunctionEnd, &[]);
        Shader::read(module.words, 0).unwrap().check_structure().unwrap_err().to_string()
    };
    let message =
        entry(&[(Op::Function, &[1, 100, 0, 9]), (Op::FunctionParameter, &[3, 102])], &[(Op::Return, &[])]);
    let expected = "expected a function without parameters as entry point 'e', found 1 in OpEntryPoint";
    assert!(message.ends_with(expected), "{message}");
    let message = entry(&[(Op::Function, &[3, 100, 0, 10])], &[(Op::ReturnValue, &[8])]);
    assert!(message.contains("expected the id of an OpTypeVoid, found id 3 (OpTypeInt)"), "{message}");
    let message = entry(&[(Op::Function, &[3, 100, 0, 2])], &[(Op::ReturnValue, &[8])]);
    assert!(message.contains("expected type 1, the result type of the function, found type 3"), "{message}");
}
