//! The interfaces of entry points, which are checked before a driver gets a module.

use rehal_vulkan::executable::format::Shader;
use spirv::{ExecutionMode, ExecutionModel, Op, StorageClass};

use crate::assembler::Module;

/// The words of a module of this version of SPIR-V, whose entry points, with these variables in their interfaces, are functions of
/// the same ids. Variables: 20 and 21 are buffers, 22 is an input, 23 is private.
fn module(minor: u32, entries: &[(u32, &[u32])], functions: impl FnOnce(Module) -> Module) -> Vec<u32> {
    let mut module = Module::for_descriptors();
    module.words[1] = 0x0001_0000 | minor << 8;
    let capability = module.words.len() - 3;
    let ext = Module::new().op_text(Op::Extension, &[], "SPV_KHR_non_semantic_info").op_text(
        Op::ExtInstImport,
        &[90],
        "NonSemantic.Test",
    );
    // Before the memory model.
    module.words.splice(capability..capability, ext.words[7..].iter().copied());
    for (id, interface) in entries {
        let name = u32::from_le_bytes([b'e', b'0' + (id % 10) as u8, 0, 0]);
        let operands = [&[ExecutionModel::GLCompute as u32, *id, name][..], interface].concat();
        module = module.op(Op::EntryPoint, &operands);
    }
    for (id, _) in entries {
        module = module.op(Op::ExecutionMode, &[*id, ExecutionMode::LocalSize as u32, 1, 1, 1]);
    }
    let module = module
        .op_text(Op::Name, &[20], "weights")
        .op_text(Op::Name, &[22], "")
        .place(20, 0, 0)
        .place(21, 0, 1)
        .types()
        .op(Op::TypePointer, &[10, StorageClass::Input as u32, 3])
        .op(Op::TypePointer, &[11, StorageClass::Private as u32, 3])
        .op(Op::TypePointer, &[12, StorageClass::Function as u32, 3])
        .op(Op::Variable, &[6, 20, StorageClass::StorageBuffer as u32])
        .op(Op::Variable, &[6, 21, StorageClass::StorageBuffer as u32])
        .op(Op::Variable, &[10, 22, StorageClass::Input as u32])
        .op(Op::Variable, &[11, 23, StorageClass::Private as u32]);
    functions(module).words
}

fn check(words: Vec<u32>) -> Result<(), String> {
    let shader = Shader::read(words, 0).expect("the reader accepts it");
    shader.check_structure().map_err(|error| error.to_string())
}

fn refused(words: Vec<u32>, end: &str) {
    let message = check(words).unwrap_err();
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn interfaces_have_all_variables_since_version_1_4() {
    let uses = |module: Module| module.function(100, |body| body.load(300, 20).store(302, 21));
    for minor in [4, 5, 6] {
        check(module(minor, &[(100, &[21, 20])], uses)).unwrap();
        check(module(minor, &[(100, &[20, 21, 22, 23])], uses)).unwrap();
        refused(
            module(minor, &[(100, &[21])], uses),
            "interface: expected entry point 'e0' to list the variables that it uses, found no 'weights' (StorageBuffer, id 20)",
        );
        refused(module(minor, &[(100, &[20])], uses), "found no variable (StorageBuffer, id 21)");
        refused(module(minor, &[(100, &[])], uses), "found no 'weights' (StorageBuffer, id 20) and 1 more");
    }
    check(module(3, &[(100, &[])], uses)).unwrap();
}

#[test]
fn interfaces_have_inputs_in_every_version() {
    let uses = |module: Module| {
        module.function(100, |body| body.op(Op::Load, &[3, 300, 22]).op(Op::Load, &[3, 301, 23]))
    };
    refused(module(0, &[(100, &[])], uses), "found no variable (Input, id 22)");
    check(module(0, &[(100, &[22])], uses)).unwrap();
    refused(module(4, &[(100, &[22])], uses), "found no variable (Private, id 23)");
    check(module(4, &[(100, &[22, 23])], uses)).unwrap();
}

#[test]
fn what_called_functions_use_belongs_to_the_interfaces_of_their_callers() {
    let functions = |module: Module| {
        module
            .function(100, |body| body.op(Op::FunctionCall, &[1, 400, 102]))
            .function(101, |body| body.load(310, 21))
            .function(102, |body| body.op(Op::FunctionCall, &[1, 401, 103]))
            // Functions that call each other are invalid, and must not be followed forever.
            .function(103, |body| body.load(320, 20).op(Op::FunctionCall, &[1, 402, 102]))
    };
    check(module(4, &[(100, &[20]), (101, &[21])], functions)).unwrap();
    refused(
        module(4, &[(100, &[21]), (101, &[21])], functions),
        "entry point 'e0' to list the variables that it uses, found no 'weights' (StorageBuffer, id 20)",
    );
    refused(
        module(4, &[(100, &[20]), (101, &[20])], functions),
        "entry point 'e1' to list the variables that it uses, found no variable (StorageBuffer, id 21)",
    );
}

#[test]
fn the_initializer_of_a_variable_belongs_to_the_interface() {
    let functions = |module: Module| {
        module
            .op(Op::TypePointer, &[13, StorageClass::Private as u32, 6])
            .op(Op::Variable, &[13, 24, StorageClass::Private as u32, 20])
            .function(100, |body| body.op(Op::Load, &[6, 300, 24]))
    };
    refused(module(4, &[(100, &[24])], functions), "found no 'weights' (StorageBuffer, id 20)");
    check(module(4, &[(100, &[20, 24])], functions)).unwrap();
}

#[test]
fn names_literals_local_variables_and_debug_information_do_not_count() {
    let functions = |module: Module| {
        module.function(100, |body| {
            body.op(Op::Variable, &[12, 300, StorageClass::Function as u32])
                // Alignment 20 is not variable 20.
                .op(Op::Load, &[3, 301, 300, 2, 20])
                .op(Op::ExtInst, &[1, 302, 90, 1, 21])
        })
    };
    check(module(4, &[(100, &[])], functions)).unwrap();
    refused(
        module(4, &[(100, &[300])], functions),
        "to list only global variables, found id 300 (OpVariable)",
    );
    refused(
        module(4, &[(100, &[20, 8])], functions),
        "to list only global variables, found id 8 (OpConstant)",
    );
}

#[test]
fn many_entry_points_that_share_functions_are_refused_in_linear_time() {
    let count = 2000;
    let entries: Vec<(u32, &[u32])> = (0..count).map(|index| (1000 + index, &[][..])).collect();
    let mut names = Module::for_descriptors();
    names.words[3] = 100_000;
    for (id, _) in &entries {
        names = names.op_text(Op::EntryPoint, &[ExecutionModel::GLCompute as u32, *id], &format!("e{id}"));
    }
    let mut module = names.types().op(Op::TypePointer, &[10, StorageClass::Private as u32, 3]);
    for id in 0..count {
        module = module.op(Op::Variable, &[10, 10_000 + id, StorageClass::Private as u32]);
    }
    module = module.function(100, |mut body| {
        for id in 0..count {
            body = body.op(Op::Load, &[3, 20_000 + id, 10_000 + id]);
        }
        body
    });
    for (id, _) in &entries {
        let label = 40_000 + id;
        module = module
            .op(Op::Function, &[1, *id, 0, 2])
            .op(Op::Label, &[label])
            .op(Op::FunctionCall, &[1, 50_000 + id, 100])
            .op(Op::Return, &[])
            .op(Op::FunctionEnd, &[]);
    }
    // They need not list them, but each has to be searched for inputs.
    refused(module.words, "to refer to at most 4 times the module's words, with the others, found more");
}
