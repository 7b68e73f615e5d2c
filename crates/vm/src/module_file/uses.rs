//! The arguments that a module passes to a function that it imports.

use std::collections::HashMap;

use rehal_base::Result;
use rehal_base::terms::{Term, Terms};
use smallvec::SmallVec;

use super::{ModuleFile, values};
use crate::ValueKind;
use crate::instruction::{FieldValue, Instruction, List};
use crate::operation::{Field, Op};
use crate::registers::{MOVE_BIT, REF_BIT};
use crate::verify::IMPORT_BIT;

/// Facts known of an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownArgument {
    /// The rodata segment that was loaded into its register last; of a result, the only one that its call was
    /// passed.
    pub rodata: Option<usize>,
    /// The constant.
    pub integer: Option<u64>,
    /// The integer, in the terms of [`ModuleFile::calls_with_terms`]: one of 32 bits in the lowest.
    pub term: Option<Term>,
}

/// A call of an imported function, by argument registers.
pub type KnownArguments = SmallVec<[KnownArgument; 8]>;

impl ModuleFile {
    /// The calls of the import `name`, such as `hal.executable.create`, in the order of the code. References
    /// are followed in that order, not along branches: the compiler loads a segment in the block that uses
    /// it, or in one before. Integers are known in their block, and in those that only it branches to. Fails
    /// if an instruction cannot be decoded.
    pub fn calls_with_constants(&self, name: &str) -> Result<Vec<KnownArguments>> {
        self.calls_with_terms(name, &mut Terms::default())
    }

    /// The same with all integers: in `terms`, over unknown ones.
    pub fn calls_with_terms(&self, name: &str, terms: &mut Terms) -> Result<Vec<KnownArguments>> {
        let Some(import) = self.imports().position(|import| import.full_name == name) else {
            return Ok(Vec::new());
        };
        let import = import as u32 | IMPORT_BIT;
        let called = |instruction: &Instruction<'_>| instruction.ordinal(0) == import;
        let mut calls = Vec::new();
        for ordinal in 0..self.function_count() {
            let bytecode = self.function_bytecode(ordinal).unwrap_or(&[]);
            let (mut edges, mut has_call) = (HashMap::<u32, u32>::new(), false);
            for instruction in instructions(bytecode) {
                let instruction = instruction?;
                has_call |= arguments(&instruction).is_some() && called(&instruction);
                targets(&instruction, |target, _| *edges.entry(target).or_default() += 1);
            }
            if !has_call {
                continue;
            }
            let mut registers = Registers {
                terms,
                edges,
                refs: HashMap::new(),
                blocks: HashMap::new(),
                integers: HashMap::new(),
            };
            for instruction in instructions(bytecode) {
                let instruction = instruction?;
                if let Some(arguments) = arguments(&instruction).filter(|_| called(&instruction)) {
                    calls.push(arguments.iter().map(|register| registers.argument(register)).collect());
                }
                registers.follow(&instruction);
            }
        }
        Ok(calls)
    }
}

fn instructions(bytecode: &[u8]) -> impl Iterator<Item = Result<Instruction<'_>>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let instruction = (offset < bytecode.len()).then(|| Instruction::read(bytecode, offset))?;
        offset = instruction.as_ref().map_or(bytecode.len(), |it| it.end);
        Some(instruction)
    })
}

/// The argument registers of a call.
fn arguments<'a>(instruction: &Instruction<'a>) -> Option<List<'a>> {
    match instruction.operation.op {
        Op::Call | Op::CallYieldable => Some(instruction.list(1)),
        Op::CallVariadic | Op::CallVariadicYieldable => Some(instruction.list(2)),
        _ => None,
    }
}

/// The blocks to which an instruction may branch, each with its moves.
fn targets<'a>(instruction: &Instruction<'a>, mut each: impl FnMut(u32, Option<List<'a>>)) {
    let mut pending = None;
    for (field, value) in instruction.operation.fields.iter().zip(&instruction.values) {
        match (field, value) {
            (Field::Target, FieldValue::Ordinal(target)) => {
                if let Some(target) = pending.replace(*target) {
                    each(target, None);
                }
            }
            (Field::Moves, FieldValue::Moves(moves)) => {
                if let Some(target) = pending.take() {
                    each(target, Some(*moves));
                }
            }
            (Field::Cases, FieldValue::Cases(cases)) => {
                cases.iter().for_each(|(target, moves)| each(*target, Some(*moves)));
            }
            _ => {}
        }
    }
    if let Some(target) = pending {
        each(target, None);
    }
}

/// An integer in a register, which may be the first half of 64 bits.
#[derive(Clone, Copy)]
struct Integer {
    known: KnownArgument,
    is_wide: bool,
}

type Integers = HashMap<u16, Integer>;

/// The most registers of a block that others begin with.
const MAX_INHERITED: usize = 4096;

