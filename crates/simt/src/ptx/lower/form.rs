use super::super::ast::Operand;
use super::super::types::Type;
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

    /// The next part, as errors show it.
    pub(super) fn shown(&self) -> String {
        self.left().map_or("none".to_owned(), |it| format!("'.{it}'"))
    }
}
