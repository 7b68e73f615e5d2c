use super::super::op::{Inst, Reg};

/// Lanes of a warp.
pub(super) const LANES: usize = 32;
pub(super) type Short = [u32; LANES];
pub(super) type Long = [u64; LANES];

/// The bit of each lane.
const BITS: Short = {
    let mut bits = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

/// The registers of a warp.
pub(crate) struct Warp {
    pub(super) short: Vec<Short>,
    pub(super) long: Vec<Long>,
}

/// The lanes in which a predicate is true.
#[inline(always)]
pub(super) fn mask_of(predicate: &Short) -> u32 {
    let mut mask = 0;
    for lane in 0..LANES {
        mask |= predicate[lane] & BITS[lane];
    }
    mask
}

/// The lanes of a mask.
#[inline(always)]
pub(super) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < LANES as u32).then_some(lane as usize)
    })
}

impl Warp {
    pub(super) fn new(shorts: u32, longs: u32) -> Self {
        Self { short: vec![[0; LANES]; shorts as usize], long: vec![[0; LANES]; longs as usize] }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, d: Reg, mask: u32, value: &Short) {
        let target = &mut self.short[d as usize];
        if mask == u32::MAX {
            *target = *value;
        } else {
            for lane in 0..LANES {
                target[lane] = if mask & BITS[lane] != 0 { value[lane] } else { target[lane] };
            }
        }
    }

    #[inline(always)]
    pub(super) fn set_long(&mut self, d: Reg, mask: u32, value: &Long) {
        let target = &mut self.long[d as usize];
        if mask == u32::MAX {
            *target = *value;
        } else {
            for lane in 0..LANES {
                target[lane] = if mask & BITS[lane] != 0 { value[lane] } else { target[lane] };
            }
        }
    }

    #[inline(always)]
    pub(super) fn select_long(&mut self, inst: &Inst, mask: u32) {
        let (a, b) = (&self.long[inst.a as usize], &self.long[inst.b as usize]);
        let c = &self.short[inst.c as usize];
        let mut out = [0; LANES];
        for lane in 0..LANES {
            let chosen = c[lane] as i32 as i64 as u64;
            out[lane] = (a[lane] & chosen) | (b[lane] & !chosen);
        }
        self.set_long(inst.d, mask, &out);
    }
}

/// Functions that store what a closure makes of the sources of an instruction: the banks of the sources, and
/// the type and the setter of the result.
macro_rules! mapped {
    ($($name:ident($($source:ident: $bank:ident $kind:ty),+) -> $result:ty, $set:ident;)+) => {
        impl Warp {$(
            #[inline(always)]
            pub(super) fn $name(&mut self, inst: &Inst, mask: u32, f: impl Fn($($kind),+) -> $result) {
                $(let $source = &self.$bank[inst.$source as usize];)+
                let mut out = [0; LANES];
                for lane in 0..LANES {
                    out[lane] = f($($source[lane]),+);
                }
                self.$set(inst.d, mask, &out);
            }
        )+}
    };
}

mapped! {
    one(a: short u32) -> u32, set;
    two(a: short u32, b: short u32) -> u32, set;
    three(a: short u32, b: short u32, c: short u32) -> u32, set;
    one_long(a: long u64) -> u64, set_long;
    two_long(a: long u64, b: long u64) -> u64, set_long;
    three_long(a: long u64, b: long u64, c: long u64) -> u64, set_long;
    long_by_short(a: long u64, b: short u32) -> u64, set_long;
    widen(a: short u32) -> u64, set_long;
    widen_two(a: short u32, b: short u32) -> u64, set_long;
    narrow(a: long u64) -> u32, set;
    narrow_two(a: long u64, b: long u64) -> u32, set;
}
