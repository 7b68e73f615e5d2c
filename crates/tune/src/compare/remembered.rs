//! Finds kernels that write results of an earlier dispatch instead of computing them.
//!
//! Repetitions have the same inputs, so that what such a kernel writes is right. Therefore both kernels also run with other
//! inputs. Nothing is said about the numbers: a tolerance for the captured inputs may not fit others. But a replacement that
//! writes exactly what it wrote before, where the captured kernel writes something else, does not read its inputs.

use std::collections::BTreeSet;

use rehal_base::Result;
use rehal_replay::{FastForward, OutputBlock, Outputs};

use super::integers::{IndexLimit, exchange};
use super::varied::BLOCK_BYTES;

/// Bits of the mantissa of an `f32` that are inverted, by one eighth, a sixteenth or a quarter of the value: visible also to a
/// kernel that rounds its inputs to 8 bits. More than one, so that a result that is the same by chance is not blamed.
const MASKS: [u32; 3] = [1 << 20, 1 << 19, 1 << 21];

/// Whether the replacement writes in some place, with other inputs, always what it wrote with the captured ones. Both have been
/// repeated. Kernels that cannot run with other inputs prove nothing.
pub(super) fn is_remembered(
    captured: &mut FastForward<'_>,
    replaced: &mut FastForward<'_>,
    limit: IndexLimit,
) -> bool {
    let (Ok(captured_outputs), Ok(replaced_outputs)) = (captured.outputs(), replaced.outputs()) else {
        return false;
    };
    let mut places: Option<BTreeSet<OutputBlock>> = None;
    for mask in MASKS {
        let (captured, replaced) = (
            changed(captured, &captured_outputs, mask, limit),
            changed(replaced, &replaced_outputs, mask, limit),
        );
        let (Ok(captured), Ok(replaced)) = (captured, replaced) else { return false };
        let same: BTreeSet<_> = captured.difference(&replaced).copied().collect();
        let in_all: BTreeSet<_> = match &places {
            Some(before) => before.intersection(&same).copied().collect(),
            None => same,
        };
        if in_all.is_empty() {
            return false;
        }
        places = Some(in_all);
    }
    true
}

/// The blocks in which a repetition with other inputs writes something else.
fn changed(
    side: &mut FastForward<'_>,
    before: &Outputs,
    mask: u32,
    limit: IndexLimit,
) -> Result<BTreeSet<OutputBlock>> {
    side.repeat_altered(&mut |bytes| alter(bytes, mask, limit))?;
    let after = side.outputs()?;
    Ok(before.compared(&after).filter_map(|(block, differs)| differs.then_some(block)).collect())
}

/// Inverts bits of what may be an `f32` from 2^-20 to 2^20. Indices, sizes and flags do not look like it and
/// must not change: as integers of 32 or 64 bits, such bytes are above 800 million. Values of other types that look like it change too.
/// In blocks without, integers that cannot be indices change places. It is its own inverse.
fn alter(bytes: &mut [u8], mask: u32, limit: IndexLimit) {
    for (number, block) in (0..).zip(bytes.chunks_mut(BLOCK_BYTES)) {
        let mut has_floats = false;
        for word in block.as_chunks_mut::<4>().0 {
            let value = u32::from_le_bytes(*word);
            if is_float(value) {
                *word = (value ^ mask).to_le_bytes();
                has_floats = true;
            }
        }
        if !has_floats {
            exchange(block, number, mask.into(), limit);
        }
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
