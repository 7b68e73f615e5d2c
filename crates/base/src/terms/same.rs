//! Whether two ways to compute integers are the same.

use std::collections::{BTreeSet, HashMap};

use super::evaluate::Formula;
use super::simplify::Simplifier;
use super::{Node, Term, Terms};

/// Whether a formula has the lowest 32 bits of `results`, whatever the unknown values are, if its inputs are
/// those of `inputs`. Bounds that the formula relies on are taken to hold. False if that is not proved.
pub fn same(terms: &Terms, inputs: &[Term], results: &[Term], formula: &Formula) -> bool {
    if results.len() != formula.results.len() || formula.input_count() as usize > inputs.len() {
        return false;
    }
    // What the formula says of values of the program is known of them in the second round.
    let first = Round::new(terms, inputs, results, formula, &HashMap::new());
    let bounds = first.terms.iter().filter_map(|(own, to)| Some((*own, *first.bounds.get(to)?))).collect();
    first.is_same() || Round::new(terms, inputs, results, formula, &bounds).is_same()
}

type Bounds = (i64, i64);

struct Round {
    /// The simplified terms of the program, by its own.
    terms: HashMap<Term, Term>,
    /// What the formula says of simplified terms.
    bounds: HashMap<Term, Bounds>,
    /// Pairs of results.
    results: Vec<(Term, Term)>,
}

impl Round {
    fn new(
        program: &Terms,
        inputs: &[Term],
        results: &[Term],
        formula: &Formula,
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
        for node in &formula.nodes {
            let term = match node.map(|it| of_formula[it.index()]) {
                Node::Input(index) => {
                    let input = terms[&inputs[index as usize]];
                    to.node(Node::Wrap { bits: 32, is_signed: true, of: input })
                }
                Node::Bounded { of, low, high } => {
                    bounds.insert(of, (low, high));
                    to.bound(of, low, high);
                    of
                }
                node => to.node(node),
            };
            of_formula.push(term);
        }
        let mut wrapped = |of: Term| to.node(Node::Wrap { bits: 32, is_signed: true, of });
        let pairs = results.iter().zip(&formula.results);
        let pairs = pairs.map(|(own, other)| (wrapped(terms[own]), wrapped(of_formula[other.index()])));
        let results = pairs.collect();
        Self { terms, bounds, results }
    }

    fn is_same(&self) -> bool {
        self.results.iter().all(|(left, right)| left == right)
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
