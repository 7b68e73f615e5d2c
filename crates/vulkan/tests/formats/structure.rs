//! The structure of modules, which is checked before a driver gets them.

use rehal_base::Fault;
use rehal_vulkan::executable::format::{Image, Shader, infer};
use spirv::Op;

use crate::assembler::Module;
use crate::fixtures::{executables, named};

/// The words of a kernel of the pinned release.
fn kernel() -> Vec<u32> {
    let image = Image::read("vulkan-spirv-fb", &named("affine.descriptors.vk1")).unwrap();
    image.shaders[0].words().to_vec()
}

/// The index of the first word of each instruction with this opcode.
fn places(words: &[u32], op: Op) -> Vec<usize> {
    let (mut at, mut found) = (5, Vec::new());
    while at < words.len() {
        if words[at] & 0xFFFF == op as u32 {
            found.push(at);
        }
        at += (words[at] >> 16) as usize;
    }
    found
}

fn accept(words: Vec<u32>) {
    Shader::read(words, 0).unwrap().check_structure().unwrap();
}

/// Why a module is refused.
fn refuse(words: Vec<u32>) -> String {
    let shader = Shader::read(words, 0).expect("the reader accepts it");
    let error = shader.check_structure().expect_err("the structure is checked");
    assert!(matches!(error.fault, Fault::Corrupt | Fault::Truncated | Fault::Unsupported), "{error}");
    error.to_string()
}

/// The kernel with operand `index` of the first instruction with this opcode replaced.
fn altered(op: Op, index: usize, value: u32) -> String {
    let mut words = kernel();
    let at = places(&words, op)[0];
    words[at + 1 + index] = value;
    refuse(words)
}

