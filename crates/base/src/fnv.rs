//! FNV-1a with 64 bits: the digest that captures carry for files and ranges.
//!
//! It finds damage, not malice: anyone can make two files with the same digest.

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A digest under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a64(u64);

impl Default for Fnv1a64 {
    fn default() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl Fnv1a64 {
    /// Takes in more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut state = self.0;
        for byte in bytes {
            state = (state ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
        self.0 = state;
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
}
