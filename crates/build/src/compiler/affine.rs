//! Affine maps, as the compiler prints them in place: `affine_map<()[s0] -> (s0 ceildiv 32, 7)>`.

use rehal_base::terms::{Operator, Term, Terms};

/// The deepest expression.
const MAX_DEPTH: usize = 64;

/// An affine map.
pub(super) struct AffineMap<'t> {
    /// The names of its dimensions, then of its symbols.
    names: Vec<&'t str>,
    results: &'t str,
}

impl<'t> AffineMap<'t> {
    /// The map that a text begins with, behind its first bracket, and what follows it.
    pub(super) fn parse(text: &'t str) -> Option<(Self, &'t str)> {
        let (parameters, rest) = text.split_once(" -> (")?;
        let (results, rest) = rest.split_once(")>")?;
        let (dimensions, symbols) = parameters.strip_prefix('(')?.split_once(')')?;
        let symbols = symbols.trim().trim_start_matches('[').trim_end_matches(']');
        let names =
            dimensions.split(',').chain(symbols.split(',')).map(str::trim).filter(|it| !it.is_empty());
        Some((Self { names: names.collect(), results }, rest))
    }

    /// Its results; `None` if it has another number of arguments, or is not understood.
    pub(super) fn apply(&self, arguments: &[Term], terms: &mut Terms) -> Option<Vec<Term>> {
        if arguments.len() != self.names.len() {
            return None;
        }
        let mut parser = Parser { rest: self.results, names: &self.names, arguments, terms };
        let mut results = vec![parser.sum(0)?];
        while parser.take(",") {
            results.push(parser.sum(0)?);
        }
        parser.rest.trim().is_empty().then_some(results)
    }
}

struct Parser<'t, 'p> {
    rest: &'t str,
    names: &'p [&'t str],
    arguments: &'p [Term],
    terms: &'p mut Terms,
}

impl<'t> Parser<'t, '_> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self, depth: usize) -> Option<Term> {
        let mut left = self.product(depth)?;
        loop {
            let operator = match () {
                () if self.take("+") => Operator::Add,
                () if self.take("-") => Operator::Sub,
                () => return Some(left),
            };
            let right = self.product(depth)?;
            left = self.terms.binary(operator, left, right);
        }
    }

    fn product(&mut self, depth: usize) -> Option<Term> {
        let mut left = self.factor(depth)?;
        loop {
            let operator = match () {
                () if self.take("*") => Operator::Mul,
                () if self.take("floordiv ") => Operator::FloorDiv,
                () if self.take("ceildiv ") => Operator::CeilDiv,
                () if self.take("mod ") => Operator::FloorMod,
                () => return Some(left),
            };
            let right = self.factor(depth)?;
            left = self.terms.binary(operator, left, right);
        }
    }

    fn factor(&mut self, depth: usize) -> Option<Term> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.take("(") {
            let inner = self.sum(depth + 1)?;
            return self.take(")").then_some(inner);
        }
        if self.take("-") {
            let (zero, of) = (self.terms.constant(0), self.factor(depth + 1)?);
            return Some(self.terms.binary(Operator::Sub, zero, of));
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        if let Ok(value) = word.parse() {
            return Some(self.terms.constant(value));
        }
        let index = self.names.iter().position(|it| *it == word)?;
        self.arguments.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehal_base::terms::Formula;

    fn evaluate(map: &str, values: &[i64]) -> Option<Vec<i64>> {
        let mut terms = Terms::default();
        let (map, _) = AffineMap::parse(map)?;
        let arguments: Vec<_> = values.iter().map(|it| terms.constant(*it)).collect();
        let results = map.apply(&arguments, &mut terms)?;
        Formula::new(&terms, &results)?.evaluate(|_| None).ok()
    }

    #[test]
    fn maps_are_evaluated() {
        for (map, values, expected) in [
            ("()[s0] -> (s0 ceildiv 32, 2147483647)>()[%arg1]", &[65][..], Some(vec![3, 2147483647])),
            ("()[s0, s1] -> (s1 * (s0 ceildiv 32))>", &[65, 5], Some(vec![15])),
            ("(d0)[s0] -> (d0 * -2 + s0 floordiv 4 - 1)>", &[3, 9], Some(vec![-5])),
            ("(d0, d1) -> (-d0 + d1 mod 4)>", &[3, 9], Some(vec![-2])),
            ("() -> (7)>", &[], Some(vec![7])),
            ("(d0) -> (d0 ceildiv 0)>", &[1], None),
            ("(d0) -> (d1)>", &[1], None),
            ("(d0) -> (d0 d0)>", &[1], None),
            ("(d0) -> (d0)>", &[1, 2], None),
            ("(d0) -> ((d0)>", &[1], None),
        ] {
            assert_eq!(evaluate(map, values), expected, "{map}");
        }
        let deep = format!("(d0) -> ({}d0{})>", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(evaluate(&deep, &[1]), None);
    }
}
