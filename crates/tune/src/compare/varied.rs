//! Inputs that differ from one repetition to the next, so that a kernel which remembers the results of its last inputs must compute
//! them again: by what rounding makes of numbers, or by integers that change places.

use rehal_base::Result;
use rehal_replay::{FastForward, Observer, Outputs, VariedBytes, VariedPiece};

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
    kinds: Kinds,
    /// The variant of the last timed repetition, and what it wrote.
    timed: Option<(u64, Outputs)>,
    /// The same of one of all timed repetitions.
    kept: Option<(u64, Outputs)>,
}

impl<'r> VariedSide<'r> {
    pub(super) fn new(side: FastForward<'r>, limit: IndexLimit) -> Self {
        Self { side, limit, variant: 0, kinds: Kinds::default(), timed: None, kept: None }
    }

    /// Puts back the inputs, as those of a variant, and dispatches the kernel. Returns whether that changed inputs, from those of the last
    /// repetition or from the captured ones.
    pub(super) fn repeat(&mut self, variant: u64, observers: &mut [&mut dyn Observer]) -> Result<bool> {
        let is_changed = self.set(variant)?;
        match variant {
            0 => self.side.repeat(observers)?,
            _ => self.side.repeat_varied(observers)?,
        }
        Ok(is_changed)
    }

    /// Puts back the inputs, as those of a variant.
    fn set(&mut self, variant: u64) -> Result<bool> {
        self.side.restore()?;
        let before = std::mem::replace(&mut self.variant, variant);
        let (mut is_changed, limit, kinds) = (false, self.limit, &mut self.kinds);
        let bytes = match variant == before {
            true if variant == 0 => return Ok(false),
            true => VariedBytes::Restored,
            false => VariedBytes::All,
        };
        kinds.next = 0;
        self.side.vary(bytes, &mut |VariedPiece { offset, is_restored, .. }, bytes| {
            let before = if is_restored { 0 } else { before };
            let changes = vary(bytes, offset, [before, variant], limit, kinds);
            is_changed |= changes;
            changes
        })?;
        Ok(is_changed)
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

/// Makes inputs of one variant those of another; 0 is that of the captured ones. Variants differ from them in numbers, by up to 15 units
/// in the last place, and in the places of integers ([`exchange`]). Returns whether anything changes.
///
/// Two bits of each number are those of the variant, so that variants in sequence have no number in common; two more are random, so
/// that no variant returns.
fn vary(bytes: &mut [u8], offset: u64, variants: [u64; 2], limit: IndexLimit, kinds: &mut Kinds) -> bool {
    let mut is_changed = false;
    for (start, block) in (offset..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES)) {
        match kinds.of_next(start, block) {
            Kind::Zeros => {}
            Kind::Numbers => {
                is_changed |= variants[0] != variants[1];
                vary_numbers(block.as_chunks_mut().0, (start / 4) as u32, variants);
            }
            Kind::Integers => {
                // It is its own inverse.
                for variant in variants.into_iter().filter(|it| *it != 0) {
                    is_changed |= exchange(block, start, variant, limit);
                }
            }
        }
    }
    is_changed
}

/// What a block contains, in all variants.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Zeros,
    /// Most words that are not zero look like an `f32`: so do two numbers of 16 bits, of which one changes, but indices, sizes and flags
    /// do not.
    Numbers,
    Integers,
}

impl Kind {
    fn of(block: &[u8]) -> Self {
        // Inputs of a megabyte vary many times in a comparison: this, and what changes them, is for vectors.
        let words = block.as_chunks::<4>().0;
        let (mut floats, mut zeros) = (0, 0);
        for word in words {
            let value = u32::from_le_bytes(*word);
            floats += u32::from(is_float(value));
            zeros += u32::from(value == 0);
        }
        let others = words.len() as u32 - floats - zeros;
        match (floats, others) {
            (0, 0) => Self::Zeros,
            (0, _) => Self::Integers,
            _ if floats < 3 * others => Self::Integers,
            _ => Self::Numbers,
        }
    }
}

/// The kinds of the blocks of a side, each with its place, in the order in which they are varied, which is the same each time.
#[derive(Default)]
struct Kinds {
    known: Vec<(u64, Kind)>,
    next: usize,
}

