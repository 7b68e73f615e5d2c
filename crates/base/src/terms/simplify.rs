//! The normal form of terms. Rules hold for wrapping arithmetic unless the ranges of values exclude that it
//! wraps: a compiler that knows ranges computes the same in other ways, such as with unsigned comparisons.

use super::evaluate;
use super::{Node, Operator, Term, Terms};

/// Terms in normal form.
#[derive(Default)]
pub(super) struct Simplifier {
    terms: Terms,
    /// The least and the greatest value of each.
    ranges: Vec<(i64, i64)>,
    /// Whether something has no value within what is known of it.
    pub(super) is_contradictory: bool,
}

/// The most factors of a product that are sorted.
const MAX_FACTORS: usize = 8;

impl Simplifier {
    /// The term of a node over terms.
    pub(super) fn node(&mut self, node: Node) -> Term {
        match node {
            Node::Wrap { bits, is_signed, of } => self.wrap(bits, is_signed, of),
            Node::Binary(operator, left, right) => self.binary(operator, left, right),
            Node::Select(condition, left, right) => self.select(condition, left, right),
            Node::Bounded { of, .. } => of,
            node => self.plain(node),
        }
    }

    /// Notes what is known of a term.
    pub(super) fn bound(&mut self, term: Term, low: i64, high: i64) {
        let range = &mut self.ranges[term.index()];
        let both = (range.0.max(low), range.1.min(high));
        match both.0 <= both.1 {
            true => *range = both,
            false => self.is_contradictory = true,
        }
    }

    /// The bounds of a node's value, if it has one: it does not overflow.
    pub(super) fn bounds_of(&self, node: &Node) -> Option<(i64, i64)> {
        let of = |term: Term| {
            let (low, high) = self.range(term);
            [i128::from(low), i128::from(high)]
        };
        let (all, low, high) = match *node {
            Node::Bounded { low, high, .. } => return Some((low, high)),
            Node::Binary(Operator::Add, left, right) => {
                (i64::MIN, of(left)[0] + of(right)[0], of(left)[1] + of(right)[1])
            }
            Node::Binary(Operator::Sub, left, right) => {
                (i64::MIN, of(left)[0] - of(right)[1], of(left)[1] - of(right)[0])
            }
            Node::Binary(Operator::Mul, left, right) if self.is_natural(left) && self.is_natural(right) => {
                (0, of(left)[0] * of(right)[0], of(left)[1] * of(right)[1])
            }
            _ => return None,
        };
        let low = i64::try_from(low).unwrap_or(all);
        Some((low, i64::try_from(high).unwrap_or(i64::MAX)))
    }

    /// A node as it is.
    fn plain(&mut self, node: Node) -> Term {
        let range = self.range_of(&node);
        if range.0 == range.1 && !matches!(node, Node::Constant(_)) {
            return self.constant(range.0);
        }
        let term = self.terms.node(node);
        if term.index() == self.ranges.len() {
            self.ranges.push(range);
        }
        term
    }

    fn constant(&mut self, value: i64) -> Term {
        self.plain(Node::Constant(value))
    }

    fn value(&self, term: Term) -> Option<i64> {
        self.terms.value(term)
    }

    fn get(&self, term: Term) -> Node {
        self.terms.nodes[term.index()]
    }

    fn range(&self, term: Term) -> (i64, i64) {
        self.ranges[term.index()]
    }

    fn is_natural(&self, term: Term) -> bool {
        self.range(term).0 >= 0
    }

    fn is_boolean(&self, term: Term) -> bool {
        let (low, high) = self.range(term);
        low >= 0 && high <= 1
    }

    /// `x` of `x + c`, and `c`.
    fn offset(&self, term: Term) -> Option<(Term, i64)> {
        match self.get(term) {
            Node::Binary(Operator::Add, of, by) => Some((of, self.value(by)?)),
            _ => None,
        }
    }

