//! Finds kernels that write results of an earlier dispatch instead of computing them.
//!
//! Repetitions have the same inputs, so that what such a kernel writes is right. Therefore both kernels also run with other
//! inputs. Nothing is said about the numbers: a tolerance for the captured inputs may not fit others. But a replacement that
//! writes exactly what it wrote before, where the captured kernel leaves something else, does not read its inputs.

use std::collections::BTreeMap;

use rehal_base::Result;
use rehal_replay::{FastForward, VariedBytes, VariedPiece};

use super::integers::{IndexLimit, exchange};
use super::varied::BLOCK_BYTES;

/// Bits of the mantissa of an `f32` that are inverted, by one eighth, a sixteenth or a quarter of the value: visible also to a
/// kernel that rounds its inputs to 8 bits. More than one, so that a result that is the same by chance is not blamed.
const MASKS: [u32; 3] = [1 << 20, 1 << 19, 1 << 21];

/// Beyond so many bytes, only those that the dispatch changes are compared.
const MOST_BYTES: u64 = 256 << 20;

/// Whether a replacement remembers results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remembers {
    /// With other inputs, it leaves in some block always what it left with the captured ones.
    Yes,
    /// With other inputs, it leaves something else where the captured kernel does.
    No,
    /// The captured kernel leaves the same, or one of both cannot run with other inputs.
    Unknown,
}

/// Runs both with other inputs, which have been repeated with the captured ones.
pub(super) fn test(
    captured: &mut FastForward<'_>,
    replaced: &mut FastForward<'_>,
    limit: IndexLimit,
) -> Remembers {
    run(captured, replaced, limit).unwrap_or(Remembers::Unknown)
}

fn run(
    captured: &mut FastForward<'_>,
    replaced: &mut FastForward<'_>,
    limit: IndexLimit,
) -> Result<Remembers> {
    let left = [contents(captured, VariedBytes::Restored)?, contents(replaced, VariedBytes::Restored)?];
    captured.restore()?;
    let inputs = match captured.accessed_bytes() <= MOST_BYTES {
        true => contents(captured, VariedBytes::All)?,
        false => contents(captured, VariedBytes::Restored)?,
    };
    let mut suspects: Option<BTreeMap<Place, Suspect>> = None;
    for mask in MASKS {
        let change = |start: u64, block: &mut [u8]| alter(block, start, mask, limit);
        let (captured, replaced) = (repeat(captured, &inputs, change)?, repeat(replaced, &inputs, change)?);
        let (mut found, mut changes) = (BTreeMap::new(), false);
        for place in captured.keys().chain(replaced.keys()) {
            let Some(input) = inputs.get(place) else { continue };
            // What is not restored did not change.
            let [own, other] = left.each_ref().map(|it| it.get(place).unwrap_or(input));
            let mut changed_input = input.clone();
            change(place.1, &mut changed_input);
            let of = |side| Blocks::get(side, place).map_or(&changed_input[..], Vec::as_slice);
            let suspect = Suspect::of(&changed_input, [own, of(&captured)], [other, of(&replaced)]);
            changes |= suspect.changed > 0;
            let before = suspects.as_ref().map(|all| all.get(place));
            let suspect = match before {
                None => suspect,
                Some(None) => continue,
                Some(Some(before)) => suspect.and(before),
            };
            if suspect.is_remembered() {
                found.insert(*place, suspect);
            }
        }
        if found.is_empty() {
            return Ok(if changes { Remembers::No } else { Remembers::Unknown });
        }
        suspects = Some(found);
    }
    Ok(Remembers::Yes)
}

/// The buffer and the offset in it of a block.
type Place = (u32, u64);
/// What blocks contain.
type Blocks = BTreeMap<Place, Vec<u8>>;

fn blocks(piece: VariedPiece, bytes: &mut [u8]) -> impl Iterator<Item = (Place, &mut [u8])> {
    let starts = (piece.offset..).step_by(BLOCK_BYTES);
    starts.map(move |start| (piece.buffer, start)).zip(bytes.chunks_mut(BLOCK_BYTES))
}

