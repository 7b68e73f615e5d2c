//! The structure of a module: what drivers rely on without looking. They crash on modules that violate it, not only where these
//! would be executed.
//!
//! Checked are instructions by the grammar, ids by what defines them and where, the blocks of functions, indices into types, the types
//! of values in memory, calls and arithmetic (`typing.rs`), and the interfaces of entry points (`interface.rs`). Other rules of SPIR-V are not: a module that breaks them is the author's, as code that computes wrong numbers is.

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
use super::interface::{self, References};

/// The highest id bound that is accepted: the default of `spirv-val --max-id-bound`, which is also what SPIR-V requires every
/// implementation to support. SPIR-V sets no maximum, but drivers allocate a table of this length before they read an instruction.
const MAX_BOUND: u32 = 0x3F_FFFF;

/// Checks the structure of a module; `base` is its offset in the file, for errors.
pub(super) fn check(words: &[u32], base: usize) -> Result<(), FormatError> {
    let bound = words.get(3).copied().unwrap_or(0);
    if bound == 0 || bound > MAX_BOUND {
        let (at, expected) = ((base + 12) as u64, format!("1 to {MAX_BOUND}"));
        return Err(FormatError::new(FORMAT, Fault::Corrupt, at, "id bound", expected, bound.to_string()));
    }
    let mut module =
        Module { bound, ids: HashMap::new(), references: References::default(), function: 0, parameters: 0 };
    for instruction in Instructions::new(words, base) {
        module.define(instruction?)?;
    }
    module.function = 0;
    let mut place = Place::Module;
    for instruction in Instructions::new(words, base) {
        let instruction = instruction?;
        place = place.after(&instruction)?;
        module.check(&instruction)?;
    }
    if place != Place::Module {
        let end = (base + 4 * words.len()) as u64;
        let found = "the end of the module";
        return Err(FormatError::new(FORMAT, Fault::Truncated, end, "function", "OpFunctionEnd", found));
    }
    interface::check(&module.ids, &module.references, words, base)
}

/// The grammar of an instruction.
fn grammar(instruction: &Instruction<'_>) -> Result<&'static Grammar<'static>, FormatError> {
    grammar_of(instruction, u32::from(instruction.opcode))
}

/// The grammar of an opcode that is in `instruction`. Those that the grammar lacks are of extensions that no device of this driver
/// enables.
fn grammar_of(instruction: &Instruction<'_>, opcode: u32) -> Result<&'static Grammar<'static>, FormatError> {
    static BY_OPCODE: OnceLock<HashMap<u32, &Grammar<'_>>> = OnceLock::new();
    let table = BY_OPCODE.get_or_init(|| INSTRUCTION_TABLE.iter().map(|it| (it.opcode as u32, it)).collect());
    table.get(&opcode).copied().ok_or_else(|| {
        FormatError::new(
            FORMAT,
            Fault::Unsupported,
            instruction.offset as u64,
            "opcode",
            "an opcode of the SPIR-V grammar",
            format!("unknown opcode {opcode}"),
        )
    })
}

/// What defines an id.
#[derive(Clone, Copy)]
pub(super) struct Definition<'a> {
    pub(super) op: Op,
    /// The type of the value; 0 if it has none.
    pub(super) value_type: u32,
    pub(super) operands: &'a [u32],
    /// The function that it is in; 0 if it is outside of functions.
    function: u32,
    /// Its offset in the file.
    offset: usize,
}

impl Definition<'_> {
    fn is_type(&self) -> bool {
        self.op != Op::TypeForwardPointer && self.op.is_type()
    }
}

pub(super) struct Module<'a> {
    bound: u32,
    ids: HashMap<u32, Definition<'a>>,
    references: References,
    /// The function whose instructions are read, or 0.
    pub(super) function: u32,
    /// Those of its parameters that were read.
    pub(super) parameters: usize,
}