    fn wrap(&mut self, bits: u8, is_signed: bool, of: Term) -> Term {
        if bits >= 64 {
            return of;
        }
        let (low, high) = wrapped_range(bits, is_signed);
        let (least, greatest) = self.range(of);
        if low <= least && greatest <= high {
            return of;
        }
        match self.get(of) {
            Node::Constant(value) => self.constant(evaluate::wrap(bits, is_signed, value)),
            Node::Wrap { bits: inner, of, .. } if inner >= bits => self.wrap(bits, is_signed, of),
            _ => self.plain(Node::Wrap { bits, is_signed, of }),
        }
    }

    fn not(&mut self, term: Term) -> Term {
        let one = self.constant(1);
        self.binary(Operator::Xor, term, one)
    }

    fn binary(&mut self, operator: Operator, left: Term, right: Term) -> Term {
        use Operator as O;
        let folded = self.value(left).zip(self.value(right));
        if let Some(value) = folded.and_then(|(left, right)| evaluate::apply(operator, left, right).ok()) {
            return self.constant(value);
        }
        let commutes = matches!(
            operator,
            O::Add | O::Mul | O::MinS | O::MinU | O::MaxS | O::MaxU | O::And | O::Or | O::Xor | O::Eq
        );
        // A constant is on the right.
        let key = |this: &Self, term| (this.value(term).is_some(), term);
        let swaps = commutes && key(self, left) > key(self, right);
        let (left, right) = if swaps { (right, left) } else { (left, right) };
        let operator = self.signed(operator, left, right);
        let by = self.value(right);
        match operator {
            O::Add => self.add(left, right, by),
            O::Sub if left == right => self.constant(0),
            O::Sub => match by {
                Some(by) => {
                    let by = self.constant(by.wrapping_neg());
                    self.binary(O::Add, left, by)
                }
                None => self.plain(Node::Binary(operator, left, right)),
            },
            O::Mul => self.multiply(left, right),
            O::Shl if by.is_some_and(|it| (0..64).contains(&it)) => {
                let factor = self.constant(1_i64 << by.unwrap_or(0));
                self.binary(O::Mul, left, factor)
            }
            O::DivS | O::CeilDiv => self.divide(operator, left, right, by),
            O::And | O::Or | O::Xor => self.bits(operator, left, right, by),
            O::Eq | O::LtS | O::LtU => self.compare(operator, left, right, by),
            O::MinS | O::MaxS => {
                let ((left_low, left_high), (right_low, right_high)) = (self.range(left), self.range(right));
                let is_left_less = left_high <= right_low;
                match left == right || is_left_less || right_high <= left_low {
                    true if (operator == O::MinS) == is_left_less => left,
                    true => right,
                    false => self.plain(Node::Binary(operator, left, right)),
                }
            }
            _ => self.plain(Node::Binary(operator, left, right)),
        }
    }

    /// The signed operation, if operands are not negative.
    fn signed(&self, operator: Operator, left: Term, right: Term) -> Operator {
        use Operator as O;
        if !self.is_natural(left) || !self.is_natural(right) {
            return operator;
        }
        match operator {
            O::DivU | O::FloorDiv => O::DivS,
            O::RemU | O::FloorMod => O::RemS,
            O::CeilDivU => O::CeilDiv,
            O::MinU => O::MinS,
            O::MaxU => O::MaxS,
            O::LtU => O::LtS,
            O::ShrS => O::ShrU,
            other => other,
        }
    }