/// What a side leaves, or finds.
fn contents(side: &mut FastForward<'_>, bytes: VariedBytes) -> Result<Blocks> {
    let mut all = Blocks::new();
    side.vary(bytes, &mut |piece, bytes| {
        all.extend(blocks(piece, bytes).map(|(place, block)| (place, block.to_vec())));
        false
    })?;
    Ok(all)
}

/// Repeats a side with changed inputs. Returns the blocks in which it leaves something else than its input.
fn repeat(side: &mut FastForward<'_>, inputs: &Blocks, change: impl Fn(u64, &mut [u8])) -> Result<Blocks> {
    side.restore()?;
    side.vary(VariedBytes::All, &mut |piece, bytes| {
        blocks(piece, bytes).for_each(|((_, start), block)| change(start, block));
        true
    })?;
    side.repeat_varied(&mut [])?;
    let mut left = Blocks::new();
    side.vary(VariedBytes::All, &mut |piece, bytes| {
        for (place, block) in blocks(piece, bytes) {
            let Some(input) = inputs.get(&place) else {
                // It is its own inverse.
                change(place.1, block);
                continue;
            };
            let mut changed = input.clone();
            change(place.1, &mut changed);
            if *block != changed[..] {
                left.insert(place, block.to_vec());
            }
            block.copy_from_slice(input);
        }
        !piece.is_restored
    })?;
    Ok(left)
}

/// Words of a block that the replacement leaves as with the captured inputs and the captured kernel does not.
struct Suspect {
    words: Vec<bool>,
    /// Number of words that the captured kernel leaves otherwise, without those that both only leave as they are.
    changed: usize,
}

impl Suspect {
    /// `input` is the changed one; then what each side leaves with the captured inputs, and with the changed ones.
    fn of(input: &[u8], captured: [&[u8]; 2], replaced: [&[u8]; 2]) -> Self {
        let (mut words, mut changed) = (Vec::with_capacity(input.len().div_ceil(4)), 0);
        let captured = captured[0].chunks(4).zip(captured[1].chunks(4));
        let replaced = replaced[0].chunks(4).zip(replaced[1].chunks(4));
        for ((input, captured), replaced) in input.chunks(4).zip(captured).zip(replaced) {
            let is_left = captured.1 == input && replaced.1 == input;
            let is_changed = captured.0 != captured.1;
            changed += usize::from(is_changed && !is_left);
            words.push(is_changed && replaced.0 == replaced.1);
        }
        Self { words, changed }
    }

    /// Those of both, with different inputs.
    fn and(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
        self.changed = self.changed.max(other.changed);
        self
    }

    /// Whether there are too many for chance: an eighth of what changes, or all of a few words.
    fn is_remembered(&self) -> bool {
        let count = self.words.iter().filter(|it| **it).count();
        count > 0 && count >= (self.changed / 8).max(self.changed.min(8))
    }
}

/// Inverts bits of what may be an `f32` from 2^-20 to 2^20. Indices, sizes and flags do not look like it and
/// must not change: as integers of 32 or 64 bits, such bytes are above 800 million. Values of other types that look like it change too.
/// In a block without, integers that cannot be indices change places. It is its own inverse.
fn alter(block: &mut [u8], start: u64, mask: u32, limit: IndexLimit) {
    let mut has_floats = false;
    for word in block.as_chunks_mut::<4>().0 {
        let value = u32::from_le_bytes(*word);
        if is_float(value) {
            *word = (value ^ mask).to_le_bytes();
            has_floats = true;
        }
    }
    if !has_floats {
        exchange(block, start, mask.into(), limit);
    }
}

