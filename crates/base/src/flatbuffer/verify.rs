use std::collections::HashSet;

use super::schema::{Field, FieldType, TableSchema, UnionSchema};
use crate::{Fault, FormatError, FormatPart};

/// Bytes of the root offset and the identifier.
const HEADER_BYTES: usize = 8;
/// Limit on the bytes that verification reads, as a multiple of the flatbuffer's size. Builders share
/// vtables, text (read once here) and occasionally a table; a file that expands to more is an attack on time.
const MAX_UNFOLDING: usize = 4;
/// The same for text, which files share, such as the file name of every location: callers that collect all
/// names read this much.
const MAX_TEXT_UNFOLDING: usize = 64;

/// A file format that contains a flatbuffer.
#[derive(Debug)]
pub struct Envelope {
    /// The name of the format in errors: `module`.
    pub format: &'static str,
    /// The file identifier at bytes 4..8 of the flatbuffer.
    pub identifier: &'static [u8; 4],
    /// Bytes of the size prefix before the flatbuffer, relative to which builders align: 4, or 0 if there is
    /// none.
    pub prefix_bytes: usize,
    /// The root table.
    pub root: &'static TableSchema,
}

/// Checks that everything reachable from the root of `buffer` by the schema of its `envelope` is in bounds,
/// aligned and well-formed: vtables, tables, vectors, text, unions.
///
/// Offsets in errors count from the first byte of the file, which contains the buffer at `base`. Takes
/// time linear in the size of the buffer; allocates a set of text positions. The depth of recursion is
/// bounded by the schema.
pub fn verify(buffer: &[u8], base: usize, envelope: &'static Envelope) -> Result<(), FormatError> {
    let mut verifier = Verifier {
        buffer,
        envelope,
        base,
        texts: HashSet::new(),
        budget: buffer.len().saturating_mul(MAX_UNFOLDING),
        text_budget: buffer.len().saturating_mul(MAX_TEXT_UNFOLDING),
        index: None,
    };
    if buffer.len() < HEADER_BYTES {
        let found = format!("{} bytes", buffer.len());
        return Err(verifier.error(Fault::Truncated, 0, "flatbuffer", "at least 8 bytes", found));
    }
    if &buffer[4..8] != envelope.identifier {
        let expected = format!("'{}'", envelope.identifier.escape_ascii());
        let found = format!("'{}'", buffer[4..8].escape_ascii());
        return Err(verifier.error(Fault::Corrupt, 4, "file identifier", expected, found));
    }
    let root = verifier.follow(0, "root table")?;
    verifier.table(root, envelope.root, "root table")
}

struct Verifier<'a> {
    buffer: &'a [u8],
    base: usize,
    envelope: &'static Envelope,
    /// Offsets of strings that have been verified.
    texts: HashSet<usize>,
    /// Bytes that may still be read.
    budget: usize,
    /// Bytes of text that may still be referenced.
    text_budget: usize,
    /// Index in the root table's vector that is being read, for errors.
    index: Option<u64>,
}

/// A table whose position and vtable are checked.
#[derive(Clone, Copy)]
struct Checked {
    at: usize,
    size: usize,
    vtable: usize,
    vtable_size: usize,
}

