//! What the instructions compute that only read and write numbers.
//!
//! Source of the facts: `runtime/src/iree/vm/ops.h` of the reference, as clang compiles it for x86-64. What is
//! undefined in C there is defined here: integers wrap, and conversions out of range give what that machine's
//! instructions give.

use rehal_base::c_math;

use crate::operation::Op;
use crate::registers::{Number, Window};
use crate::special;

/// Gives `$callback` the instructions that are quick and only read and write numbers: the operands in the order of
/// their registers, which that of the result follows, and what they compute.
macro_rules! quick_computations {
    ($callback:ident) => {
        $callback! {
            quick {
                // Choosing.
                SelectI32(c: i32, a: i32, b: i32) -> i32 { if c != 0 { a } else { b } }
                SelectI64(c: i32, a: i64, b: i64) -> i64 { if c != 0 { a } else { b } }
                SelectF32(c: i32, a: u32, b: u32) -> u32 { if c != 0 { a } else { b } }
                SelectF64(c: i32, a: u64, b: u64) -> u64 { if c != 0 { a } else { b } }

                // Integers of 32 bits.
                AddI32(a: i32, b: i32) -> i32 { a.wrapping_add(b) }
                SubI32(a: i32, b: i32) -> i32 { a.wrapping_sub(b) }
                MulI32(a: i32, b: i32) -> i32 { a.wrapping_mul(b) }
                FMAI32(a: i32, b: i32, c: i32) -> i32 { a.wrapping_mul(b).wrapping_add(c) }
                AbsI32(a: i32) -> i32 { a.wrapping_abs() }
                MinI32S(a: i32, b: i32) -> i32 { a.min(b) }
                MinI32U(a: u32, b: u32) -> u32 { a.min(b) }
                MaxI32S(a: i32, b: i32) -> i32 { a.max(b) }
                MaxI32U(a: u32, b: u32) -> u32 { a.max(b) }
                NotI32(a: i32) -> i32 { !a }
                AndI32(a: i32, b: i32) -> i32 { a & b }
                OrI32(a: i32, b: i32) -> i32 { a | b }
                XorI32(a: i32, b: i32) -> i32 { a ^ b }
                CtlzI32(a: u32) -> u32 { a.leading_zeros() }
                ShlI32(a: i32, by: u32) -> i32 { a.wrapping_shl(by) }
                ShrI32S(a: i32, by: u32) -> i32 { a.wrapping_shr(by) }
                ShrI32U(a: u32, by: u32) -> u32 { a.wrapping_shr(by) }
                CmpEQI32(a: i32, b: i32) -> i32 { (a == b).into() }
                CmpNEI32(a: i32, b: i32) -> i32 { (a != b).into() }
                CmpLTI32S(a: i32, b: i32) -> i32 { (a < b).into() }
                CmpLTI32U(a: u32, b: u32) -> i32 { (a < b).into() }
                CmpNZI32(a: i32) -> i32 { (a != 0).into() }

                // Integers of 64 bits.
                AddI64(a: i64, b: i64) -> i64 { a.wrapping_add(b) }
                SubI64(a: i64, b: i64) -> i64 { a.wrapping_sub(b) }
                MulI64(a: i64, b: i64) -> i64 { a.wrapping_mul(b) }
                FMAI64(a: i64, b: i64, c: i64) -> i64 { a.wrapping_mul(b).wrapping_add(c) }
                AbsI64(a: i64) -> i64 { a.wrapping_abs() }
                MinI64S(a: i64, b: i64) -> i64 { a.min(b) }
                MinI64U(a: u64, b: u64) -> u64 { a.min(b) }
                MaxI64S(a: i64, b: i64) -> i64 { a.max(b) }
                MaxI64U(a: u64, b: u64) -> u64 { a.max(b) }
                NotI64(a: i64) -> i64 { !a }
                AndI64(a: i64, b: i64) -> i64 { a & b }
                OrI64(a: i64, b: i64) -> i64 { a | b }
                XorI64(a: i64, b: i64) -> i64 { a ^ b }
                CtlzI64(a: u64) -> i64 { a.leading_zeros().into() }
                ShlI64(a: i64, by: u32) -> i64 { a.wrapping_shl(by) }
                ShrI64S(a: i64, by: u32) -> i64 { a.wrapping_shr(by) }
                ShrI64U(a: u64, by: u32) -> u64 { a.wrapping_shr(by) }
                CmpEQI64(a: i64, b: i64) -> i32 { (a == b).into() }
                CmpNEI64(a: i64, b: i64) -> i32 { (a != b).into() }
                CmpLTI64S(a: i64, b: i64) -> i32 { (a < b).into() }
                CmpLTI64U(a: u64, b: u64) -> i32 { (a < b).into() }
                CmpNZI64(a: i64) -> i32 { (a != 0).into() }

                // Widths of integers.
                TruncI32I8(a: u32) -> u32 { (a as u8).into() }
                TruncI32I16(a: u32) -> u32 { (a as u16).into() }
                TruncI64I32(a: u64) -> u32 { a as u32 }
                ExtI8I32S(a: i32) -> i32 { (a as i8).into() }
                ExtI8I32U(a: u32) -> u32 { (a as u8).into() }
                ExtI16I32S(a: i32) -> i32 { (a as i16).into() }
                ExtI16I32U(a: u32) -> u32 { (a as u16).into() }
                ExtI32I64S(a: i32) -> i64 { a.into() }
                ExtI32I64U(a: u32) -> u64 { a.into() }

                // Binary32.
                AddF32(a: f32, b: f32) -> f32 { a + b }
                SubF32(a: f32, b: f32) -> f32 { a - b }
                MulF32(a: f32, b: f32) -> f32 { a * b }
                DivF32(a: f32, b: f32) -> f32 { a / b }
                // Rounded twice: the reference has no fused instruction on its baseline machine.
                FMAF32(a: f32, b: f32, c: f32) -> f32 { a * b + c }
                AbsF32(a: f32) -> f32 { a.abs() }
                NegF32(a: f32) -> f32 { -a }
                MinF32(a: f32, b: f32) -> f32 { if b < a { b } else { a } }
                MaxF32(a: f32, b: f32) -> f32 { if a < b { b } else { a } }
                SqrtF32(a: f32) -> f32 { a.sqrt() }
                CmpEQF32O(a: f32, b: f32) -> i32 { (a == b).into() }
                CmpEQF32U(a: f32, b: f32) -> i32 { (is_unordered(a.into(), b.into()) || a == b).into() }
                // True of what is not ordered, as in the reference.
                CmpNEF32O(a: f32, b: f32) -> i32 { (a != b).into() }
                CmpNEF32U(a: f32, b: f32) -> i32 { (a != b).into() }
                CmpLTF32O(a: f32, b: f32) -> i32 { (a < b).into() }
                CmpLTF32U(a: f32, b: f32) -> i32 { (is_unordered(a.into(), b.into()) || a < b).into() }
                CmpLTEF32O(a: f32, b: f32) -> i32 { (a <= b).into() }
                CmpLTEF32U(a: f32, b: f32) -> i32 { (is_unordered(a.into(), b.into()) || a <= b).into() }
                CmpNaNF32(a: f32) -> i32 { a.is_nan().into() }
                CastSI32F32(a: i32) -> f32 { a as f32 }
                BitcastI32F32(a: u32) -> u32 { a }
                BitcastF32I32(a: u32) -> u32 { a }

                // Binary64.
                AddF64(a: f64, b: f64) -> f64 { a + b }
                SubF64(a: f64, b: f64) -> f64 { a - b }
                MulF64(a: f64, b: f64) -> f64 { a * b }
                DivF64(a: f64, b: f64) -> f64 { a / b }
                FMAF64(a: f64, b: f64, c: f64) -> f64 { a * b + c }
                AbsF64(a: f64) -> f64 { a.abs() }
                NegF64(a: f64) -> f64 { -a }
                MinF64(a: f64, b: f64) -> f64 { if b < a { b } else { a } }
                MaxF64(a: f64, b: f64) -> f64 { if a < b { b } else { a } }
                SqrtF64(a: f64) -> f64 { a.sqrt() }
                CmpEQF64O(a: f64, b: f64) -> i32 { (a == b).into() }
                CmpEQF64U(a: f64, b: f64) -> i32 { (is_unordered(a, b) || a == b).into() }
                CmpNEF64O(a: f64, b: f64) -> i32 { (a != b).into() }
                CmpNEF64U(a: f64, b: f64) -> i32 { (a != b).into() }
                CmpLTF64O(a: f64, b: f64) -> i32 { (a < b).into() }
                CmpLTF64U(a: f64, b: f64) -> i32 { (is_unordered(a, b) || a < b).into() }
                CmpLTEF64O(a: f64, b: f64) -> i32 { (a <= b).into() }
                CmpLTEF64U(a: f64, b: f64) -> i32 { (is_unordered(a, b) || a <= b).into() }
                CmpNaNF64(a: f64) -> i32 { a.is_nan().into() }
                TruncF64F32(a: f64) -> f32 { a as f32 }
                ExtF32F64(a: f32) -> f64 { a.into() }
                CastSI32F64(a: i32) -> f64 { a.into() }
                CastSI64F64(a: i64) -> f64 { a as f64 }
                BitcastI64F64(a: u64) -> u64 { a }
                BitcastF64I64(a: u64) -> u64 { a }
            }

            // Pairs that are one instruction where the second computes with the result of the first: what is in a
            // register of the machine need not wait for memory. What they compute, the first, and for each second
            // what both are called.
            pairs {
                i32 AddI32: AddAddI32(AddI32) AddSubI32(SubI32) AddMulI32(MulI32) AddAndI32(AndI32) AddOrI32(OrI32) AddXorI32(XorI32);
                i32 SubI32: SubAddI32(AddI32) SubSubI32(SubI32) SubMulI32(MulI32) SubAndI32(AndI32) SubOrI32(OrI32) SubXorI32(XorI32);
                i32 MulI32: MulAddI32(AddI32) MulSubI32(SubI32) MulMulI32(MulI32) MulAndI32(AndI32) MulOrI32(OrI32) MulXorI32(XorI32);
                i32 AndI32: AndAddI32(AddI32) AndSubI32(SubI32) AndMulI32(MulI32) AndAndI32(AndI32) AndOrI32(OrI32) AndXorI32(XorI32);
                i32 OrI32: OrAddI32(AddI32) OrSubI32(SubI32) OrMulI32(MulI32) OrAndI32(AndI32) OrOrI32(OrI32) OrXorI32(XorI32);
                i32 XorI32: XorAddI32(AddI32) XorSubI32(SubI32) XorMulI32(MulI32) XorAndI32(AndI32) XorOrI32(OrI32) XorXorI32(XorI32);
                i64 AddI64: AddAddI64(AddI64) AddSubI64(SubI64) AddMulI64(MulI64) AddAndI64(AndI64) AddOrI64(OrI64) AddXorI64(XorI64);
                i64 SubI64: SubAddI64(AddI64) SubSubI64(SubI64) SubMulI64(MulI64) SubAndI64(AndI64) SubOrI64(OrI64) SubXorI64(XorI64);
                i64 MulI64: MulAddI64(AddI64) MulSubI64(SubI64) MulMulI64(MulI64) MulAndI64(AndI64) MulOrI64(OrI64) MulXorI64(XorI64);
                i64 AndI64: AndAddI64(AddI64) AndSubI64(SubI64) AndMulI64(MulI64) AndAndI64(AndI64) AndOrI64(OrI64) AndXorI64(XorI64);
                i64 OrI64: OrAddI64(AddI64) OrSubI64(SubI64) OrMulI64(MulI64) OrAndI64(AndI64) OrOrI64(OrI64) OrXorI64(XorI64);
                i64 XorI64: XorAddI64(AddI64) XorSubI64(SubI64) XorMulI64(MulI64) XorAndI64(AndI64) XorOrI64(OrI64) XorXorI64(XorI64);
            }

            // What loops end with: a count, and going on elsewhere where that is not 0, is not another number, is less or
            // is greater.
            counts {
                i32 AddI32: AddI32WhenNZ(NZ) AddI32WhenNE(NE) AddI32WhenLT(LT) AddI32WhenGT(GT);
                i32 SubI32: SubI32WhenNZ(NZ) SubI32WhenNE(NE) SubI32WhenLT(LT) SubI32WhenGT(GT);
                i64 AddI64: AddI64WhenNZ(NZ) AddI64WhenNE(NE) AddI64WhenLT(LT) AddI64WhenGT(GT);
                i64 SubI64: SubI64WhenNZ(NZ) SubI64WhenNE(NE) SubI64WhenLT(LT) SubI64WhenGT(GT);
            }

            // What loops carry on that keep the value of the turn before: a computation whose result replaces a value, which
            // is copied elsewhere before that.
            carries {
                i32 AddI32: CarryAddI32;
                i32 SubI32: CarrySubI32;
                i32 MulI32: CarryMulI32;
                i64 AddI64: CarryAddI64;
                i64 SubI64: CarrySubI64;
                i64 MulI64: CarryMulI64;
                f32 AddF32: CarryAddF32;
                f32 MulF32: CarryMulF32;
                f64 AddF64: CarryAddF64;
                f64 MulF64: CarryMulF64;
            }
        }
    };
}
pub(crate) use quick_computations;

