use super::super::op::{Inst, Reduce, Shuffle, Vote};
use super::lanes::{LANES, Warp, lanes_of, mask_of};

impl Warp {
    /// "shfl.sync" has the formulas.
    pub(super) fn shuffle(&mut self, mode: Shuffle, inst: &Inst, mask: u32, lists: &[u32]) {
        let (a, b, c) =
            (self.short[inst.a as usize], self.short[inst.b as usize], self.short[inst.c as usize]);
        let (mut values, mut are_valid) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES as u32 {
            let at = lane as usize;
            let (by, clamp, segment) = (b[at] & 31, c[at] & 31, c[at] >> 8 & 31);
            let most = (lane & segment) | (clamp & !segment);
            let least = lane & segment;
            let (source, is_valid) = match mode {
                Shuffle::Up => (lane.wrapping_sub(by), lane as i32 - by as i32 >= most as i32),
                Shuffle::Down => (lane + by, lane + by <= most),
                Shuffle::Bfly => (lane ^ by, lane ^ by <= most),
                Shuffle::Idx => (least | (by & !segment), least | (by & !segment) <= most),
            };
            let source = if is_valid { source } else { lane };
            values[at] = a[(source & 31) as usize];
            are_valid[at] = u32::from(is_valid).wrapping_neg();
        }
        self.set(inst.d, mask, &values);
        self.set(lists[inst.imm as usize + 1], mask, &are_valid);
    }

    pub(super) fn vote(&mut self, vote: Vote, inst: &Inst, mask: u32) {
        let yes = mask_of(&self.short[inst.a as usize]) & mask;
        let is = |it: bool| u32::from(it).wrapping_neg();
        let value = match vote {
            Vote::All => is(yes == mask),
            Vote::Any => is(yes != 0),
            Vote::Uni => is(yes == mask || yes == 0),
            Vote::Ballot => yes,
        };
        self.set(inst.d, mask, &[value; LANES]);
    }

    fn value(&self, long: bool, inst: &Inst, lane: usize) -> u64 {
        if long { self.long[inst.a as usize][lane] } else { self.short[inst.a as usize][lane].into() }
    }

    pub(super) fn match_any(&mut self, long: bool, inst: &Inst, mask: u32) {
        let mut out = [0; LANES];
        for lane in lanes_of(mask) {
            let own = self.value(long, inst, lane);
            let same = lanes_of(mask).filter(|it| self.value(long, inst, *it) == own);
            out[lane] = same.fold(0, |all, it| all | 1 << it);
        }
        self.set(inst.d, mask, &out);
    }

    pub(super) fn match_all(&mut self, long: bool, inst: &Inst, mask: u32) {
        let first = self.value(long, inst, mask.trailing_zeros() as usize % LANES);
        let is_same = lanes_of(mask).all(|it| self.value(long, inst, it) == first);
        self.set(inst.d, mask, &[if is_same { mask } else { 0 }; LANES]);
        self.set(inst.b, mask, &[u32::from(is_same).wrapping_neg(); LANES]);
    }

    pub(super) fn redux(&mut self, reduce: Reduce, inst: &Inst, mask: u32) {
        let values = self.short[inst.a as usize];
        let of = |f: fn(u32, u32) -> u32| lanes_of(mask).map(|it| values[it]).reduce(f).unwrap_or(0);
        let value = match reduce {
            Reduce::Add => of(u32::wrapping_add),
            Reduce::MinS => of(|a, b| (a as i32).min(b as i32) as u32),
            Reduce::MaxS => of(|a, b| (a as i32).max(b as i32) as u32),
            Reduce::MinU => of(u32::min),
            Reduce::MaxU => of(u32::max),
            Reduce::And => of(|a, b| a & b),
            Reduce::Or => of(|a, b| a | b),
            Reduce::Xor => of(|a, b| a ^ b),
        };
        self.set(inst.d, mask, &[value; LANES]);
    }
}
