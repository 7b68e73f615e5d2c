use std::cell::Cell;

use rehal_base::{Error, Result};

use crate::convention::Argument;
use crate::instruction::{FieldValue, Instruction, List};
use crate::module_file::Features;
use crate::operation::{BLOCK, Field, Op};
use crate::registers::{MOVE_BIT, REF_BIT, REF_MASK};
use crate::tables::{Function, Tables};
use crate::{Convention, ValueKind};

/// The index bits of a number register.
const WORD_MASK: u16 = 0x7FFF;
/// The bit of a function ordinal that marks an import.
pub(crate) const IMPORT_BIT: u32 = 0x8000_0000;
/// Limit on the offset of a block, in bytes.
const BLOCK_LIMIT: u32 = 0x00FF_FFFF;

/// Verifies a function's instructions, so that the interpreter need not check them: encoding, registers,
/// ordinals, calls and blocks.
///
/// Stricter than the reference: calls pass exactly the values that the callee takes, moves do not mix numbers
/// and references, and globals are aligned. `function` is one of `tables`. Takes time linear in the length of
/// the bytecode, and memory linear in its blocks.
pub(crate) fn verify(tables: &Tables, function: &Function, bytecode: &[u8]) -> Result<Frame> {
    let descriptor = &function.descriptor;
    if !Features::SUPPORTED.contains(descriptor.requirements) {
        let lacking = descriptor.requirements.without(Features::SUPPORTED);
        return Err(Error::invalid_argument(format!("the function requires {lacking}")));
    }
    let mut verifier = Verifier {
        tables,
        function,
        words: register_limit(descriptor.i32_register_count, WORD_MASK)?,
        refs: register_limit(descriptor.ref_register_count, REF_MASK)?,
        frame: Cell::default(),
        is_in_block: false,
        blocks: Vec::new(),
        targets: Vec::new(),
    };
    verifier.check_arguments()?;
    let mut offset = 0;
    while offset < bytecode.len() {
        offset = verifier
            .instruction(bytecode, offset)
            .map_err(|error| error.context(format!("+{offset:08X}")))?;
    }
    if verifier.is_in_block {
        return Err(Error::invalid_argument("the last block has no terminator"));
    }
    verifier.check_blocks()?;
    let Frame { words, refs } = verifier.frame.get();
    Ok(Frame { words: words.next_multiple_of(2), refs })
}

/// The registers that a function uses, which may be fewer or more than it declares.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame {
    /// 32-bit registers, an even number.
    pub(crate) words: u16,
    /// Reference registers.
    pub(crate) refs: u16,
}

/// The registers that a function declaring `count` may use: up to the next power of two, like the reference,
/// because assemblers do not count unused arguments.
fn register_limit(count: usize, mask: u16) -> Result<usize> {
    match count.max(1).checked_next_power_of_two() {
        Some(limit) if limit <= mask.into() => Ok(limit),
        _ => Err(Error::resource_exhausted(format!("too many registers: the function declares {count}"))),
    }
}

/// The register of each argument of a function: the first registers, numbers aligned to their size.
pub(crate) fn argument_registers(convention: &Convention) -> impl Iterator<Item = (ValueKind, u16)> + '_ {
    let (mut words, mut refs) = (0_usize, 0_usize);
    convention.arguments().iter().filter_map(move |argument| {
        let Argument::One(kind) = argument else { return None };
        let at = match kind {
            ValueKind::I32 | ValueKind::F32 => {
                words += 1;
                words - 1
            }
            ValueKind::I64 | ValueKind::F64 => {
                words = words.next_multiple_of(2) + 2;
                words - 2
            }
            ValueKind::Ref => {
                refs += 1;
                refs - 1
            }
        };
        // `check_arguments` rejects arguments beyond the last register.
        Some((*kind, u16::try_from(at).unwrap_or(u16::MAX)))
    })
}

