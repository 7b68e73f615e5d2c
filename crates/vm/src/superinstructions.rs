//! Superinstructions: the one table of what lowering fuses out of instructions that follow each other, because a
//! program spends its time on dispatch and on values that travel through the register file.
//!
//! A superinstruction is a row: its name, its two parts, and a [`Pattern`], which says how the operands of the parts
//! must be connected for the peephole to fuse them, which operands are left, and how the whole runs. A part is an
//! instruction of the group `inline` of `isa.rs` (a `fallible` one may not: patterns cannot return an error), a primitive of lowering (`Move32`, `Move64`,
//! `Jump`, `BranchNZI32`), or another superinstruction, since fusion repeats until nothing fits. Adding a
//! superinstruction means adding a row; one whose parts are connected in a new way means a pattern in this file too.
//! The variants of [`Insn`], the peephole, the dispatch loop and the random programs of the differential test follow
//! from the table; a test fails for a row that lowering never produces or that no program executes.
//!
//! Rows with the same parts are tried in order.

use crate::code::{Insn, Operands, build};
use crate::compute;
use crate::registers::{Number, Window};

/// Passes the table to a macro, behind the tokens that follow its name. Groups say how an instruction ends.
macro_rules! superinstructions {
    ($callback:ident $($before:tt)*) => { $callback! { $($before)*
        fall_through {
            // Arithmetic on the result of arithmetic: the second part takes it from a register of the machine instead
            // of waiting for memory.
            AddAddI32 = AddI32 + AddI32: Chain;
            AddSubI32 = AddI32 + SubI32: Chain;
            AddMulI32 = AddI32 + MulI32: Chain;
            AddAndI32 = AddI32 + AndI32: Chain;
            AddOrI32 = AddI32 + OrI32: Chain;
            AddXorI32 = AddI32 + XorI32: Chain;
            SubAddI32 = SubI32 + AddI32: Chain;
            SubSubI32 = SubI32 + SubI32: Chain;
            SubMulI32 = SubI32 + MulI32: Chain;
            SubAndI32 = SubI32 + AndI32: Chain;
            SubOrI32 = SubI32 + OrI32: Chain;
            SubXorI32 = SubI32 + XorI32: Chain;
            MulAddI32 = MulI32 + AddI32: Chain;
            MulSubI32 = MulI32 + SubI32: Chain;
            MulMulI32 = MulI32 + MulI32: Chain;
            MulAndI32 = MulI32 + AndI32: Chain;
            MulOrI32 = MulI32 + OrI32: Chain;
            MulXorI32 = MulI32 + XorI32: Chain;
            AndAddI32 = AndI32 + AddI32: Chain;
            AndSubI32 = AndI32 + SubI32: Chain;
            AndMulI32 = AndI32 + MulI32: Chain;
            AndAndI32 = AndI32 + AndI32: Chain;
            AndOrI32 = AndI32 + OrI32: Chain;
            AndXorI32 = AndI32 + XorI32: Chain;
            OrAddI32 = OrI32 + AddI32: Chain;
            OrSubI32 = OrI32 + SubI32: Chain;
            OrMulI32 = OrI32 + MulI32: Chain;
            OrAndI32 = OrI32 + AndI32: Chain;
            OrOrI32 = OrI32 + OrI32: Chain;
            OrXorI32 = OrI32 + XorI32: Chain;
            XorAddI32 = XorI32 + AddI32: Chain;
            XorSubI32 = XorI32 + SubI32: Chain;
            XorMulI32 = XorI32 + MulI32: Chain;
            XorAndI32 = XorI32 + AndI32: Chain;
            XorOrI32 = XorI32 + OrI32: Chain;
            XorXorI32 = XorI32 + XorI32: Chain;
            AddAddI64 = AddI64 + AddI64: Chain;
            AddSubI64 = AddI64 + SubI64: Chain;
            AddMulI64 = AddI64 + MulI64: Chain;
            AddAndI64 = AddI64 + AndI64: Chain;
            AddOrI64 = AddI64 + OrI64: Chain;
            AddXorI64 = AddI64 + XorI64: Chain;
            SubAddI64 = SubI64 + AddI64: Chain;
            SubSubI64 = SubI64 + SubI64: Chain;
            SubMulI64 = SubI64 + MulI64: Chain;
            SubAndI64 = SubI64 + AndI64: Chain;
            SubOrI64 = SubI64 + OrI64: Chain;
            SubXorI64 = SubI64 + XorI64: Chain;
            MulAddI64 = MulI64 + AddI64: Chain;
            MulSubI64 = MulI64 + SubI64: Chain;
            MulMulI64 = MulI64 + MulI64: Chain;
            MulAndI64 = MulI64 + AndI64: Chain;
            MulOrI64 = MulI64 + OrI64: Chain;
            MulXorI64 = MulI64 + XorI64: Chain;
            AndAddI64 = AndI64 + AddI64: Chain;
            AndSubI64 = AndI64 + SubI64: Chain;
            AndMulI64 = AndI64 + MulI64: Chain;
            AndAndI64 = AndI64 + AndI64: Chain;
            AndOrI64 = AndI64 + OrI64: Chain;
            AndXorI64 = AndI64 + XorI64: Chain;
            OrAddI64 = OrI64 + AddI64: Chain;
            OrSubI64 = OrI64 + SubI64: Chain;
            OrMulI64 = OrI64 + MulI64: Chain;
            OrAndI64 = OrI64 + AndI64: Chain;
            OrOrI64 = OrI64 + OrI64: Chain;
            OrXorI64 = OrI64 + XorI64: Chain;
            XorAddI64 = XorI64 + AddI64: Chain;
            XorSubI64 = XorI64 + SubI64: Chain;
            XorMulI64 = XorI64 + MulI64: Chain;
            XorAndI64 = XorI64 + AndI64: Chain;
            XorOrI64 = XorI64 + OrI64: Chain;
            XorXorI64 = XorI64 + XorI64: Chain;

            // What branches pass on as block arguments.
            Moves32 = Move32 + Move32: TwoMoves;
            Moves64 = Move64 + Move64: TwoMoves;

            // Loop-carried values: a result that replaces a value which is kept for the next iteration under another
            // name.
            CarryAddI32 = AddI32 + Moves32: Carry<1>;
            CarrySubI32 = SubI32 + Moves32: Carry<1>;
            CarryMulI32 = MulI32 + Moves32: Carry<1>;
            CarryAddI64 = AddI64 + Moves64: Carry<2>;
            CarrySubI64 = SubI64 + Moves64: Carry<2>;
            CarryMulI64 = MulI64 + Moves64: Carry<2>;
            CarryAddF32 = AddF32 + Moves32: Carry<1>;
            CarryMulF32 = MulF32 + Moves32: Carry<1>;
            CarryAddF64 = AddF64 + Moves64: Carry<2>;
            CarryMulF64 = MulF64 + Moves64: Carry<2>;
        }

        branches {
            // Compare and branch; the result of the comparison is dead.
            BranchNZI32 = CmpNZI32 + BranchNZI32: TestOne;
            BranchNZI64 = CmpNZI64 + BranchNZI32: TestOne;
            BranchEQI32 = CmpEQI32 + BranchNZI32: Test;
            BranchNEI32 = CmpNEI32 + BranchNZI32: Test;
            BranchLTI32S = CmpLTI32S + BranchNZI32: Test;
            BranchLTI32U = CmpLTI32U + BranchNZI32: Test;
            BranchEQI64 = CmpEQI64 + BranchNZI32: Test;
            BranchNEI64 = CmpNEI64 + BranchNZI32: Test;
            BranchLTI64S = CmpLTI64S + BranchNZI32: Test;
            BranchLTI64U = CmpLTI64U + BranchNZI32: Test;

            // The same where the result is live.
            CmpEQI32Branch = CmpEQI32 + BranchNZI32: CompareAndTest;
            CmpNEI32Branch = CmpNEI32 + BranchNZI32: CompareAndTest;
            CmpLTI32SBranch = CmpLTI32S + BranchNZI32: CompareAndTest;
            CmpLTI32UBranch = CmpLTI32U + BranchNZI32: CompareAndTest;
            CmpEQI64Branch = CmpEQI64 + BranchNZI32: CompareAndTest;
            CmpNEI64Branch = CmpNEI64 + BranchNZI32: CompareAndTest;
            CmpLTI64SBranch = CmpLTI64S + BranchNZI32: CompareAndTest;
            CmpLTI64UBranch = CmpLTI64U + BranchNZI32: CompareAndTest;

            // Back edges: step an induction variable and branch on it.
            AddI32BranchNZ = AddI32 + BranchNZI32: StepAndTestOne;
            AddI32BranchNE = AddI32 + BranchNEI32: StepAndTest;
            AddI32BranchLT = AddI32 + BranchLTI32S: StepAndTest;
            AddI32BranchGT = AddI32 + BranchLTI32S: StepAndTestRight;
            SubI32BranchNZ = SubI32 + BranchNZI32: StepAndTestOne;
            SubI32BranchNE = SubI32 + BranchNEI32: StepAndTest;
            SubI32BranchLT = SubI32 + BranchLTI32S: StepAndTest;
            SubI32BranchGT = SubI32 + BranchLTI32S: StepAndTestRight;
            AddI64BranchNZ = AddI64 + BranchNZI64: StepAndTestOne;
            AddI64BranchNE = AddI64 + BranchNEI64: StepAndTest;
            AddI64BranchLT = AddI64 + BranchLTI64S: StepAndTest;
            AddI64BranchGT = AddI64 + BranchLTI64S: StepAndTestRight;
            SubI64BranchNZ = SubI64 + BranchNZI64: StepAndTestOne;
            SubI64BranchNE = SubI64 + BranchNEI64: StepAndTest;
            SubI64BranchLT = SubI64 + BranchLTI64S: StepAndTest;
            SubI64BranchGT = SubI64 + BranchLTI64S: StepAndTestRight;
            AddI32CmpLTBranch = AddI32 + CmpLTI32SBranch: StepCompareAndTest;
            AddI64CmpLTBranch = AddI64 + CmpLTI64SBranch: StepCompareAndTest;
        }

        jumps {
            Move32Jump = Move32 + Jump: MoveAndJump;
            Move64Jump = Move64 + Jump: MoveAndJump;
            Moves32Jump = Moves32 + Jump: TwoMovesAndJump;
            Moves64Jump = Moves64 + Jump: TwoMovesAndJump;
        }
    } };
}
pub(crate) use superinstructions;

