//! Patterns on buffer elements. Either part may fail; the error identifies which, so that the call stack
//! shows the instruction that failed.

use rehal_base::Error;

use crate::Ref;
use crate::code::{Operands, REGISTERS};
use crate::compute::functions;
use crate::interpret::elements::{element, load, store};
use crate::registers::{Number, REF_MASK, Window};

use super::{IsDead, Part, Pattern, is_half_of, straight, wrap};

/// An error of a superinstruction.
pub(crate) struct Failed {
    /// Whether the first part failed, and not the last.
    pub(crate) is_first: bool,
    pub(crate) error: Error,
}

/// The error of the first part.
#[cold]
fn first(error: Error) -> Failed {
    Failed { is_first: true, error }
}

/// The error of the last part.
#[cold]
fn last(error: Error) -> Failed {
    Failed { is_first: false, error }
}

/// Index arithmetic on up to four registers.
pub(crate) trait Index {
    /// Its input registers, padded with zeros, and the result registers of its steps, the index last. `None`
    /// if a step overwrites a register before it is read.
    fn of(operands: &Operands) -> Option<([u16; 4], [u16; 2])>;

    /// The index.
    fn compute(window: &Window, registers: [u16; 4]) -> u64;
}

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident [$($pattern:pat),*] => $registers:expr, $steps:expr, $late:expr;
        ($window:ident, $operands:ident) $value:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Index for $name {
            fn of(operands: &Operands) -> Option<([u16; 4], [u16; 2])> {
                let [$($pattern,)* ..] = operands.registers;
                // An operand of the second step must not be the result of the first.
                let (late, [step, _]): (Option<u16>, [u16; 2]) = ($late, $steps);
                (late != Some(step)).then_some(($registers, $steps))
            }

            #[inline(always)]
            fn compute($window: &Window, $operands: [u16; 4]) -> u64 {
                $value
            }
        }
    )*};
}

/// A 64-bit register pair.
#[inline(always)]
fn pair(window: &Window, register: u16) -> u64 {
    u64::get(window, register)
}

indices! {
    /// `a + b`
    Sum [a, b, sum] => [a, b, 0, 0], [sum, sum], None;
        (window, of) pair(window, of[0]).wrapping_add(pair(window, of[1]));
    /// `a + b + c`
    LongSum [a, b, step, c, sum] => [a, b, c, 0], [step, sum], Some(c);
        (window, of) pair(window, of[0]).wrapping_add(pair(window, of[1])).wrapping_add(pair(window, of[2]));
    /// `a * b + c`
    Product [a, b, c, sum] => [a, b, c, 0], [sum, sum], None;
        (window, of) pair(window, of[0]).wrapping_mul(pair(window, of[1])).wrapping_add(pair(window, of[2]));
    /// `a * b + c + d`
    LongProduct [a, b, c, step, d, sum] => [a, b, c, d], [step, sum], Some(d);
        (window, of) pair(window, of[0]).wrapping_mul(pair(window, of[1]))
            .wrapping_add(pair(window, of[2]))
            .wrapping_add(pair(window, of[3]));
}

/// Operands: those of the index, buffer and result of a load. The results of the index arithmetic are dead.
pub(crate) struct LoadAt<I>(std::marker::PhantomData<I>);

impl<I: Index> Pattern for LoadAt<I> {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, c, d], steps) = I::of(&first.operands)?;
        let [buffer, index, result, ..] = second.operands.registers;
        let is_dead = |step: u16| (step..step + 2).all(|register| register == result || is_dead(register, 1));
        (index == steps[1] && steps.into_iter().all(is_dead))
            .then(|| Operands::new([a, b, c, d, buffer, result], 0))
    }
}

impl<I: Index> LoadAt<I> {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        refs: &[Ref],
        [a, b, c, d, buffer, result, _]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let index = I::compute(window, [a, b, c, d]);
        u32::from_le_bytes(load(refs, buffer, index).map_err(last)?).put(window, result);
        Ok(())
    }
}