struct Verifier<'a> {
    tables: &'a Tables,
    function: &'a Function,
    words: usize,
    refs: usize,
    /// The registers used so far.
    frame: Cell<Frame>,
    is_in_block: bool,
    /// Offsets of the block markers, ascending.
    blocks: Vec<u32>,
    /// The jump targets.
    targets: Vec<u32>,
}

impl Verifier<'_> {
    /// Verifies the instruction at `offset` and returns the offset of the next one.
    fn instruction(&mut self, bytecode: &[u8], offset: usize) -> Result<usize> {
        if self.is_in_block == (bytecode[offset] == BLOCK) {
            return Err(Error::invalid_argument(if self.is_in_block {
                "the previous block has no terminator"
            } else {
                "the instruction is outside any block"
            }));
        }
        let instruction = Instruction::read(bytecode, offset)?;
        let operation = instruction.operation;
        let named = |error: Error| error.context(format!("vm.{}", operation.mnemonic));
        if !self.function.descriptor.requirements.contains(operation.set.feature()) {
            let error = Error::invalid_argument(format!(
                "the function uses {} without requiring it",
                operation.set.feature()
            ));
            return Err(named(error));
        }
        for (field, value) in operation.fields.iter().zip(&instruction.values) {
            self.field(*field, value).map_err(named)?;
        }
        self.whole(&instruction).map_err(named)?;
        Ok(instruction.end)
    }

    /// Verifies one field in isolation.
    fn field(&mut self, field: Field, value: &FieldValue<'_>) -> Result<()> {
        match (field, value) {
            (Field::Read(ValueKind::Ref), FieldValue::Register(register)) if register & MOVE_BIT != 0 => {
                Err(Error::invalid_argument(format!(
                    "reference register {} has the move bit set, but the operand borrows it",
                    register & REF_MASK
                )))
            }
            (Field::Read(kind) | Field::Write(kind), FieldValue::Register(register)) => {
                self.register(*register, kind)
            }
            (Field::Take, FieldValue::Register(register)) => self.register(*register, ValueKind::Ref),
            (Field::GlobalBytes(size), FieldValue::Ordinal(offset)) => self.global(*offset, size),
            (Field::GlobalRef, FieldValue::Ordinal(ordinal)) => {
                below("global reference", *ordinal, self.tables.global_refs)
            }
            (Field::Rodata, FieldValue::Ordinal(ordinal)) => {
                below("rodata segment", *ordinal, self.tables.rodata_count)
            }
            (Field::TypeId, FieldValue::Ordinal(ordinal)) => below("type", *ordinal, self.tables.types.len()),
            (Field::Function, FieldValue::Ordinal(ordinal)) if ordinal & IMPORT_BIT == 0 => {
                below("function", *ordinal, self.tables.functions.len())
            }
            (Field::Function, FieldValue::Ordinal(ordinal)) => {
                below("import", ordinal & !IMPORT_BIT, self.tables.imports.len())
            }
            (Field::Import, FieldValue::Ordinal(ordinal)) if ordinal & IMPORT_BIT == 0 => {
                Err(Error::invalid_argument(format!(
                    "function {ordinal} is not an import (expected the import bit)"
                )))
            }
            (Field::Import, FieldValue::Ordinal(ordinal)) => {
                below("import", ordinal & !IMPORT_BIT, self.tables.imports.len())
            }
            (Field::Target, FieldValue::Ordinal(target)) => self.target(*target),
            (Field::Moves, FieldValue::Moves(moves)) => self.moves(*moves),
            (Field::Operands | Field::Results, FieldValue::List(list)) => {
                list.iter().try_for_each(|register| self.any_register(register))
            }
            (Field::Many(kind), FieldValue::List(list)) => {
                list.iter().try_for_each(|register| self.register(register, kind))
            }
            (Field::Cases, FieldValue::Cases(cases)) => cases.iter().try_for_each(|(target, moves)| {
                self.target(*target)?;
                self.moves(*moves)
            }),
            // Every constant and text is valid; tuple counts are checked with the call.
            _ => Ok(()),
        }
    }

    /// Verifies the fields in combination.
    fn whole(&mut self, instruction: &Instruction<'_>) -> Result<()> {
        match instruction.operation.op {
            Op::Block => {
                if instruction.offset as u64 >= u64::from(BLOCK_LIMIT) {
                    return Err(Error::out_of_range(format!(
                        "the block's offset exceeds the limit of {BLOCK_LIMIT:#x}"
                    )));
                }
                self.blocks.push(instruction.offset as u32);
                self.is_in_block = true;
                return Ok(());
            }
            Op::DiscardRefs => {
                instruction
                    .list(0)
                    .iter()
                    .try_for_each(|register| self.register(register, ValueKind::Ref))?;
            }
            Op::Call => self.call(instruction.ordinal(0), None, instruction.list(1), instruction.list(2))?,
            Op::CallYieldable => {
                self.call(instruction.ordinal(0), None, instruction.list(1), instruction.list(3))?;
            }
            Op::CallVariadic => {
                let [segments, operands, results] = [1, 2, 3].map(|index| instruction.list(index));
                self.call(instruction.ordinal(0), Some(segments), operands, results)?;
            }
            Op::CallVariadicYieldable => {
                let [segments, operands, results] = [1, 2, 4].map(|index| instruction.list(index));
                self.call(instruction.ordinal(0), Some(segments), operands, results)?;
            }
            Op::Return => {
                let results = self.function.convention.results().iter().copied();
                self.values("result", results, instruction.list(0))?;
            }
            _ => {}
        }
        if instruction.operation.is_terminator {
            self.is_in_block = false;
        }
        Ok(())
    }

    /// Verifies the arguments and results of a call against the callee's convention.
    fn call(
        &self,
        callee: u32,
        segments: Option<List<'_>>,
        operands: List<'_>,
        results: List<'_>,
    ) -> Result<()> {
        let convention = if callee & IMPORT_BIT == 0 {
            if segments.is_some() {
                return Err(Error::failed_precondition("only imports can be called with spans"));
            }
            &self.tables.functions[callee as usize].convention
        } else {
            &self.tables.imports[(callee & !IMPORT_BIT) as usize].convention
        };
        let kinds = self.flattened(convention, segments, operands.len())?;
        self.values("argument", kinds.into_iter(), operands)?;
        self.values("result", convention.results().iter().copied(), results)
    }

    /// The kinds of all values of a call; at most `limit` + 1 of them.
    fn flattened(
        &self,
        convention: &Convention,
        segments: Option<List<'_>>,
        limit: usize,
    ) -> Result<Vec<ValueKind>> {
        let arguments = convention.arguments();
        if segments.is_none() && convention.is_variadic() {
            return Err(Error::invalid_argument("the callee takes spans, but the call has no tuple counts"));
        }
        if let Some(segments) = segments
            && segments.len() != arguments.len()
        {
            return Err(Error::invalid_argument(format!(
                "the call has tuple counts for {} arguments, the callee takes {}",
                segments.len(),
                arguments.len()
            )));
        }
        let mut counts = segments.map(List::iter);
        let mut kinds = Vec::new();
        for argument in arguments {
            let count = counts.as_mut().and_then(Iterator::next).unwrap_or(1);
            match argument {
                Argument::One(kind) => kinds.push(*kind),
                Argument::Span(tuple) => {
                    for _ in 0..count {
                        if kinds.len() > limit {
                            break;
                        }
                        kinds.extend_from_slice(tuple);
                    }
                }
            }
        }
        Ok(kinds)
    }

    /// Verifies that the registers match these kinds in number and kind.
    fn values(
        &self,
        what: &str,
        kinds: impl ExactSizeIterator<Item = ValueKind>,
        registers: List<'_>,
    ) -> Result<()> {
        if kinds.len() != registers.len() {
            return Err(Error::invalid_argument(format!(
                "expected {} {what} registers, found {}",
                kinds.len(),
                registers.len()
            )));
        }
        for (index, (kind, register)) in kinds.zip(registers.iter()).enumerate() {
            self.register(register, kind).map_err(|error| error.context(format!("{what} {index}")))?;
        }
        Ok(())
    }

    fn register(&self, register: u16, kind: ValueKind) -> Result<()> {
        let is_ref = register & REF_BIT != 0;
        if is_ref != (kind == ValueKind::Ref) {
            let found = if is_ref { "a reference" } else { "a number" };
            return Err(Error::invalid_argument(format!(
                "register {register:#06x}: expected {}, found {found}",
                kind.name()
            )));
        }
        let last = match kind {
            ValueKind::Ref => register & REF_MASK,
            ValueKind::I32 | ValueKind::F32 => register,
            ValueKind::I64 | ValueKind::F64 if register.is_multiple_of(2) => register + 1,
            ValueKind::I64 | ValueKind::F64 => {
                return Err(Error::invalid_argument(format!(
                    "register {register} is odd: a register pair must start at an even register"
                )));
            }
        };
        let mut frame = self.frame.get();
        if is_ref {
            below("reference register", last.into(), self.refs)?;
            frame.refs = frame.refs.max(last + 1);
        } else {
            below("register", last.into(), self.words)?;
            frame.words = frame.words.max(last + 1);
        }
        self.frame.set(frame);
        Ok(())
    }

    fn any_register(&self, register: u16) -> Result<()> {
        self.register(register, if register & REF_BIT == 0 { ValueKind::I32 } else { ValueKind::Ref })
    }

    fn moves(&self, moves: List<'_>) -> Result<()> {
        for (source, target) in moves.pairs() {
            self.any_register(source)?;
            self.any_register(target)?;
            if (source ^ target) & REF_BIT != 0 {
                return Err(Error::invalid_argument(format!(
                    "cannot move register {source:#06x} to {target:#06x}: one is a reference, the other a number"
                )));
            }
        }
        Ok(())
    }

    fn target(&mut self, target: u32) -> Result<()> {
        if target >= BLOCK_LIMIT {
            return Err(Error::out_of_range(format!("no block at {target:08X}")));
        }
        self.targets.push(target);
        Ok(())
    }

    fn global(&self, offset: u32, size: u32) -> Result<()> {
        if u64::from(offset) + u64::from(size) > self.tables.global_bytes as u64 {
            return Err(Error::out_of_range(format!(
                "{size} bytes at offset {offset} are out of bounds of the globals of {} bytes",
                self.tables.global_bytes
            )));
        }
        if !offset.is_multiple_of(4) {
            return Err(Error::invalid_argument(format!(
                "the global at offset {offset} is not aligned to 4"
            )));
        }
        Ok(())
    }

    fn check_arguments(&self) -> Result<()> {
        for (index, (kind, at)) in argument_registers(&self.function.convention).enumerate() {
            let register = if kind == ValueKind::Ref { at.min(REF_MASK) | REF_BIT } else { at };
            if kind == ValueKind::Ref && at > REF_MASK || kind != ValueKind::Ref && at & REF_BIT != 0 {
                return Err(Error::invalid_argument("the function has more arguments than registers"));
            }
            self.register(register, kind).map_err(|error| error.context(format!("argument {index}")))?;
        }
        Ok(())
    }

    fn check_blocks(&mut self) -> Result<()> {
        let said = self.function.descriptor.block_count;
        if self.blocks.len() != said {
            return Err(Error::invalid_argument(format!(
                "the function declares {said} blocks, found {}",
                self.blocks.len()
            )));
        }
        match self.targets.iter().find(|target| self.blocks.binary_search(target).is_err()) {
            Some(target) => Err(Error::invalid_argument(format!("no block at {target:08X}"))),
            None => Ok(()),
        }
    }
}

fn below(what: &str, ordinal: u32, count: usize) -> Result<()> {
    if (ordinal as u64) < count as u64 {
        return Ok(());
    }
    Err(Error::out_of_range(format!("{what} {ordinal} is out of bounds of {count}")))
}
