//! Inputs that differ from one repetition to the next, so that a kernel which remembers the results of its last inputs must compute
//! them again: by what rounding makes of numbers, or by integers that change places.

use rehal_base::Result;
use rehal_replay::{FastForward, Observer, Outputs, VariedPiece};

use super::integers::{IndexLimit, exchange, mixed};
use super::remembered::is_float;

/// Bytes are judged by so many.
pub(super) const BLOCK_BYTES: usize = 4 << 10;

/// One side of a comparison, whose inputs are varied. The same variant of both sides is the same change of the same bytes.
pub(super) struct VariedSide<'r> {
    pub side: FastForward<'r>,
    limit: IndexLimit,
    /// The variant of the bytes that are not restored: 0 for none.
    variant: u64,
    /// The variant of the last timed repetition, and what it wrote.
    timed: Option<(u64, Outputs)>,
    /// The same of one of all timed repetitions.
    kept: Option<(u64, Outputs)>,
}

impl<'r> VariedSide<'r> {
    pub(super) fn new(side: FastForward<'r>, limit: IndexLimit) -> Self {
        Self { side, limit, variant: 0, timed: None, kept: None }
    }

    /// Puts back the inputs, as those of a variant, and dispatches the kernel. Returns whether the variant differs from none.
    pub(super) fn repeat(&mut self, variant: u64, observers: &mut [&mut dyn Observer]) -> Result<bool> {
        let is_varied = self.set(variant)?;
        match variant {
            0 => self.side.repeat(observers)?,
            _ => self.side.repeat_varied(observers)?,
        }
        Ok(is_varied)
    }

    /// Puts back the inputs, as those of a variant.
    fn set(&mut self, variant: u64) -> Result<bool> {
        self.side.restore()?;
        let before = std::mem::replace(&mut self.variant, variant);
        let (mut is_varied, limit) = (false, self.limit);
        if before != 0 || variant != 0 {
            self.side.vary(&mut |VariedPiece { offset, is_restored }, bytes| {
                let is_undone = !is_restored && before != 0 && vary(bytes, offset, before, limit);
                let is_done = variant != 0 && vary(bytes, offset, variant, limit);
                is_varied |= is_done;
                is_undone | is_done
            })?;
        }
        Ok(is_varied)
    }

    /// Keeps what a timed repetition wrote: the last, and one of all, each with the same probability.
    pub(super) fn keep(&mut self, variant: u64, is_kept: bool) -> Result<()> {
        let outputs = self.side.outputs()?;
        if is_kept {
            self.kept = Some((variant, outputs.clone()));
        }
        self.timed = Some((variant, outputs));
        Ok(())
    }

    /// The variant of the last timed repetition: 0 for none.
    pub(super) fn timed_variant(&self) -> u64 {
        self.timed.as_ref().map_or(0, |(variant, _)| *variant)
    }

    /// Whether the last repetition wrote what the last timed one did, of which it has the variant.
    pub(super) fn is_timed_reproduced(&self) -> Result<bool> {
        match &self.timed {
            Some((_, outputs)) => Ok(self.side.outputs()? == *outputs),
            None => self.side.is_reproduced(),
        }
    }

    /// Repeats one of the timed repetitions. Returns whether it wrote the same.
    pub(super) fn is_kept_reproduced(&mut self) -> Result<bool> {
        let Some((variant, outputs)) = self.kept.take() else { return Ok(true) };
        self.repeat(variant, &mut [])?;
        Ok(self.side.outputs()? == outputs)
    }
}

/// Changes numbers by up to 15 units in the last place, and exchanges integers ([`exchange`]). It is its own inverse. Returns whether
/// anything changes.
///
/// Two bits of each number are those of the variant, so that variants in sequence have no number in common; two more are random, so
/// that no variant returns.
///
/// Blocks are changed of which most words that are not zero look like an `f32`: so do two numbers of 16 bits, of which one
/// changes, but indices, sizes and flags do not. In others, integers are exchanged.
fn vary(bytes: &mut [u8], offset: u64, variant: u64, limit: IndexLimit) -> bool {
    let mut is_varied = false;
    // Inputs of a megabyte vary many times in a comparison: what follows is for vectors.
    let (bits, seed) = ((variant & 0b11) as u32, mixed(variant >> 2) as u32);
    for (start, block) in (offset..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES)) {
        let words = block.as_chunks_mut::<4>().0;
        let (mut floats, mut zeros) = (0_u32, 0_u32);
        for word in &*words {
            let value = u32::from_le_bytes(*word);
            floats += u32::from(is_float(value));
            zeros += u32::from(value == 0);
        }
        let others = words.len() as u32 - floats - zeros;
        if floats == 0 || floats < 3 * others {
            is_varied |= exchange(block, start, variant, limit);
            continue;
        }
        is_varied = true;
        let first = (start / 4) as u32;
        for (index, word) in (0..words.len() as u32).zip(words) {
            let value = u32::from_le_bytes(*word);
            let change = mixed_word(first.wrapping_add(index) ^ seed) & 0b1100 | bits;
            *word = (value ^ if is_float(value) { change } else { 0 }).to_le_bytes();
        }
    }
    is_varied
}

/// A bijection in which the lower bits depend on all bits of `word`.
fn mixed_word(word: u32) -> u32 {
    let word = (word ^ (word >> 16)).wrapping_mul(0x7feb_352d);
    let word = (word ^ (word >> 15)).wrapping_mul(0x846c_a68b);
    word ^ (word >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats() -> Vec<u8> {
        (1..2000).flat_map(|it| (it as f32 / 64.0).to_le_bytes()).collect()
    }

    const LIMIT: u64 = 1 << 30;

    fn vary(bytes: &mut [u8], offset: u64, variant: u64) -> bool {
        super::vary(bytes, offset, variant, IndexLimit::of(LIMIT))
    }

    #[test]
    fn numbers_change_by_some_units_in_the_last_place() {
        let (before, mut first, mut second) = (floats(), floats(), floats());
        assert!(vary(&mut first, 256, 7 << 30 | 1) && vary(&mut second, 256, 1 << 40 | 2));
        let words = |bytes: &[u8]| {
            bytes.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)).collect::<Vec<_>>()
        };
        let (old, one, other) = (words(&before), words(&first), words(&second));
        assert!(old.iter().zip(&one).all(|(old, new)| old.abs_diff(*new) <= 15));
        for (left, right) in [(&old, &one), (&old, &other), (&one, &other)] {
            assert!(left.iter().zip(right).all(|(left, right)| left != right));
        }
        vary(&mut first, 256, 7 << 30 | 1);
        assert_eq!(first, before);
    }

    #[test]
    fn indices_and_flags_do_not_change() {
        let indices: Vec<u8> = (0..2000_u32).flat_map(|it| (it * 40_000).to_le_bytes()).collect();
        let bytes: Vec<u8> = (0..8000_u32).map(|it| (it % 251) as u8).collect();
        // Some of them look like floats.
        let mixed = [&floats()[..1000], &indices[..3000]].concat();
        for before in [indices, bytes, mixed, vec![0; 4096]] {
            let mut after = before.clone();
            assert!(!vary(&mut after, 0, 3));
            assert_eq!(after, before);
        }
    }
}
