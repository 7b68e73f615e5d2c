//! The contents of new memory by which bytes that were never written are found.

use rehal_base::{Error, Result};
use rehal_hal::{Buffer, transfer};

/// Fills new memory of one side.
///
/// The bytes depend on the buffer and on their place in it: bytes that were never written and that a kernel
/// copies differ from what was there before, and so are not taken for bytes that it did not write. On the two
/// sides they differ in their most significant bit. As f8, f16, bf16 and f32 they are between 2 and 512, and
/// of opposite sign: large enough to change a result, and small enough that what is added to them changes
/// them.
pub(super) struct Poison {
    flipped: u8,
}

impl Poison {
    pub(super) const EXPECTED: Self = Self { flipped: 0 };
    pub(super) const VERIFIED: Self = Self { flipped: Self::SIGN };

    const SIGN: u8 = 0x80;
    /// The common part of all bytes: their upper three bits, without the sign.
    const BASE: u8 = 0x40;
    const VARYING: [u8; 8] = [0x1f, 0x03, 0x1f, 0x03, 0x1f, 0x03, 0x1f, 0x03];
    const PIECE_BYTES: usize = 1 << 20;

    /// Whether a byte on the two sides is of memory that was never written: where it was at first, or where
    /// queues copied it to.
    pub(super) fn is(expected: u8, actual: u8) -> bool {
        expected ^ actual == Self::SIGN && expected & 0xe0 == Self::BASE
    }

    /// The contents of a buffer from `offset`, a multiple of 8.
    fn fill(&self, buffer_id: u64, offset: u64, bytes: &mut [u8]) {
        let seed = mixed(buffer_id ^ 0x9e37_79b9_7f4a_7c15);
        let (varying, base) = (u64::from_le_bytes(Self::VARYING), [Self::BASE | self.flipped; 8]);
        for (word, bytes) in (offset / 8..).zip(bytes.chunks_mut(8)) {
            let word = mixed(seed.wrapping_add(word)) & varying | u64::from_le_bytes(base);
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
    }

    /// Fills a buffer that has just been allocated, and its redzones.
    pub(super) fn allocated(&self, buffer_id: u64, buffer: &Buffer) -> Result<()> {
        if buffer.allocation_offset() == 0 {
            return Err(Error::invalid_argument("the replay has no redzones"));
        }
        let whole = buffer.whole_allocation();
        let mut bytes = vec![0; Self::PIECE_BYTES.min(usize::try_from(whole.size()).unwrap_or(usize::MAX))];
        for offset in (0..whole.size()).step_by(Self::PIECE_BYTES) {
            let rest = usize::try_from(whole.size() - offset).unwrap_or(usize::MAX);
            let piece = &mut bytes[..rest.min(Self::PIECE_BYTES)];
            self.fill(buffer_id, offset, piece);
            transfer::write(&whole, offset, piece)?;
        }
        Ok(())
    }
}

/// A bijection in which each bit depends on all bits of `word`.
fn mixed(mut word: u64) -> u64 {
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        word = (word ^ (word >> 33)).wrapping_mul(factor);
    }
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_depends_on_side_buffer_and_place() {
        let of = |poison: &Poison, buffer_id, offset| {
            let mut bytes = [0; 4099];
            poison.fill(buffer_id, offset, &mut bytes);
            bytes
        };
        let (expected, actual) = (of(&Poison::EXPECTED, 7, 0), of(&Poison::VERIFIED, 7, 0));
        for (at, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
            assert!(Poison::is(*expected, *actual) && !Poison::is(*actual, *expected), "byte {at}");
            assert!(!Poison::is(*expected, *expected));
        }
        let words = |bytes: &[u8]| {
            bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect::<Vec<_>>()
        };
        assert!(words(&expected).iter().all(|number| (2.0..512.0).contains(number)));
        assert!(words(&actual).iter().all(|number| (2.0..512.0).contains(&-number)));
        let equal = |a: &[u8], b: &[u8]| words(a).iter().zip(words(b)).filter(|(a, b)| **a == *b).count();
        assert_eq!(expected[1024..], of(&Poison::EXPECTED, 7, 1024)[..4099 - 1024]);
        // Other bytes would be right as well, but not ones of fewer bits.
        let first: [u8; 8] = expected[..8].try_into().unwrap();
        assert_eq!(u64::from_le_bytes(first), 0x415a_4159_415e_404e);
        for other in [of(&Poison::EXPECTED, 8, 0), of(&Poison::EXPECTED, 7, 8)] {
            assert!(equal(&expected, &other) < 4, "{}", equal(&expected, &other));
        }
    }
}
