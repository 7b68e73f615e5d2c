//! Superinstructions: fused instruction sequences. Fusion saves dispatches and round trips of values
//! through the register file.
//!
//! A superinstruction is a row of `table.rs`: its name, its two parts, and a [`Pattern`], which determines
//! how the operands of the parts must be connected for the peephole to fuse them, which operands remain,
//! and how the superinstruction executes. A part is an instruction of the group `inline` of `isa.rs`, a
//! primitive of lowering (`Move32`, `BranchNZI32`, `Load32`, `Load8S` and `Store32`), or another
//! superinstruction, since fusion repeats until no row matches. Only patterns of the group `accesses` may
//! return an error, with the part that failed. To add a superinstruction, add a row, and a pattern in this
//! file if its parts are connected in a new way. The variants of [`Insn`], the peephole, the dispatch loop
//! and the random programs of the differential test follow from the table; a test fails for a row that
//! lowering never produces or that no program executes.
//!
//! Rows with the same parts are tried in order.

use crate::code::{BRANCH_REGISTERS, Insn, Operands, REGISTERS, build, cut};
use crate::compute;
use crate::registers::{Number, Window};

mod elements;
mod selections;
pub(crate) mod table;
pub(crate) use elements::*;
pub(crate) use selections::*;

/// One of two consecutive instructions, as a pattern sees it.
pub(crate) struct Part {
    /// Registers and jump target.
    pub(crate) operands: Operands,
    /// Whether its first two registers may be swapped.
    pub(crate) commutes: bool,
}

/// Whether `count` registers from `register` on are dead after the second part: `is_dead(register, count)`.
pub(crate) type IsDead<'a> = &'a dyn Fn(u16, u16) -> bool;

/// How the operands of two parts are connected, so that one instruction can do the work of both.
///
/// Each pattern also has a function `run`, which the dispatch loop inlines with the computations of the
/// parts.
pub(crate) trait Pattern {
    /// The operands of the superinstruction, if the parts match this pattern.
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands>;

    /// The operands of the parts, if the superinstruction may be split to fuse the second with its successor.
    fn split(_operands: &Operands) -> Option<[Operands; 2]> {
        None
    }
}

/// Operands without a jump target.
fn straight<const N: usize>(registers: [u16; N]) -> Option<Operands> {
    Some(Operands::new(registers, 0))
}

/// Operands: two operands and the result of the first part; the other operand and the result of the second,
/// which computes on that result.
pub(crate) struct Chain;

impl Pattern for Chain {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let [a, b, value, ..] = first.operands.registers;
        let [left, right, result, ..] = second.operands.registers;
        if left == value {
            straight([a, b, value, right, result])
        } else if right == value && second.commutes {
            straight([a, b, value, left, result])
        } else {
            None
        }
    }

    fn split(operands: &Operands) -> Option<[Operands; 2]> {
        let [a, b, value, other, result, ..] = operands.registers;
        Some([Operands::new([a, b, value], 0), Operands::new([value, other, result], 0)])
    }
}

impl Chain {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number, R: Number>(
        window: &mut Window,
        [a, b, value, other, result, ..]: [u16; REGISTERS],
        first: impl Fn(A, B) -> C,
        second: impl Fn(C, D) -> R,
    ) {
        let computed = first(A::get(window, a), B::get(window, b));
        computed.put(window, value);
        second(computed, D::get(window, other)).put(window, result);
    }
}

/// As [`Chain`], with three operands of the first part.
pub(crate) struct LongChain;

impl Pattern for LongChain {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let [a, b, c, value, ..] = first.operands.registers;
        let [left, right, result, ..] = second.operands.registers;
        if left == value {
            straight([a, b, c, value, right, result])
        } else if right == value && second.commutes {
            straight([a, b, c, value, left, result])
        } else {
            None
        }
    }
}

impl LongChain {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, V: Number, D: Number, R: Number>(
        window: &mut Window,
        [a, b, c, value, other, result, _]: [u16; REGISTERS],
        first: impl Fn(A, B, C) -> V,
        second: impl Fn(V, D) -> R,
    ) {
        let computed = first(A::get(window, a), B::get(window, b), C::get(window, c));
        computed.put(window, value);
        second(computed, D::get(window, other)).put(window, result);
    }
}