impl<'a> Module<'a> {
    fn define(&mut self, instruction: Instruction<'a>) -> Result<(), FormatError> {
        let grammar = grammar(&instruction)?;
        let find = |kind| grammar.operands.iter().position(|it| it.kind == kind);
        let value_type = match find(Kind::IdResultType) {
            Some(index) => instruction.operand(index)?,
            None => 0,
        };
        if grammar.opcode == Op::FunctionEnd {
            self.function = 0;
        }
        let Some(index) = find(Kind::IdResult) else { return Ok(()) };
        let id = instruction.operand(index)?;
        if id == 0 || id >= self.bound {
            let expected = format!("a result id from 1 to {}", self.bound - 1);
            return Err(instruction.error(expected, id.to_string()));
        }
        let is_function = grammar.opcode == Op::Function;
        let definition = Definition {
            op: grammar.opcode,
            value_type,
            operands: instruction.operands,
            function: if is_function { 0 } else { self.function },
            offset: instruction.offset,
        };
        if is_function {
            self.function = id;
        }
        match self.ids.insert(id, definition) {
            None => Ok(()),
            Some(_) => Err(instruction.error("a unique result id".into(), format!("duplicate id {id}"))),
        }
    }

    pub(super) fn find(&self, instruction: &Instruction<'_>, id: u32) -> Result<Definition<'a>, FormatError> {
        self.ids
            .get(&id)
            .copied()
            .ok_or_else(|| instruction.error("a defined id".into(), format!("undefined id {id}")))
    }

    fn expect_type(&self, instruction: &Instruction<'_>, id: u32) -> Result<(), FormatError> {
        let found = self.find(instruction, id)?;
        match found.is_type() {
            true => Ok(()),
            false => Err(unexpected(instruction, "the id of a type".into(), id, &found)),
        }
    }

    /// The definition of an id, which has to be by this instruction.
    pub(super) fn expect_op(
        &self,
        instruction: &Instruction<'_>,
        id: u32,
        op: Op,
    ) -> Result<Definition<'a>, FormatError> {
        let found = self.find(instruction, id)?;
        match found.op == op {
            true => Ok(found),
            false => Err(unexpected(instruction, format!("the id of an Op{op:?}"), id, &found)),
        }
    }

    /// The type of a value.
    pub(super) fn type_of(&self, instruction: &Instruction<'_>, value: u32) -> Result<u32, FormatError> {
        let found = self.find(instruction, value)?;
        match found.value_type {
            0 => Err(unexpected(instruction, "the id of a value".into(), value, &found)),
            value_type => Ok(value_type),
        }
    }

    fn check(&mut self, instruction: &Instruction<'a>) -> Result<(), FormatError> {
        let grammar = grammar(instruction)?;
        match grammar.opcode {
            Op::Function => (self.function, self.parameters) = (instruction.operand(1)?, 0),
            Op::FunctionEnd => self.function = 0,
            _ => {}
        }
        self.references.enter(instruction, grammar.opcode, self.function, &self.ids);
        let end = self.check_operands(instruction, grammar.operands.iter(), 0)?;
        if let Some(end) = end
            && end < instruction.operands.len()
        {
            let (expected, found) = (format!("{end} operands"), instruction.operands.len().to_string());
            return Err(instruction.error(expected, found));
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
            Op::CompositeExtract => self.check_extract(instruction, 2),
            Op::CompositeInsert => self.check_insert(instruction, 2),
            Op::SpecConstantOp => match Op::from_u32(id(2)?) {
                Some(Op::CompositeExtract) => self.check_extract(instruction, 3),
                Some(Op::CompositeInsert) => self.check_insert(instruction, 3),
                _ => Ok(()),
            },
            Op::Branch => label(0),
            Op::BranchConditional => label(1).and_then(|()| label(2)),
            Op::Switch => label(1),
            Op::SelectionMerge => label(0),
            Op::LoopMerge => label(0).and_then(|()| label(1)),
            Op::Phi => {
                let mut parents = instruction.operands.iter().skip(3).step_by(2);
                parents.try_for_each(|it| self.expect_op(instruction, *it, Op::Label).map(drop))
            }
            _ => Ok(()),
        }?;
        self.check_types(instruction, grammar.opcode)
    }

