//! Flatbuffers with other tables in front of what they had.
//!
//! Offsets of a flatbuffer point forward. So tables that refer to others than before are written before the
//! buffer, which stays as it is behind them.

use rehal_base::flatbuffer::{FieldType, Table, TableSchema};
use rehal_base::{Error, Result};

use crate::HEADER_BYTES;

/// A multiple of every alignment in a flatbuffer.
const ALIGN: usize = 16;

/// The root and other tables in front of a flatbuffer.
pub(crate) struct Front<'b> {
    bytes: Vec<u8>,
    buffer: &'b [u8],
    /// Offsets by their places, and the places in the buffer that they point to.
    points: Vec<(usize, usize)>,
}

impl<'b> Front<'b> {
    /// The front of a buffer; its first table becomes the root.
    pub(crate) fn new(identifier: &[u8; 4], buffer: &'b [u8]) -> Self {
        let bytes = [[0; 4], *identifier].concat();
        Self { bytes, buffer, points: Vec::new() }
    }

    /// Writes a table, to which the offset at `from` points: with the fields of another one, and these words
    /// in place of them or beside them. Returns the places of its fields by their ids; 0 for one that it does
    /// not have. Fields that the schema lacks are left out.
    pub(crate) fn table(
        &mut self,
        from: usize,
        schema: &TableSchema,
        other: Option<Table<'_>>,
        words: &[(usize, u32)],
    ) -> Vec<usize> {
        let vtable_bytes = 4 + 2 * schema.fields.len();
        let at = (self.bytes.len() + vtable_bytes).next_multiple_of(4);
        self.bytes.resize(at, 0);
        self.set(from, at - from);
        self.bytes.extend((vtable_bytes as u32).to_le_bytes());
        let mut offsets = vec![vtable_bytes as u16, 0];
        let mut places = Vec::new();
        for (id, field) in schema.fields.iter().enumerate() {
            let place = self.bytes.len();
            let word = words.iter().find(|it| it.0 == id).map(|it| it.1);
            match (word, other.and_then(|it| it.field(id))) {
                (Some(word), _) => self.bytes.extend(word.to_le_bytes()),
                (None, Some(own)) => match field.kind {
                    FieldType::U32(_) => self.bytes.extend(self.part(own, 4)),
                    FieldType::Struct(schema) => self.bytes.extend(self.part(own, schema.size_bytes())),
                    _ => {
                        self.bytes.extend([0; 4]);
                        let distance = self.part(own, 4).try_into().map_or(0, u32::from_le_bytes);
                        self.point(place, own + distance as usize);
                    }
                },
                (None, None) => {}
            }
            let is_present = self.bytes.len() > place;
            places.push(if is_present { place } else { 0 });
            offsets.push(if is_present { (place - at) as u16 } else { 0 });
        }
        offsets[1] = (self.bytes.len() - at) as u16;
        let vtable: Vec<_> = offsets.into_iter().flat_map(u16::to_le_bytes).collect();
        self.bytes[at - vtable_bytes..at].copy_from_slice(&vtable);
        places
    }

    /// Writes a vector of tables, to which the offset at `place` points. Returns the places of its offsets.
    pub(crate) fn vector(
        &mut self,
        place: usize,
        count: usize,
    ) -> impl ExactSizeIterator<Item = usize> + use<> {
        self.set(place, self.bytes.len() - place);
        self.bytes.extend((count as u32).to_le_bytes());
        let first = self.bytes.len();
        self.bytes.resize(first + 4 * count, 0);
        (0..count).map(move |index| first + 4 * index)
    }

    /// Makes the offset at `place` point to a table of the buffer.
    pub(crate) fn point(&mut self, place: usize, target: usize) {
        self.points.push((place, target));
    }

    /// Makes the offset at `place` point to the code that follows the buffer.
    pub(crate) fn point_to_code(&mut self, place: usize) {
        self.point(place, self.code_at());
    }

    /// The executable with what has been written in front of its buffer, and with code behind it, which a
    /// zero follows.
    pub(crate) fn finish(mut self, executable: &[u8], code: &[u8]) -> Result<Vec<u8>> {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        let (front, code_at) = (self.bytes.len(), self.code_at());
        let end = (front + code_at + 4 + code.len() + 1).next_multiple_of(8);
        if u32::try_from(end).is_err() {
            return Err(Error::resource_exhausted("the executable would exceed 4 GiB"));
        }
        for (place, target) in std::mem::take(&mut self.points) {
            self.set(place, front + target - place);
        }
        let mut whole = Vec::with_capacity(HEADER_BYTES + end);
        whole.extend(&executable[..HEADER_BYTES]);
        whole[8..16].copy_from_slice(&(end as u64).to_le_bytes());
        whole.extend(&self.bytes);
        whole.extend(self.buffer);
        whole.resize(HEADER_BYTES + front + code_at, 0);
        whole.extend((code.len() as u32).to_le_bytes());
        whole.extend(code);
        whole.resize(HEADER_BYTES + end, 0);
        Ok(whole)
    }

    /// The place of the vector of the code, from the first byte of the buffer. Its bytes are aligned to 8.
    fn code_at(&self) -> usize {
        self.buffer.len().next_multiple_of(8) + 4
    }

    fn part(&self, at: usize, length: usize) -> &'b [u8] {
        self.buffer.get(at..at + length).unwrap_or_default()
    }

    /// Sets an offset.
    fn set(&mut self, place: usize, distance: usize) {
        self.bytes[place..place + 4].copy_from_slice(&(distance as u32).to_le_bytes());
    }
}