/// Operands: two operands and the result of the first part, then of the second; executed in order.
pub(crate) struct Sequence;

impl Pattern for Sequence {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, first, ..], [c, d, second, ..]) = (first.operands.registers, second.operands.registers);
        straight([a, b, first, c, d, second])
    }
}

impl Sequence {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number, R: Number, S: Number>(
        window: &mut Window,
        [a, b, first, c, d, second, _]: [u16; REGISTERS],
        compute: impl Fn(A, B) -> R,
        compute_next: impl Fn(C, D) -> S,
    ) {
        compute(A::get(window, a), B::get(window, b)).put(window, first);
        compute_next(C::get(window, c), D::get(window, d)).put(window, second);
    }
}

/// Operands: both operands and the result of a comparison; the other operand and the result of a computation
/// on its left side.
pub(crate) struct CompareAndCompute;

impl Pattern for CompareAndCompute {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let [left, right, flag, ..] = first.operands.registers;
        let [a, b, result, ..] = second.operands.registers;
        let other = match () {
            () if a == left => b,
            () if b == left && second.commutes => a,
            () => return None,
        };
        // The computation must not read the result of the comparison.
        let is_read = |pair: u16| is_half_of(flag, pair);
        (!is_read(left) && !is_read(other)).then(|| Operands::new([left, right, flag, other, result], 0))
    }
}

impl CompareAndCompute {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, D: Number, R: Number>(
        window: &mut Window,
        [left, right, flag, other, result, ..]: [u16; REGISTERS],
        test: impl Fn(A, B) -> i32,
        compute: impl Fn(A, D) -> R,
    ) {
        let value = A::get(window, left);
        let holds = test(value, B::get(window, right));
        let computed = compute(value, D::get(window, other));
        holds.put(window, flag);
        computed.put(window, result);
    }
}

/// Operands `value`, `limit`, `step` and result: `value < limit ? value + step : value`. The results of the
/// comparison and of the sum are dead.
pub(crate) struct Wrap;

impl Pattern for Wrap {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let [value, limit, flag, step, sum, ..] = first.operands.registers;
        let [condition, yes, no, result, ..] = second.operands.registers;
        let is_connected = (condition, yes, no) == (flag, sum, value);
        let is_apart = value != sum && !is_half_of(flag, sum);
        let flag_is_dead = is_half_of(flag, result) || is_dead(flag, 1);
        let sum_is_dead = sum == result || is_dead(sum, 2);
        (is_connected && is_apart && flag_is_dead && sum_is_dead)
            .then(|| Operands::new([value, limit, step, result], 0))
    }
}

impl Wrap {
    #[inline(always)]
    pub(crate) fn run<T, S>(
        window: &mut Window,
        [value, limit, step, result, ..]: [u16; REGISTERS],
        _test: T,
        _select: S,
    ) {
        let value = i64::get(window, value);
        wrap(value, i64::get(window, limit), i64::get(window, step)).put(window, result);
    }
}

/// The computation of [`Wrap`].
#[inline(always)]
fn wrap(value: i64, limit: i64, step: i64) -> i64 {
    if value < limit { value.wrapping_add(step) } else { value }
}

/// Whether a register is one of a pair.
fn is_half_of(register: u16, pair: u16) -> bool {
    register == pair || register == pair + 1
}

/// Operands: source and target of the first move, then of the second.
pub(crate) struct TwoMoves;

impl Pattern for TwoMoves {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, ..], [c, d, ..]) = (first.operands.registers, second.operands.registers);
        straight([a, b, c, d])
    }
}

impl TwoMoves {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number>(
        window: &mut Window,
        [a, b, c, d, ..]: [u16; REGISTERS],
        first: impl Fn(A) -> A,
        second: impl Fn(B) -> B,
    ) {
        first(A::get(window, a)).put(window, b);
        second(B::get(window, c)).put(window, d);
    }
}

/// Operands: two operands of the computation, source and target of the first move, target of the second,
/// which moves the result. The computation executes first; its own result register is dead.
pub(crate) struct Carry;

