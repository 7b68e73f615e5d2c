//! Instructions as text, in the syntax of the release's assembler and disassembler.

use std::fmt::{self, Display as _};

use rehal_base::printf::General;

use super::shown;
use crate::ValueKind::{self, F32, F64, I32, I64, Ref};
use crate::instruction::{FieldValue, Instruction, List};
use crate::module_file::ModuleFile;
use crate::operation::{Field, Op};

/// Register bit: a reference register.
const REF_BIT: u16 = 0x8000;
/// Reference register bit: the reference is moved.
const MOVE_BIT: u16 = 0x4000;
/// Function ordinal bit: an import.
const IMPORT_BIT: u32 = 0x8000_0000;

/// An instruction of a module as text, without a newline.
pub(crate) struct InstructionText<'a, 'b> {
    /// The module, for names.
    pub(crate) file: &'a ModuleFile,
    /// Offsets of the function's blocks, ascending, to number blocks; `None` to name blocks by offset.
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
        match instruction.operation.syntax {
            Some(syntax) => self.operands(f, syntax),
            None => self.operands_in_order(f),
        }
    }
}

impl InstructionText<'_, '_> {
    /// `%i0, %r1 = `, unless nothing is written or the syntax places the results elsewhere.
    fn results(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.instruction.operation;
        let Some(last) = operation.fields.len().checked_sub(1) else { return Ok(()) };
        let is_empty = operation.fields[last] == Field::Results && self.instruction.list(last).len() == 0;
        let is_result = matches!(operation.fields[last], Field::Write(_) | Field::Results);
        let is_named = operation.syntax.is_some_and(|syntax| syntax.contains(&format!("{{{last}}}")));
        match is_result && !is_empty && !is_named {
            true => write!(f, "{} = ", self.field(last)),
            false => Ok(()),
        }
    }

    /// The operands in the syntax of the table: `{n}` is field n.
    fn operands(&self, f: &mut fmt::Formatter<'_>, syntax: &str) -> fmt::Result {
        f.write_str(" ")?;
        let mut rest = syntax;
        while let Some(at) = rest.find('{') {
            let field = rest[at + 1..].split_once('}').and_then(|(field, after)| {
                let index: usize = field.parse().ok()?;
                Some((index, after))
            });
            match field {
                Some((index, after)) => {
                    write!(f, "{}{}", &rest[..at], self.field(index))?;
                    rest = after;
                }
                None => {
                    f.write_str(&rest[..=at])?;
                    rest = &rest[at + 1..];
                }
            }
        }
        f.write_str(rest)
    }

    /// The read operands in order, and the type after a colon.
    fn operands_in_order(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.instruction.operation.fields;
        let mut separator = " ";
        for (index, field) in fields.iter().enumerate() {
            // A `return` without values has no trailing space.
            let is_empty = *field == Field::Operands && self.instruction.list(index).len() == 0;
            if is_empty || matches!(field, Field::Write(_) | Field::TypeId) {
                continue;
            }
            write!(f, "{separator}{}", self.field(index))?;
            separator = ", ";
        }
        match fields.iter().position(|field| *field == Field::TypeId) {
            Some(index) => write!(f, " : {}", self.field(index)),
            None => Ok(()),
        }
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
                // A borrowed reference is not moved, regardless of the bit; nor is null.
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
                    // The release prints the raw bytes; so does this unless they are not UTF-8.
                    write!(f, "\"{}\"", String::from_utf8_lossy(text))
                }
                (FieldValue::List(list), Field::Segments) => {
                    separated(f, list.iter(), |f, size| write!(f, "{size}"))
                }
                (FieldValue::List(list), _) => separated(f, list.iter(), write_any_register),
                (FieldValue::Moves(list), _) => Moves(*list).fmt(f),
                (FieldValue::Cases(cases), _) => {
                    cases.iter().enumerate().try_for_each(|(index, (block, moves))| {
                        write!(f, ", {index}: {}({})", self.block(*block), Moves(*moves))
                    })
                }
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
            Field::Target => write!(f, "{}", self.block(ordinal)),
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

/// A function's source name, if the debug database has it.
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

/// A register whose kind follows only from its number: a register pair is named by its lower half.
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
