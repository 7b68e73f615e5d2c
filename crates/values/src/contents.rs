/// The bytes of a tensor that was written down, which may be far fewer than it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All are zero.
    Zeros,
    /// These over and over; at the end as many as fit. There is one at least.
    Splat(Vec<u8>),
    /// These.
    Bytes(Vec<u8>),
}

impl Contents {
    /// Fills `target`, which is as long as the tensor.
    pub fn fill(&self, target: &mut [u8]) {
        match self {
            Self::Zeros => target.fill(0),
            Self::Bytes(bytes) => target.copy_from_slice(bytes),
            Self::Splat(pattern) => {
                let first = pattern.len().min(target.len());
                target[..first].copy_from_slice(&pattern[..first]);
                // What is filled doubles with each copy, and stays whole patterns until the end.
                let mut filled = first;
                while filled < target.len() {
                    let length = filled.min(target.len() - filled);
                    target.copy_within(..length, filled);
                    filled += length;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(contents: &Contents, length: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; length];
        contents.fill(&mut bytes);
        bytes
    }

    #[test]
    fn patterns_fill_all_bytes() {
        assert_eq!(filled(&Contents::Zeros, 3), [0; 3]);
        assert_eq!(filled(&Contents::Bytes(vec![4, 5]), 2), [4, 5]);
        let splat = Contents::Splat(vec![1, 2, 3]);
        assert_eq!(filled(&splat, 7), [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(filled(&splat, 2), [1, 2]);
        assert_eq!(filled(&splat, 0), []);
        assert!(filled(&splat, 200_001).chunks(3).all(|part| part == [1, 2, 3]));
    }
}