impl Kinds {
    fn of_next(&mut self, start: u64, block: &[u8]) -> Kind {
        let known = self.known.get(self.next).filter(|(at, _)| *at == start);
        self.next += 1;
        match known {
            Some((_, kind)) => *kind,
            None => {
                let kind = Kind::of(block);
                self.known.truncate(self.next - 1);
                self.known.push((start, kind));
                kind
            }
        }
    }
}

/// Number of random words of a block, and of words in a row: each random word has two bits for each of 16 rows.
const ROW_WORDS: usize = BLOCK_BYTES / 4 / (u32::BITS / 2) as usize;

/// Of the words of a block, which begin with word `first`, those that look like an `f32`.
fn vary_numbers(words: &mut [[u8; 4]], first: u32, variants: [u64; 2]) {
    // What both variants change.
    let (mut bits, mut random) = (0, [0; ROW_WORDS]);
    for variant in variants.into_iter().filter(|it| *it != 0) {
        let seed = mixed(variant >> 2) as u32;
        bits ^= (variant & 0b11) as u32;
        for (index, random) in (0..).zip(&mut random) {
            *random ^= mixed_word(first.wrapping_add(index) ^ seed);
        }
    }
    for (row, words) in words.chunks_mut(ROW_WORDS).enumerate() {
        for (random, word) in random.iter().zip(words) {
            let value = u32::from_le_bytes(*word);
            let change = (random >> (2 * row)) << 2 & 0b1100 | bits;
            *word = (value ^ if is_float(value) { change } else { 0 }).to_le_bytes();
        }
    }
}

/// A bijection in which each bit depends on many of `word`.
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
        change(bytes, offset, [0, variant])
    }

    fn change(bytes: &mut [u8], offset: u64, variants: [u64; 2]) -> bool {
        super::vary(bytes, offset, variants, IndexLimit::of(LIMIT), &mut Kinds::default())
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
        assert!(change(&mut first, 256, [7 << 30 | 1, 1 << 40 | 2]));
        assert_eq!(first, second);
        assert!(change(&mut first, 256, [1 << 40 | 2, 0]));
        assert_eq!(first, before);
    }

    /// Whatever the bytes are, one variant is made the next as if it were undone before.
    #[test]
    fn a_variant_is_made_of_another_one() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut changed = 0;
        for length in [3, 16, 400, 4096, 4097, 8191, 20_000, 65_536] {
            for kind in 0..5 {
                let before: Vec<u8> = (0..length)
                    .map(|at: usize| match (kind, at % 4) {
                        (0, _) => 0,
                        // Floats, numbers of 8 bits, indices, and blocks of each.
                        (1, 3) => 0x3f,
                        (1 | 2, _) => random.u8(..),
                        (3, 0) => random.u8(..),
                        (3, _) => 0,
                        (_, 3) if (at / BLOCK_BYTES).is_multiple_of(2) => 0x3f,
                        _ => random.u8(..),
                    })
                    .collect();
                let of = |bytes: &[u8], variants: [u64; 2]| {
                    let mut bytes = bytes.to_vec();
                    // Most random integers cannot be indices of a kibibyte.
                    let limit = IndexLimit::of(1 << 10);
                    let is_changed =
                        super::vary(&mut bytes, 4096 * 9, variants, limit, &mut Kinds::default());
                    (bytes, is_changed)
                };
                let [first, second] = [random.u64(1..) << 2 | 1, random.u64(1..) << 2 | 2];
                let ((one, _), (two, is_changed)) = (of(&before, [0, first]), of(&before, [0, second]));
                assert_eq!(is_changed, two != before, "{length} {kind}");
                assert_eq!(of(&one, [first, second]), (two.clone(), one != two), "{length} {kind}");
                assert_eq!(of(&two, [second, 0]).0, before, "{length} {kind}");
                // Half of the bits are random, where all numbers change.
                if kind == 1 && length > 4000 {
                    let low =
                        |bytes: &[u8]| bytes.chunks_exact(4).map(|it| it[0] & 0b1100).collect::<Vec<_>>();
                    let differ = low(&one).iter().zip(low(&two)).filter(|(one, two)| *one != two).count();
                    assert!(differ > length / 4 / 2, "{differ} of {length}");
                }
                changed += usize::from(is_changed);
            }
        }
        assert!((15..40).contains(&changed), "{changed}");
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