    fn add(&mut self, left: Term, right: Term, by: Option<i64>) -> Term {
        if by == Some(0) {
            return left;
        }
        if let Some(whole) = self.halves(left, right).or_else(|| self.halves(right, left)) {
            return whole;
        }
        let (one, other) = (self.offset(left), self.offset(right));
        if let (Some((of, inner)), Some(by)) = (one, by) {
            let by = self.constant(inner.wrapping_add(by));
            return self.binary(Operator::Add, of, by);
        }
        // Constants are added last.
        let (sum, by) = match (one, other) {
            (Some((of, by)), None) if self.value(right).is_none() => {
                (self.binary(Operator::Add, of, right), by)
            }
            (None, Some((of, by))) => (self.binary(Operator::Add, left, of), by),
            (Some((left, one)), Some((right, other))) => {
                (self.binary(Operator::Add, left, right), one.wrapping_add(other))
            }
            _ => return self.plain(Node::Binary(Operator::Add, left, right)),
        };
        let by = self.constant(by);
        self.binary(Operator::Add, sum, by)
    }

    /// `x`, of its lower and its upper 32 bits.
    fn halves(&self, low: Term, high: Term) -> Option<Term> {
        let Node::Wrap { bits: 32, is_signed: false, of } = self.get(low) else { return None };
        let Node::Binary(Operator::Mul, high, factor) = self.get(high) else { return None };
        let Node::Binary(shift, shifted, by) = self.get(high) else { return None };
        let by = self.value(by)?;
        let is_shift = match shift {
            Operator::ShrU => by == 32,
            Operator::DivS => by == 1 << 32 && self.is_natural(shifted),
            _ => false,
        };
        (is_shift && shifted == of && self.value(factor) == Some(1 << 32)).then_some(of)
    }

    fn multiply(&mut self, left: Term, right: Term) -> Term {
        let (mut factors, mut by) = (Vec::new(), 1_i64);
        let mut pending = vec![right, left];
        while let Some(term) = pending.pop() {
            match self.get(term) {
                Node::Constant(value) => by = by.wrapping_mul(value),
                Node::Binary(Operator::Mul, left, right) if pending.len() + factors.len() < MAX_FACTORS => {
                    pending.extend([right, left]);
                }
                _ => factors.push(term),
            }
        }
        factors.sort();
        if by == 0 {
            return self.constant(0);
        }
        let by = (by != 1 || factors.is_empty()).then(|| self.constant(by));
        let product = factors.into_iter().chain(by);
        let multiply = |left, right| self.plain(Node::Binary(Operator::Mul, left, right));
        product.reduce(multiply).unwrap_or(left)
    }

    /// A division whose quotient rounds down or up, if nothing is negative.
    fn divide(&mut self, operator: Operator, left: Term, right: Term, by: Option<i64>) -> Term {
        let Some(by) = by.filter(|it| *it > 0) else {
            return self.plain(Node::Binary(operator, left, right));
        };
        if by == 1 {
            return left;
        }
        if self.is_natural(left) {
            match self.get(left) {
                Node::Binary(inner, of, other) if inner == operator && self.is_natural(of) => {
                    let product = self.value(other).and_then(|it| it.checked_mul(by));
                    if let Some(product) = product {
                        let product = self.constant(product);
                        return self.binary(operator, of, product);
                    }
                }
                // The sum does not wrap: it is not negative, whatever is added.
                Node::Binary(Operator::Add, of, added)
                    if operator == Operator::DivS
                        && self.value(added) == Some(by - 1)
                        && self.is_natural(of)
                        && self.range(of).1.checked_add(by).is_some() =>
                {
                    return self.binary(Operator::CeilDiv, of, right);
                }
                _ => {}
            }
        }
        self.plain(Node::Binary(operator, left, right))
    }

    fn bits(&mut self, operator: Operator, left: Term, right: Term, by: Option<i64>) -> Term {
        match operator {
            Operator::And if by == Some(0) => return right,
            Operator::And if by == Some(1) && self.is_boolean(left) => return left,
            Operator::And | Operator::Or if left == right => return left,
            Operator::Or | Operator::Xor if by == Some(0) => return left,
            Operator::Or => {
                if let Some(whole) = self.halves(left, right).or_else(|| self.halves(right, left)) {
                    return whole;
                }
            }
            Operator::Xor => {
                if let (Node::Binary(Operator::Xor, of, other), Some(by)) = (self.get(left), by)
                    && let Some(other) = self.value(other)
                {
                    let by = self.constant(other ^ by);
                    return self.binary(Operator::Xor, of, by);
                }
            }
            _ => {}
        }
        self.plain(Node::Binary(operator, left, right))
    }