#[inline]
pub(super) fn is_float(value: u32) -> bool {
    let exponent = (value >> 23) & 0xff;
    (127 - 20..127 + 20).contains(&exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: IndexLimit = IndexLimit::of(1 << 20);

    fn alter(bytes: &mut [u8], mask: u32, limit: IndexLimit) {
        bytes.chunks_mut(BLOCK_BYTES).for_each(|block| super::alter(block, 0, mask, limit));
    }

    /// The words of a block that hold these letters: of the changed input (o), what it was (i), results (a, b), or others.
    fn suspect(input: &str, captured: [&str; 2], replaced: [&str; 2]) -> Suspect {
        let words = |letters: &str| letters.bytes().flat_map(|it| [it; 4]).collect::<Vec<_>>();
        let [captured, replaced] = [captured, replaced].map(|side| side.map(words));
        Suspect::of(&words(input), [&captured[0], &captured[1]], [&replaced[0], &replaced[1]])
    }

    #[test]
    fn words_that_stay_the_same_are_suspect() {
        let is = |suspect: &Suspect| (suspect.words.iter().filter(|it| **it).count(), suspect.changed);
        // What both leave is not counted: here, of 24 words, half are inputs that no side writes.
        let (input, before, after) =
            ("o".repeat(24), "i".repeat(12) + &"a".repeat(12), "o".repeat(12) + &"b".repeat(12));
        let honest = suspect(&input, [&before, &after], [&before, &after]);
        assert_eq!((is(&honest), honest.is_remembered()), ((0, 12), false));
        let stale = "o".repeat(12) + &"a".repeat(12);
        let all = suspect(&input, [&before, &after], [&before, &stale]);
        assert_eq!((is(&all), all.is_remembered()), ((12, 12), true));
        // Fewer words by chance, in one place each time.
        let some = "o".repeat(12) + "aaaa" + &"c".repeat(8);
        let some = suspect(&input, [&before, &after], [&before, &some]);
        assert_eq!((is(&some), some.is_remembered()), ((4, 12), false));
        let other = "o".repeat(12) + &"c".repeat(8) + "aaaa";
        let other = suspect(&input, [&before, &after], [&before, &other]);
        assert_eq!(is(&other.and(&some)), (0, 12));
        // A kernel that the captured one leaves no work, and that writes stale bytes.
        let none = suspect(&input, [&"i".repeat(24), &input], [&"i".repeat(24), &"i".repeat(24)]);
        assert_eq!((is(&none), none.is_remembered()), ((24, 24), true));
        // A few words must all be the same.
        let few = suspect("oooo", ["aaaa", "bbbb"], ["aaaa", "aaaa"]);
        assert!(few.is_remembered());
        let few = suspect("oooo", ["aaaa", "bbbb"], ["aaaa", "aaac"]);
        assert!(!few.is_remembered());
    }

    #[test]
    fn integers_that_cannot_be_indices_change_places() {
        let weights: Vec<u8> = (0..8192_u32).map(|it| (it * 37 % 64) as u8).collect();
        let indices: Vec<u8> = (0..2048_u32).flat_map(|it| (it * 512).to_le_bytes()).collect();
        for mask in MASKS {
            let mut after = weights.clone();
            alter(&mut after, mask, LIMIT);
            assert_ne!(after, weights);
            alter(&mut after, mask, LIMIT);
            assert_eq!(after, weights);
            let mut after = indices.clone();
            alter(&mut after, mask, LIMIT);
            assert_eq!(after, indices);
        }
    }

    #[test]
    fn floats_are_altered_and_indices_are_not() {
        let same = [0, 1, 255, 1 << 20, 800_000_000, u32::MAX, (-5_i32).cast_unsigned(), 0x0101_0101];
        let floats = [1.0, -0.5, 3.25e5, 2e-6_f32];
        for mask in MASKS {
            for value in same {
                let mut bytes = value.to_le_bytes();
                alter(&mut bytes, mask, LIMIT);
                assert_eq!(u32::from_le_bytes(bytes), value, "{value:x}");
            }
            for value in floats {
                let mut bytes = value.to_le_bytes();
                alter(&mut bytes, mask, LIMIT);
                let ratio = f32::from_le_bytes(bytes) / value;
                assert!((0.6..0.97).contains(&ratio) || (1.03..1.6).contains(&ratio), "{value}: {ratio}");
                alter(&mut bytes, mask, LIMIT);
                assert_eq!(f32::from_le_bytes(bytes), value);
            }
        }
        let mut short = [1, 2, 0x80];
        alter(&mut short, MASKS[0], LIMIT);
        assert_eq!(short, [1, 2, 0x80]);
    }
}
