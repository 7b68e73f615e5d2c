//! The structure of a module: what drivers rely on without looking. They crash on modules that violate it, not only where these
//! would be executed.
//!
//! Checked are instructions by the grammar, ids by what defines them, the blocks of functions, and indices into types. Other rules of
//! SPIR-V are not: a module that breaks them is the author's, as code that computes wrong numbers is.

use std::collections::HashMap;
use std::sync::OnceLock;

use rehal_base::{Fault, FormatError};
use rspirv::grammar::{
    INSTRUCTION_TABLE, Instruction as Grammar, LogicalOperand, OperandKind as Kind, OperandQuantifier,
    reflect,
};
use spirv::Op;

use super::FORMAT;
use super::instructions::{Instruction, Instructions};

/// The limit that SPIR-V sets for ids. Drivers have a table of as many.
const MAX_BOUND: u32 = 1 << 22;

/// Checks the structure of a module; `base` is its offset in the file, for errors.
pub(super) fn check(words: &[u32], base: usize) -> Result<(), FormatError> {
    let bound = words.get(3).copied().unwrap_or(0);
    if bound == 0 || bound > MAX_BOUND {
        let (at, expected) = ((base + 12) as u64, format!("1 to {MAX_BOUND}"));
        return Err(FormatError::new(
            FORMAT,
            Fault::Corrupt,
            at,
            "bound of ids",
            expected,
            bound.to_string(),
        ));
    }
    let mut module = Module { bound, ids: HashMap::new() };
    for instruction in Instructions::new(words, base) {
        module.define(instruction?)?;
    }
    let mut place = Place::Module;
    for instruction in Instructions::new(words, base) {
        let instruction = instruction?;
        module.check(&instruction)?;
        place = place.after(&instruction)?;
    }
    match place {
        Place::Module => Ok(()),
        _ => {
            let end = (base + 4 * words.len()) as u64;
            Err(FormatError::new(FORMAT, Fault::Truncated, end, "function", "OpFunctionEnd", "the end"))
        }
    }
}

/// The grammar of an instruction. Those that the grammar lacks are of extensions that no device of this driver enables.
fn grammar(instruction: &Instruction<'_>) -> Result<&'static Grammar<'static>, FormatError> {
    static BY_OPCODE: OnceLock<HashMap<u16, &Grammar<'_>>> = OnceLock::new();
    let table = BY_OPCODE.get_or_init(|| INSTRUCTION_TABLE.iter().map(|it| (it.opcode as u16, it)).collect());
    table.get(&instruction.opcode).copied().ok_or_else(|| {
        let found = instruction.opcode.to_string();
        FormatError::new(
            FORMAT,
            Fault::Unsupported,
            instruction.offset as u64,
            "opcode",
            "a known one",
            found,
        )
    })
}

/// What defines an id.
#[derive(Clone, Copy)]
struct Definition<'a> {
    op: Op,
    /// The type of the value; 0 if it has none.
    value_type: u32,
    operands: &'a [u32],
}

impl Definition<'_> {
    fn is_type(&self) -> bool {
        self.op != Op::TypeForwardPointer && self.op.is_type()
    }
}

struct Module<'a> {
    bound: u32,
    ids: HashMap<u32, Definition<'a>>,
}

impl<'a> Module<'a> {
    fn define(&mut self, instruction: Instruction<'a>) -> Result<(), FormatError> {
        let grammar = grammar(&instruction)?;
        let find = |kind| grammar.operands.iter().position(|it| it.kind == kind);
        let value_type = match find(Kind::IdResultType) {
            Some(index) => instruction.operand(index)?,
            None => 0,
        };
        let Some(index) = find(Kind::IdResult) else { return Ok(()) };
        let id = instruction.operand(index)?;
        if id == 0 || id >= self.bound {
            return Err(instruction.error(format!("ids from 1 to {}", self.bound - 1), id.to_string()));
        }
        let definition = Definition { op: grammar.opcode, value_type, operands: instruction.operands };
        match self.ids.insert(id, definition) {
            None => Ok(()),
            Some(_) => Err(instruction.error("an id that is not defined yet".into(), id.to_string())),
        }
    }