/// One of two instructions that follow each other, as a pattern sees it.
pub(crate) struct Part {
    /// Registers and jump target.
    pub(crate) operands: Operands,
    /// Whether its first two registers may be swapped.
    pub(crate) commutes: bool,
}

/// Tells whether so many registers from one on are dead behind the second part.
pub(crate) type IsDead<'a> = &'a dyn Fn(u16, u16) -> bool;

/// How the operands of two parts are connected, so that one instruction can do the work of both.
///
/// Each pattern has a function `run` too, which the dispatch loop inlines with what the parts compute.
pub(crate) trait Pattern {
    /// The operands of the superinstruction, if the parts are connected like this.
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands>;

    /// The operands of the parts, if the second may be taken back to fuse it with what follows.
    fn split(_operands: &Operands) -> Option<[Operands; 2]> {
        None
    }
}

/// Operands without a jump target.
fn straight(registers: [u16; 5]) -> Option<Operands> {
    Some(Operands { registers, to: 0 })
}

/// Two operands and the result of the first part; the other operand and the result of the second, which computes on
/// that result.
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
        let [a, b, value, other, result] = operands.registers;
        let part = |registers| Operands { registers, to: 0 };
        Some([part([a, b, value, 0, 0]), part([value, other, result, 0, 0])])
    }
}

