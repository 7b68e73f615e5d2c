//! Moves: what block arguments become on the edges between blocks.

use crate::ValueKind;
use crate::code::{Insn, OutOfLine};
use crate::instruction::{FieldValue, Instruction};
use crate::operation::Field;
use crate::registers::REF_BIT;
use crate::superinstructions::fuse;

use super::Lowering;

impl Lowering<'_> {
    /// Tracks how an instruction uses its registers.
    pub(super) fn note_uses(&mut self, from: &Instruction<'_>) {
        for (field, value) in from.operation.fields.iter().zip(&from.values) {
            if let (Field::Read(kind) | Field::Write(kind), FieldValue::Register(register)) = (field, value) {
                self.used(*register, *kind);
            }
        }
    }

    /// Tracks the use of a register: single, or half of a pair.
    pub(super) fn used(&mut self, register: u16, kind: ValueKind) {
        let (count, is_half) = match kind {
            ValueKind::I32 | ValueKind::F32 => (1, false),
            ValueKind::I64 | ValueKind::F64 => (2, true),
            ValueKind::Ref => return,
        };
        if let Some(uses) = self.is_half.get_mut(register.into()..usize::from(register) + count) {
            uses.fill(is_half);
        }
    }

    /// Whether a move is of the lower half of a register pair, and `next` that of the upper half. Two
    /// separate registers can look like a pair; those are better moved one by one, because a load that spans
    /// two recent stores defeats the processor's store-to-load forwarding.
    fn is_pair(&self, (source, target): (u16, u16), next: (u16, u16)) -> bool {
        source % 2 == 0
            && target % 2 == 0
            && next == (source + 1, target + 1)
            && self.is_half.get(usize::from(source)) == Some(&true)
    }

    /// Emits the moves of an edge in order.
    pub(super) fn moves(&mut self, moves: impl Iterator<Item = (u16, u16)>) {
        let mut moves = moves.peekable();
        while let Some((source, target)) = moves.next() {
            let insn = if source & REF_BIT != 0 {
                Insn::OutOfLine(OutOfLine::MoveRef { source, target })
            } else if moves.next_if(|next| self.is_pair((source, target), *next)).is_some() {
                // Both halves at once: aligned pairs are identical or disjoint.
                self.used(target, ValueKind::I64);
                Insn::Move64([source, target])
            } else {
                self.used(target, ValueKind::I32);
                Insn::Move32([source, target])
            };
            self.emit(insn);
        }
    }

    /// Fuses the last two instructions, given the registers that are dead after the edge to `target`, on
    /// which only `step` remains to be executed.
    pub(super) fn fuse_on_edge(&mut self, target: u32, step: Option<Insn>) {
        let Some([.., first, second]) = self.insns.get(self.fusible..) else { return };
        let stepped = step.and_then(Insn::accessed).unwrap_or_default();
        let is_dead = |register: u16, words: u16| {
            let is_stepped =
                |(first, count): &(u16, u16)| register < first + count && *first < register + words;
            let mut registers = register..register + words;
            registers.all(|register| !self.liveness.is_live(target, register))
                && !stepped.iter().any(is_stepped)
        };
        if let Some(fused) = fuse(*first, *second, &is_dead) {
            self.replace_last(2, fused);
        }
    }
}
