use super::super::op::{Op, Reg};
use super::super::types::Type;
use super::form::Form;
use super::lowering::{Lowered, Lowering};
use crate::words::Word;

/// Parts of a name, and operands, that have to be there.
impl<'a> Lowering<'a, '_> {
    /// Takes one of these words, and returns its index among them.
    pub(super) fn want(&self, form: &mut Form<'a, '_>, words: &str) -> Lowered<usize> {
        form.one_of(words).ok_or_else(|| self.unsupported(format!("one of '{words}'"), form.shown()))
    }

    /// Takes a word of a table.
    pub(super) fn word<T: Word>(&self, form: &mut Form<'a, '_>) -> Lowered<T> {
        let expected = || format!("one of '{}'", T::WORDS.trim_end());
        form.word().ok_or_else(|| self.unsupported(expected(), form.shown()))
    }

    /// Takes one of these types, which spaces separate.
    pub(super) fn kind_of(&self, form: &mut Form<'a, '_>, kinds: &str) -> Lowered<Type> {
        let kind = form.left().and_then(Type::named);
        self.want(form, kinds)?;
        kind.ok_or_else(|| self.unsupported("a type", form.shown()))
    }

    /// Fails unless an instruction has this number of operands.
    pub(super) fn expect(&self, form: &Form<'a, '_>, count: usize) -> Lowered<()> {
        self.expect_within(form, count, count)
    }

    /// Fails unless an instruction has between these numbers of operands.
    pub(super) fn expect_within(&self, form: &Form<'a, '_>, least: usize, most: usize) -> Lowered<()> {
        let found = form.operands.len();
        match (least..=most).contains(&found) {
            true => Ok(()),
            false => Err(self.corrupt(format!("{least} to {most} operands"), found.to_string())),
        }
    }

    /// The registers of all operands, which are a destination and sources of these types.
    pub(super) fn registers<const N: usize>(
        &mut self,
        form: &Form<'a, '_>,
        kinds: [Type; N],
    ) -> Lowered<[Reg; N]> {
        self.expect(form, N)?;
        let mut all = [0; N];
        for (index, (reg, operand)) in all.iter_mut().zip(form.operands).enumerate() {
            *reg = match index {
                0 => self.destination(operand, kinds[0])?,
                _ => self.source(operand, kinds[index])?,
            };
        }
        Ok(all)
    }

    /// Lowers an instruction to one operation with a destination and sources of these types.
    pub(super) fn plain<const N: usize>(
        &mut self,
        form: &Form<'a, '_>,
        op: Op,
        kinds: [Type; N],
    ) -> Lowered<()> {
        let registers = self.registers(form, kinds)?;
        self.emit(op, registers, 0)
    }
}