/// What each quick instruction computes, as a function of its name.
#[allow(non_snake_case, reason = "names of the instruction set")]
pub(crate) mod quick {
    use super::is_unordered;

    macro_rules! functions {
        (
            quick { $($op:ident ($($argument:ident: $type:ty),*) -> $result:ty { $value:expr })* }
            $($rest:tt)*
        ) => {
            $(#[inline(always)]
            pub(crate) fn $op($($argument: $type),*) -> $result {
                $value
            })*
        };
    }
    quick_computations!(functions);
}

/// How a count compares with another number.
macro_rules! compares {
    (NZ, $count:expr, $other:expr) => {
        $count != 0
    };
    (NE, $count:expr, $other:expr) => {
        $count != $other
    };
    (LT, $count:expr, $other:expr) => {
        $count < $other
    };
    (GT, $count:expr, $other:expr) => {
        $count > $other
    };
}
pub(crate) use compares;

/// Counts identifiers.
macro_rules! count {
    ($($name:ident)*) => { 0 $(+ { let _ = stringify!($name); 1 })* };
}
pub(crate) use count;

/// Makes [`Math`] of instructions as [`quick_computations`] has them.
macro_rules! math {
    ($($op:ident ($($argument:ident: $type:ty),*) -> $result:ty { $value:expr })*) => {
        /// An instruction that computes for a while, mostly by the mathematical library: its operands' registers in
        /// order, and that of its result.
        #[derive(Debug, Clone, Copy)]
        #[allow(clippy::upper_case_acronyms, reason = "names of the instruction set")]
        pub(crate) enum Math {
            $($op([u16; count!($($argument)* result)]),)*
        }

        impl Math {
            /// The instruction with these registers, where it is one of these.
            pub(crate) fn new(op: Op, register: impl Fn(usize) -> u16) -> Option<Self> {
                Some(match op {
                    $(Op::$op => Self::$op(std::array::from_fn(register)),)*
                    _ => return None,
                })
            }

            /// Runs it.
            pub(crate) fn run(self, window: &mut Window) {
                match self {
                    $(Self::$op([$($argument,)* result]) => {
                        $(let $argument = <$type>::get(window, $argument);)*
                        let value: $result = $value;
                        value.put(window, result);
                    })*
                }
            }
        }
    };
}

