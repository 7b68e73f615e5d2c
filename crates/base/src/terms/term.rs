/// A term of [`Terms`](super::Terms).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(pub(super) u32);

impl Term {
    pub(super) fn index(self) -> usize {
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
pub(super) enum Node {
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

impl Node {
    /// The terms that it is computed from.
    pub(super) fn operands(&self) -> impl Iterator<Item = Term> + use<> {
        let of = match *self {
            Self::Constant(_) | Self::Input(_) | Self::Unknown(_) => [None; 3],
            Self::Wrap { of, .. } | Self::Bounded { of, .. } => [Some(of), None, None],
            Self::Binary(_, left, right) => [Some(left), Some(right), None],
            Self::Select(condition, left, right) => [Some(condition), Some(left), Some(right)],
        };
        of.into_iter().flatten()
    }

    /// The same over other terms.
    pub(super) fn map(self, to: impl Fn(Term) -> Term) -> Self {
        match self {
            Self::Constant(_) | Self::Input(_) | Self::Unknown(_) => self,
            Self::Wrap { bits, is_signed, of } => Self::Wrap { bits, is_signed, of: to(of) },
            Self::Bounded { of, low, high } => Self::Bounded { of: to(of), low, high },
            Self::Binary(operator, left, right) => Self::Binary(operator, to(left), to(right)),
            Self::Select(condition, left, right) => Self::Select(to(condition), to(left), to(right)),
        }
    }
}
