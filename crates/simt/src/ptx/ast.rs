//! The text of a module as data, before names are resolved.

use super::op::Place;
use super::types::Type;

pub(crate) struct ModuleText<'a> {
    pub target: &'a str,
    pub variables: Vec<Variable<'a>>,
    pub functions: Vec<FunctionText<'a>>,
}

/// A variable of a module or a function, or a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub at: usize,
    pub space: Place,
    pub name: &'a str,
    pub kind: Type,
    /// In bytes.
    pub align: u32,
    /// Of an element of the array, or of the variable.
    pub element_bytes: u64,
    /// `None` for an array without a size, whose memory the launch gives.
    pub bytes: Option<u64>,
    pub initial: Vec<Initial<'a>>,
    /// The alternative to memory: a parameter of a function that is a register.
    pub is_register: bool,
    /// Whether a parameter is marked as an address.
    pub is_pointer: bool,
    pub is_external: bool,
}

/// An element of an initializer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Initial<'a> {
    Number(Number),
    // The address of a variable plus bytes; `generic` changes nothing.
    Address { name: &'a str, offset: i64 },
}

/// A constant. A float keeps its bits and width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Single(u32),
    Double(u64),
}

#[derive(Default)]
pub(crate) struct FunctionText<'a> {
    pub at: usize,
    pub name: &'a str,
    pub is_entry: bool,
    pub returns: Vec<Variable<'a>>,
    pub parameters: Vec<Variable<'a>>,
    pub max_block: Option<[u32; 3]>,
    pub required_block: Option<[u32; 3]>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
}

pub(crate) enum Statement<'a> {
    Open,
    Close,
    Label { at: usize, name: &'a str },
    // Registers, with their number if a name is a prefix of several.
    Registers { at: usize, kind: Type, names: Vec<(&'a str, Option<u32>)> },
    Variable(Variable<'a>),
    Targets { name: &'a str, labels: Vec<&'a str> },
    Instruction(InstructionText<'a>),
}

pub(crate) struct InstructionText<'a> {
    pub at: usize,
    /// The predicate, and whether it is negated.
    pub guard: Option<(&'a str, bool)>,
    pub opcode: &'a str,
    pub operands: Vec<Operand<'a>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    // A register, a variable, a label or a function.
    Name(&'a str),
    // A negated predicate.
    Not(&'a str),
    Number(Number),
    // Two destinations, `p|q`.
    Pair(&'a str, &'a str),
    // In braces.
    Vector(Vec<Operand<'a>>),
    // In brackets: a register or a variable, and an offset in bytes.
    Address { base: Option<&'a str>, offset: i64 },
    // In parentheses, of a call.
    List(Vec<Operand<'a>>),
}
