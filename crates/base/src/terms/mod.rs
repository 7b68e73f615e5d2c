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
mod term;
mod text;

pub use evaluate::{Formula, FormulaFault};
pub use same::same;
pub use term::{Operator, Term};

use std::collections::HashMap;

use evaluate::apply;
use term::Node;

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

impl Formula {
    /// The part of `terms` that these results need. `None` if one depends on an unknown value.
    #[doc(hidden)]
    pub fn new(terms: &Terms, results: &[Term]) -> Option<Self> {
        let mut is_needed = vec![false; terms.nodes.len()];
        results.iter().for_each(|it| is_needed[it.index()] = true);
        for index in (0..terms.nodes.len()).rev() {
            if is_needed[index] {
                terms.nodes[index].operands().for_each(|it| is_needed[it.index()] = true);
            }
        }
        let mut renamed = vec![Term(0); terms.nodes.len()];
        let mut nodes = Vec::new();
        for (index, node) in terms.nodes.iter().enumerate().filter(|(index, _)| is_needed[*index]) {
            if matches!(node, Node::Unknown(_)) {
                return None;
            }
            renamed[index] = Term(nodes.len() as u32);
            nodes.push(node.map(|it| renamed[it.index()]));
        }
        Some(Self { nodes, results: results.iter().map(|it| renamed[it.index()]).collect() })
    }
}

#[cfg(test)]
mod tests;
