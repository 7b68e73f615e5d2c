//! Patterns in which a comparison selects one of two values. The result of the comparison is dead.

use crate::code::{Operands, REGISTERS};
use crate::registers::{Number, Window};

use super::{IsDead, Part, Pattern, straight};

/// The two values and the result of a selection by `flag`; `None` if it is by another register, selects the
/// flag itself, or leaves it live.
fn selected(second: &Part, flag: u16, is_dead: IsDead<'_>) -> Option<[u16; 3]> {
    let [condition, yes, no, result, ..] = second.operands.registers;
    let is_by_flag = condition == flag && yes != flag && no != flag;
    (is_by_flag && (flag == result || is_dead(flag, 1))).then_some([yes, no, result])
}

/// Operands: those of a comparison, then values and result of the selection.
pub(crate) struct CompareAndSelect;

impl Pattern for CompareAndSelect {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let [left, right, flag, ..] = first.operands.registers;
        let [yes, no, result] = selected(second, flag, is_dead)?;
        straight([left, right, yes, no, result])
    }
}

impl CompareAndSelect {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, R: Number>(
        window: &mut Window,
        [left, right, yes, no, result, ..]: [u16; REGISTERS],
        test: impl Fn(A, B) -> i32,
        select: impl Fn(i32, C, C) -> R,
    ) {
        let holds = test(A::get(window, left), B::get(window, right));
        select(holds, C::get(window, yes), C::get(window, no)).put(window, result);
    }
}

/// As [`CompareAndSelect`], for a test of one value.
pub(crate) struct TestAndSelect;

impl Pattern for TestAndSelect {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let [value, flag, ..] = first.operands.registers;
        let [yes, no, result] = selected(second, flag, is_dead)?;
        straight([value, yes, no, result])
    }
}

impl TestAndSelect {
    #[inline(always)]
    pub(crate) fn run<A: Number, C: Number, R: Number>(
        window: &mut Window,
        [value, yes, no, result, ..]: [u16; REGISTERS],
        test: impl Fn(A) -> i32,
        select: impl Fn(i32, C, C) -> R,
    ) {
        let holds = test(A::get(window, value));
        select(holds, C::get(window, yes), C::get(window, no)).put(window, result);
    }
}
