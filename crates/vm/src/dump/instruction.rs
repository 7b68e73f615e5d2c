//! Instructions as text: what the assembler of the release reads, and what its disassembler writes.

use std::fmt::{self, Display as _};

use super::general::General;
use super::shown;
use crate::ValueKind::{self, F32, F64, I32, I64, Ref};
use crate::instruction::{FieldValue, Instruction, List};
use crate::module_file::ModuleFile;
use crate::operation::{Field, Op};

/// Bit of a register's number: it holds a reference.
const REF_BIT: u16 = 0x8000;
/// Bit of a reference register's number: the reference is given up.
const MOVE_BIT: u16 = 0x4000;
/// Bit of a function's ordinal: it is an import.
const IMPORT_BIT: u32 = 0x8000_0000;

/// An instruction of a module, as text without a line end.
pub(crate) struct InstructionText<'a, 'b> {
    /// The module, for names.
    pub(crate) file: &'a ModuleFile,
    /// Where the function's blocks start, ascending; blocks are numbered by it, or named by their offsets without it.
    pub(crate) blocks: Option<&'a [u32]>,
    /// The instruction.
    pub(crate) instruction: &'a Instruction<'b>,
}

impl fmt::Display for InstructionText<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instruction = self.instruction;
        if instruction.operation.op == Op::Block {
            return match self.blocks {
                Some(_) => write!(f, "{}:", self.block(instruction.offset as u32)),
                None => f.write_str("<block>"),
            };
        }
        self.results(f)?;
        write!(f, "vm.{}", instruction.operation.mnemonic)?;
        match instruction.operation.op {
            Op::Call | Op::CallVariadic | Op::CallYieldable | Op::CallVariadicYieldable => self.call(f),
            Op::Branch | Op::Yield | Op::Break => write!(f, " {}", self.target(0)),
            Op::CondBranch => write!(f, " {}, {}, {}", self.field(0), self.target(1), self.target(3)),
            Op::CondBreak => write!(f, " {}, {}", self.field(0), self.target(1)),
            Op::BranchTable => self.branch_table(f),
            Op::SelectI32 | Op::SelectI64 | Op::SelectF32 | Op::SelectF64 => {
                write!(f, " {} ? {} : {}", self.field(0), self.field(1), self.field(2))
            }
            Op::SelectRef => {
                write!(f, " {} ? {} : {} -> {}", self.field(0), self.field(2), self.field(3), self.field(1))
            }
            Op::SwitchI32 | Op::SwitchI64 | Op::SwitchF32 | Op::SwitchF64 => {
                write!(f, " {}[{}] else {}", self.field(0), self.field(2), self.field(1))
            }
            Op::SwitchRef => write!(f, " {}[{}] else {}", self.field(0), self.field(3), self.field(2)),
            Op::ListAlloc => write!(f, " {} : !vm.list<{}>", self.field(1), self.field(0)),
            Op::ListGetRef => write!(f, " {}, {} : {}", self.field(0), self.field(1), self.field(2)),
            Op::CastAnyRef => write!(f, " {} : !vm.ref<?> -> {}", self.field(0), self.field(1)),
            Op::Fail => write!(f, " {}, {}", self.field(0), self.field(1)),
            Op::Trace | Op::Print => write!(f, " {}({})", self.field(0), self.field(1)),
            _ => self.plain(f),
        }
    }
}

impl InstructionText<'_, '_> {
    /// `%i0, %r1 = `, unless nothing is written or it is written on resumption.
    fn results(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.instruction.operation;
        if matches!(operation.op, Op::CallYieldable | Op::CallVariadicYieldable) {
            return Ok(());
        }
        match operation.fields.last() {
            Some(Field::Results) if self.instruction.list(operation.fields.len() - 1).len() == 0 => Ok(()),
            Some(Field::Write(_) | Field::Results) => {
                write!(f, "{} = ", self.field(operation.fields.len() - 1))
            }
            _ => Ok(()),
        }
    }

