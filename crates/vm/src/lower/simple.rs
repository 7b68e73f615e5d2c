//! Instructions that become one by their fields alone.

use crate::code::{Division, Insn, Width};
use crate::instruction::{FieldValue, Instruction};
use crate::operation::{Field, Op};
use crate::verify::IMPORT_BIT;

/// The instruction that has the same fields, where there is one.
pub(super) fn simple(from: &Instruction<'_>) -> Option<Insn> {
    let divide = |op| Insn::Divide { op, registers: std::array::from_fn(|index| from.register(index)) };
    let load = |width| Insn::Load { width, registers: std::array::from_fn(|index| from.register(index)) };
    let store = |width| Insn::Store { width, registers: std::array::from_fn(|index| from.register(index)) };
    let (ordinal, last) = (from.ordinal(0), from.register(1));
    Some(match from.operation.op {
        Op::ConstI32Zero | Op::ConstF32Zero => Insn::Const32 { result: from.register(0), value: 0 },
        Op::ConstI64Zero | Op::ConstF64Zero => Insn::Const64 { result: from.register(0), value: 0 },
        Op::ConstI32 | Op::ConstF32 => Insn::Const32 { result: last, value: from.bits(0) as u32 },
        Op::ConstI64 | Op::ConstF64 => Insn::Const64 { result: last, value: from.bits(0) },
        Op::DivI32S => divide(Division::DivI32S),
        Op::DivI32U => divide(Division::DivI32U),
        Op::RemI32S => divide(Division::RemI32S),
        Op::RemI32U => divide(Division::RemI32U),
        Op::DivI64S => divide(Division::DivI64S),
        Op::DivI64U => divide(Division::DivI64U),
        Op::RemI64S => divide(Division::RemI64S),
        Op::RemI64U => divide(Division::RemI64U),
        Op::GlobalLoadI32 | Op::GlobalLoadF32 => Insn::GlobalLoad32 { offset: ordinal, result: last },
        Op::GlobalStoreI32 | Op::GlobalStoreF32 => Insn::GlobalStore32 { offset: ordinal, value: last },
        Op::GlobalLoadI64 | Op::GlobalLoadF64 => Insn::GlobalLoad64 { offset: ordinal, result: last },
        Op::GlobalStoreI64 | Op::GlobalStoreF64 => Insn::GlobalStore64 { offset: ordinal, value: last },
        Op::GlobalLoadRef => {
            Insn::GlobalLoadRef { global: ordinal, type_id: from.ordinal(1) as u16, result: from.register(2) }
        }
        Op::GlobalStoreRef => {
            Insn::GlobalStoreRef { global: ordinal, type_id: from.ordinal(1) as u16, value: from.register(2) }
        }
        Op::ConstRefRodata => Insn::Rodata { segment: ordinal, result: last },
        Op::ImportResolved => Insn::ImportResolved { import: ordinal & !IMPORT_BIT, result: last },
        Op::AssignRef => Insn::MoveRef { source: from.register(0), target: last },
        Op::BufferLoadI8U => load(Width::U8),
        Op::BufferLoadI8S => load(Width::I8),
        Op::BufferLoadI16U => load(Width::U16),
        Op::BufferLoadI16S => load(Width::I16),
        Op::BufferLoadI32 | Op::BufferLoadF32 => load(Width::B32),
        Op::BufferLoadI64 | Op::BufferLoadF64 => load(Width::B64),
        Op::BufferStoreI8 => store(Width::U8),
        Op::BufferStoreI16 => store(Width::U16),
        Op::BufferStoreI32 | Op::BufferStoreF32 => store(Width::B32),
        Op::BufferStoreI64 | Op::BufferStoreF64 => store(Width::B64),
        _ => return None,
    })
}

/// Any instruction of registers and types, in their order.
pub(super) fn other(from: &Instruction<'_>) -> Insn {
    debug_assert!(
        from.operation
            .fields
            .iter()
            .all(|field| matches!(field, Field::Read(_) | Field::Write(_) | Field::Take | Field::TypeId)),
        "{:?} has to be lowered by name",
        from.operation.op
    );
    let mut operands = [0; 6];
    for (operand, value) in operands.iter_mut().zip(&from.values) {
        *operand = match value {
            FieldValue::Register(register) => *register,
            // A module has at most 65536 types.
            FieldValue::Ordinal(ordinal) => *ordinal as u16,
            _ => 0,
        };
    }
    Insn::Other { op: from.operation.op, operands }
}