#[test]
fn modules_of_compilers_have_structure() {
    for (path, bytes) in executables() {
        let image = Image::read(infer(&bytes).unwrap(), &bytes).unwrap();
        image.check_structure().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let module = Module::for_descriptors()
        .entry(100, "f")
        .place(20, 0, 0)
        .types()
        .op(Op::Variable, &[6, 20, spirv::StorageClass::StorageBuffer as u32])
        .function(100, |body| body.load(300, 20));
    Shader::read(module.words, 0).unwrap().check_structure().unwrap();
}

#[test]
fn ids_are_within_the_bound_defined_once_and_used_as_what_they_are() {
    for bound in [0, 0x40_0000, 1 << 23, u32::MAX] {
        let mut words = kernel();
        words[3] = bound;
        let message = format!("id bound: expected 1 to 4194303, found {bound}");
        assert!(refuse(words).ends_with(&message));
    }
    let mut words = kernel();
    words[3] = 0x3F_FFFF;
    accept(words);
    let mut words = kernel();
    words[3] = 2;
    assert!(refuse(words).contains("expected a result id from 1 to 1, found "));
    let message = altered(Op::Name, 0, 0x7fff_ffff);
    assert!(message.ends_with("expected a defined id, found undefined id 2147483647 in OpName"), "{message}");
    assert!(altered(Op::Name, 0, 0).contains("undefined id 0"));
    assert!(altered(Op::EntryPoint, 1, 0x8000_0001).contains("undefined id"));
    let words = kernel();
    let (label, void) = (words[places(&words, Op::Label)[0] + 1], words[places(&words, Op::TypeVoid)[0] + 1]);
    let message = altered(Op::EntryPoint, 1, label);
    let expected = format!("expected the id of an OpFunction, found id {label} (OpLabel) in OpEntryPoint");
    assert!(message.ends_with(&expected), "{message}");
    assert!(altered(Op::AccessChain, 0, void).contains("the id of an OpTypePointer"));
    assert!(altered(Op::AccessChain, 0, label).contains("the id of a type"));
    let message = altered(Op::AccessChain, 2, label);
    assert!(message.contains(&format!("the id of a value, found id {label} (OpLabel)")), "{message}");
    let message = altered(Op::Load, 2, void);
    assert!(message.contains(&format!("the id of a value, found id {void} (OpTypeVoid)")), "{message}");
    assert!(altered(Op::Variable, 0, void).contains("the id of an OpTypePointer"));
    assert!(altered(Op::Function, 3, void).contains("the id of an OpTypeFunction"));
    assert!(altered(Op::Label, 0, void).contains(&format!("duplicate id {void}")));
    let constant = words[places(&words, Op::Constant)[0] + 2];
    let message = altered(Op::Load, 2, constant);
    assert!(message.contains("a value of a pointer type, found id ") && message.contains("(OpTypeInt)"));
}

#[test]
fn indices_are_within_types() {
    let words = kernel();
    let chain = places(&words, Op::AccessChain)[0];
    // The index of the only member of a block.
    let member = words[chain + 4];
    let constant = places(&words, Op::Constant).into_iter().find(|at| words[at + 2] == member).unwrap();
    let mut beyond = words.clone();
    beyond[constant + 3] = 41;
    assert!(refuse(beyond).contains("a member index below 1, found index 41"));
    let mut short = words.clone();
    short.remove(chain + 5);
    short[chain] -= 1 << 16;
    let message = refuse(short);
    assert!(message.contains("expected indices that reach type "), "{message}");
    assert!(message.contains(", the type that the result points to, found indices that reach type "));
}

/// A module whose function has one instruction, with these types besides those of [`Module::types`]: 9 f32, 10 a vector of 3, 11 a
/// matrix of 2 columns, 12 an array of 4, 13 an array whose length is a specialization constant, 14 a struct of 3, 10, 12, 13 and
/// 11, 15 an array of 3 whose length has 64 bits. Type `n` has a value `n` + 30, and the u32 constants 0 to 9 are 70 to 79.
fn composites(op: Op, operands: &[u32]) -> Vec<u32> {
    let mut module = Module::for_descriptors()
        .entry(100, "f")
        .op(Op::Decorate, &[81, spirv::Decoration::SpecId as u32, 0])
        .types();
    for value in 0..10 {
        module = module.op(Op::Constant, &[3, 70 + value, value]);
    }
    module = module
        .op(Op::SpecConstant, &[3, 81, 4])
        .op(Op::TypeInt, &[82, 64, 0])
        .op(Op::Constant, &[82, 83, 3, 0])
        .op(Op::Constant, &[82, 84, 1, 1])
        .op(Op::TypeFloat, &[9, 32])
        .op(Op::Constant, &[9, 85, 0])
        .op(Op::TypeVector, &[10, 9, 3])
        .op(Op::TypeMatrix, &[11, 10, 2])
        .op(Op::TypeArray, &[12, 3, 74])
        .op(Op::TypeArray, &[13, 3, 81])
        .op(Op::TypeStruct, &[14, 3, 10, 12, 13, 11])
        .op(Op::TypeArray, &[15, 9, 83]);
    for kind in [3].into_iter().chain(9..=15) {
        module = module.op(Op::Undef, &[kind, kind + 30]);
    }
    // Type `n` has a pointer type `n` + 50 and a variable `n` + 100.
    let class = spirv::StorageClass::Private as u32;
    for kind in [3].into_iter().chain(9..=15) {
        module = module.op(Op::TypePointer, &[kind + 50, class, kind]);
        module = module.op(Op::Variable, &[kind + 50, kind + 100, class]);
    }
    module.function(100, |body| body.op(op, operands)).words
}

#[test]
fn extracted_parts_are_in_bounds_and_of_the_result_type() {
    let extract = |result: u32, indices: &[u32]| {
        composites(Op::CompositeExtract, &[&[result, 300, 44][..], indices].concat())
    };
    for (result, indices) in [
        (14, &[][..]),
        (3, &[0]),
        (10, &[1]),
        (9, &[1, 2]),
        (3, &[2, 3]),
        (3, &[3, 9]),
        (10, &[4, 1]),
        (9, &[4, 1, 2]),
    ] {
        accept(extract(result, indices));
    }
    assert!(refuse(extract(3, &[5])).contains("expected a member index below 5, found index 5"));
    assert!(refuse(extract(9, &[1, 3])).contains("expected an index below 3, found index 3"));
    assert!(refuse(extract(10, &[4, 2])).contains("expected an index below 2, found index 2"));
    assert!(refuse(extract(3, &[2, 4])).contains("expected an index below 4, found index 4"));
    assert!(refuse(extract(3, &[0, 0])).contains("indices into a composite type, found id 3 (OpTypeInt)"));
    let message = refuse(extract(3, &[1, 2]));
    let expected = "expected indices that reach type 3, the result type, found indices that reach type 9 in \
                    OpCompositeExtract";
    assert!(message.ends_with(expected), "{message}");
    accept(composites(Op::CompositeExtract, &[9, 300, 45, 2]));
    assert!(refuse(composites(Op::CompositeExtract, &[9, 300, 45, 3])).contains("an index below 3"));
}

#[test]
fn inserted_parts_are_in_bounds_and_of_the_type_of_the_object() {
    let insert = |object: u32, indices: &[u32]| {
        composites(Op::CompositeInsert, &[&[14, 300, object, 44][..], indices].concat())
    };
    for (object, indices) in [
        (44, &[][..]),
        (33, &[0]),
        (40, &[1]),
        (39, &[1, 2]),
        (33, &[2, 3]),
        (33, &[3, 9]),
        (40, &[4, 1]),
        (39, &[4, 1, 2]),
    ] {
        accept(insert(object, indices));
    }
    assert!(refuse(insert(33, &[5])).contains("expected a member index below 5, found index 5"));
    assert!(refuse(insert(39, &[1, 3])).contains("expected an index below 3, found index 3"));
    assert!(refuse(insert(40, &[4, 2])).contains("expected an index below 2, found index 2"));
    assert!(refuse(insert(33, &[2, 4])).contains("expected an index below 4, found index 4"));
    assert!(refuse(insert(33, &[0, 0])).contains("indices into a composite type, found id 3 (OpTypeInt)"));
    let message = refuse(insert(33, &[1, 2]));
    let expected = "expected indices that reach type 3, the type of the object, found indices that reach type 9 in \
                    OpCompositeInsert";
    assert!(message.ends_with(expected), "{message}");
    assert!(refuse(insert(3, &[0])).contains("the id of a value, found id 3 (OpTypeInt)"));
    let message = refuse(composites(Op::CompositeInsert, &[12, 300, 33, 44, 0]));
    assert!(message.contains("a composite of type 12, the result type, found type 14"), "{message}");
    assert!(refuse(composites(Op::CompositeInsert, &[14, 300, 33])).contains("at least 4 operands"));
}

#[test]
fn constant_operations_on_parts_are_in_bounds() {
    let constant = |op: Op, result: u32, operands: &[u32]| {
        let head = [result, 300, op as u32];
        let words = composites(Op::Nop, &[]);
        let function = places(&words, Op::Function)[0];
        let inserted = Module { words: Vec::new() }.op(Op::SpecConstantOp, &[&head[..], operands].concat());
        [&words[..function], &inserted.words, &words[function..]].concat()
    };
    accept(constant(Op::CompositeExtract, 3, &[42, 3]));
    accept(constant(Op::CompositeInsert, 12, &[33, 42, 3]));
    assert!(refuse(constant(Op::CompositeExtract, 3, &[42, 4])).contains("an index below 4, found index 4"));
    assert!(refuse(constant(Op::CompositeInsert, 12, &[33, 42, 4])).contains("an index below 4"));
    assert!(refuse(constant(Op::CompositeInsert, 12, &[39, 42, 3])).contains("the type of the object"));
}

#[test]
fn constant_indices_of_access_chains_are_in_bounds_only_in_structs() {
    for op in [Op::AccessChain, Op::InBoundsAccessChain] {
        let chain = |result: u32, variable: u32, indices: &[u32]| {
            composites(op, &[&[result, 300, variable][..], indices].concat())
        };
        // Of a vector, a matrix and arrays; what is out of bounds may be dead code.
        for (result, variable) in [(59, 110), (60, 111), (53, 112), (53, 113), (59, 115)] {
            for index in [70, 79, 33, 81, 83] {
                accept(chain(result, variable, &[index]));
            }
        }
        accept(chain(53, 114, &[70]));
        accept(chain(53, 114, &[72, 79]));
        assert!(refuse(chain(53, 114, &[75])).contains("a member index below 5, found index 5"));
        for (index, name) in [(33, "OpUndef"), (81, "OpSpecConstant"), (85, "OpConstant")] {
            let message = refuse(chain(53, 114, &[index]));
            let expected =
                format!("an integer OpConstant as the index of a member, found id {index} ({name})");
            assert!(message.contains(&expected), "{message}");
        }
        // 2^32 + 1.
        assert!(refuse(chain(60, 114, &[84])).contains("a member index below 5, found index 4294967297"));
        let message = refuse(chain(53, 114, &[71]));
        assert!(
            message.contains(
                "reach type 3, the type that the result points to, found indices that reach type 10"
            )
        );
    }
}

#[test]
fn text_ends_in_its_instruction_and_need_not_be_utf_8() {
    let with = |text: &[u32]| {
        Module::for_descriptors()
            .entry(100, "f")
            .op(Op::String, &[&[500][..], text].concat())
            .op(Op::Source, &[&[0, 0, 500][..], text].concat())
            .types()
            .function(100, |body| body)
            .words
    };
    // The first byte of a character of two.
    accept(with(&[0x00C3_6161]));
    accept(with(&[0x6161_6161, 0]));
    let message = refuse(with(&[0x6161_6161]));
    assert!(message.ends_with("expected a NUL-terminated string, found no NUL in OpString"), "{message}");
    assert!(refuse(with(&[0, 0])).contains("operands"));
}

#[test]
fn functions_consist_of_blocks() {
    let words = kernel();
    let mut unknown = words.clone();
    let function = places(&words, Op::Function)[0];
    unknown[function] = (5 << 16) | 2102;
    let message = refuse(unknown);
    let expected = "unsupported SPIR-V module: opcode: expected an opcode of the SPIR-V grammar, found unknown opcode 2102";
    assert_eq!(message, expected);
    let mut open = words.clone();
    let end = places(&words, Op::FunctionEnd)[0];
    open.remove(end);
    assert!(refuse(open).contains("expected OpFunctionEnd, found the end of the module"));
    let mut unlabelled = words.clone();
    let label = places(&words, Op::Label)[0];
    unlabelled.drain(label..label + 2);
    assert!(refuse(unlabelled).contains("before the first block of a function"));
    let mut unterminated = words.clone();
    unterminated.remove(places(&words, Op::Return)[0]);
    assert!(refuse(unterminated).contains("found OpFunctionEnd in a block"));
    let mut between = words.clone();
    between.insert(end, (1 << 16) | Op::Return as u32);
    assert!(refuse(between).contains("found OpReturn between blocks"));
    let mut outside = words.clone();
    outside.push((1 << 16) | Op::Return as u32);
    let message = refuse(outside);
    assert!(
        message
            .ends_with("layout: expected a declaration or OpFunction, found OpReturn outside of a function")
    );
    let mut long = words;
    let at = places(&long, Op::Return)[0];
    long[at] += 1 << 16;
    long.insert(at + 1, 1);
    assert!(refuse(long).contains("0 operands"));
}

#[test]
fn parameters_precede_blocks() {
    let module = |first: &[(Op, &[u32])], last: &[(Op, &[u32])]| {
        let add = |module: Module, rest: &[(Op, &[u32])]| {
            rest.iter().fold(module, |module, (op, operands)| module.op(*op, operands))
        };
        let module = Module::for_descriptors()
            .entry(100, "f")
            .types()
            .function(100, |body| body)
            .op(Op::TypeFunction, &[9, 1, 3, 3]);
        let module = add(module.op(Op::Function, &[1, 101, 0, 9]), first);
        let module = module.op(Op::Label, &[102]).op(Op::Return, &[]);
        add(module, last).op(Op::FunctionEnd, &[]).words
    };
    let parameters: [(Op, &[u32]); 2] =
        [(Op::FunctionParameter, &[3, 103]), (Op::FunctionParameter, &[3, 104])];
    accept(module(&parameters, &[]));
    accept(module(&parameters, &[(Op::Label, &[105]), (Op::Unreachable, &[])]));
    let message = refuse(module(&parameters[..1], &[]));
    assert!(message.ends_with("expected 2 parameters of function 101, found 1 in OpLabel"), "{message}");
    let more: (Op, &[u32]) = (Op::FunctionParameter, &[3, 105]);
    let message = refuse(module(&[parameters[0], parameters[1], more], &[]));
    assert!(message.ends_with("expected 2 parameters of function 101, found more in OpFunctionParameter"));
    let message = refuse(module(&[parameters[0], (Op::FunctionParameter, &[6, 104])], &[]));
    assert!(message.contains("expected type 3, the type of the parameter, found type 6"), "{message}");
    let message = refuse(module(&parameters, &[more]));
    assert!(
        message.ends_with("expected OpLabel or OpFunctionEnd, found OpFunctionParameter between blocks"),
        "{message}"
    );
}

#[test]
fn branches_go_to_labels_and_cases_are_as_wide_as_the_selector() {
    let module = |bits: u32, default: u32, cases: &[u32]| {
        let cases = [&[301, default][..], cases].concat();
        Module::for_descriptors()
            .entry(100, "f")
            .types()
            .op(Op::TypeInt, &[13, bits, 0])
            .op(Op::Constant, if bits == 64 { &[13, 301, 0, 0] } else { &[13, 301, 0] })
            .op(Op::TypeFloat, &[14, 32])
            .op(Op::Function, &[1, 100, 0, 2])
            .op(Op::Label, &[599])
            .op(Op::SelectionMerge, &[600, 0])
            .op(Op::Switch, &cases)
            .op(Op::Label, &[600])
            .op(Op::Return, &[])
            .op(Op::FunctionEnd, &[])
            .words
    };
    accept(module(32, 600, &[7, 600, 8, 600]));
    accept(module(64, 600, &[7, 0, 600]));
    accept(module(32, 600, &[]));
    let message = refuse(module(32, 600, &[7, 14]));
    assert!(
        message.ends_with("expected the id of an OpLabel, found id 14 (OpTypeFloat) in OpSwitch"),
        "{message}"
    );
    for cases in [&[7, 600][..], &[]] {
        assert!(refuse(module(32, 14, cases)).contains("the id of an OpLabel, found id 14 (OpTypeFloat)"));
    }
    assert!(refuse(module(32, 600, &[7])).contains("at least 4 operands"));
    assert!(refuse(module(64, 600, &[7, 600])).contains("at least 5 operands"));
}