    /// What is read, one after another, and the type behind a colon.
    fn plain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.instruction.operation.fields;
        let mut separator = " ";
        for index in self.order() {
            // What returns nothing leaves no blank behind.
            let absent =
                self.instruction.operation.op == Op::Return && self.instruction.list(index).len() == 0;
            if absent || matches!(fields[index], Field::Write(_) | Field::TypeId) {
                continue;
            }
            f.write_str(separator)?;
            separator = ", ";
            match self.is_global() && index == 0 && fields[0] == Field::Read(I32) {
                true if fields.contains(&Field::TypeId) => write!(f, ".refs[{}]", self.field(index))?,
                true => write!(f, ".rwdata[{}]", self.field(index))?,
                false => write!(f, "{}", self.field(index))?,
            }
        }
        match fields.iter().position(|field| *field == Field::TypeId) {
            Some(index) => write!(f, " : {}", self.field(index)),
            None => Ok(()),
        }
    }

    /// The order in which fields are shown: what is stored comes before where it goes to.
    fn order(&self) -> impl Iterator<Item = usize> {
        let operation = self.instruction.operation;
        let stores = operation.mnemonic.starts_with("buffer.store.")
            || self.is_global() && !matches!(operation.fields.last(), Some(Field::Write(_)));
        let last = operation.fields.len().saturating_sub(1);
        let first = stores.then_some(last).into_iter();
        first.chain(0..operation.fields.len() - usize::from(stores))
    }

    fn is_global(&self) -> bool {
        self.instruction.operation.mnemonic.starts_with("global.")
    }

    fn call(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variadic = matches!(self.instruction.operation.op, Op::CallVariadic | Op::CallVariadicYieldable);
        write!(f, " @{}", self.field(0))?;
        if variadic {
            write!(f, " segments[{}]", self.field(1))?;
        }
        let operands = 1 + usize::from(variadic);
        write!(f, "({})", self.field(operands))?;
        if self.instruction.operation.fields.get(operands + 1) == Some(&Field::Target) {
            let block = self.block(self.instruction.ordinal(operands + 1));
            write!(f, " -> {block}({})", self.field(operands + 2))?;
        }
        Ok(())
    }

    fn branch_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {} {{ default: {}", self.field(0), self.target(1))?;
        for (index, (block, moves)) in self.instruction.cases(3).iter().enumerate() {
            write!(f, ", {index}: {}({})", self.block(*block), Moves(*moves))?;
        }
        f.write_str(" }")
    }

    /// The block in field `index` with the moves in the one behind it.
    fn target(&self, index: usize) -> impl fmt::Display {
        let block = self.block(self.instruction.ordinal(index));
        let moves = Moves(self.instruction.list(index + 1));
        fmt::from_fn(move |f| write!(f, "{block}({moves})"))
    }

    fn block(&self, offset: u32) -> impl fmt::Display + use<> {
        let number = self.blocks.map(|blocks| blocks.binary_search(&offset));
        fmt::from_fn(move |f| match number {
            Some(Ok(number)) => write!(f, "^bb{number}"),
            _ => write!(f, "^{offset:08X}"),
        })
    }

    fn field(&self, index: usize) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            let kind = self.instruction.operation.fields[index];
            match (&self.instruction.values[index], kind) {
                // What is only looked at is not given up, whatever the bit says; nor is a null.
                (FieldValue::Register(register), Field::Read(Ref)) => {
                    write_register(f, register & !MOVE_BIT, Ref)
                }
                (FieldValue::Register(register), Field::Write(Ref))
                    if self.instruction.operation.op == Op::ConstRefZero =>
                {
                    write_register(f, register & !MOVE_BIT, Ref)
                }
                (FieldValue::Register(register), Field::Read(kind) | Field::Write(kind)) => {
                    write_register(f, *register, kind)
                }
                (FieldValue::Register(register), _) => write_register(f, *register, Ref),
                (FieldValue::Bits(bits), Field::Const(kind)) => write_number(f, *bits, kind),
                (FieldValue::Ordinal(ordinal), kind) => self.ordinal(f, *ordinal, kind),
                (FieldValue::Text(text), _) => {
                    // The release prints what is there; so does this, but for what is no text.
                    write!(f, "\"{}\"", String::from_utf8_lossy(text))
                }
                (FieldValue::List(list), Field::Segments) => {
                    separated(f, list.iter(), |f, size| write!(f, "{size}"))
                }
                (FieldValue::List(list), _) => separated(f, list.iter(), write_any_register),
                (FieldValue::Moves(list), _) => Moves(*list).fmt(f),
                _ => Ok(()),
            }
        })
    }

    fn ordinal(&self, f: &mut fmt::Formatter<'_>, ordinal: u32, kind: Field) -> fmt::Result {
        match kind {
            Field::GlobalBytes(_) => write!(f, ".rwdata[{ordinal}]"),
            Field::GlobalRef => write!(f, ".refs[{ordinal}]"),
            Field::Rodata => {
                let bytes = self.file.rodata(ordinal as usize).map_or(0, |segment| segment.range.len());
                write!(f, "{ordinal}  // {bytes}b")
            }
            Field::TypeId => f.write_str(self.file.type_name(ordinal as usize).map_or("*", shown)),
            Field::Import => {
                f.write_str("@")?;
                self.function_name(f, ordinal)
            }
            _ => self.function_name(f, ordinal),
        }
    }

    fn function_name(&self, f: &mut fmt::Formatter<'_>, ordinal: u32) -> fmt::Result {
        if ordinal & IMPORT_BIT != 0 {
            let import = (ordinal & !IMPORT_BIT) as usize;
            return match self.file.import(import) {
                Some(import) => f.write_str(shown(import.full_name)),
                None => write!(f, "import:{import}"),
            };
        }
        match source_name(self.file, ordinal as usize) {
            Some(name) => write!(f, "{}.{}", shown(self.file.name()), shown(name)),
            None => write!(f, "{}:{ordinal}", shown(self.file.name())),
        }
    }
}