impl Pattern for Carry {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let [left, right, value, ..] = first.operands.registers;
        let [source, target, moved, result, ..] = second.operands.registers;
        if moved != value || source == value || target == value || !is_dead(value, 1) {
            return None;
        }
        straight([left, right, source, target, result])
    }
}

impl Carry {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, R: Number, M: Number>(
        window: &mut Window,
        [left, right, source, target, result, ..]: [u16; REGISTERS],
        compute: impl Fn(A, B) -> R,
        copy: impl Fn(M) -> M,
    ) {
        let value = compute(A::get(window, left), B::get(window, right));
        copy(M::get(window, source)).put(window, target);
        value.put(window, result);
    }
}

/// Operand: that of a comparison whose result is dead after the branch.
pub(crate) struct TestOne;

impl Pattern for TestOne {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let ([value, result, ..], [condition, ..]) = (first.operands.registers, second.operands.registers);
        // The result may overwrite the operand: it is nonzero exactly if the operand was.
        (condition == result && is_dead(result, 1)).then_some(Operands::new([value], second.operands.to))
    }
}

impl TestOne {
    #[inline(always)]
    pub(crate) fn run<A: Number, B>(
        window: &mut Window,
        [value, ..]: [u16; BRANCH_REGISTERS],
        test: impl Fn(A) -> i32,
        _branch: B,
    ) -> bool {
        test(A::get(window, value)) != 0
    }
}

/// Operands: those of a comparison whose result is dead after the branch.
pub(crate) struct Test;

impl Pattern for Test {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let ([left, right, result, ..], [condition, ..]) =
            (first.operands.registers, second.operands.registers);
        (condition == result && is_dead(result, 1))
            .then_some(Operands::new([left, right], second.operands.to))
    }
}

impl Test {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C>(
        window: &mut Window,
        [left, right, ..]: [u16; BRANCH_REGISTERS],
        test: impl Fn(A, B) -> i32,
        _branch: C,
    ) -> bool {
        test(A::get(window, left), B::get(window, right)) != 0
    }
}

/// Operands: both operands and the result of a step, which is the branch condition.
pub(crate) struct StepAndTestOne;

impl Pattern for StepAndTestOne {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([_, _, value, ..], [tested, ..]) = (first.operands.registers, second.operands.registers);
        let registers = first.operands.registers;
        (tested == value).then_some(Operands { registers, to: second.operands.to })
    }
}

impl StepAndTestOne {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number>(
        window: &mut Window,
        [left, right, result, ..]: [u16; BRANCH_REGISTERS],
        step: impl Fn(A, B) -> C,
        test: impl Fn(C) -> i32,
    ) -> bool {
        let value = step(A::get(window, left), B::get(window, right));
        value.put(window, result);
        test(value) != 0
    }
}

/// Operands: both operands and the result of a step; the right side of the comparison with the result.
pub(crate) struct StepAndTest;

impl Pattern for StepAndTest {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, value, ..], [left, right, ..]) = (first.operands.registers, second.operands.registers);
        let other = match () {
            () if left == value => right,
            () if right == value && second.commutes => left,
            () => return None,
        };
        Some(Operands::new([a, b, value, other], second.operands.to))
    }
}

impl StepAndTest {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number>(
        window: &mut Window,
        [left, right, result, other, _]: [u16; BRANCH_REGISTERS],
        step: impl Fn(A, B) -> C,
        test: impl Fn(C, D) -> i32,
    ) -> bool {
        let value = step(A::get(window, left), B::get(window, right));
        value.put(window, result);
        test(value, D::get(window, other)) != 0
    }
}

/// As [`StepAndTest`], with the result on the right side.
pub(crate) struct StepAndTestRight;

impl Pattern for StepAndTestRight {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, value, ..], [other, right, ..]) = (first.operands.registers, second.operands.registers);
        (right == value).then_some(Operands::new([a, b, value, other], second.operands.to))
    }
}

impl StepAndTestRight {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number>(
        window: &mut Window,
        [left, right, result, other, _]: [u16; BRANCH_REGISTERS],
        step: impl Fn(A, B) -> C,
        test: impl Fn(D, C) -> i32,
    ) -> bool {
        let value = step(A::get(window, left), B::get(window, right));
        value.put(window, result);
        test(D::get(window, other), value) != 0
    }
}

