/// The repeated bytes of a splat parameter: 1, 2, 4, 8 or 16 of them, in memory order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    bytes: [u8; Pattern::MAX_BYTES],
    length: u8,
}

impl Pattern {
    /// Size of the longest pattern: a complex number of two doubles.
    pub const MAX_BYTES: usize = 16;

    /// A single zero byte.
    pub const ZERO: Self = Self { bytes: [0; Self::MAX_BYTES], length: 1 };

    /// The pattern, or `None` unless it has 1, 2, 4, 8 or 16 bytes.
    pub fn new(pattern: &[u8]) -> Option<Self> {
        let length = pattern.len();
        if length > Self::MAX_BYTES || !length.is_power_of_two() {
            return None;
        }
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..length].copy_from_slice(pattern);
        Some(Self { bytes, length: length as u8 })
    }

    /// The bytes of one repetition.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Whether the pattern divides `length` bytes.
    pub fn divides(&self, length: u64) -> bool {
        length.is_multiple_of(u64::from(self.length))
    }

    /// The shortest equivalent pattern: devices fill with 1, 2 or 4 bytes.
    pub fn shortest(&self) -> Self {
        let mut shortest = *self;
        while shortest.length > 1 {
            let half = usize::from(shortest.length / 2);
            let (low, high) = shortest.as_bytes().split_at(half);
            if low != high {
                break;
            }
            shortest.bytes[half..].fill(0);
            shortest.length = half as u8;
        }
        shortest
    }

    /// The pattern as seen from `offset`.
    pub fn rotated(&self, offset: u64) -> Self {
        let mut rotated = *self;
        self.read(offset, &mut rotated.bytes[..usize::from(self.length)]);
        rotated
    }

    /// Fills `target` with the repetition's bytes from `offset`.
    pub fn read(&self, offset: u64, target: &mut [u8]) {
        let skip = (offset % u64::from(self.length)) as usize;
        let bytes = self.as_bytes().iter().cycle().skip(skip);
        target.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_powers_of_two_up_to_sixteen() {
        for length in 0..20 {
            let expected = [1, 2, 4, 8, 16].contains(&length);
            assert_eq!(Pattern::new(&vec![1; length]).is_some(), expected, "{length}");
        }
    }

    #[test]
    fn the_shortest_gives_the_same_bytes() {
        let wide = Pattern::new(&[1, 2, 1, 2, 1, 2, 1, 2]).unwrap();
        assert_eq!(wide.shortest(), Pattern::new(&[1, 2]).unwrap());
        let odd = Pattern::new(&[1, 2, 3, 4, 1, 2, 3, 5]).unwrap();
        assert_eq!(odd.shortest(), odd);
        let mut bytes = [0; 5];
        odd.read(6, &mut bytes);
        assert_eq!(bytes, [3, 5, 1, 2, 3]);
    }
}
