//! Decisions of a user about the data of a capture.

use std::fmt;

use rehal_base::{ElementType, Error, Range, Result, glob};

/// The treatment of the data that a rule selects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedactRule {
    /// The data.
    pub selector: DataSelector,
    /// The new content.
    pub decision: RedactDecision,
}

/// Which data a rule decides about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSelector {
    /// All data of which the type is unknown.
    All,
    /// The data that the functions whose name matches a pattern use.
    Functions(String),
    /// A part of the data of a record.
    Range(DataRange),
}

/// The treatment of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedactDecision {
    /// It becomes zero.
    Zero,
    /// It stays.
    Keep,
    /// Its elements are replaced.
    Elements(ElementType),
}

/// A part of the data of a record; its text is `#RECORD@OFFSET+LENGTH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRange {
    /// Ordinal of the record.
    pub record: u64,
    /// The bytes of its data.
    pub range: Range,
}

impl RedactRule {
    /// A rule for the data that `selector` names: `all`, `#RECORD@OFFSET+LENGTH`, or a pattern with `*` and
    /// `?` of names of functions.
    pub fn parse(selector: &str, decision: RedactDecision) -> Result<Self> {
        let selector = match selector {
            "all" => DataSelector::All,
            _ if selector.starts_with('#') => DataSelector::Range(DataRange::parse(selector)?),
            _ => DataSelector::Functions(selector.to_owned()),
        };
        Ok(Self { selector, decision })
    }

    pub(super) fn selects_function(&self, name: &[u8]) -> bool {
        match &self.selector {
            DataSelector::Functions(pattern) => glob::matches_bytes(pattern.as_bytes(), name),
            _ => false,
        }
    }

    pub(super) fn range(&self) -> Option<DataRange> {
        match self.selector {
            DataSelector::Range(range) => Some(range),
            _ => None,
        }
    }
}

/// The decision of rules that select the same data; `None` without rules.
pub(super) fn decision<'r>(
    place: DataRange,
    rules: impl Iterator<Item = &'r RedactRule>,
) -> Result<Option<RedactDecision>> {
    let mut rules = rules.peekable();
    let Some(first) = rules.peek().copied() else { return Ok(None) };
    match rules.find(|it| it.decision != first.decision) {
        None => Ok(Some(first.decision)),
        Some(other) => {
            let message = format!("two flags say different things about {place}: {first} and {other}");
            Err(Error::invalid_argument(message)
                .advise("decide about this range alone: it precedes functions"))
        }
    }
}

impl DataRange {
    fn parse(text: &str) -> Result<Self> {
        let form = || {
            let error = Error::invalid_argument(format!("'{text}' is not of the form #RECORD@OFFSET+LENGTH"));
            error.advise("copy the range from the list of ranges")
        };
        let (record, rest) = text.strip_prefix('#').and_then(|it| it.split_once('@')).ok_or_else(form)?;
        let (offset, length) = rest.split_once('+').ok_or_else(form)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| form());
        let range = Range::new(number(offset)?, number(length)?).filter(|it| it.length != 0);
        Ok(Self { record: number(record)?, range: range.ok_or_else(form)? })
    }
}

impl fmt::Display for DataRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}@{}+{}", self.record, self.range.offset, self.range.length)
    }
}

impl fmt::Display for DataSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Functions(pattern) => f.write_str(pattern),
            Self::Range(range) => range.fmt(f),
        }
    }
}

impl fmt::Display for RedactRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decision {
            RedactDecision::Zero => write!(f, "zero '{}'", self.selector),
            RedactDecision::Keep => write!(f, "keep '{}'", self.selector),
            RedactDecision::Elements(element_type) => write!(f, "'{}' is {element_type}", self.selector),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selector_is_read() {
        let parse = |text: &str| RedactRule::parse(text, RedactDecision::Zero);
        for (text, is_range) in [("all", false), ("*_f32", false), ("#12@0+64", true)] {
            let rule = parse(text).unwrap();
            assert_eq!((rule.selector.to_string().as_str(), rule.range().is_some()), (text, is_range));
        }
        for text in ["#", "#12", "#12@", "#12@0", "#12@0+0", "#@0+4", "#1@2+x", "#1@18446744073709551615+1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