    /// Checks the operands from index `at` on, and returns the index after them, or `None` if the grammar leaves it to what precedes
    /// them.
    fn check_operands<'g>(
        &mut self,
        instruction: &Instruction<'_>,
        logical: impl Iterator<Item = &'g LogicalOperand>,
        mut at: usize,
    ) -> Result<Option<usize>, FormatError> {
        let words = instruction.operands;
        for operand in logical {
            if at == words.len() && operand.quantifier != OperandQuantifier::One {
                break;
            }
            loop {
                match operand.kind {
                    Kind::IdResultType => self.expect_type(instruction, instruction.operand(at)?)?,
                    Kind::IdRef => self.refer(instruction, at)?,
                    Kind::IdScope | Kind::IdMemorySemantics => {
                        self.refer(instruction, at)?;
                        self.check_flags(instruction, at, operand.kind == Kind::IdScope)?;
                    }
                    Kind::PairIdRefIdRef => {
                        self.refer(instruction, at)?;
                        at += 1;
                        self.refer(instruction, at)?;
                    }
                    Kind::PairIdRefLiteralInteger => {
                        self.refer(instruction, at)?;
                        at += 1;
                        instruction.operand(at)?;
                    }
                    Kind::LiteralString => at = instruction.text_end(at)? - 1,
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

    /// An operand that is an id.
    fn refer(&mut self, instruction: &Instruction<'_>, index: usize) -> Result<(), FormatError> {
        let id = instruction.operand(index)?;
        let definition = self.find(instruction, id)?;
        self.references.note(id, &definition);
        if self.function == 0 || definition.function == 0 {
            return Ok(());
        }
        if definition.function != self.function {
            let found = format!("id {id} (Op{:?}) of function {}", definition.op, definition.function);
            return Err(instruction.error("an id of the function or the module".into(), found));
        }
        // Blocks precede those that they dominate. Labels, the values of other iterations and what debug information describes may be
        // ahead.
        let may_be_ahead = definition.op == Op::Label
            || [Op::Phi, Op::ExtInst, Op::ExtInstWithForwardRefsKHR].iter().any(|op| instruction.is(*op));
        if !may_be_ahead && definition.offset >= instruction.offset {
            let found = format!("id {id} (Op{:?}) of a later one", definition.op);
            return Err(instruction.error("a value of an earlier instruction".into(), found));
        }
        Ok(())
    }

    /// The cases of an `OpSwitch`, whose literals are as wide as its selector.
    fn check_cases(&self, instruction: &Instruction<'_>, at: usize) -> Result<usize, FormatError> {
        let selector = self.type_of(instruction, instruction.operand(0)?)?;
        let kind = self.find(instruction, selector)?;
        let is_wide = kind.op == Op::TypeInt && kind.operands.get(1).is_some_and(|bits| *bits > 32);
        let literal = if is_wide { 2 } else { 1 };
        let mut at = at;
        while at < instruction.operands.len() {
            self.expect_op(instruction, instruction.operand(at + literal)?, Op::Label)?;
            at += literal + 1;
        }
        Ok(at)
    }

    /// The operands of an operation on constants.
    fn check_constant_op(
        &mut self,
        instruction: &Instruction<'_>,
        at: usize,
    ) -> Result<Option<usize>, FormatError> {
        let inner = grammar_of(instruction, instruction.operand(at)?)?;
        let of_value = |it: &&LogicalOperand| !matches!(it.kind, Kind::IdResult | Kind::IdResultType);
        if inner.opcode == Op::SpecConstantOp || inner.opcode == Op::Switch {
            let expected = "the opcode of an operation on constants".into();
            return Err(instruction.error(expected, format!("Op{:?}", inner.opcode)));
        }
        self.check_operands(instruction, inner.operands.iter().filter(of_value), at + 1)
    }

    /// The type that a pointer is of; `None` if it has none.
    pub(super) fn pointee(
        &self,
        instruction: &Instruction<'_>,
        value: u32,
    ) -> Result<Option<u32>, FormatError> {
        let id = self.type_of(instruction, value)?;
        let found = self.find(instruction, id)?;
        match found.op {
            Op::TypePointer => Ok(Some(found.operands.get(2).copied().unwrap_or(0))),
            Op::TypeUntypedPointerKHR => Ok(None),
            _ => Err(unexpected(instruction, "a value of a pointer type".into(), id, &found)),
        }
    }

    /// An access chain, whose indices begin with operand `first`: it reaches the type that its result points to.
    fn check_chain(&self, instruction: &Instruction<'_>, first: usize) -> Result<(), FormatError> {
        let result = self.expect_op(instruction, instruction.operand(0)?, Op::TypePointer)?;
        let Some(mut at) = self.pointee(instruction, instruction.operand(2)?)? else { return Ok(()) };
        for index in instruction.operands.iter().skip(first) {
            at = self.part(instruction, at, Index::Id(*index))?;
        }
        let pointee = result.operands.get(2).copied().unwrap_or(0);
        expect_reached(instruction, "the type that the result points to", pointee, at)
    }

    /// Extracts a part of the composite that is operand `at`: the indices after it reach the type of the result.
    fn check_extract(&self, instruction: &Instruction<'_>, at: usize) -> Result<(), FormatError> {
        let composite = self.type_of(instruction, instruction.operand(at)?)?;
        let part = self.literal_part(instruction, composite, at + 1)?;
        expect_reached(instruction, "the result type", instruction.operand(0)?, part)
    }

    /// Inserts operand `at` into a copy of the composite that is the operand after it: the indices after that reach the type of
    /// what is inserted.
    fn check_insert(&self, instruction: &Instruction<'_>, at: usize) -> Result<(), FormatError> {
        let object = self.type_of(instruction, instruction.operand(at)?)?;
        let composite = self.type_of(instruction, instruction.operand(at + 1)?)?;
        let result = instruction.operand(0)?;
        if composite != result {
            let expected = format!("a composite of type {result}, the result type");
            return Err(instruction.error(expected, format!("type {composite}")));
        }
        let part = self.literal_part(instruction, composite, at + 2)?;
        expect_reached(instruction, "the type of the object", object, part)
    }

    /// The type that the literal indices from operand `first` on reach in a type.
    fn literal_part(&self, instruction: &Instruction<'_>, of: u32, first: usize) -> Result<u32, FormatError> {
        let mut indices = instruction.operands.iter().skip(first);
        indices.try_fold(of, |at, index| self.part(instruction, at, Index::Literal(*index)))
    }

    /// The value of an `OpConstant` of an integer type, read as unsigned.
    pub(super) fn constant(&self, id: u32) -> Option<u64> {
        let found = self.ids.get(&id).filter(|it| it.op == Op::Constant)?;
        let kind = self.ids.get(&found.value_type).filter(|it| it.op == Op::TypeInt)?;
        let low = u64::from(*found.operands.get(2)?);
        match kind.operands.get(1)? {
            0..=32 => Some(low),
            _ => Some(low | u64::from(*found.operands.get(3)?) << 32),
        }
    }

    /// The type of a part of a type. Literal indices have to be in bounds, if the number of elements is known. Ids may be out of
    /// bounds, which is undefined only if it is executed, except for those of members, which have to be constant and in bounds.
    fn part(&self, instruction: &Instruction<'_>, of: u32, index: Index) -> Result<u32, FormatError> {
        let outer = self.find(instruction, of)?;
        let count = match outer.op {
            Op::TypeStruct => return self.member(instruction, &outer, index),
            Op::TypeVector | Op::TypeMatrix => outer.operands.get(2).copied().map(u64::from),
            Op::TypeArray => outer.operands.get(2).and_then(|length| self.constant(*length)),
            op if is_indexed(op) => None,
            _ => {
                return Err(unexpected(instruction, "indices into a composite type".into(), of, &outer));
            }
        };
        if let (Index::Literal(index), Some(count)) = (index, count)
            && u64::from(index) >= count
        {
            return Err(instruction.error(format!("an index below {count}"), format!("index {index}")));
        }
        Ok(outer.operands.get(1).copied().unwrap_or(0))
    }

    /// The type of a member of a struct.
    fn member(
        &self,
        instruction: &Instruction<'_>,
        of: &Definition<'_>,
        index: Index,
    ) -> Result<u32, FormatError> {
        let members = of.operands.get(1..).unwrap_or_default();
        let value = match index {
            Index::Literal(value) => u64::from(value),
            Index::Id(id) => {
                let found = self.find(instruction, id)?;
                let expected = "an integer OpConstant as the index of a member";
                self.constant(id).ok_or_else(|| unexpected(instruction, expected.into(), id, &found))?
            }
        };
        let member = usize::try_from(value).ok().and_then(|index| members.get(index));
        member.copied().ok_or_else(|| {
            instruction.error(format!("a member index below {}", members.len()), format!("index {value}"))
        })
    }
}

/// An index into a composite.
#[derive(Clone, Copy)]
enum Index {
    Literal(u32),
    Id(u32),
}

/// The error for an id that is defined as something else.
pub(super) fn unexpected(
    instruction: &Instruction<'_>,
    expected: String,
    id: u32,
    found: &Definition<'_>,
) -> FormatError {
    instruction.error(expected, format!("id {id} (Op{:?})", found.op))
}

/// Fails unless indices reach the type `wanted`, which is `what`.
fn expect_reached(
    instruction: &Instruction<'_>,
    what: &str,
    wanted: u32,
    reached: u32,
) -> Result<(), FormatError> {
    match wanted == reached {
        true => Ok(()),
        false => {
            let expected = format!("indices that reach type {wanted}, {what}");
            Err(instruction.error(expected, format!("indices that reach type {reached}")))
        }
    }
}

/// Whether a type is a runtime array or a cooperative matrix: its elements are of one type, and the module does not say how many
/// they are.
fn is_indexed(op: Op) -> bool {
    matches!(op, Op::TypeRuntimeArray | Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV)
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
    /// In a function, before its first block.
    Parameters,
    /// In a function, between blocks or after the last.
    Function,
    Block,
}

impl Place {
    /// The place after an instruction. Fails if it must not be here.
    fn after(self, instruction: &Instruction<'_>) -> Result<Self, FormatError> {
        let op = grammar(instruction)?.opcode;
        let next = match (self, op) {
            (_, Op::Line | Op::NoLine | Op::Nop | Op::ExtInst) => Some(self),
            (Self::Module, Op::Function) => Some(Self::Parameters),
            (Self::Module, op) => is_declaration(op).then_some(Self::Module),
            (Self::Parameters, Op::FunctionParameter) => Some(Self::Parameters),
            (Self::Parameters | Self::Function, Op::Label) => Some(Self::Block),
            (Self::Parameters | Self::Function, Op::FunctionEnd) => Some(Self::Module),
            (Self::Block, Op::Function | Op::FunctionEnd | Op::FunctionParameter | Op::Label) => None,
            (Self::Block, op) if reflect::is_block_terminator(op) => Some(Self::Function),
            (Self::Block, Op::Undef | Op::Variable | Op::UntypedVariableKHR) => Some(Self::Block),
            (Self::Block, op) => (!is_declaration(op)).then_some(Self::Block),
            (Self::Parameters | Self::Function, _) => None,
        };
        next.ok_or_else(|| {
            let (expected, place) = match self {
                Self::Module => ("a declaration or OpFunction", "outside of a function"),
                Self::Parameters => {
                    ("OpFunctionParameter, OpLabel or OpFunctionEnd", "before the first block of a function")
                }
                Self::Function => ("OpLabel or OpFunctionEnd", "between blocks"),
                Self::Block => ("an instruction of a block or its terminator", "in a block"),
            };
            let (at, found) = (instruction.offset as u64, format!("Op{op:?} {place}"));
            FormatError::new(FORMAT, Fault::Corrupt, at, "layout", expected, found)
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
