use super::super::types::Type;
use super::form::Form;
use super::lowering::{Lowered, Lowering};

/// Parts of a name that have to be there.
impl<'a> Lowering<'a, '_> {
    /// Takes one of these words.
    pub(super) fn want(&self, form: &mut Form<'a, '_>, words: &str) -> Lowered<()> {
        match form.takes(words) {
            true => Ok(()),
            false => Err(self.unsupported(format!("one of '{words}'"), form.shown())),
        }
    }

    /// Takes one of these words, and returns the value of that word.
    pub(super) fn choice<T: Copy>(&self, form: &mut Form<'a, '_>, words: &str, values: &[T]) -> Lowered<T> {
        let value = form.one_of(words, values);
        value.ok_or_else(|| self.unsupported(format!("one of '{words}'"), form.shown()))
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
}