math! {
    // Binary32.
    RemF32(a: f32, b: f32) -> f32 { c_math::remainderf(a, b) }
    CeilF32(a: f32) -> f32 { special::ceil_f32(a) }
    FloorF32(a: f32) -> f32 { special::floor_f32(a) }
    RoundF32(a: f32) -> f32 { a.round() }
    RoundF32Even(a: f32) -> f32 { round_even_f32(a) }
    AtanF32(a: f32) -> f32 { a.atan() }
    Atan2F32(a: f32, b: f32) -> f32 { a.atan2(b) }
    CosF32(a: f32) -> f32 { a.cos() }
    SinF32(a: f32) -> f32 { a.sin() }
    ExpF32(a: f32) -> f32 { a.exp() }
    Exp2F32(a: f32) -> f32 { a.exp2() }
    ExpM1F32(a: f32) -> f32 { a.exp_m1() }
    LogF32(a: f32) -> f32 { a.ln() }
    Log10F32(a: f32) -> f32 { a.log10() }
    Log1pF32(a: f32) -> f32 { a.ln_1p() }
    Log2F32(a: f32) -> f32 { a.log2() }
    PowF32(a: f32, b: f32) -> f32 { a.powf(b) }
    RsqrtF32(a: f32) -> f32 { 1.0 / a.sqrt() }
    TanhF32(a: f32) -> f32 { a.tanh() }
    ErfF32(a: f32) -> f32 { c_math::erff(a) }
    CastSI64F32(a: i64) -> f32 { a as f32 }
    CastUI32F32(a: u32) -> f32 { a as f32 }
    CastUI64F32(a: u64) -> f32 { a as f32 }
    CastF32SI32(a: f32) -> i32 { round_to_i64(a.round().into()) as i32 }
    CastF32SI64(a: f32) -> i64 { round_to_i64(a.round().into()) }
    CastF32UI32(a: f32) -> i32 { round_to_i64(a.round().into()) as i32 }
    CastF32UI64(a: f32) -> i64 { rounded_f32_to_u64(a.round()) }

    // Binary64.
    RemF64(a: f64, b: f64) -> f64 { c_math::remainder(a, b) }
    CeilF64(a: f64) -> f64 { special::ceil_f64(a) }
    FloorF64(a: f64) -> f64 { special::floor_f64(a) }
    RoundF64(a: f64) -> f64 { a.round() }
    RoundF64Even(a: f64) -> f64 { round_even_f64(a) }
    AtanF64(a: f64) -> f64 { a.atan() }
    Atan2F64(a: f64, b: f64) -> f64 { a.atan2(b) }
    CosF64(a: f64) -> f64 { a.cos() }
    SinF64(a: f64) -> f64 { a.sin() }
    ExpF64(a: f64) -> f64 { a.exp() }
    Exp2F64(a: f64) -> f64 { a.exp2() }
    ExpM1F64(a: f64) -> f64 { a.exp_m1() }
    LogF64(a: f64) -> f64 { special::ln_f64(a) }
    Log10F64(a: f64) -> f64 { a.log10() }
    Log1pF64(a: f64) -> f64 { a.ln_1p() }
    Log2F64(a: f64) -> f64 { special::log2_f64(a) }
    PowF64(a: f64, b: f64) -> f64 { a.powf(b) }
    RsqrtF64(a: f64) -> f64 { 1.0 / a.sqrt() }
    TanhF64(a: f64) -> f64 { a.tanh() }
    ErfF64(a: f64) -> f64 { c_math::erf(a) }
    CastUI32F64(a: u32) -> f64 { a.into() }
    CastUI64F64(a: u64) -> f64 { a as f64 }
    // Through binary32, as the reference does.
    CastF64SI32(a: f64) -> i32 { round_to_i64((a as f32).round().into()) as i32 }
    CastF64UI32(a: f64) -> i32 { round_to_i64((a as f32).round().into()) as i32 }
    CastF64SI64(a: f64) -> i64 { round_to_i64(a.round()) }
    CastF64UI64(a: f64) -> i64 { round_to_i64(a.round()) }
}

