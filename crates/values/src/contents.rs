use rehal_base::{HostMemory, Range, Result};

/// The bytes of a tensor literal, often far fewer than the tensor's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All zero.
    Zeros,
    /// Repeated to fill the tensor, truncated at the end. Not empty.
    Splat(Vec<u8>),
    /// Exactly these.
    Bytes(Vec<u8>),
}

/// Maximum bytes per call of a writer.
const CHUNK_BYTES: usize = 64 << 10;

impl Contents {
    /// Passes all `size_bytes` of the tensor to `write` in order, in chunks: an offset and bytes. Never
    /// allocates memory for all of them.
    pub fn write_to(&self, size_bytes: u64, mut write: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let pattern = match self {
            Self::Bytes(bytes) => return write(0, bytes),
            Self::Zeros => &[0][..],
            Self::Splat(pattern) => pattern,
        };
        let copies = (CHUNK_BYTES / pattern.len()).max(1);
        let chunk = pattern.repeat(copies.min(usize::try_from(size_bytes).unwrap_or(usize::MAX)));
        let mut offset = 0;
        while offset < size_bytes {
            let length = (size_bytes - offset).min(chunk.len() as u64);
            write(offset, &chunk[..length as usize])?;
            offset += length;
        }
        Ok(())
    }

    /// All `size_bytes` of the tensor, for callers that know the size to be small.
    pub fn to_bytes(&self, size_bytes: u64) -> Vec<u8> {
        let mut bytes = vec![0; size_bytes as usize];
        self.fill(&mut bytes);
        bytes
    }

    /// Fills a range of `memory` with the tensor's bytes starting at `at`.
    pub fn fill_memory(&self, at: u64, memory: &HostMemory, range: Range) -> Result<()> {
        let Range { offset, length } = range;
        match self {
            Self::Zeros => memory.fill(offset, length, &[0]),
            // The length of the tensor that contains the range.
            Self::Bytes(bytes) => memory.write(offset, &bytes[at as usize..][..length as usize]),
            Self::Splat(pattern) => {
                let mut rotated = pattern.clone();
                rotated.rotate_left((at % pattern.len() as u64) as usize);
                let rest = length % pattern.len() as u64;
                memory.fill(offset, length - rest, &rotated)?;
                memory.write(offset + length - rest, &rotated[..rest as usize])
            }
        }
    }

    /// Fills `target`, which has the tensor's length.
    pub fn fill(&self, target: &mut [u8]) {
        match self {
            Self::Zeros => target.fill(0),
            Self::Bytes(bytes) => target.copy_from_slice(bytes),
            Self::Splat(pattern) => {
                let first = pattern.len().min(target.len());
                target[..first].copy_from_slice(&pattern[..first]);
                // Each copy doubles the filled part, which stays a multiple of the pattern until the end.
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

    #[test]
    fn filled_memory_does_not_depend_on_chunking() {
        for contents in [Contents::Zeros, Contents::Bytes((0..100).collect()), Contents::Splat(vec![1, 2, 3])]
        {
            for piece in [1, 2, 3, 7, 64, 100] {
                let memory = HostMemory::allocate(100).unwrap();
                memory.fill(0, 100, &[0xee]).unwrap();
                for at in (0..100).step_by(piece) {
                    let range = Range { offset: at, length: (100 - at).min(piece as u64) };
                    contents.fill_memory(at, &memory, range).unwrap();
                }
                assert_eq!(*memory.bytes(memory.whole()).unwrap(), filled(&contents, 100));
            }
        }
    }
}