    fn find(&self, instruction: &Instruction<'_>, id: u32) -> Result<Definition<'a>, FormatError> {
        self.ids
            .get(&id)
            .copied()
            .ok_or_else(|| instruction.error("ids that are defined".into(), id.to_string()))
    }

    /// The definition of an id, which has to be `what` says.
    fn expect(
        &self,
        instruction: &Instruction<'_>,
        id: u32,
        what: &str,
        is_expected: impl FnOnce(&Definition<'_>) -> bool,
    ) -> Result<Definition<'a>, FormatError> {
        let found = self.find(instruction, id)?;
        match is_expected(&found) {
            true => Ok(found),
            false => Err(instruction.error(what.into(), format!("{id}, of Op{:?},", found.op))),
        }
    }

    fn expect_type(&self, instruction: &Instruction<'_>, id: u32) -> Result<(), FormatError> {
        self.expect(instruction, id, "the id of a type", |it| it.is_type()).map(drop)
    }

    fn expect_op(
        &self,
        instruction: &Instruction<'_>,
        id: u32,
        op: Op,
    ) -> Result<Definition<'a>, FormatError> {
        self.expect(instruction, id, &format!("the id of an Op{op:?}"), |it| it.op == op)
    }

    fn check(&self, instruction: &Instruction<'a>) -> Result<(), FormatError> {
        let grammar = grammar(instruction)?;
        let end = self.check_operands(instruction, grammar.operands.iter(), 0)?;
        if let Some(end) = end
            && end < instruction.operands.len()
        {
            let found = instruction.operands.len().to_string();
            return Err(instruction.error(format!("{end} operands"), found));
        }
        let id = |index| instruction.operand(index);
        let label = |index: usize| self.expect_op(instruction, id(index)?, Op::Label).map(drop);
        let pointer = |value: u32| self.pointee(instruction, value).map(drop);
        match grammar.opcode {
            Op::TypeVector | Op::TypeMatrix | Op::TypeArray | Op::TypeRuntimeArray => {
                self.expect_type(instruction, id(1)?)
            }
            Op::TypePointer => self.expect_type(instruction, id(2)?),
            Op::TypeStruct | Op::TypeFunction => {
                let mut parts = instruction.operands.iter().skip(1);
                parts.try_for_each(|part| self.expect_type(instruction, *part))
            }
            Op::EntryPoint => self.expect_op(instruction, id(1)?, Op::Function).map(drop),
            Op::Function => self.expect_op(instruction, id(3)?, Op::TypeFunction).map(drop),
            Op::FunctionCall => self.expect_op(instruction, id(2)?, Op::Function).map(drop),
            Op::Variable | Op::ConvertUToPtr => {
                self.expect_op(instruction, id(0)?, Op::TypePointer).map(drop)
            }
            Op::Load => pointer(id(2)?),
            Op::Store => pointer(id(0)?),
            Op::AccessChain | Op::InBoundsAccessChain => self.check_chain(instruction, 3),
            Op::PtrAccessChain | Op::InBoundsPtrAccessChain => self.check_chain(instruction, 4),
            Op::CompositeExtract => self.check_extract(instruction),
            Op::Branch => label(0),
            Op::BranchConditional => label(1).and_then(|()| label(2)),
            Op::SelectionMerge => label(0),
            Op::LoopMerge => label(0).and_then(|()| label(1)),
            Op::Phi => {
                let mut parents = instruction.operands.iter().skip(3).step_by(2);
                parents.try_for_each(|it| self.expect_op(instruction, *it, Op::Label).map(drop))
            }
            _ => Ok(()),
        }
    }

