//! Whether two ways to compute integers are the same.

use std::collections::{BTreeSet, HashMap};

use super::evaluate::Formula;
use super::simplify::Simplifier;
use super::{Node, Term, Terms};

/// How often what the formula says of its values is applied to those of the program.
const MAX_ROUNDS: usize = 4;

/// Whether a formula has the lowest 32 bits of `results`, whatever the unknown values are, if its inputs are
/// those of `inputs`, and wherever it has a value: where it overflows or its values are out of their bounds,
/// it has none. False if that is not proved.
pub fn same(terms: &Terms, inputs: &[Term], results: &[Term], formula: &Formula) -> bool {
    if results.len() != formula.results.len() || formula.input_count() as usize > inputs.len() {
        return false;
    }
    let strict = strict(formula);
    let mut known = HashMap::new();
    for _ in 0..MAX_ROUNDS {
        let round = Round::new(terms, inputs, results, formula, &strict, &known);
        if round.is_contradictory {
            return false;
        }
        if round.results.iter().all(|(left, right)| left == right) {
            return true;
        }
        let bounds = round.terms.iter().filter_map(|(own, to)| Some((*own, *round.bounds.get(to)?)));
        let bounds: HashMap<_, _> = bounds.collect();
        if bounds == known {
            break;
        }
        known = bounds;
    }
    false
}

/// The nodes of a formula without whose value it has none: not those that it may not select.
fn strict(formula: &Formula) -> Vec<bool> {
    let mut strict = vec![false; formula.nodes.len()];
    formula.results.iter().for_each(|it| strict[it.index()] = true);
    for index in (0..formula.nodes.len()).rev() {
        if strict[index] {
            match formula.nodes[index] {
                Node::Select(condition, ..) => strict[condition.index()] = true,
                node => node.operands().for_each(|it| strict[it.index()] = true),
            }
        }
    }
    strict
}

type Bounds = (i64, i64);

struct Round {
    /// The simplified terms of the program, by its own.
    terms: HashMap<Term, Term>,
    /// The bounds of simplified terms, by the formula.
    bounds: HashMap<Term, Bounds>,
    /// Pairs of results.
    results: Vec<(Term, Term)>,
    /// Whether the formula has no value in the program.
    is_contradictory: bool,
}

impl Round {
    fn new(
        program: &Terms,
        inputs: &[Term],
        results: &[Term],
        formula: &Formula,
        strict: &[bool],
        known: &HashMap<Term, Bounds>,
    ) -> Self {
        let mut to = Simplifier::default();
        let mut terms = HashMap::new();
        for own in needed(program, inputs.iter().chain(results)) {
            let node = program.nodes[own.index()].map(|it| terms[&it]);
            let term = to.node(node);
            if let Some((low, high)) = known.get(&own) {
                to.bound(term, *low, *high);
            }
            terms.insert(own, term);
        }
        let (mut bounds, mut of_formula) = (HashMap::new(), Vec::new());
        for (node, is_strict) in formula.nodes.iter().zip(strict) {
            let term = match node.map(|it| of_formula[it.index()]) {
                Node::Input(index) => {
                    let input = terms[&inputs[index as usize]];
                    to.node(Node::Wrap { bits: 32, is_signed: true, of: input })
                }
                node => {
                    let term = to.node(node);
                    let bound = if *is_strict { to.bounds_of(&node) } else { None };
                    if let Some((low, high)) = bound {
                        to.bound(term, low, high);
                        bounds.insert(term, (low, high));
                    }
                    term
                }
            };
            of_formula.push(term);
        }
        let mut wrapped = |of: Term| to.node(Node::Wrap { bits: 32, is_signed: true, of });
        let pairs = results.iter().zip(&formula.results);
        let pairs = pairs.map(|(own, other)| (wrapped(terms[own]), wrapped(of_formula[other.index()])));
        let results = pairs.collect();
        Self { terms, bounds, results, is_contradictory: to.is_contradictory }
    }
}

/// The terms from which others are computed, and these, in order.
fn needed<'t>(terms: &Terms, of: impl Iterator<Item = &'t Term>) -> BTreeSet<Term> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<_> = of.copied().collect();
    while let Some(term) = pending.pop() {
        if found.insert(term) {
            pending.extend(terms.nodes[term.index()].operands());
        }
    }
    found
}
