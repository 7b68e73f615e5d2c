use super::super::op::Convert;
use super::super::types::{Bank, Type};
use super::lanes::{Step, Warp};
use crate::numbers::{
    BF16, F16, F32, NAN, NAN_16, NAN_64, Rounding, TF32, canonical, canonical_double, flushed, from_bf16,
    from_f16, redirected, to_integer,
};

impl Warp {
    pub(super) fn convert(&mut self, convert: &Convert, step: Step<'_>) {
        let is_plain = !(convert.ftz || convert.sat || convert.relu || convert.ties_away);
        let is_nearest = convert.rounding == Rounding::Nearest;
        match (convert.from, convert.to) {
            (Type::F32, Type::F32) if is_plain && convert.integer => match convert.rounding {
                Rounding::Down => self.one(step, |a| canonical(f32::from_bits(a).floor())),
                mode => self.one(step, |a| canonical(to_integer(f32::from_bits(a).into(), mode) as f32)),
            },
            (Type::S32, Type::F32) if is_plain && is_nearest => {
                self.one(step, |a| (a as i32 as f32).to_bits());
            }
            (Type::U32, Type::F32) if is_plain && is_nearest => self.one(step, |a| (a as f32).to_bits()),
            (Type::F32, Type::S32) if is_plain && convert.rounding == Rounding::Zero => {
                self.one(step, |a| f32::from_bits(a) as i32 as u32);
            }
            (Type::F32, Type::U32) if is_plain && convert.rounding == Rounding::Zero => {
                self.one(step, |a| f32::from_bits(a) as u32);
            }
            (Type::F16, Type::F32) if is_plain => self.one(step, |a| canonical(from_f16(a))),
            (Type::Bf16, Type::F32) if is_plain => self.one(step, |a| canonical(from_bf16(a))),
            (Type::F32, Type::F64) if is_plain => {
                self.widen(step, |a| canonical_double(f32::from_bits(a).into()));
            }
            (Type::F64, Type::F32) if is_plain && is_nearest => {
                self.narrow(step, |a| canonical(f64::from_bits(a) as f32));
            }
            _ => self.convert_slowly(convert, step),
        }
    }

    fn convert_slowly(&mut self, convert: &Convert, step: Step<'_>) {
        let is_long = |kind: Type| kind.bank() == Bank::Long;
        let (from, to) = (is_long(convert.from), is_long(convert.to));
        let out = std::array::from_fn(|lane| converted(convert, self.get(from, step.inst.a, lane)));
        self.put(to, step.inst.d, step.mask, &out);
    }
}

/// The bits of a converted value.
fn converted(convert: &Convert, bits: u64) -> u64 {
    if !convert.from.is_float() {
        let value = integer(convert.from, bits);
        return match convert.to.is_float() {
            true => from_integer(convert, value),
            // Only `.sat` is left.
            false => bits_of(convert.to, value.clamp(range(convert.to).0, range(convert.to).1)),
        };
    }
    let value = match convert.from {
        Type::F16 => from_f16(bits as u32).into(),
        Type::Bf16 => from_bf16(bits as u32).into(),
        Type::F64 => f64::from_bits(bits),
        _ if convert.ftz => flushed(f32::from_bits(bits as u32)).into(),
        _ => f64::from(f32::from_bits(bits as u32)),
    };
    if !convert.to.is_float() {
        let (least, most) = range(convert.to);
        if value.is_nan() {
            // 0 unless the source or the result has 64 bits ("cvt", PTX ISA 9.0).
            let is_zero = convert.from != Type::F64 && convert.to.bits() != 64;
            return if is_zero { 0 } else { 1 << (convert.to.bits() - 1) };
        }
        // Casts saturate.
        let value = to_integer(value, convert.rounding) as i128;
        return bits_of(convert.to, value.clamp(least, most));
    }
    let value = if convert.integer { to_integer(value, convert.rounding) } else { value };
    rounded(convert, value)
}

/// The integer of a type in the low bits.
fn integer(kind: Type, bits: u64) -> i128 {
    let shift = 64 - kind.bits();
    match kind.is_signed() {
        true => ((bits << shift) as i64 >> shift).into(),
        false => (bits << shift >> shift).into(),
    }
}

fn range(kind: Type) -> (i128, i128) {
    let bits = kind.bits();
    if kind.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The bits of an integer. Those of 16 bits leave the rest of their register zero.
fn bits_of(kind: Type, value: i128) -> u64 {
    let kept = if kind.bits() == 64 { u64::MAX } else { (1 << kind.bits()) - 1 };
    value as u64 & kept
}

fn from_integer(convert: &Convert, value: i128) -> u64 {
    // At most 64 bits: rounded to odd at 53, which rounds correctly to narrower formats.
    let magnitude = value.unsigned_abs();
    let shift = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let rest = magnitude & ((1 << shift) - 1);
    let kept = (magnitude >> shift) as u64;
    let scale = (1_u64 << shift) as f64;
    let signed = |magnitude: f64| if value < 0 { -magnitude } else { magnitude };
    if convert.to == Type::F64 {
        let nearest = value as f64;
        let error = (value - nearest as i128) as f64;
        return redirected(nearest, error, convert.rounding).to_bits();
    }
    rounded(convert, signed((kept | u64::from(rest != 0)) as f64 * scale))
}

/// A value as a float of the result's type, with saturation and flushing.
fn rounded(convert: &Convert, value: f64) -> u64 {
    let mut value = value;
    if value.is_nan() {
        return match convert.to {
            _ if convert.sat => 0,
            Type::F16 | Type::Bf16 => NAN_16.into(),
            Type::F64 => NAN_64,
            _ => NAN.into(),
        };
    }
    if convert.sat {
        value = value.clamp(0.0, 1.0) + 0.0;
    }
    if convert.relu {
        value = value.max(0.0) + 0.0;
    }
    let mode = if convert.integer { Rounding::Nearest } else { convert.rounding };
    match convert.to {
        Type::F16 => F16.round(value, mode).into(),
        Type::Bf16 => BF16.round(value, mode).into(),
        Type::Tf32 if convert.ties_away => {
            let bits = (value as f32).to_bits();
            let is_infinite = value.is_infinite();
            u64::from(if is_infinite { bits } else { bits.wrapping_add(0x1000) & !0x1fff })
        }
        Type::Tf32 => u64::from(TF32.round(value, mode)) << 13,
        Type::F64 => value.to_bits(),
        _ => {
            let bits = F32.round(value, mode);
            u64::from(if convert.ftz { flushed(f32::from_bits(bits)).to_bits() } else { bits })
        }
    }
}