    /// Checks the operands from index `at` on, and returns the index after them, or `None` if the grammar leaves it to what precedes
    /// them.
    fn check_operands<'g>(
        &self,
        instruction: &Instruction<'_>,
        logical: impl Iterator<Item = &'g LogicalOperand>,
        mut at: usize,
    ) -> Result<Option<usize>, FormatError> {
        let words = instruction.operands;
        let used = |index: usize| {
            let id = instruction.operand(index)?;
            self.find(instruction, id).map(drop)
        };
        for operand in logical {
            if at == words.len() && operand.quantifier != OperandQuantifier::One {
                break;
            }
            loop {
                match operand.kind {
                    Kind::IdResultType => self.expect_type(instruction, instruction.operand(at)?)?,
                    Kind::IdRef | Kind::IdScope | Kind::IdMemorySemantics => used(at)?,
                    Kind::PairIdRefIdRef => {
                        used(at)?;
                        at += 1;
                        used(at)?;
                    }
                    Kind::PairIdRefLiteralInteger => {
                        used(at)?;
                        at += 1;
                        instruction.operand(at)?;
                    }
                    Kind::LiteralString => at = instruction.text(at)?.1 - 1,
                    Kind::PairLiteralIntegerIdRef => return self.check_cases(instruction, at).map(Some),
                    Kind::LiteralSpecConstantOpInteger => return self.check_constant_op(instruction, at),
                    kind if has_parameters(kind) => {
                        instruction.operand(at)?;
                        return Ok(None);
                    }
                    _ => drop(instruction.operand(at)?),
                }
                at += 1;
                if operand.quantifier != OperandQuantifier::ZeroOrMore || at == words.len() {
                    break;
                }
            }
        }
        Ok(Some(at))
    }

    /// The targets of an `OpSwitch`, whose literals are as wide as its selector.
    fn check_cases(&self, instruction: &Instruction<'_>, at: usize) -> Result<usize, FormatError> {
        let selector = self.find(instruction, instruction.operand(0)?)?;
        let kind = self.find(instruction, selector.value_type)?;
        let is_wide = kind.op == Op::TypeInt && kind.operands.get(1).is_some_and(|bits| *bits > 32);
        let literal = if is_wide { 2 } else { 1 };
        let mut at = at;
        while at < instruction.operands.len() {
            self.expect_op(instruction, instruction.operand(at + literal)?, Op::Label)?;
            at += literal + 1;
        }
        self.expect_op(instruction, instruction.operand(1)?, Op::Label)?;
        Ok(at)
    }

    /// The operands of an operation on constants.
    fn check_constant_op(
        &self,
        instruction: &Instruction<'_>,
        at: usize,
    ) -> Result<Option<usize>, FormatError> {
        let opcode = instruction.operand(at)?;
        let inner = Instruction { opcode: u16::try_from(opcode).unwrap_or(u16::MAX), ..*instruction };
        let of_value = |it: &&LogicalOperand| !matches!(it.kind, Kind::IdResult | Kind::IdResultType);
        let inner = grammar(&inner)?;
        if inner.opcode == Op::SpecConstantOp || inner.opcode == Op::Switch {
            return Err(instruction.error("an operation on values".into(), format!("Op{:?}", inner.opcode)));
        }
        self.check_operands(instruction, inner.operands.iter().filter(of_value), at + 1)
    }

    /// The type that a pointer is of; `None` if it has none.
    fn pointee(&self, instruction: &Instruction<'_>, value: u32) -> Result<Option<u32>, FormatError> {
        let value_type = self.find(instruction, value)?.value_type;
        let is_pointer = |it: &Definition<'_>| matches!(it.op, Op::TypePointer | Op::TypeUntypedPointerKHR);
        let found = self.expect(instruction, value_type, "the id of a pointer", is_pointer)?;
        Ok((found.op == Op::TypePointer).then(|| found.operands.get(2).copied().unwrap_or(0)))
    }

    /// An access chain, whose indices begin with operand `first`: it reaches the type that its result points to.
    fn check_chain(&self, instruction: &Instruction<'_>, first: usize) -> Result<(), FormatError> {
        let result = self.expect_op(instruction, instruction.operand(0)?, Op::TypePointer)?;
        let Some(mut at) = self.pointee(instruction, instruction.operand(2)?)? else { return Ok(()) };
        for index in instruction.operands.iter().skip(first) {
            let constant = self.find(instruction, *index)?;
            let value = (constant.op == Op::Constant).then(|| constant.operands.get(2).copied()).flatten();
            at = self.part(instruction, at, value)?;
        }
        self.expect_same(instruction, result.operands.get(2).copied().unwrap_or(0), at)
    }

    /// A part of a composite value: its indices reach the type of the result.
    fn check_extract(&self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let mut at = self.find(instruction, instruction.operand(2)?)?.value_type;
        for index in instruction.operands.iter().skip(3) {
            at = self.part(instruction, at, Some(*index))?;
        }
        self.expect_same(instruction, instruction.operand(0)?, at)
    }

    fn expect_same(&self, instruction: &Instruction<'_>, wanted: u32, found: u32) -> Result<(), FormatError> {
        match wanted == found {
            true => Ok(()),
            false => Err(instruction.error(format!("indices of a part of type {wanted}"), found.to_string())),
        }
    }

    /// The type of a part of a type; `index` is `None` if it is not constant.
    fn part(&self, instruction: &Instruction<'_>, of: u32, index: Option<u32>) -> Result<u32, FormatError> {
        let outer = self.find(instruction, of)?;
        let (parts, count) = match outer.op {
            Op::TypeStruct => {
                let members = outer.operands.get(1..).unwrap_or_default();
                let member = index.and_then(|index| members.get(index as usize));
                return member.copied().ok_or_else(|| {
                    let found = index.map_or_else(|| "no constant".into(), |index| index.to_string());
                    instruction
                        .error(format!("the constant index of one of {} members", members.len()), found)
                });
            }
            Op::TypeVector | Op::TypeMatrix => (outer.operands.get(1), outer.operands.get(2)),
            op if is_indexed(op) => (outer.operands.get(1), None),
            op => {
                return Err(
                    instruction.error("indices into a composite".into(), format!("one into Op{op:?}"))
                );
            }
        };
        if let (Some(index), Some(count)) = (index, count)
            && index >= *count
        {
            return Err(instruction.error(format!("an index below {count}"), index.to_string()));
        }
        Ok(parts.copied().unwrap_or(0))
    }
}

