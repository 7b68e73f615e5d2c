use std::convert::identity;

use super::super::op::{Cmp, Float, FloatFn, Test};
use super::super::types::Type;
use super::lanes::{Step, Warp, truth};
use crate::numbers::{
    BF16, F16, F32, Format, NAN, NAN_16, Rounding, canonical, canonical_double, flushed, fma, from_bf16,
    from_f16, odd_sum, overflowed, redirected, sum_error,
};

impl Warp {
    #[inline(always)]
    pub(super) fn fma32(&mut self, step: Step<'_>) {
        self.three(step, |a, b, c| canonical(fma(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c))));
    }

    #[inline(always)]
    pub(super) fn floats(&mut self, step: Step<'_>, f: impl Fn(f32, f32) -> f32) {
        self.two(step, |a, b| canonical(f(f32::from_bits(a), f32::from_bits(b))));
    }

    pub(super) fn float(&mut self, float: Float, step: Step<'_>) {
        match float.kind {
            Type::F32 if float.is_plain() => self.plain_single(float, step),
            Type::F32 if float.ftz && float.rounding == Rounding::Nearest && !float.sat => {
                self.flushing_single(float, step);
            }
            Type::F32 => self.three(step, |a, b, c| single(float, a, b, c)),
            Type::F64 if float.is_plain() => self.plain_double(float, step),
            Type::F64 => self.three_long(step, |a, b, c| double(float, a, b, c)),
            Type::F16 => self.three(step, |a, b, c| half(float, F16, a, b, c)),
            Type::Bf16 => self.three(step, |a, b, c| half(float, BF16, a, b, c)),
            kind => {
                let format = if kind == Type::F16x2 { F16 } else { BF16 };
                self.three(step, |a, b, c| {
                    let low = half(float, format, a & 0xffff, b & 0xffff, c & 0xffff);
                    low | half(float, format, a >> 16, b >> 16, c >> 16) << 16
                });
            }
        }
    }

    fn plain_single(&mut self, float: Float, step: Step<'_>) {
        match float.f {
            FloatFn::Min => self.two(step, |a, b| chosen(true, a, b)),
            FloatFn::Max => self.two(step, |a, b| chosen(false, a, b)),
            FloatFn::Neg => self.one(step, |a| a ^ 1 << 31),
            FloatFn::Abs => self.one(step, |a| a & !(1 << 31)),
            FloatFn::Div => self.floats(step, |a, b| a / b),
            FloatFn::Rcp => self.one(step, |a| canonical(1.0 / f32::from_bits(a))),
            FloatFn::Sqrt => self.one(step, |a| canonical(f32::from_bits(a).sqrt())),
            FloatFn::Rsqrt => {
                self.one(step, |a| canonical((1.0 / f64::from(f32::from_bits(a)).sqrt()) as f32));
            }
            _ => self.three(step, |a, b, c| single(float, a, b, c)),
        }
    }

    /// The functions that people's fast math uses most.
    fn flushing_single(&mut self, float: Float, step: Step<'_>) {
        let value = |bits: u32| flushed(f32::from_bits(bits));
        let result = |value: f32| canonical(flushed(value));
        match float.f {
            FloatFn::Add => self.two(step, |a, b| result(value(a) + value(b))),
            FloatFn::Sub => self.two(step, |a, b| result(value(a) - value(b))),
            FloatFn::Mul => self.two(step, |a, b| result(value(a) * value(b))),
            FloatFn::Fma => self.three(step, |a, b, c| result(fma(value(a), value(b), value(c)))),
            _ => self.three(step, |a, b, c| single(float, a, b, c)),
        }
    }

    fn plain_double(&mut self, float: Float, step: Step<'_>) {
        let (value, result) = (f64::from_bits, canonical_double);
        match float.f {
            FloatFn::Add => self.two_long(step, |a, b| result(value(a) + value(b))),
            FloatFn::Sub => self.two_long(step, |a, b| result(value(a) - value(b))),
            FloatFn::Mul => self.two_long(step, |a, b| result(value(a) * value(b))),
            FloatFn::Div => self.two_long(step, |a, b| result(value(a) / value(b))),
            _ => self.three_long(step, |a, b, c| double(float, a, b, c)),
        }
    }

    pub(super) fn copysign(&mut self, long: bool, step: Step<'_>) {
        // The sign of `a`, the value of `b`.
        match long {
            true => self.two_long(step, |a, b| (a & 1 << 63) | (b & !(1 << 63))),
            false => self.two(step, |a, b| (a & 1 << 31) | (b & !(1 << 31))),
        }
    }

    pub(super) fn testp(&mut self, long: bool, test: Test, step: Step<'_>) {
        let out = std::array::from_fn(|lane| {
            let bits = self.get(long, step.inst.a, lane);
            // A subnormal `f32` is a normal `f64`.
            let single = f32::from_bits(bits as u32);
            let (value, is_subnormal) = match long {
                true => (f64::from_bits(bits), f64::from_bits(bits).is_subnormal()),
                false => (single.into(), single.is_subnormal()),
            };
            truth(match test {
                Test::Finite => value.is_finite(),
                Test::Infinite => value.is_infinite(),
                Test::Number => !value.is_nan(),
                Test::NotANumber => value.is_nan(),
                Test::Normal => value.is_finite() && value != 0.0 && !is_subnormal,
                Test::Subnormal => is_subnormal,
            })
        });
        self.set(step.inst.d, step.mask, &out);
    }
}