impl Chain {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number, R: Number>(
        window: &mut Window,
        [a, b, value, other, result]: [u16; 5],
        first: impl Fn(A, B) -> C,
        second: impl Fn(C, D) -> R,
    ) {
        let computed = first(A::get(window, a), B::get(window, b));
        computed.put(window, value);
        second(computed, D::get(window, other)).put(window, result);
    }
}

/// Source and target of the first move, then of the second.
pub(crate) struct TwoMoves;

impl Pattern for TwoMoves {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, ..], [c, d, ..]) = (first.operands.registers, second.operands.registers);
        straight([a, b, c, d, 0])
    }
}

impl TwoMoves {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number>(
        window: &mut Window,
        [a, b, c, d, _]: [u16; 5],
        first: impl Fn(A) -> A,
        second: impl Fn(B) -> B,
    ) {
        first(A::get(window, a)).put(window, b);
        second(B::get(window, c)).put(window, d);
    }
}

/// Two operands of the computation, source and target of the first move, target of the second, which moves the result.
/// The computation goes first; the result is dead where it was, and `WORDS` registers wide.
pub(crate) struct Carry<const WORDS: u16>;

impl<const WORDS: u16> Pattern for Carry<WORDS> {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let [left, right, value, ..] = first.operands.registers;
        let [source, target, moved, result, _] = second.operands.registers;
        let is_apart = |register: u16| register.abs_diff(value) >= WORDS;
        if moved != value || !is_apart(source) || !is_apart(target) || !is_dead(value, WORDS) {
            return None;
        }
        straight([left, right, source, target, result])
    }
}

