use super::super::op::{IntOp, Shuffle, Vote};
use super::lanes::{LANES, Step, Warp, lanes_of, mask_of, truth};

impl Warp {
    /// "shfl.sync" has the formulas.
    pub(super) fn shuffle(&mut self, mode: Shuffle, step: Step<'_>) {
        let [a, b, c] = [step.inst.a, step.inst.b, step.inst.c].map(|it| self.short[it as usize]);
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
            are_valid[at] = truth(is_valid);
        }
        self.set(step.inst.d, step.mask, &values);
        self.set(step.list(2)[1], step.mask, &are_valid);
    }

    pub(super) fn vote(&mut self, vote: Vote, step: Step<'_>) {
        let yes = mask_of(&self.short[step.inst.a as usize]) & step.mask;
        let value = match vote {
            Vote::All => truth(yes == step.mask),
            Vote::Any => truth(yes != 0),
            Vote::Uni => truth(yes == step.mask || yes == 0),
            Vote::Ballot => yes,
        };
        self.set(step.inst.d, step.mask, &[value; LANES]);
    }

    pub(super) fn match_any(&mut self, long: bool, step: Step<'_>) {
        let mut out = [0; LANES];
        for lane in lanes_of(step.mask) {
            let value = |lane: usize| self.get(long, step.inst.a, lane);
            let same = lanes_of(step.mask).filter(|it| value(*it) == value(lane));
            out[lane] = same.fold(0, |all, it| all | 1 << it);
        }
        self.set(step.inst.d, step.mask, &out);
    }

    pub(super) fn match_all(&mut self, long: bool, step: Step<'_>) {
        let value = |lane: usize| self.get(long, step.inst.a, lane);
        let first = value(step.mask.trailing_zeros() as usize % LANES);
        let is_same = lanes_of(step.mask).all(|it| value(it) == first);
        self.set(step.inst.d, step.mask, &[if is_same { step.mask } else { 0 }; LANES]);
        self.set(step.inst.b, step.mask, &[truth(is_same); LANES]);
    }

    pub(super) fn redux(&mut self, reduce: IntOp, step: Step<'_>) {
        let f: fn(u32, u32) -> u32 = match reduce {
            IntOp::MinS => |a, b| (a as i32).min(b as i32) as u32,
            IntOp::MaxS => |a, b| (a as i32).max(b as i32) as u32,
            IntOp::MinU => u32::min,
            IntOp::MaxU => u32::max,
            IntOp::And => |a, b| a & b,
            IntOp::Or => |a, b| a | b,
            IntOp::Xor => |a, b| a ^ b,
            _ => u32::wrapping_add,
        };
        let values = self.short[step.inst.a as usize];
        let value = lanes_of(step.mask).map(|it| values[it]).reduce(f).unwrap_or(0);
        self.set(step.inst.d, step.mask, &[value; LANES]);
    }
}
