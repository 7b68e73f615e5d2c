/// A table in a flatbuffer.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    buffer: &'a [u8],
    /// Offset of the table in the buffer.
    at: usize,
}

/// A vector in a flatbuffer: elements are contiguous from `at`.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    buffer: &'a [u8],
    at: usize,
    length: usize,
}

impl<'a> Table<'a> {
    /// The root table of a flatbuffer.
    pub fn root(buffer: &'a [u8]) -> Self {
        Self { buffer, at: follow(buffer, 0).unwrap_or(usize::MAX) }
    }

    /// Offset of the table in the buffer.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Offset of the field's value in the buffer, if it is present.
    pub fn field(&self, id: usize) -> Option<usize> {
        let back = i32::from_le_bytes(load(self.buffer, self.at)?);
        let vtable = usize::try_from(i64::try_from(self.at).ok()? - i64::from(back)).ok()?;
        let size = usize::from(u16::from_le_bytes(load(self.buffer, vtable)?));
        let slot = 4 + 2 * id;
        if slot + 2 > size {
            return None;
        }
        match u16::from_le_bytes(load(self.buffer, vtable.checked_add(slot)?)?) {
            0 => None,
            offset => self.at.checked_add(usize::from(offset)),
        }
    }

    /// An 8-bit field, 0 by default.
    pub fn u8(&self, id: usize) -> u8 {
        self.field(id).and_then(|at| load::<1>(self.buffer, at)).map_or(0, |[byte]| byte)
    }

    /// A 32-bit field, or `default`.
    pub fn u32(&self, id: usize, default: u32) -> u32 {
        self.field(id).and_then(|at| load(self.buffer, at)).map_or(default, u32::from_le_bytes)
    }

    /// A signed 32-bit field, 0 by default.
    pub fn i32(&self, id: usize) -> i32 {
        self.u32(id, 0) as i32
    }

    /// A 64-bit field, 0 by default.
    pub fn u64(&self, id: usize) -> u64 {
        self.field(id).and_then(|at| load(self.buffer, at)).map_or(0, u64::from_le_bytes)
    }

    /// A text field.
    pub fn text(&self, id: usize) -> Option<&'a str> {
        let vector = self.vector(id)?;
        std::str::from_utf8(vector.bytes()).ok()
    }

    /// A table field.
    pub fn table(&self, id: usize) -> Option<Self> {
        Some(Self { buffer: self.buffer, at: follow(self.buffer, self.field(id)?)? })
    }

    /// A vector field of any kind.
    pub fn vector(&self, id: usize) -> Option<Vector<'a>> {
        let at = follow(self.buffer, self.field(id)?)?;
        let length = u32::from_le_bytes(load(self.buffer, at)?) as usize;
        Some(Vector { buffer: self.buffer, at: at + 4, length })
    }

    /// A struct field, as a vector of one.
    pub fn structure(&self, id: usize) -> Option<Vector<'a>> {
        Some(Vector { buffer: self.buffer, at: self.field(id)?, length: 1 })
    }

    /// A vector of tables, empty by default.
    pub fn tables(&self, id: usize) -> Tables<'a> {
        Tables(self.vector(id).unwrap_or(Vector { buffer: &[], at: 0, length: 0 }))
    }
}

impl<'a> Vector<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Offset of the first element in the buffer.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The bytes of a vector of bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.at.checked_add(self.length).and_then(|end| self.buffer.get(self.at..end)).unwrap_or(&[])
    }

    /// Element `index` of a vector of scalars or structs of `N` bytes.
    pub fn element<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        load(self.buffer, self.place(index, N)?)
    }

    /// `length` bytes at `offset` from the first element, not necessarily whole elements; `None` if beyond
    /// the buffer.
    pub fn part(&self, offset: usize, length: usize) -> &'a [u8] {
        let start = self.at.saturating_add(offset);
        self.buffer.get(start..start.saturating_add(length)).unwrap_or(&[])
    }

    /// The table that element `index` points to.
    pub fn table(&self, index: usize) -> Option<Table<'a>> {
        Some(Table { buffer: self.buffer, at: follow(self.buffer, self.place(index, 4)?)? })
    }

    fn place(&self, index: usize, size_bytes: usize) -> Option<usize> {
        if index >= self.length {
            return None;
        }
        self.at.checked_add(index.checked_mul(size_bytes)?)
    }
}

/// A vector of tables.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a>(Vector<'a>);

impl<'a> Tables<'a> {
    /// Number of tables.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Table `index`.
    pub fn get(&self, index: usize) -> Option<Table<'a>> {
        self.0.table(index)
    }

    /// All tables.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Table<'a>> + Clone {
        let nothing = Table { buffer: &[], at: usize::MAX };
        (0..self.len()).map(move |index| self.get(index).unwrap_or(nothing))
    }
}

/// The target of the offset at `at`.
fn follow(buffer: &[u8], at: usize) -> Option<usize> {
    at.checked_add(u32::from_le_bytes(load(buffer, at)?) as usize)
}

fn load<const N: usize>(buffer: &[u8], at: usize) -> Option<[u8; N]> {
    buffer.get(at..at.checked_add(N)?)?.try_into().ok()
}
