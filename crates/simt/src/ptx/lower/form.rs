use super::super::ast::Operand;
use super::super::types::Type;
use crate::words::Word;

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
        self.one_of(words).is_some()
    }

    /// Takes the next part if it is one of these words, and returns its index among them.
    pub(super) fn one_of(&mut self, words: &str) -> Option<usize> {
        let index = words.split(' ').position(|it| Some(it) == self.left())?;
        self.next += 1;
        Some(index)
    }

    /// Takes the next part if it is a word of a table.
    pub(super) fn word<T: Word>(&mut self) -> Option<T> {
        let value = T::named(self.left()?)?;
        self.next += 1;
        Some(value)
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
