use super::super::types::Type;
use crate::numbers::Rounding;

/// The parts of an opcode, which are taken in their order.
pub(super) struct Modifiers<'a> {
    parts: Vec<&'a str>,
    next: usize,
}

impl<'a> Modifiers<'a> {
    pub(super) fn new(opcode: &'a str) -> Self {
        Self { parts: opcode.split('.').collect(), next: 0 }
    }

    /// The next part.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let part = self.parts.get(self.next)?;
        self.next += 1;
        Some(part)
    }

    /// Takes the next part if it is this word.
    pub(super) fn takes(&mut self, word: &str) -> bool {
        let is_it = self.left() == Some(word);
        self.next += usize::from(is_it);
        is_it
    }

    /// Takes the next part if a table has it.
    pub(super) fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let found = table.iter().find(|it| Some(it.0) == self.left())?;
        self.next += 1;
        Some(found.1)
    }

    pub(super) fn kind(&mut self) -> Option<Type> {
        let kind = Type::named(self.left()?)?;
        self.next += 1;
        Some(kind)
    }

    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        self.one_of(&[
            ("rn", Rounding::Nearest),
            ("rz", Rounding::Zero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
        ])
    }

    /// The next part, which is not taken.
    pub(super) fn left(&self) -> Option<&'a str> {
        self.parts.get(self.next).copied()
    }

    /// The type at the end, which is not taken.
    pub(super) fn last_kind(&self) -> Option<Type> {
        self.parts.last().and_then(|it| Type::named(it))
    }
}