impl<const WORDS: u16> Carry<WORDS> {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, R: Number, M: Number>(
        window: &mut Window,
        [left, right, source, target, result]: [u16; 5],
        compute: impl Fn(A, B) -> R,
        copy: impl Fn(M) -> M,
    ) {
        let value = compute(A::get(window, left), B::get(window, right));
        copy(M::get(window, source)).put(window, target);
        value.put(window, result);
    }
}

/// The operand of a comparison whose result is dead behind the branch.
pub(crate) struct TestOne;

impl Pattern for TestOne {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let ([value, result, ..], [condition, ..]) = (first.operands.registers, second.operands.registers);
        // The result may have been written over the operand, and is as nonzero as that was.
        let registers = [value, 0, 0, 0, 0];
        (condition == result && is_dead(result, 1)).then_some(Operands { registers, to: second.operands.to })
    }
}

impl TestOne {
    #[inline(always)]
    pub(crate) fn run<A: Number, B>(
        window: &mut Window,
        [value, ..]: [u16; 5],
        test: impl Fn(A) -> i32,
        _branch: B,
    ) -> bool {
        test(A::get(window, value)) != 0
    }
}

/// The two operands of a comparison whose result is dead behind the branch.
pub(crate) struct Test;

impl Pattern for Test {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let ([left, right, result, ..], [condition, ..]) =
            (first.operands.registers, second.operands.registers);
        let registers = [left, right, 0, 0, 0];
        (condition == result && is_dead(result, 1)).then_some(Operands { registers, to: second.operands.to })
    }
}

impl Test {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C>(
        window: &mut Window,
        [left, right, ..]: [u16; 5],
        test: impl Fn(A, B) -> i32,
        _branch: C,
    ) -> bool {
        test(A::get(window, left), B::get(window, right)) != 0
    }
}

/// The two operands and the result of a comparison.
pub(crate) struct CompareAndTest;

impl Pattern for CompareAndTest {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([_, _, result, ..], [condition, ..]) = (first.operands.registers, second.operands.registers);
        let registers = first.operands.registers;
        (condition == result).then_some(Operands { registers, to: second.operands.to })
    }
}

impl CompareAndTest {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C>(
        window: &mut Window,
        [left, right, result, ..]: [u16; 5],
        test: impl Fn(A, B) -> i32,
        _branch: C,
    ) -> bool {
        let holds = test(A::get(window, left), B::get(window, right));
        holds.put(window, result);
        holds != 0
    }
}

/// The two operands and the result of a step, which is tested.
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
        [left, right, result, ..]: [u16; 5],
        step: impl Fn(A, B) -> C,
        test: impl Fn(C) -> i32,
    ) -> bool {
        let value = step(A::get(window, left), B::get(window, right));
        value.put(window, result);
        test(value) != 0
    }
}

/// The two operands and the result of a step; what the result is compared with, on the left side.
pub(crate) struct StepAndTest;

impl Pattern for StepAndTest {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, value, ..], [left, right, ..]) = (first.operands.registers, second.operands.registers);
        let other = match () {
            () if left == value => right,
            () if right == value && second.commutes => left,
            () => return None,
        };
        Some(Operands { registers: [a, b, value, other, 0], to: second.operands.to })
    }
}

impl StepAndTest {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number>(
        window: &mut Window,
        [left, right, result, other, _]: [u16; 5],
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
        let registers = [a, b, value, other, 0];
        (right == value).then_some(Operands { registers, to: second.operands.to })
    }
}

impl StepAndTestRight {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number>(
        window: &mut Window,
        [left, right, result, other, _]: [u16; 5],
        step: impl Fn(A, B) -> C,
        test: impl Fn(D, C) -> i32,
    ) -> bool {
        let value = step(A::get(window, left), B::get(window, right));
        value.put(window, result);
        test(D::get(window, other), value) != 0
    }
}

/// The two operands and the result of a step, what the result is compared with, and the result of the comparison.
pub(crate) struct StepCompareAndTest;

