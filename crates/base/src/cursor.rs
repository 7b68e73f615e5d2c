/// A bounded little-endian cursor: every read is bounds-checked and copies at most a scalar.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

macro_rules! scalar {
    ($name:ident, $type:ty) => {
        /// Reads one little-endian value, or `None` if too few bytes are left.
        pub fn $name(&mut self) -> Option<$type> {
            let bytes = self.take(size_of::<$type>())?;
            Some(<$type>::from_le_bytes(bytes.try_into().ok()?))
        }
    };
}

impl<'a> Cursor<'a> {
    /// A cursor at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `length` bytes, or `None` (without advancing) if fewer are left.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(length)?;
        let bytes = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(bytes)
    }

    scalar!(u8, u8);
    scalar!(u16, u16);
    scalar!(u32, u32);
    scalar!(u64, u64);
    scalar!(i32, i32);
    scalar!(i64, i64);
}