/// `min` or `max` of the bits of two `f32`: -0 is below +0, and a NaN loses.
#[inline(always)]
fn chosen(is_min: bool, a: u32, b: u32) -> u32 {
    // As integers, floats are in order after all bits but the sign of negative ones are inverted.
    let order = |bits: u32| bits as i32 ^ ((bits as i32 >> 31) as u32 >> 1) as i32;
    let is_nan = |bits: u32| bits & 0x7fff_ffff > 0x7f80_0000;
    let first = if (order(a) <= order(b)) == is_min { a } else { b };
    let first = if is_nan(a) { b } else { first };
    let first = if is_nan(b) { a } else { first };
    if is_nan(a) & is_nan(b) { NAN } else { first }
}

fn min_max(float: Float, a: f64, b: f64) -> f64 {
    let is_min = float.f == FloatFn::Min;
    let (x, y) = if float.xorsign { (a.abs(), b.abs()) } else { (a, b) };
    let is_first = match x == y {
        true => x.is_sign_negative() == is_min,
        false => (x < y) == is_min,
    };
    let chosen = match (x.is_nan(), y.is_nan()) {
        (true, true) => return f64::NAN,
        (true, _) | (_, true) if float.nan => return f64::NAN,
        (true, _) => y,
        (_, true) => x,
        _ if is_first => x,
        _ => y,
    };
    match float.xorsign {
        true if a.is_sign_negative() != b.is_sign_negative() => -chosen.abs(),
        true => chosen.abs(),
        false => chosen,
    }
}

/// The result of a function in `f64`, rounded to odd if it is inexact and has to be rounded again. For sums,
/// products, quotients and roots of operands of at most 24 bits.
fn exact(float: Float, a: f64, b: f64, c: f64) -> f64 {
    match float.f {
        FloatFn::Add => with_sign_of_zero(float.rounding, a, b, odd_sum(a, b)),
        FloatFn::Sub => with_sign_of_zero(float.rounding, a, -b, odd_sum(a, -b)),
        FloatFn::Mul => a * b,
        FloatFn::Fma => with_sign_of_zero(float.rounding, a * b, c, odd_sum(a * b, c)),
        FloatFn::Div => odd_quotient(a, b),
        FloatFn::Rcp => odd_quotient(1.0, a),
        FloatFn::Sqrt => {
            let root = a.sqrt();
            odd(root, (-root).mul_add(root, a), true)
        }
        FloatFn::Rsqrt => 1.0 / a.sqrt(),
        FloatFn::Sin => a.sin(),
        FloatFn::Cos => a.cos(),
        FloatFn::Ex2 => a.exp2(),
        FloatFn::Lg2 => a.log2(),
        FloatFn::Tanh => a.tanh(),
        FloatFn::Min | FloatFn::Max => min_max(float, a, b),
        FloatFn::Abs => a.abs(),
        FloatFn::Neg => -a,
    }
}

