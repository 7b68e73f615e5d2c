//! Hashes of operations, for alignment only: a collision costs a worse alignment, since what is aligned is
//! compared.

use twox_hash::XxHash3_64;

/// Smaller byte strings are hashed word by word.
const SMALL_BYTES: usize = 64;

/// `hash` with another word.
#[inline]
pub(super) fn mix(hash: u64, word: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (hash.rotate_left(5) ^ word).wrapping_mul(ODD);
    mixed ^ (mixed >> 32)
}

/// `hash` with more bytes.
pub(super) fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let hash = mix(hash, bytes.len() as u64);
    if bytes.len() > SMALL_BYTES {
        return mix(hash, XxHash3_64::oneshot(bytes));
    }
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, (*byte).into()))
}