/// Whether a type that is neither a struct nor a vector has parts of one type.
fn is_indexed(op: Op) -> bool {
    matches!(
        op,
        Op::TypeArray | Op::TypeRuntimeArray | Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV
    )
}

/// Whether operands of this kind may be followed by parameters that depend on their value.
fn has_parameters(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::IdResult
            | Kind::LiteralInteger
            | Kind::LiteralFloat
            | Kind::LiteralExtInstInteger
            | Kind::SourceLanguage
            | Kind::ExecutionModel
            | Kind::AddressingModel
            | Kind::MemoryModel
            | Kind::StorageClass
            | Kind::Capability
            | Kind::FunctionControl
            | Kind::SelectionControl
            | Kind::GroupOperation
            | Kind::Dim
            | Kind::ImageFormat
            | Kind::PackedVectorFormat
            | Kind::SamplerAddressingMode
            | Kind::SamplerFilterMode
            | Kind::AccessQualifier
    )
}

/// Where an instruction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Outside of functions.
    Module,
    /// In a function, between blocks.
    Function,
    Block,
}

impl Place {
    /// The place after an instruction. Fails if it must not be here.
    fn after(self, instruction: &Instruction<'_>) -> Result<Self, FormatError> {
        let op = grammar(instruction)?.opcode;
        let next = match (self, op) {
            (_, Op::Line | Op::NoLine | Op::Nop | Op::ExtInst) => Some(self),
            (Self::Module, Op::Function) => Some(Self::Function),
            (Self::Module, op) => is_declaration(op).then_some(Self::Module),
            (Self::Function, Op::FunctionParameter) => Some(Self::Function),
            (Self::Function, Op::Label) => Some(Self::Block),
            (Self::Function, Op::FunctionEnd) => Some(Self::Module),
            (Self::Block, Op::Function | Op::FunctionEnd | Op::FunctionParameter | Op::Label) => None,
            (Self::Block, op) if reflect::is_block_terminator(op) => Some(Self::Function),
            (Self::Block, Op::Undef | Op::Variable | Op::UntypedVariableKHR) => Some(Self::Block),
            (Self::Block, op) => (!is_declaration(op)).then_some(Self::Block),
            (Self::Function, _) => None,
        };
        next.ok_or_else(|| {
            let place = match self {
                Self::Module => "outside of functions",
                Self::Function => "between blocks",
                Self::Block => "in a block",
            };
            instruction.error("instructions in their places".into(), format!("one {place}"))
        })
    }
}

/// Whether an instruction may be outside of functions.
fn is_declaration(op: Op) -> bool {
    op.is_type()
        || op.is_constant()
        || op.is_annotation()
        || op.is_debug()
        || matches!(
            op,
            Op::Capability
                | Op::Extension
                | Op::ExtInstImport
                | Op::MemoryModel
                | Op::EntryPoint
                | Op::ExecutionMode
                | Op::ExecutionModeId
                | Op::Variable
                | Op::UntypedVariableKHR
                | Op::Undef
        )
}
