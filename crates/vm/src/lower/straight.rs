//! Instructions that lower one to one, independent of context.

use crate::code::{Insn, OutOfLine};
use crate::instruction::{FieldValue, Instruction};
use crate::operation::Field;
use crate::registers::{MOVE_BIT, REF_BIT};
use crate::verify::IMPORT_BIT;

use crate::list::ElementKind;
use crate::{Buffer, NamedObject, ValueKind};

use super::Lowering;

impl Lowering<'_> {
    /// Any instruction of the groups `library` and `routines`: its registers and types in their order.
    pub(super) fn out_of_line(&mut self, from: &Instruction<'_>) {
        debug_assert!(
            from.operation
                .fields
                .iter()
                .all(|field| matches!(field, Field::Read(_) | Field::Write(_) | Field::Take | Field::TypeId)),
            "{:?} has operands other than registers and types",
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
        self.emit(Insn::Routine { op: from.operation.op, operands });
    }

    pub(super) fn zero_32(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::Const32 { result: from.register(0), value: 0 });
    }

    pub(super) fn zero_64(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::Const64 { result: from.register(0), value: 0 });
    }

    pub(super) fn constant_32(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::Const32 { result: from.register(1), value: from.bits(0) as u32 });
    }

    pub(super) fn constant_64(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::Const64 { result: from.register(1), value: from.bits(0) });
    }

    pub(super) fn rodata(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::OutOfLine(OutOfLine::Rodata { segment: from.ordinal(0), result: from.register(1) }));
    }

    pub(super) fn import_resolved(&mut self, from: &Instruction<'_>) {
        let import = from.ordinal(0) & !IMPORT_BIT;
        self.emit(Insn::OutOfLine(OutOfLine::ImportResolved { import, result: from.register(1) }));
    }

    pub(super) fn load_global_32(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::GlobalLoad32 { offset: from.ordinal(0), result: from.register(1) });
    }

    pub(super) fn load_global_64(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::GlobalLoad64 { offset: from.ordinal(0), result: from.register(1) });
    }

    pub(super) fn store_global_32(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::GlobalStore32 { offset: from.ordinal(0), value: from.register(1) });
    }

    pub(super) fn store_global_64(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::GlobalStore64 { offset: from.ordinal(0), value: from.register(1) });
    }

    pub(super) fn load_global_ref(&mut self, from: &Instruction<'_>) {
        let (global, type_id) = (from.ordinal(0), from.ordinal(1) as u16);
        self.emit(Insn::OutOfLine(OutOfLine::GlobalLoadRef { global, type_id, result: from.register(2) }));
    }

    pub(super) fn store_global_ref(&mut self, from: &Instruction<'_>) {
        let (global, type_id) = (from.ordinal(0), from.ordinal(1) as u16);
        self.emit(Insn::OutOfLine(OutOfLine::GlobalStoreRef { global, type_id, value: from.register(2) }));
    }

    /// Loads or stores an element of a buffer.
    pub(super) fn access(&mut self, insn: fn([u16; 3]) -> Insn, from: &Instruction<'_>) {
        self.emit(insn([0, 1, 2].map(|index| from.register(index))));
    }

    /// Reads a reference from a list. That of a buffer is for the dispatch loop: functions of executables
    /// start by reading their bindings.
    pub(super) fn list_get_ref(&mut self, from: &Instruction<'_>) {
        let [list, index, result] = [0, 1, 3].map(|field| from.register(field));
        let type_id = from.ordinal(2) as u16;
        let is_buffer = matches!(
            self.tables.types.get(usize::from(type_id)),
            Some(ElementKind::Ref(name)) if **name == *Buffer::TYPE_NAME
        );
        self.emit(if is_buffer && result & MOVE_BIT == 0 {
            Insn::ListGetBuffer([list, index, result])
        } else {
            Insn::OutOfLine(OutOfLine::ListGetRef { list, index, type_id, result })
        });
    }

    pub(super) fn assign_ref(&mut self, from: &Instruction<'_>) {
        self.emit(Insn::OutOfLine(OutOfLine::MoveRef { source: from.register(0), target: from.register(1) }));
    }

    pub(super) fn discard(&mut self, from: &Instruction<'_>) {
        let registers = self.slice(from.list(0).iter());
        self.emit(Insn::OutOfLine(OutOfLine::Discard { registers }));
    }

    /// `trace` and `print`: no effect except on the references that are moved into them.
    pub(super) fn discard_moved(&mut self, from: &Instruction<'_>) {
        const MOVED: u16 = REF_BIT | MOVE_BIT;
        let registers = self.slice(from.list(1).iter().filter(|register| register & MOVED == MOVED));
        self.emit(Insn::OutOfLine(OutOfLine::Discard { registers }));
    }

    pub(super) fn switch(&mut self, kind: ValueKind, from: &Instruction<'_>) {
        let first = [0, 3, 1].map(|field| from.register(field));
        let registers = self.slice(first.into_iter().chain(from.list(2).iter()));
        self.emit(Insn::OutOfLine(OutOfLine::Switch { kind, registers }));
    }

    pub(super) fn switch_ref(&mut self, from: &Instruction<'_>) {
        let first = [0, 4, 2].map(|field| from.register(field));
        let registers = self.slice(first.into_iter().chain(from.list(3).iter()));
        let type_id = from.ordinal(1) as u16;
        self.emit(Insn::OutOfLine(OutOfLine::SwitchRef { type_id, registers }));
    }

    pub(super) fn return_values(&mut self, from: &Instruction<'_>) {
        let values = self.slice(from.list(0).iter());
        self.emit(Insn::Return { values });
    }

    pub(super) fn fail(&mut self, from: &Instruction<'_>) {
        let text = self.texts.len() as u32;
        self.texts.push(String::from_utf8_lossy(from.text(1)).into());
        self.emit(Insn::OutOfLine(OutOfLine::Fail { status: from.register(0), text }));
    }
}