/// Operands: those of the index, buffer and value of a store. The results of the index arithmetic are dead.
pub(crate) struct StoreAt<I>(std::marker::PhantomData<I>);

impl<I: Index> Pattern for StoreAt<I> {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, c, d], steps) = I::of(&first.operands)?;
        let [buffer, index, value, ..] = second.operands.registers;
        // The stored value must not be half of a step's result.
        let is_unused = |step: u16| !is_half_of(value, step) && is_dead(step, 2);
        (index == steps[1] && steps.into_iter().all(is_unused))
            .then(|| Operands::new([a, b, c, d, buffer, value], 0))
    }
}

impl<I: Index> StoreAt<I> {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        refs: &[Ref],
        [a, b, c, d, buffer, value, _]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let index = I::compute(window, [a, b, c, d]);
        store(refs, buffer, index, u32::get(window, value).to_le_bytes()).map_err(last)
    }
}

/// A computation on an element and up to two registers.
pub(crate) trait Fold {
    /// The registers of the computation except the element's, and its result; `None` if register `element` is
    /// not the operand that the pattern requires.
    fn operands(second: &Part, element: u16) -> Option<([u16; 2], u16)>;

    /// The bits of the result.
    fn compute(window: &Window, registers: [u16; 2], element: u32) -> u32;
}

macro_rules! folds {
    ($($name:ident [$($pattern:pat),*] $operands:expr; ($second:ident, $element:ident);
        ($window:ident, $of:ident, $bits:ident) $value:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, whose last operand is the element.")]
        pub(crate) struct $name;

        impl Fold for $name {
            fn operands($second: &Part, $element: u16) -> Option<([u16; 2], u16)> {
                let [$($pattern,)* ..] = $second.operands.registers;
                $operands
            }

            #[inline(always)]
            fn compute($window: &Window, $of: [u16; 2], $bits: u32) -> u32 {
                $value
            }
        }
    )*};
}

/// The operands of a sum: the element is on the right, or on either side if it commutes.
fn sum([left, right, result]: [u16; 3], commutes: bool, element: u16) -> Option<([u16; 2], u16)> {
    match () {
        () if left == right => None,
        () if right == element => Some(([left, 0], result)),
        () if left == element && commutes => Some(([right, 0], result)),
        () => None,
    }
}

/// The operands of a fused multiply-add: the element is the addend.
fn product([a, b, c, result]: [u16; 4], element: u16) -> Option<([u16; 2], u16)> {
    (c == element && a != element && b != element).then_some(([a, b], result))
}

folds! {
    AddF32 [left, right, result] sum([left, right, result], second.commutes, element); (second, element);
        (window, of, bits) functions::AddF32(f32::get(window, of[0]), f32::from_bits(bits)).to_bits();
    FMAF32 [a, b, c, result] product([a, b, c, result], element); (second, element);
        (window, of, bits)
            functions::FMAF32(f32::get(window, of[0]), f32::get(window, of[1]), f32::from_bits(bits)).to_bits();
}

/// Operands: buffer and index of an element, the other operands of a computation on it, its result. The
/// element's register is dead.
pub(crate) struct LoadAndFold<F>(std::marker::PhantomData<F>);

impl<F: Fold> Pattern for LoadAndFold<F> {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let [buffer, index, element, ..] = first.operands.registers;
        let ([a, b], result) = F::operands(second, element)?;
        (element == result || is_dead(element, 1)).then(|| Operands::new([buffer, index, a, b, result], 0))
    }
}

impl<F: Fold> LoadAndFold<F> {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        refs: &[Ref],
        [buffer, index, a, b, result, ..]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let bits = u32::from_le_bytes(load(refs, buffer, u64::get(window, index)).map_err(first)?);
        F::compute(window, [a, b], bits).put(window, result);
        Ok(())
    }
}

/// Operands: those of [`LoadAndFold`], whose result is stored to the same element.
pub(crate) struct Accumulate<F>(std::marker::PhantomData<F>);

