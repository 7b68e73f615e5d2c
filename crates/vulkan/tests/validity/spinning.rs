//! A kernel that takes a while.

use spirv::{ExecutionMode, ExecutionModel, Op, StorageClass};

use crate::assembler::Module;

/// A kernel that waits until the first word of its buffer is not 0. llvmpipe ends loops after 65,535
/// iterations, some milliseconds, so that the number of workgroups determines how long it takes.
///
/// A workgroup is a whole vector of llvmpipe, of 8 invocations: it does not end a loop before all lanes of
/// the vector leave it, and those without an invocation read 0 whatever the word is.
pub fn spinning() -> Module {
    module(false)
}

/// The same, whose invocations first add 1 to the second word.
#[allow(dead_code, reason = "for the tests that wait until it executes")]
pub fn announced() -> Module {
    module(true)
}

fn module(is_announced: bool) -> Module {
    let types = Module::for_descriptors()
        .op_text(Op::EntryPoint, &[ExecutionModel::GLCompute as u32, 100], "spin")
        .op(Op::ExecutionMode, &[100, ExecutionMode::LocalSize as u32, 8, 1, 1])
        .place(20, 0, 0)
        .types();
    types
        .op(Op::Constant, &[3, 9, 1])
        .op(Op::TypeBool, &[10])
        .op(Op::Variable, &[6, 20, StorageClass::StorageBuffer as u32])
        .function(100, |body| {
            let body = match is_announced {
                true => {
                    body.op(Op::AccessChain, &[7, 303, 20, 8, 9]).op(Op::AtomicIAdd, &[3, 304, 303, 9, 8, 9])
                }
                false => body,
            };
            body.op(Op::AccessChain, &[7, 300, 20, 8, 8])
                .op(Op::Branch, &[400])
                .op(Op::Label, &[400])
                .op(Op::LoopMerge, &[403, 402, 0])
                .op(Op::Branch, &[401])
                .op(Op::Label, &[401])
                .op(Op::AtomicLoad, &[3, 301, 300, 9, 8])
                .op(Op::IEqual, &[10, 302, 301, 8])
                .op(Op::BranchConditional, &[302, 402, 403])
                .op(Op::Label, &[402])
                .op(Op::Branch, &[400])
                .op(Op::Label, &[403])
        })
}