/// Facts known of the registers of a function.
struct Registers<'t> {
    terms: &'t mut Terms,
    /// The number of branches to each block, by offset.
    edges: HashMap<u32, u32>,
    refs: HashMap<u16, KnownArgument>,
    /// The integers with which blocks begin to which one branch leads.
    blocks: HashMap<u32, Integers>,
    /// In a block.
    integers: Integers,
}

impl Registers<'_> {
    fn get(&self, register: u16) -> KnownArgument {
        let register_number = register & !MOVE_BIT;
        match register & REF_BIT != 0 {
            true => self.refs.get(&register_number).copied().unwrap_or_default(),
            false => self.integers.get(&register_number).map(|it| it.known).unwrap_or_default(),
        }
    }

    /// The same of an argument, whose integer becomes a term.
    fn argument(&mut self, register: u16) -> KnownArgument {
        if register & REF_BIT == 0 {
            read(&mut self.integers, self.terms, register);
        }
        self.get(register)
    }

    /// A register that `may_be_wide` may be the first half of 64 bits.
    fn set(&mut self, register: u16, may_be_wide: bool, known: KnownArgument) {
        let register = register & !MOVE_BIT;
        match register & REF_BIT != 0 {
            true => {
                self.refs.insert(register, known);
            }
            false => set(&mut self.integers, register, may_be_wide, known),
        }
    }

    fn follow(&mut self, instruction: &Instruction<'_>) {
        let mut written = KnownArgument::default();
        match instruction.operation.op {
            Op::ConstRefRodata => written.rodata = Some(instruction.ordinal(0) as usize),
            Op::AssignRef => written = self.get(instruction.register(0)),
            Op::ConstI32Zero | Op::ConstI64Zero => written.integer = Some(0),
            Op::ConstI32 | Op::ConstI64 => written.integer = Some(instruction.bits(0)),
            Op::Block => self.integers = self.blocks.remove(&(instruction.offset as u32)).unwrap_or_default(),
            _ => {
                let passed = arguments(instruction).map(|it| it.iter().filter_map(|it| self.get(it).rodata));
                let passed: SmallVec<[usize; 2]> = passed.into_iter().flatten().collect();
                written.rodata = passed.first().copied().filter(|_| passed.len() == 1);
            }
        }
        let integers = &mut self.integers;
        written.term = values::result(instruction, self.terms, &mut |terms, it| read(integers, terms, it));
        for (field, value) in instruction.operation.fields.iter().zip(&instruction.values) {
            match (field, value) {
                (Field::Write(kind), FieldValue::Register(register)) => {
                    self.set(*register, matches!(kind, ValueKind::I64 | ValueKind::F64), written);
                }
                (Field::Results, FieldValue::List(list)) => {
                    list.iter().for_each(|register| self.set(register, true, written));
                }
                // Block arguments; which branch is taken is not known.
                (Field::Moves, FieldValue::Moves(list)) => {
                    let refs = list.pairs().filter(|(_, to)| *to & REF_BIT != 0);
                    let moved: Vec<_> = refs.map(|(from, to)| (self.get(from), to)).collect();
                    moved.into_iter().for_each(|(known, to)| self.set(to, true, known));
                }
                _ => {}
            }
        }
        targets(instruction, |target, moves| self.branch(instruction, target, moves));
    }

    /// A block begins with what is known where it is entered, if that is one place before it.
    fn branch(&mut self, from: &Instruction<'_>, target: u32, moves: Option<List<'_>>) {
        let is_only = self.edges.get(&target) == Some(&1) && from.offset < target as usize;
        if !is_only || self.integers.len() > MAX_INHERITED {
            return;
        }
        let mut begins = self.integers.clone();
        let mut upper = None;
        for (from, to) in moves.into_iter().flat_map(List::pairs).filter(|(_, to)| to & REF_BIT == 0) {
            // 64 bits are moved in halves.
            if upper.take() == Some((from, to)) {
                continue;
            }
            let moved = begins.get(&from).copied();
            upper = moved.filter(|it| it.is_wide).map(|_| (from.wrapping_add(1), to.wrapping_add(1)));
            let moved = moved.unwrap_or(Integer { known: KnownArgument::default(), is_wide: false });
            set(&mut begins, to, moved.is_wide, moved.known);
        }
        self.blocks.insert(target, begins);
    }
}

fn set(integers: &mut Integers, register: u16, may_be_wide: bool, known: KnownArgument) {
    integers.insert(register, Integer { known, is_wide: may_be_wide });
    if may_be_wide {
        integers.remove(&(register + 1));
    }
    if let Some(before) = register.checked_sub(1)
        && integers.get(&before).is_some_and(|it| it.is_wide)
    {
        integers.remove(&before);
    }
}

/// The term in a register, which is unknown from its first use on if nothing is known of it.
fn read(integers: &mut Integers, terms: &mut Terms, register: u16) -> Term {
    let register = register & !MOVE_BIT;
    let integer =
        integers.entry(register).or_insert(Integer { known: KnownArgument::default(), is_wide: false });
    *integer.known.term.get_or_insert_with(|| terms.unknown())
}