/// A function's name in the source, where the debug database has one.
pub(super) fn source_name(file: &ModuleFile, ordinal: usize) -> Option<&str> {
    let map = file.debug_database()?.function(ordinal)?;
    Some(map.local_name).filter(|name| !name.is_empty())
}

/// `%i0->%i1, %R2->%r0`.
struct Moves<'a>(List<'a>);

impl fmt::Display for Moves<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, self.0.pairs(), |f, (source, target)| {
            write_any_register(f, source)?;
            f.write_str("->")?;
            write_any_register(f, target)
        })
    }
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write(f, item)?;
    }
    Ok(())
}

fn write_register(f: &mut fmt::Formatter<'_>, register: u16, kind: ValueKind) -> fmt::Result {
    let number = register & !REF_BIT;
    match kind {
        I32 | F32 => write!(f, "%i{number}"),
        I64 | F64 => write!(f, "%i{number}:{}", u32::from(number) + 1),
        Ref => write_any_register(f, register | REF_BIT),
    }
}

/// A register of which only its own number says what it is: wide ones go by their first half.
fn write_any_register(f: &mut fmt::Formatter<'_>, register: u16) -> fmt::Result {
    match (register & REF_BIT != 0, register & MOVE_BIT != 0) {
        (false, _) => write!(f, "%i{register}"),
        (true, false) => write!(f, "%r{}", register & !REF_BIT),
        (true, true) => write!(f, "%R{}", register & !(REF_BIT | MOVE_BIT)),
    }
}

fn write_number(f: &mut fmt::Formatter<'_>, bits: u64, kind: ValueKind) -> fmt::Result {
    match kind {
        I32 => write!(f, "{}  // 0x{:08X}", bits as i32, bits as u32),
        I64 | Ref => write!(f, "{}  // 0x{bits:016X}", bits as i64),
        F32 => General { value: f32::from_bits(bits as u32).into(), digits: 9 }.fmt(f),
        F64 => General { value: f64::from_bits(bits), digits: 17 }.fmt(f),
    }
}
