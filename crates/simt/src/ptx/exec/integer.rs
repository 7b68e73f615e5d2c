use super::super::op::{BitCount, IntOp, IntUnary, Prmt, Width};
use super::lanes::{LANES, Long, Step, Warp, truth};

/// The operations of a width: `$u` and `$s` are its integers, `$wu` and `$ws` those of twice its bits, and
/// `$store` is how lanes keep it. Division by zero gives all ones, and the dividend as the remainder.
macro_rules! binary {
    ($warp:ident . $two:ident, $step:ident, $op:ident, $u:ty, $s:ty, $wu:ty, $ws:ty, $store:ty) => {{
        macro_rules! lanes {
            ($kind:ty: |$a:ident, $b:ident| $out:expr) => {
                $warp.$two($step, |a, b| {
                    let ($a, $b) = (a as $kind, b as $kind);
                    let out = $out;
                    out as $u as $store
                })
            };
        }
        match $op {
            IntOp::Add => lanes!($u: |a, b| a.wrapping_add(b)),
            IntOp::Sub => lanes!($u: |a, b| a.wrapping_sub(b)),
            IntOp::AddSat => lanes!($s: |a, b| a.saturating_add(b)),
            IntOp::SubSat => lanes!($s: |a, b| a.saturating_sub(b)),
            IntOp::Mul => lanes!($u: |a, b| a.wrapping_mul(b)),
            IntOp::MulHiS => lanes!($s: |a, b| ((a as $ws).wrapping_mul(b as $ws) >> <$u>::BITS)),
            IntOp::MulHiU => lanes!($u: |a, b| ((a as $wu).wrapping_mul(b as $wu) >> <$u>::BITS)),
            IntOp::DivS => lanes!($s: |a, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
            IntOp::DivU => lanes!($u: |a, b| a.checked_div(b).unwrap_or(<$u>::MAX)),
            IntOp::RemS => lanes!($s: |a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
            IntOp::RemU => lanes!($u: |a, b| a.checked_rem(b).unwrap_or(a)),
            IntOp::MinS => lanes!($s: |a, b| a.min(b)),
            IntOp::MinU => lanes!($u: |a, b| a.min(b)),
            IntOp::MaxS => lanes!($s: |a, b| a.max(b)),
            IntOp::MaxU => lanes!($u: |a, b| a.max(b)),
            IntOp::And => lanes!($store: |a, b| (a & b)),
            IntOp::Or => lanes!($store: |a, b| (a | b)),
            IntOp::Xor => lanes!($store: |a, b| (a ^ b)),
            IntOp::AbsDiffS => lanes!($s: |a, b| a.abs_diff(b)),
            IntOp::AbsDiffU => lanes!($u: |a, b| a.abs_diff(b)),
            // Shifts have an amount of 32 bits, and are done elsewhere.
            IntOp::Shl | IntOp::ShrS | IntOp::ShrU => {}
        }
    }};
}

impl Warp {
    #[inline(always)]
    pub(super) fn int(&mut self, op: IntOp, width: Width, step: Step<'_>) {
        match (op, width) {
            (IntOp::Shl | IntOp::ShrS | IntOp::ShrU, _) => self.shift(op, width, step),
            (_, Width::W32) => binary!(self.two, step, op, u32, i32, u64, i64, u32),
            (_, Width::W64) => self.int_64(op, step),
            (_, Width::W16) => self.int_16(op, step),
        }
    }

    fn int_64(&mut self, op: IntOp, step: Step<'_>) {
        binary!(self.two_long, step, op, u64, i64, u128, i128, u64);
    }

    fn int_16(&mut self, op: IntOp, step: Step<'_>) {
        binary!(self.two, step, op, u16, i16, u32, i32, u32);
    }

    fn shift(&mut self, op: IntOp, width: Width, step: Step<'_>) {
        match (op, width) {
            (IntOp::Shl, Width::W16) => self.two(step, |a, b| a.checked_shl(b).unwrap_or(0) & 0xffff),
            (IntOp::Shl, Width::W32) => self.two(step, |a, b| if b > 31 { 0 } else { a << (b & 31) }),
            (IntOp::Shl, Width::W64) => {
                self.long_by_short(step, |a, b| if b > 63 { 0 } else { a << (b & 63) });
            }
            (IntOp::ShrU, Width::W64) => {
                self.long_by_short(step, |a, b| if b > 63 { 0 } else { a >> (b & 63) });
            }
            (IntOp::ShrU, _) => self.two(step, |a, b| if b > 31 { 0 } else { a >> (b & 31) }),
            (_, Width::W16) => {
                self.two(step, |a, b| u32::from(((a as i16) >> b.min(15)) as u16));
            }
            (_, Width::W32) => self.two(step, |a, b| ((a as i32) >> b.min(31)) as u32),
            (_, Width::W64) => self.long_by_short(step, |a, b| ((a as i64) >> b.min(63)) as u64),
        }
    }

    pub(super) fn int_unary(&mut self, op: IntUnary, width: Width, step: Step<'_>) {
        match (op, width) {
            (IntUnary::Not, Width::W16) => self.one(step, |a| !a & 0xffff),
            (IntUnary::Not, Width::W32) => self.one(step, |a| !a),
            (IntUnary::Not, Width::W64) => self.one_long(step, |a| !a),
            (IntUnary::Cnot, Width::W64) => self.one_long(step, |a| u64::from(a == 0)),
            (IntUnary::Cnot, _) => self.one(step, |a| u32::from(a == 0)),
            (IntUnary::Neg, Width::W16) => self.one(step, |a| a.wrapping_neg() & 0xffff),
            (IntUnary::Neg, Width::W32) => self.one(step, |a| a.wrapping_neg()),
            (IntUnary::Neg, Width::W64) => self.one_long(step, |a| a.wrapping_neg()),
            (IntUnary::Abs, Width::W16) => self.one(step, |a| u32::from((a as i16).wrapping_abs() as u16)),
            (IntUnary::Abs, Width::W32) => self.one(step, |a| (a as i32).wrapping_abs() as u32),
            (IntUnary::Abs, Width::W64) => self.one_long(step, |a| (a as i64).wrapping_abs() as u64),
            (IntUnary::Brev, Width::W64) => self.one_long(step, u64::reverse_bits),
            (IntUnary::Brev, _) => self.one(step, u32::reverse_bits),
        }
    }

    pub(super) fn bit_count(&mut self, count: BitCount, width: Width, step: Step<'_>) {
        // The highest bit that differs from the sign, or u32::MAX; or the shift that moves it to the top.
        let find = |value: i64, signed: bool, shift: bool| {
            let value = if signed { (value ^ (value >> 63)) as u64 } else { value as u64 };
            match value {
                0 => u32::MAX,
                _ if shift && width == Width::W64 => value.leading_zeros(),
                _ if shift => value.leading_zeros() - 32,
                _ => 63 - value.leading_zeros(),
            }
        };
        let extended = |a: u32, signed: bool| if signed { (a as i32).into() } else { a.into() };
        match (count, width) {
            (BitCount::Popc, Width::W64) => self.narrow(step, u64::count_ones),
            (BitCount::Popc, _) => self.one(step, u32::count_ones),
            (BitCount::Clz, Width::W64) => self.narrow(step, u64::leading_zeros),
            (BitCount::Clz, _) => self.one(step, u32::leading_zeros),
            (BitCount::Find { signed, shift }, Width::W64) => {
                self.narrow(step, |a| find(a as i64, signed, shift));
            }
            (BitCount::Find { signed, shift }, _) => {
                self.one(step, |a| find(extended(a, signed), signed, shift));
            }
        }
    }

    pub(super) fn mul_wide(&mut self, signed: bool, width: Width, step: Step<'_>) {
        match (signed, width) {
            (false, Width::W16) => self.two(step, |a, b| a.wrapping_mul(b)),
            (true, Width::W16) => {
                self.two(step, |a, b| i32::from(a as i16).wrapping_mul(i32::from(b as i16)) as u32);
            }
            (false, _) => self.widen_two(step, |a, b| u64::from(a) * u64::from(b)),
            (true, _) => {
                self.widen_two(step, |a, b| i64::from(a as i32).wrapping_mul(i64::from(b as i32)) as u64)
            }
        }
    }

    /// Whether `a + b + c` or `a - b - c` leaves the width; `c` and the result are predicates.
    pub(super) fn carry(&mut self, borrow: bool, width: Width, step: Step<'_>) {
        let (long, mut out) = (width == Width::W64, [0; LANES]);
        let limit = if long { u64::MAX } else { u32::MAX.into() };
        for lane in 0..LANES {
            let [a, b] = [step.inst.a, step.inst.b].map(|it| u128::from(self.get(long, it, lane)));
            let carry = u128::from(self.short[step.inst.c as usize][lane] & 1);
            out[lane] = truth(if borrow { a < b + carry } else { a + b + carry > limit.into() });
        }
        self.set(step.inst.d, step.mask, &out);
    }

    pub(super) fn mul24(&mut self, signed: bool, high: bool, step: Step<'_>) {
        self.two(step, |a, b| {
            let extended = |it: u32| match signed {
                true => i64::from((it << 8) as i32 >> 8),
                false => i64::from(it & 0xff_ffff),
            };
            let product = extended(a) * extended(b);
            (if high { product >> 16 } else { product }) as u32
        });
    }

    pub(super) fn narrow_bits(&mut self, bits: u8, signed: bool, to: u8, step: Step<'_>) {
        let shift = 32 - u32::from(bits);
        let kept = if to >= 32 { u32::MAX } else { (1 << to) - 1 };
        match signed {
            true => self.one(step, |a| ((a << shift) as i32 >> shift) as u32 & kept),
            false => self.one(step, |a| (a << shift) >> shift & kept),
        }
    }

    pub(super) fn pack(&mut self, bits: u8, count: u8, step: Step<'_>) {
        let list = step.list(usize::from(count));
        let mut out = [0_u64; LANES];
        for (index, reg) in list.iter().enumerate() {
            let source = &self.short[*reg as usize];
            for lane in 0..LANES {
                out[lane] |= u64::from(source[lane]) << (index as u32 * u32::from(bits));
            }
        }
        self.put(bits * count == 64, step.inst.d, step.mask, &out);
    }

    pub(super) fn unpack(&mut self, bits: u8, count: u8, step: Step<'_>) {
        let long = bits * count == 64;
        let kept = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        let source: Long = std::array::from_fn(|lane| self.get(long, step.inst.a, lane));
        for (index, reg) in step.list(count.into()).iter().enumerate() {
            let shift = index as u32 * u32::from(bits);
            self.set(*reg, step.mask, &source.map(|it| (it >> shift) as u32 & kept));
        }
    }

    pub(super) fn bfe(&mut self, signed: bool, long: bool, step: Step<'_>) {
        let (b, c) = (self.short[step.inst.b as usize], self.short[step.inst.c as usize]);
        let bits = if long { 64 } else { 32 };
        let mut out = [0; LANES];
        for lane in 0..LANES {
            let a = i128::from(self.get(long, step.inst.a, lane));
            let (start, length) = (b[lane] & 0xff, c[lane] & 0xff);
            // Bits beyond the value are copies of its sign; the field's own sign is its last bit that is
            // within the value.
            let last = (start + length).wrapping_sub(1).min(bits - 1);
            let is_negative = signed && length != 0 && a >> last & 1 != 0;
            let field = if start < bits { (a >> start) as u64 } else { 0 };
            let kept = length.min(bits.saturating_sub(start));
            let low = if kept >= 64 { u64::MAX } else { (1 << kept) - 1 };
            out[lane] = (field & low) | if is_negative { !low } else { 0 };
        }
        self.put(long, step.inst.d, step.mask, &out);
    }

    pub(super) fn bfi(&mut self, long: bool, step: Step<'_>) {
        let (start, length) = (self.short[step.inst.c as usize], self.short[step.list(1)[0] as usize]);
        let bits = if long { 64 } else { 32 };
        let mut out = [0; LANES];
        for lane in 0..LANES {
            let [a, b] = [step.inst.a, step.inst.b].map(|it| self.get(long, it, lane));
            let (start, length) = (start[lane] & 0xff, length[lane] & 0xff);
            let length = length.min(64);
            let field = if length == 64 { u64::MAX } else { (1 << length) - 1 };
            let field = if start < bits { field << start } else { 0 };
            let placed = if start < bits { a << start } else { 0 };
            out[lane] = (placed & field) | (b & !field);
        }
        self.put(long, step.inst.d, step.mask, &out);
    }

    pub(super) fn bmsk(&mut self, clamp: bool, step: Step<'_>) {
        self.two(step, |a, b| {
            let (a, b) = if clamp { (a.min(32), b.min(32)) } else { (a & 31, b & 31) };
            let ones = (1_u64 << b) - 1;
            (ones << a) as u32
        });
    }
}

pub(super) fn shf(left: bool, wrap: bool, a: u32, b: u32, c: u32) -> u32 {
    let by = if wrap { c & 31 } else { c.min(32) };
    let both = u64::from(b) << 32 | u64::from(a);
    if left { (both << by >> 32) as u32 } else { (both >> by) as u32 }
}

/// `a`, `b` and `c` select a bit of the table.
#[inline(always)]
pub(super) fn lop3(table: u32, a: u32, b: u32, c: u32) -> u32 {
    let mut out = 0;
    for entry in 0..8 {
        if table >> entry & 1 != 0 {
            let a = if entry & 4 != 0 { a } else { !a };
            let b = if entry & 2 != 0 { b } else { !b };
            let c = if entry & 1 != 0 { c } else { !c };
            out |= a & b & c;
        }
    }
    out
}

pub(super) fn prmt(mode: Prmt, a: u32, b: u32, c: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    let byte = |index: u32| (both >> (8 * (index & 7))) as u32 & 0xff;
    let low = c & 3;
    // The bytes of each mode for each value of the two low bits of `c`, from the lowest.
    let selected: [u32; 4] = match mode {
        Prmt::Bytes => {
            return (0..4).fold(0, |out, index| {
                let selector = c >> (4 * index);
                let value = byte(selector & 7);
                // With the fourth bit, the sign of the byte is repeated.
                let value = if selector & 8 != 0 { (value >> 7) * 0xff } else { value };
                out | value << (8 * index)
            });
        }
        Prmt::F4e => [low, low + 1, low + 2, low + 3],
        Prmt::B4e => [low, low.wrapping_sub(1), low.wrapping_sub(2), low.wrapping_sub(3)],
        Prmt::Rc8 => [low; 4],
        Prmt::Ecl => [low, low.max(1), low.max(2), 3],
        Prmt::Ecr => [0, low.min(1), low.min(2), low],
        Prmt::Rc16 => [2 * (low & 1), 2 * (low & 1) + 1, 2 * (low & 1), 2 * (low & 1) + 1],
    };
    (0..4).fold(0, |out, index| out | byte(selected[index]) << (8 * index))
}

fn part(value: u32, index: u32, bits: u32, signed: bool) -> i64 {
    let shift = 32 - bits;
    let moved = value >> (index * bits) << shift;
    if signed { i64::from(moved as i32 >> shift) } else { i64::from(moved >> shift) }
}

pub(super) fn dp4a(is_a: bool, is_b: bool, a: u32, b: u32, c: u32) -> u32 {
    let sum: i64 = (0..4).map(|it| part(a, it, 8, is_a) * part(b, it, 8, is_b)).sum();
    c.wrapping_add(sum as u32)
}

pub(super) fn dp2a(is_a: bool, is_b: bool, high: bool, a: u32, b: u32, c: u32) -> u32 {
    let first = if high { 2 } else { 0 };
    let sum: i64 = (0..2).map(|it| part(a, it, 16, is_a) * part(b, first + it, 8, is_b)).sum();
    c.wrapping_add(sum as u32)
}

/// The position of the set bit that is `offset` set bits from `base`, as "fns" describes it.
pub(super) fn fns(mask: u32, base: u32, offset: u32) -> u32 {
    let (base, offset) = (base.min(32), offset as i32);
    if offset == 0 {
        return if base < 32 && mask >> base & 1 != 0 { base } else { u32::MAX };
    }
    let is_set = |it: &u32| mask >> it & 1 != 0;
    let skipped = (offset.unsigned_abs() - 1) as usize;
    let found = if offset > 0 {
        (base..32).filter(is_set).nth(skipped)
    } else {
        (0..32.min(base + 1)).rev().filter(is_set).nth(skipped)
    };
    found.unwrap_or(u32::MAX)
}
