//! Which 32-bit registers instructions read and write.

use crate::ValueKind;
use crate::convention::Argument;
use crate::instruction::{FieldValue, Instruction};
use crate::operation::{Field, Op};
use crate::registers::{REF_BIT, words};
use crate::tables::{Function, Tables};
use crate::verify::IMPORT_BIT;

/// How an instruction accesses registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It may read them.
    Read,
    /// It writes them, after all that it reads.
    Write,
}

/// Reports to `visit` the registers that a verified instruction of `function` accesses, reads first: the
/// first register and the number of 32-bit registers. References are excluded, and so are the targets of
/// moves, which the edges write.
pub(crate) fn accesses(
    tables: &Tables,
    function: &Function,
    instruction: &Instruction<'_>,
    mut visit: impl FnMut(Access, u16, u16),
) {
    let mut number = |access, register: u16, count| {
        if register & REF_BIT == 0 {
            visit(access, register, count);
        }
    };
    let fields = || instruction.operation.fields.iter().zip(&instruction.values);
    for (field, value) in fields() {
        match (field, value) {
            (Field::Read(kind), FieldValue::Register(register)) => {
                number(Access::Read, *register, words(*kind));
            }
            (Field::Many(kind), FieldValue::List(list)) => {
                list.iter().for_each(|register| number(Access::Read, register, words(*kind)));
            }
            (Field::Operands, FieldValue::List(list)) => {
                let kinds = operand_kinds(tables, function, instruction);
                for (index, register) in list.iter().enumerate() {
                    // The kind is unknown after a span: assume a pair.
                    number(Access::Read, register, kinds.get(index).map_or(2, |kind| words(*kind)));
                }
            }
            (Field::Moves, FieldValue::Moves(moves)) => {
                moves.pairs().for_each(|(source, _)| number(Access::Read, source, 1));
            }
            (Field::Cases, FieldValue::Cases(cases)) => {
                let moves = cases.iter().flat_map(|(_, moves)| moves.pairs());
                moves.for_each(|(source, _)| number(Access::Read, source, 1));
            }
            _ => {}
        }
    }
    for (field, value) in fields() {
        match (field, value) {
            (Field::Write(kind), FieldValue::Register(register)) => {
                number(Access::Write, *register, words(*kind));
            }
            (Field::Results, FieldValue::List(list)) => {
                let kinds = callee(tables, instruction).map_or(&[][..], |callee| callee.results());
                for (kind, register) in kinds.iter().zip(list.iter()) {
                    number(Access::Write, register, words(*kind));
                }
            }
            _ => {}
        }
    }
}

/// The convention of the callee.
fn callee<'a>(tables: &'a Tables, call: &Instruction<'_>) -> Option<&'a crate::Convention> {
    let callee = call.ordinal(0);
    if callee & IMPORT_BIT == 0 {
        tables.functions.get(callee as usize).map(|function| &function.convention)
    } else {
        tables.imports.get((callee & !IMPORT_BIT) as usize).map(|import| &import.convention)
    }
}

/// The kinds of the values that a call or a return passes, up to the first span.
fn operand_kinds(tables: &Tables, function: &Function, instruction: &Instruction<'_>) -> Vec<ValueKind> {
    match instruction.operation.op {
        Op::Return => function.convention.results().to_vec(),
        Op::Call | Op::CallYieldable => {
            let arguments = callee(tables, instruction).map_or(&[][..], |callee| callee.arguments());
            let one = |argument: &Argument| match argument {
                Argument::One(kind) => Some(*kind),
                Argument::Span(_) => None,
            };
            arguments.iter().map_while(one).collect()
        }
        _ => Vec::new(),
    }
}
