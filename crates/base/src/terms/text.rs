//! The text of formulas: a word for each node, such as `add:0:1` for the sum of the first two, then `->` and
//! the results.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::evaluate::Formula;
use super::{Node, Operator, Term};
use crate::Error;

/// The longest formula that is read.
const MAX_NODES: usize = 1 << 16;

const OPERATORS: [(Operator, &str); 24] = [
    (Operator::Add, "add"),
    (Operator::Sub, "sub"),
    (Operator::Mul, "mul"),
    (Operator::DivS, "divs"),
    (Operator::DivU, "divu"),
    (Operator::RemS, "rems"),
    (Operator::RemU, "remu"),
    (Operator::FloorDiv, "floordiv"),
    (Operator::CeilDiv, "ceildiv"),
    (Operator::CeilDivU, "ceildivu"),
    (Operator::FloorMod, "mod"),
    (Operator::MinS, "mins"),
    (Operator::MinU, "minu"),
    (Operator::MaxS, "maxs"),
    (Operator::MaxU, "maxu"),
    (Operator::And, "and"),
    (Operator::Or, "or"),
    (Operator::Xor, "xor"),
    (Operator::Shl, "shl"),
    (Operator::ShrS, "shrs"),
    (Operator::ShrU, "shru"),
    (Operator::Eq, "eq"),
    (Operator::LtS, "lts"),
    (Operator::LtU, "ltu"),
];

impl Display for Formula {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            match node {
                Node::Constant(value) => write!(out, "={value} ")?,
                Node::Input(index) => write!(out, "in:{index} ")?,
                Node::Unknown(_) => out.write_str("? ")?,
                Node::Wrap { bits, is_signed, of } => {
                    write!(out, "{}:{bits}:{} ", if *is_signed { "sext" } else { "zext" }, of.0)?;
                }
                Node::Binary(operator, left, right) => {
                    let name = OPERATORS.iter().find(|it| it.0 == *operator).map_or("?", |it| it.1);
                    write!(out, "{name}:{}:{} ", left.0, right.0)?;
                }
                Node::Select(condition, left, right) => {
                    write!(out, "select:{}:{}:{} ", condition.0, left.0, right.0)?;
                }
                Node::Bounded { of, low, high } => write!(out, "within:{}:{low}:{high} ", of.0)?,
            }
        }
        out.write_str("->")?;
        self.results.iter().try_for_each(|it| write!(out, " {}", it.0))
    }
}

impl From<Formula> for String {
    fn from(formula: Formula) -> Self {
        formula.to_string()
    }
}

impl TryFrom<String> for Formula {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl FromStr for Formula {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::invalid_argument("malformed formula");
        let (nodes, results) = text.split_once("->").ok_or_else(wrong)?;
        let mut formula = Self { nodes: Vec::new(), results: Vec::new() };
        for word in nodes.split_whitespace() {
            let count = formula.nodes.len();
            let node =
                node(word).filter(|node| count < MAX_NODES && node.operands().all(|it| it.index() < count));
            formula.nodes.push(node.ok_or_else(wrong)?);
        }
        for word in results.split_whitespace() {
            let term = word.parse().ok().map(Term).filter(|it| it.index() < formula.nodes.len());
            formula.results.push(term.ok_or_else(wrong)?);
        }
        Ok(formula)
    }
}

fn node(word: &str) -> Option<Node> {
    if let Some(value) = word.strip_prefix('=') {
        return Some(Node::Constant(value.parse().ok()?));
    }
    let mut words = word.split(':');
    let name = words.next()?;
    let numbers: Vec<i64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    let index = |at: usize| numbers.get(at).and_then(|it| u32::try_from(*it).ok());
    let term = |at: usize| index(at).map(Term);
    let (node, count) = match name {
        "in" => (Node::Input(index(0)?), 1),
        "sext" | "zext" => {
            let bits = index(0).filter(|it| (1..64).contains(it))? as u8;
            (Node::Wrap { bits, is_signed: name == "sext", of: term(1)? }, 2)
        }
        "select" => (Node::Select(term(0)?, term(1)?, term(2)?), 3),
        "within" => (Node::Bounded { of: term(0)?, low: *numbers.get(1)?, high: *numbers.get(2)? }, 3),
        _ => {
            let operator = OPERATORS.iter().find(|it| it.1 == name)?.0;
            (Node::Binary(operator, term(0)?, term(1)?), 2)
        }
    };
    (numbers.len() == count).then_some(node)
}
