//! Variables with their initializers, and constants.
//!
//! Source: the PTX ISA, "Variables" and "Constants".

use rehal_base::{Fault, FormatError};

use super::ast::{Initial, Number, Variable};
use super::lexer::Token;
use super::op::Place;
use super::parser::{Parser, shown};
use super::types::Type;
use crate::words::Word;

/// Limit on the bytes of one variable: more than a GPU has memory for.
const MAX_VARIABLE_BYTES: u64 = 1 << 40;

impl<'a> Parser<'a> {
    /// The variables of a declaration after its state space.
    pub(super) fn variables(
        &mut self,
        at: usize,
        space: Place,
        is_external: bool,
        all: &mut Vec<Variable<'a>>,
    ) -> Result<(), FormatError> {
        let mut variable = self.variable(at, space)?;
        variable.is_external = is_external;
        loop {
            if self.lexer.takes('=')? {
                variable.initial = self.initial(&variable)?;
            }
            let like = Variable { initial: Vec::new(), ..variable.clone() };
            all.push(variable);
            if !self.lexer.takes(',')? {
                return self.mark(';');
            }
            variable = self.named(like)?;
        }
    }

    /// A variable after its state space, without an initializer.
    pub(super) fn variable(&mut self, at: usize, space: Place) -> Result<Variable<'a>, FormatError> {
        let (mut align, mut components, mut is_pointer) = (0, 1, false);
        let kind = loop {
            let word_at = self.lexer.offset();
            match self.any_word("a type")? {
                ".align" => align = self.alignment()?,
                ".v2" => components = 2,
                ".v4" => components = 4,
                word => match word.strip_prefix('.').and_then(Type::named) {
                    Some(kind) => break kind,
                    None => return Err(self.error(word_at, Fault::Unsupported, "a type", word)),
                },
            }
        };
        // Attributes of parameters: `.ptr .global .align 16`.
        while let Some(Token::Word(word)) = self.lexer.peek()? {
            match word {
                ".ptr" => is_pointer = true,
                ".global" | ".const" | ".shared" | ".local" if is_pointer => {}
                ".align" if is_pointer => {
                    self.lexer.next()?;
                    self.alignment()?;
                    continue;
                }
                _ => break,
            }
            self.lexer.next()?;
        }
        let bytes = u64::from(kind.bytes()) * components;
        self.named(Variable {
            at,
            space,
            name: "",
            kind,
            align: align.max(bytes as u32),
            element_bytes: bytes,
            bytes: Some(bytes),
            initial: Vec::new(),
            is_register: false,
            is_pointer,
            is_external: false,
        })
    }

    /// A name with its dimensions, of a variable like another.
    fn named(&mut self, like: Variable<'a>) -> Result<Variable<'a>, FormatError> {
        let at = self.lexer.offset();
        let name = self.name("the name of a variable")?;
        let mut bytes = Some(like.element_bytes);
        while self.lexer.takes('[')? {
            if self.lexer.takes(']')? {
                bytes = None;
                continue;
            }
            let count = match self.constant()? {
                Number::Integer(count) => u64::try_from(count).ok(),
                _ => None,
            };
            self.mark(']')?;
            let total = bytes.unwrap_or(1).checked_mul(count.unwrap_or(u64::MAX));
            match total.filter(|it| *it <= MAX_VARIABLE_BYTES) {
                Some(total) => bytes = bytes.map(|_| total),
                None => {
                    return Err(self.error(at, Fault::Unsupported, "at most 2^40 bytes", "a larger array"));
                }
            }
        }
        Ok(Variable { name, bytes, ..like })
    }

    fn alignment(&mut self) -> Result<u32, FormatError> {
        let at = self.lexer.offset();
        let align = self.number("an alignment")?;
        if !align.is_power_of_two() || align > 1 << 16 {
            return Err(self.error(at, Fault::Corrupt, "a power of two", align.to_string()));
        }
        Ok(align)
    }

    fn initial(&mut self, variable: &Variable<'a>) -> Result<Vec<Initial<'a>>, FormatError> {
        let (at, mut all, mut depth) = (self.lexer.offset(), Vec::new(), 0_u32);
        if !matches!(variable.space, Place::Global | Place::Const) {
            return Err(self.error(at, Fault::Corrupt, "a variable in .global or .const", "an initializer"));
        }
        loop {
            while self.lexer.takes('{')? {
                depth += 1;
            }
            if depth == 0 || self.lexer.peek()? != Some(Token::Mark('}')) {
                all.push(self.element()?);
            }
            let fits =
                variable.bytes.is_none_or(|it| all.len() as u64 * u64::from(variable.kind.bytes()) <= it);
            if !fits || depth > 8 {
                return Err(self.error(at, Fault::Corrupt, "as many values as elements", "more"));
            }
            while depth > 0 && self.lexer.takes('}')? {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(all);
            }
            self.mark(',')?;
        }
    }

    fn element(&mut self) -> Result<Initial<'a>, FormatError> {
        let name = match self.lexer.peek()? {
            Some(Token::Word(word)) if !word.starts_with(|it: char| it.is_ascii_digit()) => {
                self.name("a variable")?
            }
            _ => return Ok(Initial::Number(self.constant()?)),
        };
        let generic = name == "generic" && self.lexer.takes('(')?;
        let name = if generic { self.name("a variable")? } else { name };
        if generic {
            self.mark(')')?;
        }
        let offset = self.offset(false)?;
        Ok(Initial::Address { name, offset })
    }

    /// A constant with its sign.
    pub(super) fn constant(&mut self) -> Result<Number, FormatError> {
        let is_negative = self.lexer.takes('-')?;
        let (at, token) = self.next("a constant")?;
        let Token::Word(word) = token else {
            return Err(self.error(at, Fault::Corrupt, "a constant", shown(token)));
        };
        let is_scientific = word.ends_with(['e', 'E']) && word.contains('.');
        let number = if is_scientific { self.scientific(word)? } else { parse(word) };
        match number {
            Some(Number::Integer(value)) if is_negative => Ok(Number::Integer(-value)),
            Some(Number::Single(bits)) if is_negative => Ok(Number::Single(bits ^ 1 << 31)),
            Some(Number::Double(bits)) if is_negative => Ok(Number::Double(bits ^ 1 << 63)),
            Some(number) => Ok(number),
            None => Err(self.error(at, Fault::Corrupt, "a constant", shown(token))),
        }
    }

    /// A decimal float whose exponent has a sign, of which `word` is the part before it.
    fn scientific(&mut self, word: &str) -> Result<Option<Number>, FormatError> {
        let sign = if self.lexer.takes('-')? { "-" } else { "" };
        if sign.is_empty() {
            self.lexer.takes('+')?;
        }
        let exponent = self.any_word("an exponent")?;
        let value = format!("{word}{sign}{exponent}").parse::<f64>().ok();
        Ok(value.map(|it| Number::Double(it.to_bits())))
    }
}

fn parse(word: &str) -> Option<Number> {
    let hex = |digits: &str, count: usize| {
        (digits.len() == count).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    match word.as_bytes() {
        [b'0', b'f' | b'F', ..] => return Some(Number::Single(hex(&word[2..], 8)? as u32)),
        [b'0', b'd' | b'D', ..] => return Some(Number::Double(hex(&word[2..], 16)?)),
        _ => {}
    }
    if word.contains('.') {
        let is_decimal = word.bytes().all(|it| it.is_ascii_digit() || matches!(it, b'.' | b'e' | b'E'));
        let value = is_decimal.then(|| word.parse::<f64>().ok()).flatten()?;
        return Some(Number::Double(value.to_bits()));
    }
    let digits = word.strip_suffix('U').unwrap_or(word);
    let value = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&digits[2..], 16).ok()?,
        [b'0', b'b' | b'B', ..] => u64::from_str_radix(&digits[2..], 2).ok()?,
        [b'0', _, ..] => u64::from_str_radix(&digits[1..], 8).ok()?,
        _ => digits.parse::<u64>().ok()?,
    };
    Some(Number::Integer(value.into()))
}
