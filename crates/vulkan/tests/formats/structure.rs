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
    for bound in [0, 1 << 23, u32::MAX] {
        let mut words = kernel();
        words[3] = bound;
        assert!(refuse(words).contains("bound of ids"));
    }
    let mut words = kernel();
    words[3] = 2;
    assert!(refuse(words).contains("ids from 1 to 1"));
    assert!(altered(Op::Name, 0, 0x7fff_ffff).contains("ids that are defined"));
    assert!(altered(Op::Name, 0, 0).contains("ids that are defined"));
    assert!(altered(Op::EntryPoint, 1, 0x8000_0001).contains("ids that are defined"));
    let words = kernel();
    let (label, void) = (words[places(&words, Op::Label)[0] + 1], words[places(&words, Op::TypeVoid)[0] + 1]);
    assert!(altered(Op::EntryPoint, 1, label).contains("the id of an OpFunction"));
    assert!(altered(Op::AccessChain, 0, void).contains("the id of an OpTypePointer"));
    assert!(altered(Op::AccessChain, 0, label).contains("the id of a type"));
    assert!(altered(Op::AccessChain, 2, label).contains("ids that are defined"), "a label has no type");
    assert!(altered(Op::Load, 2, void).contains("ids that are defined"), "a type has no type");
    assert!(altered(Op::Variable, 0, void).contains("the id of an OpTypePointer"));
    assert!(altered(Op::Function, 3, void).contains("the id of an OpTypeFunction"));
    assert!(altered(Op::Label, 0, void).contains("an id that is not defined yet"));
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
    assert!(refuse(beyond).contains("the constant index of one of 1 members"));
    let mut short = words.clone();
    short.remove(chain + 5);
    short[chain] -= 1 << 16;
    assert!(refuse(short).contains("indices of a part of type"));
    let extract = Module::for_descriptors()
        .entry(100, "f")
        .types()
        .op(Op::TypeVector, &[11, 3, 3])
        .op(Op::ConstantComposite, &[11, 12, 8, 8, 8]);
    let body =
        |index| extract.clone().function(100, |body| body.op(Op::CompositeExtract, &[3, 300, 12, index]));
    Shader::read(body(2).words, 0).unwrap().check_structure().unwrap();
    assert!(refuse(body(3).words).contains("an index below 3"));
}

#[test]
fn functions_consist_of_blocks() {
    let words = kernel();
    let mut unknown = words.clone();
    let function = places(&words, Op::Function)[0];
    unknown[function] = (5 << 16) | 2102;
    assert!(refuse(unknown).contains("opcode"));
    let mut open = words.clone();
    let end = places(&words, Op::FunctionEnd)[0];
    open.remove(end);
    assert!(refuse(open).contains("OpFunctionEnd"));
    let mut unlabelled = words.clone();
    let label = places(&words, Op::Label)[0];
    unlabelled.drain(label..label + 2);
    assert!(refuse(unlabelled).contains("one between blocks"));
    let mut unterminated = words.clone();
    unterminated.remove(places(&words, Op::Return)[0]);
    assert!(refuse(unterminated).contains("one in a block"));
    let mut outside = words.clone();
    outside.push((1 << 16) | Op::Return as u32);
    assert!(refuse(outside).contains("one outside of functions"));
    let mut long = words;
    let at = places(&long, Op::Return)[0];
    long[at] += 1 << 16;
    long.insert(at + 1, 1);
    assert!(refuse(long).contains("0 operands"));
}

#[test]
fn branches_go_to_labels_and_cases_are_as_wide_as_the_selector() {
    let module = |bits: u32, cases: &[u32]| {
        let cases = [&[301, 600][..], cases].concat();
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
    Shader::read(module(32, &[7, 600, 8, 600]), 0).unwrap().check_structure().unwrap();
    Shader::read(module(64, &[7, 0, 600]), 0).unwrap().check_structure().unwrap();
    assert!(refuse(module(32, &[7, 14])).contains("the id of an OpLabel"));
    assert!(refuse(module(32, &[7])).contains("at least 4 operands"));
    assert!(refuse(module(64, &[7, 600])).contains("at least 5 operands"));
}