impl<F: Fold> Pattern for Accumulate<F> {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let [buffer, index, a, b, result, ..] = first.operands.registers;
        let [target, target_index, value, ..] = second.operands.registers;
        let is_same = buffer & REF_MASK == target & REF_MASK && index == target_index && value == result;
        // The index is read again after the result is written.
        (is_same && !is_half_of(result, index)).then(|| Operands::new([buffer, index, a, b, result], 0))
    }
}

impl<F: Fold> Accumulate<F> {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        refs: &[Ref],
        [buffer, index, a, b, result, ..]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let (buffer, index) = (element(refs, buffer).map_err(first)?, u64::get(window, index));
        let bits = u32::from_le_bytes(buffer.load_element(index).map_err(first)?);
        let value = F::compute(window, [a, b], bits);
        value.put(window, result);
        buffer.store_element(index, value.to_le_bytes()).map_err(last)
    }
}

/// Operands: buffer, index and result of the first load, then of the second.
pub(crate) struct TwoLoads;

impl Pattern for TwoLoads {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let ([a, b, c, ..], [d, e, f, ..]) = (first.operands.registers, second.operands.registers);
        straight([a, b, c, d, e, f])
    }
}

impl TwoLoads {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        refs: &[Ref],
        [buffer, index, result, next_buffer, next_index, next_result, _]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let value = load(refs, buffer, u64::get(window, index)).map_err(first)?;
        u32::from_le_bytes(value).put(window, result);
        let value = load(refs, next_buffer, u64::get(window, next_index)).map_err(last)?;
        u32::from_le_bytes(value).put(window, next_result);
        Ok(())
    }
}

/// Operands: two operands and the result of a sum, which is the index of a load of a signed byte; its buffer
/// and result.
pub(crate) struct SumAndLoad;

impl Pattern for SumAndLoad {
    fn fuse(first: &Part, second: &Part, _is_dead: IsDead<'_>) -> Option<Operands> {
        let [a, b, sum, ..] = first.operands.registers;
        let [buffer, index, result, ..] = second.operands.registers;
        (index == sum).then(|| Operands::new([a, b, sum, buffer, result], 0))
    }
}

impl SumAndLoad {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        refs: &[Ref],
        [a, b, sum, buffer, result, ..]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let index = pair(window, a).wrapping_add(pair(window, b));
        index.put(window, sum);
        let [byte] = load(refs, buffer, index).map_err(last)?;
        i32::from(byte as i8).put(window, result);
        Ok(())
    }
}

/// Operands: buffer, index and value of the first store, then of the second.
pub(crate) struct TwoStores;

impl Pattern for TwoStores {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        TwoLoads::fuse(first, second, is_dead)
    }
}

impl TwoStores {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        refs: &[Ref],
        [buffer, index, value, next_buffer, next_index, next_value, _]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let word = |register| u32::get(window, register).to_le_bytes();
        store(refs, buffer, u64::get(window, index), word(value)).map_err(first)?;
        store(refs, next_buffer, u64::get(window, next_index), word(next_value)).map_err(last)
    }
}

/// Operands: those of a remainder, then limit, step and result of a [`Wrap`](super::Wrap) of it. The
/// remainder is dead.
pub(crate) struct Remainder;

impl Pattern for Remainder {
    fn fuse(first: &Part, second: &Part, is_dead: IsDead<'_>) -> Option<Operands> {
        let [number, divisor, remainder, ..] = first.operands.registers;
        let [value, limit, step, result, ..] = second.operands.registers;
        let is_connected = value == remainder && limit != remainder && step != remainder;
        (is_connected && (remainder == result || is_dead(remainder, 2)))
            .then(|| Operands::new([number, divisor, limit, step, result], 0))
    }
}

impl Remainder {
    #[inline(always)]
    pub(crate) fn run(
        window: &mut Window,
        _refs: &[Ref],
        [number, divisor, limit, step, result, ..]: [u16; REGISTERS],
    ) -> Result<(), Failed> {
        let remainder =
            functions::RemI64S(i64::get(window, number), i64::get(window, divisor)).map_err(first)?;
        wrap(remainder, i64::get(window, limit), i64::get(window, step)).put(window, result);
        Ok(())
    }
}