macro_rules! derive {
    (
        fall_through { $($straight:ident = $straight_first:ident + $straight_second:ident: $straight_pattern:ty;)* }
        branches { $($branch:ident = $branch_first:ident + $branch_second:ident: $branch_pattern:ty;)* }
        accesses { $($access:ident = $access_first:ident + $access_second:ident: $access_pattern:ty;)* }
    ) => {
        /// The computations of parts, by name: a superinstruction as a part stands for its own first part.
        #[allow(non_snake_case, unused_imports, reason = "names of the instruction set")]
        pub(crate) mod parts {
            pub(crate) use super::compute::functions::*;
            #[inline(always)]
            pub(crate) fn Move32(value: u32) -> u32 { value }
            $(pub(crate) use self::$straight_first as $straight;)*
            $(pub(crate) use self::$branch_first as $branch;)*
        }

        /// Whether the first two operands may be swapped: those of the first part.
        #[allow(non_upper_case_globals, unused_imports, reason = "names of the instruction set")]
        mod commutes {
            pub(super) use super::compute::commutes::*;
            pub(super) const Move32: bool = false;
            $(pub(super) const $straight: bool = $straight_first;)*
            $(pub(super) const $branch: bool = $branch_first;)*
        }

        /// The peephole: the superinstruction of two consecutive instructions, if the table has one.
        pub(crate) fn fuse(first: Insn, second: Insn, is_dead: IsDead<'_>) -> Option<Insn> {
            let a = Part { operands: first.operands(), commutes: false };
            let b = Part { operands: second.operands(), commutes: commutes(second) };
            match (first, second) {
                $((Insn::$straight_first { .. }, Insn::$straight_second { .. })
                    if let Some(operands) = <$straight_pattern>::fuse(&a, &b, is_dead) =>
                {
                    Some(Insn::$straight { registers: operands.registers })
                })*
                $((Insn::$branch_first { .. }, Insn::$branch_second { .. })
                    if let Some(Operands { registers, to }) = <$branch_pattern>::fuse(&a, &b, is_dead) =>
                {
                    Some(Insn::$branch { registers: cut(registers), to })
                })*
                $((Insn::$access_first { .. }, Insn::$access_second { .. })
                    if let Some(operands) = <$access_pattern>::fuse(&a, &b, is_dead) =>
                {
                    Some(Insn::$access { registers: operands.registers })
                })*
                _ => None,
            }
        }

        /// Whether the first part of an instruction may fail, if it is a superinstruction.
        pub(crate) fn is_access(insn: Insn) -> bool {
            match insn {
                $(Insn::$access { .. } => true,)*
                _ => false,
            }
        }

        /// The parts of a superinstruction, if the second may fuse with its successor instead.
        pub(crate) fn split(insn: Insn) -> Option<[Insn; 2]> {
            match insn {
                $(Insn::$straight { registers } => {
                    let [first, second] = <$straight_pattern>::split(&Operands { registers, to: 0 })?;
                    Some([build::$straight_first(first), build::$straight_second(second)])
                })*
                _ => None,
            }
        }

        /// The table as data: name and parts of each superinstruction.
        #[cfg(test)]
        pub(crate) const SUPERINSTRUCTIONS: &[(&str, [&str; 2])] = &[
            $((stringify!($straight), [stringify!($straight_first), stringify!($straight_second)]),)*
            $((stringify!($branch), [stringify!($branch_first), stringify!($branch_second)]),)*
            $((stringify!($access), [stringify!($access_first), stringify!($access_second)]),)*
        ];

        /// The name of an instruction, if it is a superinstruction.
        #[cfg(test)]
        pub(crate) fn name(insn: Insn) -> Option<&'static str> {
            match insn {
                $(Insn::$straight { .. } => Some(stringify!($straight)),)*
                $(Insn::$branch { .. } => Some(stringify!($branch)),)*
                $(Insn::$access { .. } => Some(stringify!($access)),)*
                _ => None,
            }
        }

        fn commutes(insn: Insn) -> bool {
            match insn {
                $(Insn::$straight { .. } => commutes::$straight,)*
                $(Insn::$branch { .. } => commutes::$branch,)*
                _ => insn.commutes(),
            }
        }
    };
}

table::superinstructions!(derive);
