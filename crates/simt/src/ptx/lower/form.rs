use super::super::ast::Operand;
use super::super::types::Type;
use super::{Lowered, Lowering};
use crate::numbers::Rounding;

/// An instruction as it is written. The parts of its name are taken in their order.
pub(super) struct Form<'a, 'b> {
    pub opcode: &'a str,
    pub operands: &'b [Operand<'a>],
    parts: Vec<&'a str>,
    next: usize,
}

impl<'a, 'b> Form<'a, 'b> {
    pub(super) fn new(name: &'a str, operands: &'b [Operand<'a>]) -> Self {
        let parts: Vec<_> = name.split('.').collect();
        Self { opcode: parts[0], operands, parts, next: 1 }
    }

    /// Takes the next part.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let part = self.left()?;
        self.next += 1;
        Some(part)
    }

    /// Takes the next part if it is one of these words, which spaces separate.
    pub(super) fn takes(&mut self, words: &str) -> bool {
        let is_it = words.split(' ').any(|it| Some(it) == self.left());
        self.next += usize::from(is_it);
        is_it
    }

    /// Takes the next part if it is one of these words, and returns the value of that word.
    pub(super) fn one_of<T: Copy>(&mut self, words: &str, values: &[T]) -> Option<T> {
        let index = words.split(' ').position(|it| Some(it) == self.left())?;
        self.next += 1;
        values.get(index).copied()
    }

    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        self.one_of("rn rz rm rp", &[Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up])
    }

    /// The next part, which is not taken.
    pub(super) fn left(&self) -> Option<&'a str> {
        self.parts.get(self.next).copied()
    }

    /// The type at the end, which is not taken.
    pub(super) fn last_kind(&self) -> Option<Type> {
        self.parts.last().and_then(|it| Type::named(it))
    }

    fn shown(&self) -> String {
        self.left().map_or("none".to_owned(), |it| format!("'.{it}'"))
    }
}

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