    fn compare(&mut self, operator: Operator, left: Term, right: Term, by: Option<i64>) -> Term {
        let ((left_low, left_high), (right_low, right_high)) = (self.range(left), self.range(right));
        let one = if by == Some(0) && self.is_boolean(left) { Some(self.not(left)) } else { None };
        match operator {
            Operator::Eq if left == right => return self.constant(1),
            Operator::Eq if left_high < right_low || right_high < left_low => return self.constant(0),
            Operator::Eq if by == Some(1) && self.is_boolean(left) => return left,
            Operator::Eq => return one.unwrap_or_else(|| self.plain(Node::Binary(operator, left, right))),
            Operator::LtS if left_high < right_low => return self.constant(1),
            Operator::LtS if left == right || left_low >= right_high => return self.constant(0),
            _ => {}
        }
        let is_unsigned = operator == Operator::LtU;
        // c < x is !(x < c + 1).
        let next = self.value(left).filter(|it| if is_unsigned { *it != -1 } else { *it != i64::MAX });
        if let Some(value) = next {
            let next = self.constant(value.wrapping_add(1));
            let less = self.binary(operator, right, next);
            return self.not(less);
        }
        if by == Some(1) && (is_unsigned || self.is_natural(left)) {
            let zero = self.constant(0);
            return self.binary(Operator::Eq, left, zero);
        }
        self.plain(Node::Binary(operator, left, right))
    }

    fn select(&mut self, condition: Term, left: Term, right: Term) -> Term {
        if left == right {
            return left;
        }
        match self.get(condition) {
            Node::Constant(value) => return if value == 0 { right } else { left },
            Node::Binary(Operator::Xor, of, by) if self.value(by) == Some(1) && self.is_boolean(of) => {
                return self.select(of, right, left);
            }
            Node::Binary(Operator::Eq, of, other) if self.value(other) == Some(0) => {
                // -x is 0 there.
                if matches!(self.get(left), Node::Binary(Operator::Sub, zero, it) if it == of && self.value(zero) == Some(0))
                {
                    return self.select(condition, other, right);
                }
                if let Some((of, by)) = self.rounded_up(condition, of, left, right) {
                    let by = self.constant(by);
                    return self.binary(Operator::CeilDiv, of, by);
                }
            }
            Node::Binary(Operator::LtS, one, other) => {
                let (limit, before) = (self.value(other), |it: i64| it.checked_sub(1));
                let is_limit = |this: &Self, term| {
                    term == other || limit.is_some() && this.value(term) == limit.and_then(before)
                };
                if left == one && is_limit(self, right) {
                    return self.binary(Operator::MinS, left, right);
                }
                if right == one && is_limit(self, left) {
                    return self.binary(Operator::MaxS, left, right);
                }
            }
            _ => {}
        }
        self.plain(Node::Select(condition, left, right))
    }

    /// `x` and `c`, of `x == 0 ? 0 : (x - 1) / c + 1` for an `x` that is not negative, in the two forms that
    /// compilers write.
    fn rounded_up(&self, condition: Term, x: Term, left: Term, right: Term) -> Option<(Term, i64)> {
        let (quotient, 1) = self.offset(right)? else { return None };
        if !self.is_natural(x) {
            return None;
        }
        let (dividend, by) = match self.get(quotient) {
            Node::Binary(Operator::DivS, dividend, by) => (dividend, self.value(by)?),
            _ => (quotient, 1),
        };
        let is_before = |term: Term| self.offset(term) == Some((x, -1));
        let is_zero = |term: Term| self.value(term) == Some(0);
        let is_minus = |term: Term| matches!(self.get(term), Node::Binary(Operator::Sub, zero, it) if is_zero(zero) && it == quotient);
        let is_rounded = match self.get(dividend) {
            // The quotient is 0 if x is.
            Node::Select(same, zero, before) => {
                same == condition && is_zero(zero) && is_before(before) && (is_zero(left) || is_minus(left))
            }
            _ => is_before(dividend) && is_zero(left),
        };
        (is_rounded && by > 0).then_some((x, by))
    }