/// The sum of numbers of opposite sign that are equal is -0 if rounded down.
fn with_sign_of_zero(rounding: Rounding, a: f64, b: f64, sum: f64) -> f64 {
    let is_negative = rounding == Rounding::Down && (a.is_sign_negative() || b.is_sign_negative());
    if sum == 0.0 && is_negative { -0.0 } else { sum }
}

fn odd_quotient(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    odd(quotient, (-quotient).mul_add(b, a), (b > 0.0) == (quotient > 0.0))
}

/// A result that was rounded to nearest, rounded to odd instead. `rest` is what is left, positive if the
/// exact result has the greater magnitude and `same_sign`, or the opposite of both.
fn odd(value: f64, rest: f64, same_sign: bool) -> f64 {
    if rest == 0.0 || !value.is_finite() || rest.is_nan() || value == 0.0 {
        return value;
    }
    let is_too_large = (rest > 0.0) != same_sign;
    let bits = value.to_bits() - u64::from(is_too_large && value.to_bits() & 1 == 0);
    f64::from_bits(bits | 1)
}

/// A function of `f32` with all of its modifiers.
fn single(float: Float, a: u32, b: u32, c: u32) -> u32 {
    let value = |bits: u32| {
        let value = f32::from_bits(bits);
        if float.ftz { flushed(value) } else { value }
    };
    let (x, y, z) = (value(a), value(b), value(c));
    let result = match float.f {
        // The sign of a NaN changes as well.
        FloatFn::Neg => return (-x).to_bits(),
        FloatFn::Abs => return x.abs().to_bits(),
        FloatFn::Div if float.rounding == Rounding::Nearest => x / y,
        FloatFn::Rcp if float.rounding == Rounding::Nearest => 1.0 / x,
        FloatFn::Sqrt if float.rounding == Rounding::Nearest => x.sqrt(),
        _ => f32::from_bits(F32.round(exact(float, x.into(), y.into(), z.into()), float.rounding)),
    };
    let result = match float.sat {
        true if result.is_nan() => 0.0,
        true => result.clamp(0.0, 1.0) + 0.0,
        false => result,
    };
    canonical(if float.ftz { flushed(result) } else { result })
}

/// A function of `f64`. Rounding in other modes corrects the result by the sign of its error.
fn double(float: Float, a: u64, b: u64, c: u64) -> u64 {
    let [x, y, z] = [a, b, c].map(f64::from_bits);
    let mode = float.rounding;
    let (value, error) = match float.f {
        FloatFn::Neg => return (-x).to_bits(),
        FloatFn::Abs => return x.abs().to_bits(),
        FloatFn::Add => (x + y, sum_error(x, y)),
        FloatFn::Sub => (x - y, sum_error(x, -y)),
        FloatFn::Mul => (x * y, x.mul_add(y, -(x * y))),
        FloatFn::Fma => {
            let (value, product) = (x.mul_add(y, z), x * y);
            let rest = x.mul_add(y, -product);
            let (sum, low) = (product + z, sum_error(product, z));
            (value, (sum - value) + (low + rest))
        }
        FloatFn::Div => {
            let value = x / y;
            (value, (-value).mul_add(y, x) * y.signum())
        }
        FloatFn::Rcp => {
            let value = 1.0 / x;
            (value, (-value).mul_add(x, 1.0) * x.signum())
        }
        FloatFn::Sqrt => {
            let value = x.sqrt();
            (value, (-value).mul_add(value, x))
        }
        _ => (exact(float, x, y, z), 0.0),
    };
    let value = match float.f {
        FloatFn::Add => with_sign_of_zero(mode, x, y, value),
        FloatFn::Sub => with_sign_of_zero(mode, x, -y, value),
        _ => value,
    };
    let are_finite = x.is_finite() && y.is_finite() && z.is_finite();
    let is_overflow = value.is_infinite() && are_finite && !matches!(float.f, FloatFn::Div | FloatFn::Rcp);
    canonical_double(if is_overflow { overflowed(value, mode) } else { redirected(value, error, mode) })
}

