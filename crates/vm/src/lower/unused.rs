//! Arguments that a function does not use.

use crate::instruction::{FieldValue, Instruction};
use crate::operation::{Field, Op};
use crate::registers::{REF_BIT, REF_MASK};
use crate::verify::argument_registers;
use crate::{Convention, ValueKind};

/// The registers of references, as bits from the lowest, that a verified function is passed and then discards
/// or overwrites before it uses them, and before it branches. Callers need not pass these. Registers beyond
/// the 64th count as used.
pub(super) fn unused_ref_arguments(convention: &Convention, bytecode: &[u8]) -> u64 {
    let references = argument_registers(convention).filter(|(kind, _)| *kind == ValueKind::Ref);
    let mut undecided = references.fold(0, |all, (_, register)| all | bit(register | REF_BIT));
    let (mut unused, mut offset) = (0, 0);
    while undecided != 0
        && let Ok(instruction) = Instruction::read(bytecode, offset)
        && !instruction.operation.is_terminator
    {
        offset = instruction.end;
        let (used, replaced) = accessed(&instruction);
        unused |= undecided & replaced & !used;
        undecided &= !(used | replaced);
    }
    unused
}

/// The references that an instruction uses, and those that it discards or overwrites.
fn accessed(instruction: &Instruction<'_>) -> (u64, u64) {
    let (mut used, mut replaced) = (0, 0);
    for (field, value) in instruction.operation.fields.iter().zip(&instruction.values) {
        match (field, value) {
            (Field::Write(_), FieldValue::Register(register)) => replaced |= bit(*register),
            (Field::Results, FieldValue::List(list)) => {
                list.iter().for_each(|register| replaced |= bit(register))
            }
            (Field::Operands, FieldValue::List(list)) if instruction.operation.op == Op::DiscardRefs => {
                list.iter().for_each(|register| replaced |= bit(register));
            }
            (_, FieldValue::Register(register)) => used |= bit(*register),
            (_, FieldValue::List(list)) => list.iter().for_each(|register| used |= bit(register)),
            _ => {}
        }
    }
    (used, replaced)
}

/// The bit of a register; none if it does not hold a reference or is beyond the 64th.
fn bit(register: u16) -> u64 {
    let shift = if register & REF_BIT == 0 { u64::BITS } else { u32::from(register & REF_MASK) };
    1_u64.checked_shl(shift).unwrap_or_default()
}