    fn range_of(&self, node: &Node) -> (i64, i64) {
        use Operator as O;
        const ALL: (i64, i64) = (i64::MIN, i64::MAX);
        let of = |term: Term| {
            let (low, high) = self.range(term);
            (i128::from(low), i128::from(high))
        };
        let clamp = |low: i128, high: i128| match (i64::try_from(low), i64::try_from(high)) {
            (Ok(low), Ok(high)) => (low, high),
            _ => ALL,
        };
        match *node {
            Node::Constant(value) => (value, value),
            Node::Input(_) => wrapped_range(32, true),
            Node::Unknown(_) => ALL,
            Node::Wrap { bits, is_signed, .. } => wrapped_range(bits, is_signed),
            Node::Bounded { of, .. } => self.range(of),
            Node::Select(_, left, right) => {
                let (left, right) = (self.range(left), self.range(right));
                (left.0.min(right.0), left.1.max(right.1))
            }
            Node::Binary(operator, left, right) => {
                let ((left_low, left_high), (right_low, right_high)) = (of(left), of(right));
                let is_natural = left_low >= 0 && right_low >= 0;
                match operator {
                    O::Add => clamp(left_low + right_low, left_high + right_high),
                    O::Sub => clamp(left_low - right_high, left_high - right_low),
                    O::Mul => {
                        let all = [
                            left_low * right_low,
                            left_low * right_high,
                            left_high * right_low,
                            left_high * right_high,
                        ];
                        let least = all.iter().copied().min().unwrap_or(i128::MIN);
                        clamp(least, all.into_iter().max().unwrap_or(i128::MAX))
                    }
                    O::DivS if is_natural && right_low > 0 => {
                        clamp(left_low / right_high, left_high / right_low)
                    }
                    O::CeilDiv if is_natural && right_low > 0 => {
                        clamp(left_low / right_high, left_high / right_low + 1)
                    }
                    O::RemS if is_natural && right_low > 0 => clamp(0, left_high.min(right_high - 1)),
                    O::MinS => clamp(left_low.min(right_low), left_high.min(right_high)),
                    O::MaxS => clamp(left_low.max(right_low), left_high.max(right_high)),
                    O::And if is_natural => clamp(0, left_high.min(right_high)),
                    O::Or | O::Xor if is_natural && left_high <= 1 && right_high <= 1 => (0, 1),
                    O::ShrU if right_low == right_high && (1..64).contains(&right_low) => match left_low >= 0
                    {
                        true => clamp(left_low >> right_low, left_high >> right_low),
                        false => clamp(0, i128::from(u64::MAX >> right_low)),
                    },
                    O::Eq | O::LtS | O::LtU => (0, 1),
                    _ => ALL,
                }
            }
        }
    }
}

fn wrapped_range(bits: u8, is_signed: bool) -> (i64, i64) {
    match is_signed {
        true => (-(1_i64 << (bits - 1)), (1_i64 << (bits - 1)) - 1),
        false => (0, (1_i64 << (bits - 1)) - 1 + (1_i64 << (bits - 1))),
    }
}

#[cfg(test)]
impl Simplifier {
    pub(super) fn formula(&self, result: Term) -> super::Formula {
        super::Formula { nodes: self.terms.nodes.clone(), results: vec![result] }
    }
}
