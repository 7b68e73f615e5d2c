use super::super::op::{Inst, Reg};
use crate::engine::Site;

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

/// An instruction, the lanes that execute it, and the lists of its program.
#[derive(Clone, Copy)]
pub(super) struct Step<'s> {
    pub inst: &'s Inst,
    pub mask: u32,
    pub lists: &'s [u32],
}

impl<'s> Step<'s> {
    /// The list of the instruction.
    pub(super) fn list(&self, count: usize) -> &'s [u32] {
        &self.lists[self.inst.imm as usize..][..count]
    }

    /// A lane's access.
    #[inline(always)]
    pub(super) fn site(&self, lane: usize) -> Site {
        Site { at: self.inst.at, lane: lane as u32 }
    }
}

/// A predicate.
#[inline(always)]
pub(super) fn truth(is: bool) -> u32 {
    u32::from(is).wrapping_neg()
}

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
        store(&mut self.short[d as usize], mask, value);
    }

    #[inline(always)]
    pub(super) fn set_long(&mut self, d: Reg, mask: u32, value: &Long) {
        store(&mut self.long[d as usize], mask, value);
    }

    /// A lane of a register of either bank.
    #[inline(always)]
    pub(super) fn get(&self, long: bool, reg: Reg, lane: usize) -> u64 {
        if long { self.long[reg as usize][lane] } else { self.short[reg as usize][lane].into() }
    }

    /// Sets a register of either bank.
    #[inline(always)]
    pub(super) fn put(&mut self, long: bool, d: Reg, mask: u32, value: &Long) {
        match long {
            true => self.set_long(d, mask, value),
            false => self.set(d, mask, &value.map(|it| it as u32)),
        }
    }

    #[inline(always)]
    pub(super) fn select_long(&mut self, step: Step<'_>) {
        let (a, b) = (&self.long[step.inst.a as usize], &self.long[step.inst.b as usize]);
        let c = &self.short[step.inst.c as usize];
        let mut out = [0; LANES];
        for lane in 0..LANES {
            let chosen = c[lane] as i32 as i64 as u64;
            out[lane] = (a[lane] & chosen) | (b[lane] & !chosen);
        }
        self.set_long(step.inst.d, step.mask, &out);
    }
}

/// Sets the lanes of a mask.
#[inline(always)]
fn store<T: Copy>(target: &mut [T; LANES], mask: u32, value: &[T; LANES]) {
    if mask == u32::MAX {
        *target = *value;
    } else {
        for lane in 0..LANES {
            target[lane] = if mask & BITS[lane] != 0 { value[lane] } else { target[lane] };
        }
    }
}

/// Functions that store what a closure makes of the sources of an instruction: the banks of the sources, and
/// the type and the setter of the result.
macro_rules! mapped {
    ($($name:ident($($source:ident: $bank:ident $kind:ty),+) -> $result:ty, $set:ident;)+) => {
        impl Warp {$(
            #[inline(always)]
            pub(super) fn $name(&mut self, step: Step<'_>, f: impl Fn($($kind),+) -> $result) {
                $(let $source = &self.$bank[step.inst.$source as usize];)+
                let mut out = [0; LANES];
                for lane in 0..LANES {
                    out[lane] = f($($source[lane]),+);
                }
                self.$set(step.inst.d, step.mask, &out);
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
