use rehal_base::Result;

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

/// What is given to a writer at once.
const CHUNK_BYTES: usize = 64 << 10;

impl Contents {
    /// Gives all `size_bytes` of the tensor to `write`, in order, in pieces: an offset and bytes. Memory for
    /// all of them is never taken.
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

    /// All `size_bytes` of the tensor.
    pub fn to_bytes(&self, size_bytes: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let collected = self.write_to(size_bytes, |_, part| {
            bytes.extend_from_slice(part);
            Ok(())
        });
        collected.expect("collecting does not fail");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fill_all_bytes() {
        assert_eq!(Contents::Zeros.to_bytes(3), [0; 3]);
        assert_eq!(Contents::Splat(vec![1, 2, 3]).to_bytes(7), [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(Contents::Splat(vec![1, 2]).to_bytes(0), []);
        let long = Contents::Splat(vec![1, 2, 3]).to_bytes(200_001);
        assert!(long.len() == 200_001 && long.chunks(3).all(|part| part == [1, 2, 3]));
    }
}
