//! SPIR-V modules, instruction by instruction.

use spirv::{
    AddressingModel, Capability, Decoration, ExecutionMode, ExecutionModel, MemoryModel, Op, StorageClass,
};

/// A module while it is written. Ids are chosen by the tests.
#[derive(Clone)]
pub struct Module {
    pub words: Vec<u32>,
}

impl Module {
    /// A module with the capability Shader and nothing else.
    pub fn new() -> Self {
        let words = vec![spirv::MAGIC_NUMBER, 0x0001_0300, 0, 1000, 0];
        Self { words }.op(Op::Capability, &[Capability::Shader as u32])
    }

    /// A module with a memory model for descriptors.
    pub fn for_descriptors() -> Self {
        Self::new().op(Op::MemoryModel, &[AddressingModel::Logical as u32, MemoryModel::GLSL450 as u32])
    }

    /// A module with the declarations of one that takes addresses.
    pub fn for_addresses() -> Self {
        let models = [AddressingModel::PhysicalStorageBuffer64 as u32, MemoryModel::GLSL450 as u32];
        Self::new()
            .op(Op::Capability, &[Capability::PhysicalStorageBufferAddresses as u32])
            .op(Op::MemoryModel, &models)
    }

    pub fn op(mut self, op: Op, operands: &[u32]) -> Self {
        self.words.push(((operands.len() as u32 + 1) << 16) | op as u32);
        self.words.extend_from_slice(operands);
        self
    }

    /// An instruction whose last operand is text.
    pub fn op_text(self, op: Op, operands: &[u32], text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((text.len() + 1).next_multiple_of(4), 0);
        let words = bytes.as_chunks::<4>().0.iter().map(|chunk| u32::from_le_bytes(*chunk));
        self.op(op, &operands.iter().copied().chain(words).collect::<Vec<_>>())
    }

    /// A compute entry point with a local size of 4, 2 and 1.
    pub fn entry(self, id: u32, name: &str) -> Self {
        self.op_text(Op::EntryPoint, &[ExecutionModel::GLCompute as u32, id], name)
            .op(Op::ExecutionMode, &[id, ExecutionMode::LocalSize as u32, 4, 2, 1])
    }

    /// A tool's mark.
    pub fn processed(self, text: &str) -> Self {
        self.op_text(Op::ModuleProcessed, &[], text)
    }

    /// Types: 1 void, 2 function, 3 u32, 4 runtime array, 5 block of it, 6 pointer to it, 7 pointer to an
    /// element, 8 constant 0.
    pub fn types(self) -> Self {
        self.op(Op::Decorate, &[4, Decoration::ArrayStride as u32, 4])
            .op(Op::MemberDecorate, &[5, 0, Decoration::Offset as u32, 0])
            .op(Op::Decorate, &[5, Decoration::Block as u32])
            .op(Op::TypeVoid, &[1])
            .op(Op::TypeFunction, &[2, 1])
            .op(Op::TypeInt, &[3, 32, 0])
            .op(Op::TypeRuntimeArray, &[4, 3])
            .op(Op::TypeStruct, &[5, 4])
            .op(Op::TypePointer, &[6, StorageClass::StorageBuffer as u32, 5])
            .op(Op::TypePointer, &[7, StorageClass::StorageBuffer as u32, 3])
            .op(Op::Constant, &[3, 8, 0])
    }

    /// Where a variable is.
    pub fn place(self, id: u32, set: u32, binding: u32) -> Self {
        self.op(Op::Decorate, &[id, Decoration::DescriptorSet as u32, set])
            .op(Op::Decorate, &[id, Decoration::Binding as u32, binding])
    }

    /// A storage buffer.
    pub fn buffer(self, id: u32, set: u32, binding: u32) -> Self {
        self.place(id, set, binding).op(Op::Variable, &[6, id, StorageClass::StorageBuffer as u32])
    }

    /// A function of no parameters.
    pub fn function(self, id: u32, body: impl FnOnce(Self) -> Self) -> Self {
        let start = self.op(Op::Function, &[1, id, 0, 2]).op(Op::Label, &[id + 500]);
        body(start).op(Op::Return, &[]).op(Op::FunctionEnd, &[])
    }

    /// Reads an element of a buffer; uses two ids from `id` on.
    pub fn load(self, id: u32, buffer: u32) -> Self {
        self.op(Op::AccessChain, &[7, id, buffer, 8, 8]).op(Op::Load, &[3, id + 1, id])
    }

    /// Writes an element of a buffer.
    pub fn store(self, id: u32, buffer: u32) -> Self {
        self.op(Op::AccessChain, &[7, id, buffer, 8, 8]).op(Op::Store, &[id, 8])
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}
