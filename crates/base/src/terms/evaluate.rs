//! The values of terms.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::term::{Node, Operator, Term};

/// Integers that are computed from 32-bit inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Formula {
    pub(super) nodes: Vec<Node>,
    pub(super) results: Vec<Term>,
}

/// Why a formula has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormulaFault {
    /// It divides by zero.
    DivisionByZero,
    /// It exceeds 64 bits, or shifts by more.
    Overflow,
    /// It needs an input that is not passed.
    MissingInput(u32),
    /// A value is not within the bounds that the formula relies on.
    OutOfBounds(i64),
}

impl Display for FormulaFault {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::DivisionByZero => out.write_str("divides by zero"),
            Self::Overflow => out.write_str("overflows 64 bits"),
            Self::MissingInput(index) => write!(out, "needs constant {index}, which is not passed"),
            Self::OutOfBounds(value) => write!(out, "relies on bounds that exclude {value}"),
        }
    }
}

impl Formula {
    /// Its results, if they do not depend on inputs.
    pub fn constants(&self) -> Option<Vec<i64>> {
        let value = |term: &Term| match self.nodes[term.index()] {
            Node::Constant(value) => Some(value),
            _ => None,
        };
        self.results.iter().map(value).collect()
    }

    /// The number of inputs: the highest index and one.
    pub fn input_count(&self) -> u32 {
        let of =
            |node: &Node| if let Node::Input(index) = node { Some(index.saturating_add(1)) } else { None };
        self.nodes.iter().filter_map(of).max().unwrap_or(0)
    }

    /// Its results for these inputs.
    pub fn evaluate(&self, input: impl Fn(u32) -> Option<u32>) -> Result<Vec<i64>, FormulaFault> {
        let mut values: Vec<Result<i64, FormulaFault>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let value = |term: Term| values[term.index()];
            let result = match *node {
                Node::Constant(value) => Ok(value),
                Node::Input(index) => {
                    input(index).map(|it| (it as i32).into()).ok_or(FormulaFault::MissingInput(index))
                }
                // `Formula::new` and the parser of its text take none.
                Node::Unknown(index) => Err(FormulaFault::MissingInput(index)),
                Node::Wrap { bits, is_signed, of } => value(of).map(|it| wrap(bits, is_signed, it)),
                Node::Binary(operator, left, right) => match (value(left), value(right)) {
                    (Ok(left), Ok(right)) => apply(operator, left, right),
                    (Err(fault), _) | (_, Err(fault)) => Err(fault),
                },
                // What is not selected may fail.
                Node::Select(condition, left, right) => match value(condition) {
                    Ok(0) => value(right),
                    Ok(_) => value(left),
                    Err(fault) => Err(fault),
                },
                Node::Bounded { of, low, high } => match value(of) {
                    Ok(it) if it < low || it > high => Err(FormulaFault::OutOfBounds(it)),
                    it => it,
                },
            };
            values.push(result);
        }
        self.results.iter().map(|it| values[it.index()]).collect()
    }
}

/// The lowest bits of a value, 1 to 63, extended.
pub(super) fn wrap(bits: u8, is_signed: bool, value: i64) -> i64 {
    let unused = 64 - u32::from(bits);
    match is_signed {
        true => (value << unused) >> unused,
        false => ((value as u64) << unused >> unused) as i64,
    }
}

pub(super) fn apply(operator: Operator, left: i64, right: i64) -> Result<i64, FormulaFault> {
    use Operator as O;
    let (unsigned_left, unsigned_right) = (left as u64, right as u64);
    let is_division = matches!(
        operator,
        O::DivS | O::DivU | O::RemS | O::RemU | O::FloorDiv | O::CeilDiv | O::CeilDivU | O::FloorMod
    );
    if is_division && right == 0 {
        return Err(FormulaFault::DivisionByZero);
    }
    let shift = || u32::try_from(right).ok().filter(|it| *it < 64);
    let result = match operator {
        O::Add => left.checked_add(right),
        O::Sub => left.checked_sub(right),
        O::Mul => left.checked_mul(right),
        O::DivS => left.checked_div(right),
        O::RemS => left.checked_rem(right),
        O::DivU => Some((unsigned_left / unsigned_right) as i64),
        O::RemU => Some((unsigned_left % unsigned_right) as i64),
        O::CeilDivU => Some(unsigned_left.div_ceil(unsigned_right) as i64),
        O::FloorDiv => divide(left, right)
            .map(|(quotient, rest)| quotient - i64::from(rest != 0 && (rest < 0) != (right < 0))),
        O::CeilDiv => divide(left, right)
            .map(|(quotient, rest)| quotient + i64::from(rest != 0 && (rest < 0) == (right < 0))),
        O::FloorMod => divide(left, right)
            .map(|(_, rest)| if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest }),
        O::MinS => Some(left.min(right)),
        O::MaxS => Some(left.max(right)),
        O::MinU => Some(unsigned_left.min(unsigned_right) as i64),
        O::MaxU => Some(unsigned_left.max(unsigned_right) as i64),
        O::And => Some(left & right),
        O::Or => Some(left | right),
        O::Xor => Some(left ^ right),
        O::Shl => shift().map(|by| left << by),
        O::ShrS => shift().map(|by| left >> by),
        O::ShrU => shift().map(|by| (unsigned_left >> by) as i64),
        O::Eq => Some((left == right).into()),
        O::LtS => Some((left < right).into()),
        O::LtU => Some((unsigned_left < unsigned_right).into()),
    };
    result.ok_or(FormulaFault::Overflow)
}

fn divide(left: i64, right: i64) -> Option<(i64, i64)> {
    Some((left.checked_div(right)?, left.checked_rem(right)?))
}
