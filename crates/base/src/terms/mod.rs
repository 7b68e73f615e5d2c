//! Integers that are computed from others, such as the workgroup counts of a dispatch from its constants.
//!
//! [`Terms`] holds them as nodes, each over earlier ones. A [`Formula`] is what of it a result needs: it is
//! evaluated with checked arithmetic, and has a text form. `same.rs` proves that two ways to compute an
//! integer are the same: both are rewritten to a normal form, and equal nodes are one node.
//!
//! A value has 64 bits, in two's complement. What has fewer bits is [wrapped](Terms::wrap) to them.

mod evaluate;
mod same;
mod simplify;
mod text;

pub use evaluate::{Formula, FormulaFault};
pub use same::same;

use std::collections::HashMap;

use evaluate::apply;

/// A term of [`Terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(u32);

impl Term {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// How two integers become one. Comparisons are 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it: S is signed, U unsigned, Div rounds to zero")]
pub enum Operator {
    Add,
    Sub,
    Mul,
    DivS,
    DivU,
    RemS,
    RemU,
    FloorDiv,
    CeilDiv,
    CeilDivU,
    /// The remainder of [`Operator::FloorDiv`].
    FloorMod,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    Eq,
    LtS,
    LtU,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    Constant(i64),
    /// A 32-bit input, sign-extended.
    Input(u32),
    /// A value of which nothing is known.
    Unknown(u32),
    /// The lowest bits, sign- or zero-extended.
    Wrap {
        bits: u8,
        is_signed: bool,
        of: Term,
    },
    Binary(Operator, Term, Term),
    Select(Term, Term, Term),
    /// A value that is within bounds.
    Bounded {
        of: Term,
        low: i64,
        high: i64,
    },
}

/// Integers over inputs and unknown values. Equal ones are the same term.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    nodes: Vec<Node>,
    known: HashMap<Node, Term>,
    unknowns: u32,
}

impl Terms {
    /// A constant.
    pub fn constant(&mut self, value: i64) -> Term {
        self.node(Node::Constant(value))
    }

    /// The input at an index, as a signed integer of 32 bits.
    pub fn input(&mut self, index: u32) -> Term {
        self.node(Node::Input(index))
    }

    /// A value of which nothing is known; each call returns another one.
    pub fn unknown(&mut self) -> Term {
        self.unknowns += 1;
        self.node(Node::Unknown(self.unknowns - 1))
    }

    /// The lowest bits (1 to 64) of a term, sign- or zero-extended.
    pub fn wrap(&mut self, bits: u8, is_signed: bool, of: Term) -> Term {
        if bits >= 64 {
            return of;
        }
        match self.value(of) {
            Some(value) => self.constant(evaluate::wrap(bits.max(1), is_signed, value)),
            None => self.node(Node::Wrap { bits: bits.max(1), is_signed, of }),
        }
    }

    /// An operation on 64 bits.
    pub fn binary(&mut self, operator: Operator, left: Term, right: Term) -> Term {
        let folded = self.value(left).zip(self.value(right));
        match folded.and_then(|(left, right)| apply(operator, left, right).ok()) {
            Some(value) => self.constant(value),
            // What fails does so when it is evaluated.
            None => self.node(Node::Binary(operator, left, right)),
        }
    }

    /// `left` if the condition is not 0, otherwise `right`.
    pub fn select(&mut self, condition: Term, left: Term, right: Term) -> Term {
        match self.value(condition) {
            Some(0) => right,
            Some(_) => left,
            None => self.node(Node::Select(condition, left, right)),
        }
    }

    /// The same value, which is said to be within these bounds.
    pub fn bounded(&mut self, of: Term, low: i64, high: i64) -> Term {
        self.node(Node::Bounded { of, low, high })
    }

    /// The value of a constant.
    pub fn value(&self, term: Term) -> Option<i64> {
        match self.nodes.get(term.index()) {
            Some(Node::Constant(value)) => Some(*value),
            _ => None,
        }
    }

    fn node(&mut self, node: Node) -> Term {
        let next = Term(self.nodes.len() as u32);
        let term = *self.known.entry(node).or_insert(next);
        if term == next {
            self.nodes.push(node);
        }
        term
    }
}

impl Node {
    /// The terms that it is computed from.
    fn operands(&self) -> impl Iterator<Item = Term> + use<> {
        let of = match *self {
            Self::Constant(_) | Self::Input(_) | Self::Unknown(_) => [None; 3],
            Self::Wrap { of, .. } | Self::Bounded { of, .. } => [Some(of), None, None],
            Self::Binary(_, left, right) => [Some(left), Some(right), None],
            Self::Select(condition, left, right) => [Some(condition), Some(left), Some(right)],
        };
        of.into_iter().flatten()
    }

    /// The same over other terms.
    fn map(self, to: impl Fn(Term) -> Term) -> Self {
        match self {
            Self::Constant(_) | Self::Input(_) | Self::Unknown(_) => self,
            Self::Wrap { bits, is_signed, of } => Self::Wrap { bits, is_signed, of: to(of) },
            Self::Bounded { of, low, high } => Self::Bounded { of: to(of), low, high },
            Self::Binary(operator, left, right) => Self::Binary(operator, to(left), to(right)),
            Self::Select(condition, left, right) => Self::Select(to(condition), to(left), to(right)),
        }
    }
}

#[cfg(test)]
mod tests;