impl Verifier<'_> {
    fn error(
        &self,
        fault: Fault,
        at: usize,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        let part = FormatPart { format: self.envelope.format, origin: self.base as u64 };
        let error = part.error(fault, at, field, expected, found);
        match self.index {
            Some(index) => error.in_record(index),
            None => error,
        }
    }

    /// `at..at + length` must be in bounds and aligned. Builders align relative to the size prefix, if there
    /// is one.
    fn range(&self, at: usize, length: usize, align: usize, field: &'static str) -> Result<(), FormatError> {
        let size = self.buffer.len();
        if at.checked_add(length).is_none_or(|end| end > size) {
            let expected = format!("{length} bytes within the flatbuffer's {size}");
            return Err(self.error(Fault::Corrupt, at, field, expected, format!("offset {at}")));
        }
        if !(at + self.envelope.prefix_bytes).is_multiple_of(align) {
            let expected = format!("a multiple of {align}");
            return Err(self.error(
                Fault::Corrupt,
                at,
                field,
                expected,
                format!("byte {at} of the flatbuffer"),
            ));
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize, at: usize, field: &'static str) -> Result<(), FormatError> {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.ok_or_else(|| self.unfolds(MAX_UNFOLDING, at, field))?;
        Ok(())
    }

    fn spend_text(&mut self, bytes: usize, at: usize, field: &'static str) -> Result<(), FormatError> {
        let left = self.text_budget.checked_sub(bytes);
        self.text_budget = left.ok_or_else(|| self.unfolds(MAX_TEXT_UNFOLDING, at, field))?;
        Ok(())
    }

    fn unfolds(&self, limit: usize, at: usize, field: &'static str) -> FormatError {
        let expected = format!("a {} that expands to at most {limit} times its size", self.envelope.format);
        self.error(Fault::Corrupt, at, field, expected, "shared tables that expand to more")
    }

    fn u16(&self, at: usize) -> usize {
        self.buffer.get(at..at + 2).map_or(0, |b| usize::from(u16::from_le_bytes([b[0], b[1]])))
    }

    fn u32(&self, at: usize) -> u32 {
        self.buffer.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// The target of the offset at `at`, which is in bounds.
    fn follow(&self, at: usize, field: &'static str) -> Result<usize, FormatError> {
        let offset = self.u32(at);
        if offset == 0 {
            return Err(self.error(Fault::Corrupt, at, field, "an offset", "0"));
        }
        at.checked_add(offset as usize).filter(|&target| target < self.buffer.len()).ok_or_else(|| {
            self.error(Fault::Corrupt, at, field, "an offset within the flatbuffer", offset.to_string())
        })
    }

    fn table(
        &mut self,
        at: usize,
        schema: &'static TableSchema,
        field: &'static str,
    ) -> Result<(), FormatError> {
        let table = self.table_header(at, field)?;
        self.spend(table.size, at, field)?;
        let top = self.index.is_none();
        for (id, field) in schema.fields.iter().enumerate() {
            match self.locate(table, id, field)? {
                Some(at) => self.value(table, id, at, field)?,
                None if field.required => {
                    return Err(self.error(Fault::Corrupt, at, field.path, "a value", "none"));
                }
                None => self.absent(table, id, field)?,
            }
            if top {
                self.index = None;
            }
        }
        Ok(())
    }

    fn table_header(&self, at: usize, field: &'static str) -> Result<Checked, FormatError> {
        self.range(at, 4, 4, field)?;
        let back = i64::from(self.u32(at) as i32);
        let vtable = usize::try_from(at as i64 - back).map_err(|_| {
            self.error(
                Fault::Corrupt,
                at,
                field,
                "a vtable within the flatbuffer",
                format!("one {back} bytes before the table"),
            )
        })?;
        self.range(vtable, 4, 2, field)?;
        let (vtable_size, size) = (self.u16(vtable), self.u16(vtable + 2));
        if vtable_size < 4 || !vtable_size.is_multiple_of(2) {
            return Err(self.error(
                Fault::Corrupt,
                vtable,
                field,
                "a vtable of an even size from 4",
                vtable_size.to_string(),
            ));
        }
        if size < 4 {
            return Err(self.error(
                Fault::Corrupt,
                vtable + 2,
                field,
                "a table of at least 4 bytes",
                size.to_string(),
            ));
        }
        self.range(vtable, vtable_size, 2, field)?;
        self.range(at, size, 4, field)?;
        Ok(Checked { at, size, vtable, vtable_size })
    }

    /// The offset of the field's value, checked to be within the table.
    fn locate(&self, table: Checked, id: usize, field: &Field) -> Result<Option<usize>, FormatError> {
        let slot = 4 + 2 * id;
        if slot + 2 > table.vtable_size {
            return Ok(None);
        }
        let offset = self.u16(table.vtable + slot);
        if offset == 0 {
            return Ok(None);
        }
        let size = match field.kind {
            FieldType::Tag | FieldType::U8 => 1,
            FieldType::U64 => 8,
            FieldType::Struct(schema) => schema.size_bytes(),
            _ => 4,
        };
        let align = if matches!(field.kind, FieldType::Struct(_)) { 4 } else { size };
        if offset < 4 || offset + size > table.size {
            let expected = format!("{size} bytes within the table's {}", table.size);
            let found = format!("offset {offset}");
            return Err(self.error(Fault::Corrupt, table.vtable + slot, field.path, expected, found));
        }
        self.range(table.at + offset, size, align, field.path)?;
        Ok(Some(table.at + offset))
    }

    fn value(
        &mut self,
        table: Checked,
        id: usize,
        at: usize,
        field: &'static Field,
    ) -> Result<(), FormatError> {
        match field.kind {
            FieldType::U8 | FieldType::I32 | FieldType::U32(_) | FieldType::Flags(..) | FieldType::U64 => {
                Ok(())
            }
            FieldType::Struct(_) => Ok(()),
            FieldType::Text => self.text(at, field.path),
            FieldType::Bytes | FieldType::Tags => self.vector(at, 1, 1, field.path).map(drop),
            FieldType::I32s | FieldType::U32s => self.vector(at, 4, 4, field.path).map(drop),
            FieldType::Structs(schema) => self.vector(at, schema.size_bytes(), 4, field.path).map(drop),
            FieldType::Table(schema) => {
                let target = self.follow(at, field.path)?;
                self.table(target, schema, field.path)
            }
            FieldType::Tables(schema) => {
                let top = self.index.is_none();
                let (start, length) = self.vector(at, 4, 4, field.path)?;
                for index in 0..length {
                    if top {
                        self.index = Some(index as u64);
                    }
                    let target = self.follow(start + 4 * index, field.path)?;
                    self.table(target, schema, field.path)?;
                }
                Ok(())
            }
            FieldType::Tag if self.buffer[at] == 0 => Ok(()),
            FieldType::Tag => {
                // Its value is checked with the union.
                match self.present(table, id + 1) {
                    true => Ok(()),
                    false => Err(self.error(Fault::Corrupt, at, field.path, "a value for the tag", "none")),
                }
            }
            FieldType::Union(schema) => {
                let tag = if self.present(table, id - 1) {
                    self.buffer[table.at + self.u16(table.vtable + 4 + 2 * (id - 1))]
                } else {
                    0
                };
                let target = self.follow(at, field.path)?;
                self.member(target, tag, schema, field.path)
            }
            FieldType::Unions(schema) => self.unions(table, id, at, schema, field.path),
        }
    }

    /// A tag without a value is as malformed as a value without a tag.
    fn absent(&self, table: Checked, id: usize, field: &Field) -> Result<(), FormatError> {
        let lonely = matches!(field.kind, FieldType::Unions(_)) && self.present(table, id - 1);
        if lonely {
            return Err(self.error(Fault::Corrupt, table.at, field.path, "a value for each tag", "none"));
        }
        Ok(())
    }

    fn present(&self, table: Checked, id: usize) -> bool {
        let slot = 4 + 2 * id;
        slot + 2 <= table.vtable_size && self.u16(table.vtable + slot) != 0
    }

    /// One past the schema's last tag may be a table of a newer release.
    fn member(
        &mut self,
        target: usize,
        tag: u8,
        schema: &'static UnionSchema,
        field: &'static str,
    ) -> Result<(), FormatError> {
        match usize::from(tag).checked_sub(1).map(|index| schema.0.get(index)) {
            Some(Some(member)) => self.table(target, member, field),
            Some(None) => {
                let expected = format!("a tag up to {}", schema.0.len());
                Err(self.error(Fault::Unsupported, target, field, expected, tag.to_string()))
            }
            None => Err(self.error(Fault::Corrupt, target, field, "a tag for the value", "0")),
        }
    }

    fn unions(
        &mut self,
        table: Checked,
        id: usize,
        at: usize,
        schema: &'static UnionSchema,
        field: &'static str,
    ) -> Result<(), FormatError> {
        let (start, length) = self.vector(at, 4, 4, field)?;
        if !self.present(table, id - 1) {
            return Err(self.error(Fault::Corrupt, at, field, "a tag for each value", "none"));
        }
        // The tags were checked with the previous field.
        let tags_at = table.at + self.u16(table.vtable + 4 + 2 * (id - 1));
        let tags = self.follow(tags_at, field)?;
        let tag_count = self.u32(tags) as usize;
        if tag_count != length {
            let found = format!("{tag_count} for {length}");
            return Err(self.error(Fault::Corrupt, at, field, "a tag for each value", found));
        }
        for index in 0..length {
            let tag = self.buffer[tags + 4 + index];
            let place = start + 4 * index;
            if tag == 0 && self.u32(place) == 0 {
                continue;
            }
            let target = self.follow(place, field)?;
            self.member(target, tag, schema, field)?;
        }
        Ok(())
    }

    /// Start and length of the vector that the offset at `at` points to.
    fn vector(
        &mut self,
        at: usize,
        element_bytes: usize,
        align: usize,
        field: &'static str,
    ) -> Result<(usize, usize), FormatError> {
        let target = self.follow(at, field)?;
        self.range(target, 4, 4, field)?;
        let length = self.u32(target) as usize;
        let bytes = length.saturating_mul(element_bytes);
        self.range(target + 4, bytes, align, field)?;
        self.spend(4 + bytes, target, field)?;
        Ok((target + 4, length))
    }

    fn text(&mut self, at: usize, field: &'static str) -> Result<(), FormatError> {
        let target = self.follow(at, field)?;
        if self.texts.contains(&target) {
            return self.spend_text(self.u32(target) as usize, target, field);
        }
        let (start, length) = self.vector(at, 1, 1, field)?;
        match self.buffer.get(start + length) {
            Some(0) => {}
            Some(byte) => {
                return Err(self.error(
                    Fault::Corrupt,
                    start + length,
                    field,
                    "a NUL after the text",
                    byte.to_string(),
                ));
            }
            None => {
                let found = "the end of the flatbuffer";
                return Err(self.error(Fault::Corrupt, start + length, field, "a NUL after the text", found));
            }
        }
        if let Err(error) = std::str::from_utf8(&self.buffer[start..start + length]) {
            let place = start + error.valid_up_to();
            let found = format!("byte {:#04x}", self.buffer[place]);
            return Err(self.error(Fault::Corrupt, place, field, "UTF-8", found));
        }
        self.texts.insert(target);
        self.spend_text(length, target, field)
    }
}