/// A function of `f16` or `bf16`.
fn half(float: Float, format: Format, a: u32, b: u32, c: u32) -> u32 {
    let is_f16 = format == F16;
    let flushed = |bits: u32| if float.ftz && bits & 0x7c00 == 0 { bits & 0x8000 } else { bits };
    let [a, b, c] = [a, b, c].map(flushed);
    match float.f {
        FloatFn::Neg => return a ^ 0x8000,
        FloatFn::Abs => return a & 0x7fff,
        _ => {}
    }
    let [x, y, z] = [a, b, c].map(|it| f64::from(if is_f16 { from_f16(it) } else { from_bf16(it) }));
    let mut result = exact(float, x, y, z);
    if result.is_nan() {
        return if float.sat { 0 } else { NAN_16 };
    }
    if float.sat {
        result = result.clamp(0.0, 1.0) + 0.0;
    } else if float.relu {
        result = result.max(0.0) + 0.0;
    }
    flushed(format.round(result, float.rounding))
}

/// Compares what `$value` makes of the lanes.
macro_rules! compared {
    ($warp:ident . $two:ident, $step:ident, $cmp:ident, $value:expr) => {{
        macro_rules! lanes {
            (|$a:ident, $b:ident| $is:expr) => {
                $warp.$two($step, |a, b| {
                    let ($a, $b) = ($value(a), $value(b));
                    truth($is)
                })
            };
        }
        match $cmp {
            Cmp::Eq => lanes!(|a, b| a == b),
            Cmp::Ne => lanes!(|a, b| !(a == b) & ordered(a, b)),
            Cmp::Lt => lanes!(|a, b| a < b),
            Cmp::Le => lanes!(|a, b| a <= b),
            Cmp::Gt => lanes!(|a, b| a > b),
            Cmp::Ge => lanes!(|a, b| a >= b),
            Cmp::Equ => lanes!(|a, b| (a == b) | !ordered(a, b)),
            Cmp::Neu => lanes!(|a, b| a != b),
            Cmp::Ltu => lanes!(|a, b| !(a >= b)),
            Cmp::Leu => lanes!(|a, b| !(a > b)),
            Cmp::Gtu => lanes!(|a, b| !(a <= b)),
            Cmp::Geu => lanes!(|a, b| !(a < b)),
            Cmp::Num => lanes!(|a, b| ordered(a, b)),
            Cmp::Nan => lanes!(|a, b| !ordered(a, b)),
        }
    }};
}

/// Whether no operand is NaN.
#[inline(always)]
#[allow(clippy::eq_op, reason = "NaN differs from itself, in each type that is compared")]
fn ordered<T: PartialEq>(a: T, b: T) -> bool {
    (a == a) & (b == b)
}

#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN makes the comparison true")]
impl Warp {
    #[inline(always)]
    pub(super) fn compare(&mut self, cmp: Cmp, kind: Type, ftz: bool, step: Step<'_>) {
        match kind {
            Type::S32 => compared!(self.two, step, cmp, (|it: u32| it as i32)),
            Type::F32 if !ftz => compared!(self.two, step, cmp, f32::from_bits),
            Type::B32 | Type::U32 | Type::B16 | Type::U16 => {
                compared!(self.two, step, cmp, identity::<u32>)
            }
            _ => self.compare_rarer(cmp, kind, step),
        }
    }

    fn compare_rarer(&mut self, cmp: Cmp, kind: Type, step: Step<'_>) {
        match kind {
            Type::F32 => compared!(self.two, step, cmp, (|it: u32| flushed(f32::from_bits(it)))),
            Type::S16 => compared!(self.two, step, cmp, (|it: u32| it as i16)),
            Type::F16 => compared!(self.two, step, cmp, from_f16),
            Type::Bf16 => compared!(self.two, step, cmp, from_bf16),
            Type::S64 => compared!(self.narrow_two, step, cmp, (|it: u64| it as i64)),
            Type::F64 => compared!(self.narrow_two, step, cmp, f64::from_bits),
            _ => compared!(self.narrow_two, step, cmp, identity::<u64>),
        }
    }
}
