use std::fmt;

use rehal_base::{Error, Result};

use crate::{Value, ValueKind};

/// A calling convention: the kinds of a function's arguments and results, parsed from text such as
/// `0iCrID_r`.
///
/// The text starts with the version `0`, followed by a letter per argument ([`ValueKind`]), with spans of
/// tuples between `C` and `D` that the caller repeats any number of times, then `_` and the results. `v`
/// means no arguments, or no results.
#[derive(Clone, PartialEq, Eq)]
pub struct Convention {
    text: Box<str>,
    arguments: Box<[Argument]>,
    results: Box<[ValueKind]>,
    is_variadic: bool,
}

/// One argument of a convention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// One value.
    One(ValueKind),
    /// Any number of tuples of these kinds.
    Span(Box<[ValueKind]>),
}

/// A function that a module exports.
#[derive(Debug, Clone)]
pub struct ExportedFunction {
    /// The name without the module's.
    pub name: Box<str>,
    /// Its calling convention.
    pub convention: Convention,
}

impl Convention {
    /// Parses a convention. Fails on an unknown version and on malformed text.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::invalid_argument(format!("calling convention '{}' {what}", text.escape_debug()))
        };
        let rest = match text.as_bytes() {
            [] => &[][..],
            [b'0', rest @ ..] => rest,
            _ => {
                return Err(Error::new(
                    rehal_base::StatusCode::Unimplemented,
                    format!(
                        "unknown version of calling convention '{}' (expected version 0)",
                        text.escape_debug()
                    ),
                ));
            }
        };
        let (arguments, results) = match rest.iter().position(|letter| *letter == b'_') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &[][..]),
        };
        let arguments = arguments_of(arguments).ok_or_else(|| wrong("has malformed arguments"))?;
        let results = match results {
            b"v" => Some(Box::default()),
            letters => letters.iter().map(|letter| ValueKind::from_letter(*letter)).collect::<Option<_>>(),
        }
        .ok_or_else(|| wrong("has malformed results"))?;
        let is_variadic = arguments.iter().any(|argument| matches!(argument, Argument::Span(_)));
        Ok(Self { text: text.into(), arguments, results, is_variadic })
    }

    /// The text that it was parsed from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The arguments; a span counts as one.
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// The results.
    pub fn results(&self) -> &[ValueKind] {
        &self.results
    }

    /// Whether it has a span.
    pub fn is_variadic(&self) -> bool {
        self.is_variadic
    }

    /// Whether both pass the same values, regardless of spelling.
    pub fn is_same_call(&self, other: &Self) -> bool {
        self.arguments == other.arguments && self.results == other.results
    }

    /// Checks `values` against it, and computes where each argument starts.
    pub(crate) fn check_arguments(
        &self,
        values: &[Value],
        tuples: &[usize],
        starts: &mut Vec<u32>,
    ) -> Result<()> {
        starts.clear();
        let mut rest = values;
        let mut tuples = tuples.iter();
        let mut end = 0_u32;
        let mut check = |kinds: &[ValueKind], index: usize| -> Result<()> {
            for kind in kinds {
                let Some((value, others)) = rest.split_first() else {
                    return Err(Error::invalid_argument(format!("argument {index} is missing")));
                };
                if value.kind() != Some(*kind) {
                    return Err(Error::invalid_argument(format!(
                        "argument {index}: expected {}, found {}",
                        kind.name(),
                        value.type_name()
                    )));
                }
                rest = others;
            }
            Ok(())
        };
        if self.is_variadic() {
            starts.push(0);
        }
        for (index, argument) in self.arguments().iter().enumerate() {
            match argument {
                Argument::One(kind) => {
                    check(std::slice::from_ref(kind), index)?;
                    end += 1;
                }
                Argument::Span(kinds) => {
                    let count = *tuples.next().ok_or_else(|| {
                        Error::invalid_argument(format!(
                            "argument {index} is a span, but its tuple count is missing"
                        ))
                    })?;
                    for _ in 0..count {
                        check(kinds, index)?;
                        end += kinds.len() as u32;
                    }
                }
            }
            if self.is_variadic() {
                starts.push(end);
            }
        }
        if !rest.is_empty() || tuples.next().is_some() {
            return Err(Error::invalid_argument(format!(
                "too many values: found {} for {} arguments",
                values.len(),
                self.arguments().len()
            )));
        }
        Ok(())
    }
}

impl Default for Convention {
    /// No arguments and no results.
    fn default() -> Self {
        Self { text: "0v_v".into(), arguments: [].into(), results: [].into(), is_variadic: false }
    }
}

impl fmt::Debug for Convention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Convention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The arguments in a convention's first half; `None` if a letter is unknown, or a span is empty, nested or
/// unterminated.
fn arguments_of(letters: &[u8]) -> Option<Box<[Argument]>> {
    if letters == b"v" {
        return Some(Box::default());
    }
    let mut arguments = Vec::new();
    let mut letters = letters.iter();
    while let Some(letter) = letters.next() {
        if *letter != b'C' {
            arguments.push(Argument::One(ValueKind::from_letter(*letter)?));
            continue;
        }
        let mut kinds = Vec::new();
        loop {
            match letters.next()? {
                b'D' => break,
                letter => kinds.push(ValueKind::from_letter(*letter)?),
            }
        }
        if kinds.is_empty() {
            return None;
        }
        arguments.push(Argument::Span(kinds.into()));
    }
    Some(arguments.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValueKind::{F32, F64, I32, I64, Ref};

    #[test]
    fn conventions_are_read() {
        for text in ["", "0", "0v", "0_", "0v_v", "0_v"] {
            let convention = Convention::parse(text).unwrap();
            assert!(convention.arguments().is_empty() && convention.results().is_empty(), "{text}");
        }
        let convention = Convention::parse("0iICrFDf_rI").unwrap();
        assert!(convention.is_variadic());
        assert_eq!(
            convention.arguments(),
            [Argument::One(I32), Argument::One(I64), Argument::Span([Ref, F64].into()), Argument::One(F32)]
        );
        assert_eq!(convention.results(), [Ref, I64]);
        assert!(Convention::parse("0v").unwrap().is_same_call(&Convention::default()));
    }

    #[test]
    fn malformed_conventions_are_rejected() {
        for text in ["1v", "v", "0x", "0CiCiDD", "0Ci", "0D", "0CD", "0i_CiD", "0_iv", "0iv", "0_i_i", "0é"]
        {
            assert!(Convention::parse(text).is_err(), "{text}");
        }
        assert!(Convention::parse("1v").unwrap_err().message().contains("version 0"));
    }
}
