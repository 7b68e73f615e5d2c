//! 64-bit FNV-1a (<https://datatracker.ietf.org/doc/draft-eastlake-fnv/>): the digest that captures store for
//! files and ranges.
//!
//! It detects damage, not tampering: collisions are easy to construct.
#![forbid(unsafe_code)]

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A running digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a64(u64);

impl Default for Fnv1a64 {
    fn default() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl Fnv1a64 {
    /// Hashes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(PRIME));
    }

    /// The digest of all bytes so far.
    pub fn finish(self) -> u64 {
        self.0
    }
}

/// The digest of `bytes`.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    let mut digest = Fnv1a64::default();
    digest.update(bytes);
    digest.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Values published with the algorithm.
    #[test]
    fn known_values() {
        assert_eq!(fnv1a64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn bytes_may_come_in_pieces() {
        let bytes: Vec<u8> = (0..=255).collect();
        for cut in 0..=bytes.len() {
            let mut digest = Fnv1a64::default();
            digest.update(&bytes[..cut]);
            digest.update(&bytes[cut..]);
            assert_eq!(digest.finish(), fnv1a64(&bytes), "{cut}");
        }
    }
}