/// Whether two numbers have no order, one of them not being a number.
pub(crate) fn is_unordered(a: f64, b: f64) -> bool {
    a.is_nan() || b.is_nan()
}

/// A whole number as an integer; the least one where it is out of range or not a number, as x86-64 has it.
fn round_to_i64(value: f64) -> i64 {
    // 2^63 is the first that does not fit; -2^63 does.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// A whole number as an unsigned integer, by its bits, as clang converts on x86-64: negative ones wrap.
fn rounded_f32_to_u64(value: f32) -> i64 {
    let low = round_to_i64(value.into());
    let high = round_to_i64((value - 9_223_372_036_854_775_808.0).into());
    low | (high & (low >> 63))
}

/// Rounds half to even in two steps, after which a half below 0 becomes a 0 without a sign.
fn round_even_f32(value: f32) -> f32 {
    let rounded = value.round();
    if (value - rounded).abs() != 0.5 || rounded % 2.0 == 0.0 {
        return rounded;
    }
    if rounded > 0.0 { rounded - 1.0 } else { rounded + 1.0 }
}

/// As [`round_even_f32`].
fn round_even_f64(value: f64) -> f64 {
    let rounded = value.round();
    if (value - rounded).abs() != 0.5 || rounded % 2.0 == 0.0 {
        return rounded;
    }
    if rounded > 0.0 { rounded - 1.0 } else { rounded + 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::WINDOW_BYTES;

    type Operand<'a> = &'a dyn Fn(&mut Window, u16);

    /// What an instruction makes of the numbers in registers 0, 2 and 4 (its operands in order), in register 6.
    fn run<R: Number>(op: Op, operands: &[Operand<'_>]) -> R {
        let mut window: Box<Window> = vec![0; WINDOW_BYTES].into_boxed_slice().try_into().unwrap();
        for (index, put) in operands.iter().enumerate() {
            put(&mut window, index as u16 * 2);
        }
        let count = operands.len();
        let register = |index: usize| if index < count { index as u16 * 2 } else { 6 };
        match Math::new(op, register) {
            Some(math) => math.run(&mut window),
            None => quick(op, register, &mut window),
        }
        R::get(&window, 6)
    }

    /// Runs an instruction that is quick, outside of the loop over instructions.
    fn quick(op: Op, register: impl Fn(usize) -> u16, window: &mut Window) {
        macro_rules! run {
            (
                quick { $($op:ident ($($argument:ident: $type:ty),*) -> $result:ty { $value:expr })* }
                $($rest:tt)*
            ) => {
                match op {
                    $(Op::$op => {
                        let [$($argument,)* result] = std::array::from_fn(register);
                        quick::$op($(<$type>::get(window, $argument)),*).put(window, result);
                    })*
                    _ => panic!("{op:?} is not quick"),
                }
            };
        }
        quick_computations!(run);
    }

    fn n<T: Number>(value: T) -> impl Fn(&mut Window, u16) {
        move |window, register| value.put(window, register)
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(run::<i32>(Op::AddI32, &[&n(i32::MAX), &n(1)]), i32::MIN);
        assert_eq!(run::<i32>(Op::MulI32, &[&n(i32::MIN), &n(-1)]), i32::MIN);
        assert_eq!(run::<i32>(Op::AbsI32, &[&n(i32::MIN)]), i32::MIN);
        assert_eq!(run::<i64>(Op::FMAI64, &[&n(i64::MAX), &n(2_i64), &n(3_i64)]), 1);
        assert_eq!(run::<i32>(Op::ShlI32, &[&n(1), &n(33)]), 2);
        assert_eq!(run::<i64>(Op::ShrI64S, &[&n(-8_i64), &n(65)]), -4);
        assert_eq!(run::<u64>(Op::ShrI64U, &[&n(u64::MAX), &n(60)]), 15);
        assert_eq!(run::<i32>(Op::CtlzI32, &[&n(0)]), 32);
        assert_eq!(run::<i64>(Op::CtlzI64, &[&n(1_i64)]), 63);
    }

    #[test]
    fn signs_and_widths_are_kept_apart() {
        assert_eq!(run::<i32>(Op::MinI32U, &[&n(-1), &n(1)]), 1);
        assert_eq!(run::<i32>(Op::MinI32S, &[&n(-1), &n(1)]), -1);
        assert_eq!(run::<i64>(Op::MaxI64U, &[&n(-1_i64), &n(1_i64)]), -1);
        assert_eq!(run::<i32>(Op::CmpLTI64U, &[&n(-1_i64), &n(1_i64)]), 0);
        assert_eq!(run::<i32>(Op::CmpLTI64S, &[&n(-1_i64), &n(1_i64)]), 1);
        assert_eq!(run::<i32>(Op::ExtI8I32S, &[&n(0x1FF)]), -1);
        assert_eq!(run::<i32>(Op::ExtI16I32U, &[&n(-1)]), 0xFFFF);
        assert_eq!(run::<i64>(Op::ExtI32I64S, &[&n(-2)]), -2);
        assert_eq!(run::<i64>(Op::ExtI32I64U, &[&n(-2)]), 0xFFFF_FFFE);
        assert_eq!(run::<i32>(Op::TruncI64I32, &[&n(-2_i64)]), -2);
        assert_eq!(run::<i64>(Op::SelectI64, &[&n(0), &n(1_i64), &n(i64::MIN)]), i64::MIN);
    }

    #[test]
    fn ties_and_signs_of_zero_are_those_of_the_reference() {
        for (value, rounded, even) in
            [(0.5, 1.0, 0.0), (1.5, 2.0, 2.0), (2.5, 3.0, 2.0), (-2.5, -3.0, -2.0), (-1.2, -1.0, -1.0)]
        {
            assert_eq!(run::<f32>(Op::RoundF32, &[&n(value as f32)]), rounded as f32);
            assert_eq!(run::<f32>(Op::RoundF32Even, &[&n(value as f32)]), even as f32);
            assert_eq!(run::<f64>(Op::RoundF64, &[&n(value)]), rounded);
            assert_eq!(run::<f64>(Op::RoundF64Even, &[&n(value)]), even);
        }
        assert_eq!(run::<u64>(Op::RoundF64Even, &[&n(-0.5_f64)]), 0);
        assert_eq!(run::<u32>(Op::MinF32, &[&n(0.0_f32), &n(-0.0_f32)]), 0);
        // Not a number on the right is lost, on the left kept.
        assert_eq!(run::<f32>(Op::MaxF32, &[&n(1.0_f32), &n(f32::NAN)]), 1.0);
        assert!(run::<f32>(Op::MaxF32, &[&n(f32::NAN), &n(1.0_f32)]).is_nan());
        assert_eq!(run::<f32>(Op::RemF32, &[&n(5.0_f32), &n(3.0_f32)]), -1.0);
        // Rounded after the product as well: 1 - 2^-24 is lost there.
        let (a, b) = (1.0_f32 + f32::EPSILON, 1.0_f32 - f32::EPSILON);
        assert_eq!(run::<f32>(Op::FMAF32, &[&n(a), &n(b), &n(-1.0_f32)]), a * b - 1.0);
    }

    #[test]
    fn what_is_not_a_number_compares_as_the_reference_has_it() {
        let nan = &n(f32::NAN);
        let one = &n(1.0_f32);
        for (op, result) in [
            (Op::CmpEQF32O, 0),
            (Op::CmpEQF32U, 1),
            (Op::CmpNEF32O, 1),
            (Op::CmpNEF32U, 1),
            (Op::CmpLTF32O, 0),
            (Op::CmpLTF32U, 1),
            (Op::CmpLTEF32O, 0),
            (Op::CmpLTEF32U, 1),
        ] {
            assert_eq!(run::<i32>(op, &[nan, one]), result, "{op:?}");
        }
        assert_eq!(run::<i32>(Op::CmpNaNF64, &[&n(f64::NAN)]), 1);
    }

    #[test]
    fn conversions_out_of_range_are_those_of_the_machine() {
        assert_eq!(run::<i32>(Op::CastF32SI32, &[&n(-2.5_f32)]), -3);
        assert_eq!(run::<i32>(Op::CastF32SI32, &[&n(f32::NAN)]), 0);
        assert_eq!(run::<i64>(Op::CastF32SI64, &[&n(f32::INFINITY)]), i64::MIN);
        assert_eq!(run::<u32>(Op::CastF32UI32, &[&n(4_294_967_040.0_f32)]), 4_294_967_040);
        assert_eq!(run::<u64>(Op::CastF32UI64, &[&n(1.0e19_f32)]), 9_999_999_980_506_447_872);
        assert_eq!(run::<i64>(Op::CastF32UI64, &[&n(-1.0_f32)]), -1);
        assert_eq!(run::<i32>(Op::CastF64SI32, &[&n(16_777_217.0_f64)]), 16_777_216);
        assert_eq!(run::<i64>(Op::CastF64SI64, &[&n(0.5_f64)]), 1);
        assert_eq!(run::<f32>(Op::CastUI32F32, &[&n(u32::MAX)]), 4_294_967_296.0);
    }
}