impl Pattern for StepCompareAndTest {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, value, ..], [left, limit, result, ..]) =
            (first.operands.registers, second.operands.registers);
        let registers = [a, b, value, limit, result];
        (left == value).then_some(Operands { registers, to: second.operands.to })
    }
}

impl StepCompareAndTest {
    #[inline(always)]
    pub(crate) fn run<A: Number, B: Number, C: Number, D: Number>(
        window: &mut Window,
        [left, right, sum, limit, result]: [u16; 5],
        step: impl Fn(A, B) -> C,
        test: impl Fn(C, D) -> i32,
    ) -> bool {
        let value = step(A::get(window, left), B::get(window, right));
        value.put(window, sum);
        let holds = test(value, D::get(window, limit));
        holds.put(window, result);
        holds != 0
    }
}

/// Source and target of a move.
pub(crate) struct MoveAndJump;

impl Pattern for MoveAndJump {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        Some(Operands { registers: first.operands.registers, to: second.operands.to })
    }
}

impl MoveAndJump {
    #[inline(always)]
    pub(crate) fn run<A: Number, B>(
        window: &mut Window,
        [source, target, ..]: [u16; 5],
        copy: impl Fn(A) -> A,
        _jump: B,
    ) {
        copy(A::get(window, source)).put(window, target);
    }
}

/// The operands of [`TwoMoves`].
pub(crate) struct TwoMovesAndJump;

impl Pattern for TwoMovesAndJump {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        MoveAndJump::fuse(first, second, is_dead)
    }
}

impl TwoMovesAndJump {
    #[inline(always)]
    pub(crate) fn run<A: Number, B>(
        window: &mut Window,
        registers: [u16; 5],
        copy: impl Fn(A) -> A,
        _jump: B,
    ) {
        TwoMoves::run(window, registers, &copy, &copy);
    }
}

macro_rules! derive {
    (
        fall_through { $($straight:ident = $straight_first:ident + $straight_second:ident: $straight_pattern:ty;)* }
        branches { $($branch:ident = $branch_first:ident + $branch_second:ident: $branch_pattern:ty;)* }
        jumps { $($jump:ident = $jump_first:ident + $jump_second:ident: $jump_pattern:ty;)* }
    ) => {
        /// What parts compute, by their names: a superinstruction as a part stands for its own first part.
        #[allow(non_snake_case, unused_imports, reason = "names of the instruction set")]
        pub(crate) mod parts {
            pub(crate) use super::compute::functions::*;
            #[inline(always)]
            pub(crate) fn Move32(value: u32) -> u32 { value }
            #[inline(always)]
            pub(crate) fn Move64(value: u64) -> u64 { value }
            pub(crate) fn Jump() {}
            $(pub(crate) use self::$straight_first as $straight;)*
            $(pub(crate) use self::$branch_first as $branch;)*
            $(pub(crate) use self::$jump_first as $jump;)*
        }

        /// Whether the first two operands may be swapped: those of the first part.
        #[allow(non_upper_case_globals, unused_imports, reason = "names of the instruction set")]
        mod commutes {
            pub(super) use super::compute::commutes::*;
            pub(super) const Move32: bool = false;
            pub(super) const Move64: bool = false;
            $(pub(super) const $straight: bool = $straight_first;)*
            $(pub(super) const $branch: bool = $branch_first;)*
        }

        /// The peephole: one instruction for two that follow each other, if the table has one.
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
                    Some(Insn::$branch { registers, to })
                })*
                $((Insn::$jump_first { .. }, Insn::$jump_second { .. })
                    if let Some(Operands { registers, to }) = <$jump_pattern>::fuse(&a, &b, is_dead) =>
                {
                    Some(Insn::$jump { registers, to })
                })*
                _ => None,
            }
        }

        /// The parts of a superinstruction whose second may fuse with what follows instead.
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
            $((stringify!($jump), [stringify!($jump_first), stringify!($jump_second)]),)*
        ];

        /// The name of an instruction, if it is a superinstruction.
        #[cfg(test)]
        pub(crate) fn name(insn: Insn) -> Option<&'static str> {
            match insn {
                $(Insn::$straight { .. } => Some(stringify!($straight)),)*
                $(Insn::$branch { .. } => Some(stringify!($branch)),)*
                $(Insn::$jump { .. } => Some(stringify!($jump)),)*
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

superinstructions!(derive);
