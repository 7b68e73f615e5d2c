//! The computations of the groups `inline`, `fallible` and `library`, one function per instruction, generated
//! from `isa.rs`; and the conversions and roundings that their rows call.

use rehal_base::{Error, Result, c_math};

use crate::isa::instructions;
use crate::operation::Op;
use crate::platform::{multiply_add_f32, multiply_add_f64, round_to_i64, rounded_f32_to_u64};
use crate::registers::{Number, Window};
use crate::special;

macro_rules! functions {
    (
        inline { $($in_set:ident $in_opcode:literal $in_op:ident $in_mnemonic:literal $($in_syntax:literal)?
            ($($in_arg:ident: $in_type:ident),*) -> $in_result:ident $in_value:block $($in_commutes:ident)?;)* }
        fallible { $($f_set:ident $f_opcode:literal $f_op:ident $f_mnemonic:literal $($f_syntax:literal)?
            ($($f_arg:ident: $f_type:ident),*) -> $f_result:ident $f_value:block;)* }
        library { $($set:ident $opcode:literal $op:ident $mnemonic:literal $($syntax:literal)?
            ($($arg:ident: $type:ident),*) -> $result:ident $value:block;)* }
        $($rest:tt)*
    ) => {
        /// The computation of each instruction.
        #[allow(non_snake_case, reason = "names of the instruction set")]
        pub(crate) mod functions {
            use super::*;

            $(#[inline(always)]
            pub(crate) fn $in_op($($in_arg: $in_type),*) -> $in_result $in_value)*

            $(#[inline(always)]
            pub(crate) fn $f_op($($f_arg: $f_type),*) -> Result<$f_result> { Ok($f_value) })*

            $(#[inline]
            pub(crate) fn $op($($arg: $type),*) -> $result $value)*
        }

        /// Whether the two operands of each instruction may be swapped.
        #[allow(non_upper_case_globals, reason = "names of the instruction set")]
        pub(crate) mod commutes {
            $(pub(crate) const $in_op: bool = is_marked!($($in_commutes)?);)*
            $(pub(crate) const $f_op: bool = false;)*
        }

        /// Executes an instruction of the group `library` on registers: its operands in order, then the
        /// result. Returns whether `op` belongs to the group.
        pub(crate) fn run_library(op: Op, registers: [u16; 6], window: &mut Window) -> bool {
            match op {
                $(Op::$op => {
                    let [$($arg,)* result, ..] = registers;
                    functions::$op($(<$type>::get(window, $arg)),*).put(window, result);
                })*
                _ => return false,
            }
            true
        }

        /// The same for the group `inline`, outside the dispatch loop.
        #[cfg(test)]
        fn run_inline(op: Op, registers: [u16; 6], window: &mut Window) {
            match op {
                $(Op::$in_op => {
                    let [$($in_arg,)* result, ..] = registers;
                    functions::$in_op($(<$in_type>::get(window, $in_arg)),*).put(window, result);
                })*
                _ => panic!("{op:?} is not executed inline"),
            }
        }
    };
}

macro_rules! is_marked {
    () => {
        false
    };
    (commutes) => {
        true
    };
}

instructions!(functions);

/// A divisor; fails on 0.
#[inline(always)]
fn divisor<T: Number + Default + PartialEq>(value: T) -> Result<T> {
    if value == T::default() {
        return Err(division_by_zero());
    }
    Ok(value)
}

#[cold]
fn division_by_zero() -> Error {
    Error::invalid_argument("integer division by zero")
}

/// Whether two numbers are unordered: either is NaN.
fn is_unordered(a: f64, b: f64) -> bool {
    a.is_nan() || b.is_nan()
}

/// Rounds half to even in two steps, which turns -0.5 into +0.
fn round_even_f32(value: f32) -> f32 {
    let rounded = value.round();
    if (value - rounded).abs() != 0.5 || rounded % 2.0 == 0.0 {
        return rounded;
    }
    if rounded > 0.0 { rounded - 1.0 } else { rounded + 1.0 }
}

/// See [`round_even_f32`].
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

    /// The result of an instruction: its operands are in registers 0, 2 and 4, the result in register 6.
    fn run<R: Number>(op: Op, operands: &[Operand<'_>]) -> R {
        let mut window: Box<Window> = vec![0; WINDOW_BYTES].into_boxed_slice().try_into().unwrap();
        for (index, put) in operands.iter().enumerate() {
            put(&mut window, index as u16 * 2);
        }
        let registers =
            std::array::from_fn(|index| if index < operands.len() { index as u16 * 2 } else { 6 });
        if !run_library(op, registers, &mut window) {
            run_inline(op, registers, &mut window);
        }
        R::get(&window, 6)
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
    fn signedness_and_width_are_respected() {
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
    fn ties_and_signs_of_zero_match_the_reference() {
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
        // A NaN on the right is dropped; on the left it is kept.
        assert_eq!(run::<f32>(Op::MaxF32, &[&n(1.0_f32), &n(f32::NAN)]), 1.0);
        assert!(run::<f32>(Op::MaxF32, &[&n(f32::NAN), &n(1.0_f32)]).is_nan());
        assert_eq!(run::<f32>(Op::RemF32, &[&n(5.0_f32), &n(3.0_f32)]), -1.0);
        assert_eq!(run::<f32>(Op::FMAF32, &[&n(2.0_f32), &n(3.0_f32), &n(-1.0_f32)]), 5.0);
    }

    #[test]
    fn nan_compares_as_in_the_reference() {
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
    fn conversions_round_to_the_nearest() {
        assert_eq!(run::<i32>(Op::CastF32SI32, &[&n(-2.5_f32)]), -3);
        assert_eq!(run::<i32>(Op::CastF32SI32, &[&n(f32::NAN)]), 0);
        assert_eq!(run::<u32>(Op::CastF32UI32, &[&n(4_294_967_040.0_f32)]), 4_294_967_040);
        assert_eq!(run::<u64>(Op::CastF32UI64, &[&n(1.0e19_f32)]), 9_999_999_980_506_447_872);
        assert_eq!(run::<i32>(Op::CastF64SI32, &[&n(16_777_217.0_f64)]), 16_777_216);
        assert_eq!(run::<i64>(Op::CastF64SI64, &[&n(0.5_f64)]), 1);
        assert_eq!(run::<f32>(Op::CastUI32F32, &[&n(u32::MAX)]), 4_294_967_296.0);
    }
}
