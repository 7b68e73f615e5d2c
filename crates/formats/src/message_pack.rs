//! Reading MessagePack in place, as notes of executables need it.
//!
//! Source: the specification of MessagePack, "Formats".

use rehal_base::{Cursor, Fault, FormatError};

/// Limit on the nesting of what is skipped; metadata of compilers nest 4 deep.
const MAX_DEPTH: usize = 32;

/// One value, or the head of one that has others.
#[derive(Debug)]
enum Value<'a> {
    Integer(i128),
    Text(&'a [u8]),
    /// Nil, booleans, floats, bytes and extensions.
    Other,
    Array(u32),
    /// Pairs of a key and a value.
    Map(u32),
}

impl Value<'_> {
    fn name(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Text(_) => "text".into(),
            Self::Other => "a value of another type".into(),
            Self::Array(_) => "an array".into(),
            Self::Map(_) => "a map".into(),
        }
    }
}

/// A reader of consecutive values.
pub(crate) struct Reader<'a> {
    cursor: Cursor<'a>,
    /// Offset of the first byte in the file, for errors.
    origin: u64,
    /// The name of the format in errors.
    format: &'static str,
}

impl<'a> Reader<'a> {
    pub fn new(format: &'static str, bytes: &'a [u8], origin: u64) -> Self {
        Self { cursor: Cursor::new(bytes), origin, format }
    }

    /// The offset of the next value in the file.
    pub fn at(&self) -> u64 {
        self.origin + self.cursor.position() as u64
    }

    pub fn error(
        &self,
        fault: Fault,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        FormatError::new(self.format, fault, self.at(), field, expected, found)
    }

    /// Reads a map: `entry` gets each key and reads its value.
    pub fn map(
        &mut self,
        field: &'static str,
        mut entry: impl FnMut(&mut Self, &'a [u8]) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let Value::Map(length) = self.expect(field, "a map", |it| matches!(it, Value::Map(_)))? else {
            return Ok(());
        };
        for _ in 0..length {
            let key = self.bytes_of_text("key")?;
            entry(self, key)?;
        }
        Ok(())
    }

    /// Reads an array: `element` reads each element.
    pub fn array(
        &mut self,
        field: &'static str,
        mut element: impl FnMut(&mut Self) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let Value::Array(length) = self.expect(field, "an array", |it| matches!(it, Value::Array(_)))? else {
            return Ok(());
        };
        (0..length).try_for_each(|_| element(self))
    }

    /// Reads UTF-8 text.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, FormatError> {
        let bytes = self.bytes_of_text(field)?;
        str::from_utf8(bytes).map_err(|_| {
            self.error(
                Fault::Corrupt,
                field,
                "UTF-8",
                format!("'{}'", bytes[..bytes.len().min(64)].escape_ascii()),
            )
        })
    }

    fn bytes_of_text(&mut self, field: &'static str) -> Result<&'a [u8], FormatError> {
        match self.expect(field, "text", |it| matches!(it, Value::Text(_)))? {
            Value::Text(bytes) => Ok(bytes),
            _ => Ok(&[]),
        }
    }

    /// Reads an unsigned 32-bit integer.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, FormatError> {
        let expected = "an integer of 32 bits";
        match self.expect(
            field,
            expected,
            |it| matches!(it, Value::Integer(it) if u32::try_from(*it).is_ok()),
        )? {
            Value::Integer(value) => Ok(value as u32),
            _ => Ok(0),
        }
    }

    /// Skips a value with all that it has.
    pub fn skip(&mut self, field: &'static str) -> Result<(), FormatError> {
        // The number of values left at each depth.
        let mut left = [0_u64; MAX_DEPTH];
        let mut depth = 0;
        left[0] = 1;
        loop {
            while left[depth] == 0 {
                match depth {
                    0 => return Ok(()),
                    _ => depth -= 1,
                }
            }
            left[depth] -= 1;
            let count = match self.next(field)? {
                Value::Array(length) => u64::from(length),
                Value::Map(length) => 2 * u64::from(length),
                _ => 0,
            };
            if count != 0 {
                depth += 1;
                let slot = left.get_mut(depth).ok_or_else(|| {
                    let expected = format!("values nested at most {MAX_DEPTH} deep");
                    self.error(Fault::Unsupported, field, expected, "more")
                })?;
                *slot = count;
            }
        }
    }

    fn expect(
        &mut self,
        field: &'static str,
        expected: &str,
        fits: impl Fn(&Value<'a>) -> bool,
    ) -> Result<Value<'a>, FormatError> {
        let at = self.at();
        let value = self.next(field)?;
        if fits(&value) {
            return Ok(value);
        }
        Err(FormatError::new(self.format, Fault::Corrupt, at, field, expected, value.name()))
    }

    fn next(&mut self, field: &'static str) -> Result<Value<'a>, FormatError> {
        let at = self.at();
        self.value().ok_or_else(|| {
            let found = format!("{} bytes", self.cursor.remaining());
            FormatError::new(self.format, Fault::Truncated, at, field, "a MessagePack value", found)
        })
    }

    fn value(&mut self) -> Option<Value<'a>> {
        let cursor = &mut self.cursor;
        let tag = cursor.u8()?;
        Some(match tag {
            0x00..=0x7F => Value::Integer(tag.into()),
            0x80..=0x8F => Value::Map(u32::from(tag & 0xF)),
            0x90..=0x9F => Value::Array(u32::from(tag & 0xF)),
            0xA0..=0xBF => Value::Text(cursor.take(usize::from(tag & 0x1F))?),
            // Nil, an unused tag, false and true.
            0xC0..=0xC3 => Value::Other,
            0xC4..=0xC6 => other(cursor, tag - 0xC4, 0)?,
            // Extensions have a byte for their type.
            0xC7..=0xC9 => other(cursor, tag - 0xC7, 1)?,
            0xCA => fixed(cursor, 4)?,
            0xCB => fixed(cursor, 8)?,
            0xCC..=0xCF => Value::Integer(integer(cursor, tag - 0xCC)?.into()),
            0xD0 => Value::Integer((integer(cursor, 0)? as i8).into()),
            0xD1 => Value::Integer((integer(cursor, 1)? as i16).into()),
            0xD2 => Value::Integer((integer(cursor, 2)? as i32).into()),
            0xD3 => Value::Integer((integer(cursor, 3)? as i64).into()),
            0xD4..=0xD8 => fixed(cursor, 1 + (1 << (tag - 0xD4)))?,
            0xD9..=0xDB => {
                let length = integer(cursor, tag - 0xD9)?;
                Value::Text(cursor.take(usize::try_from(length).ok()?)?)
            }
            0xDC | 0xDD => Value::Array(integer(cursor, tag - 0xDB)? as u32),
            0xDE | 0xDF => Value::Map(integer(cursor, tag - 0xDD)? as u32),
            0xE0..=0xFF => Value::Integer((tag as i8).into()),
        })
    }
}

/// A big-endian integer of `1 << power` bytes.
fn integer(cursor: &mut Cursor<'_>, power: u8) -> Option<u64> {
    let bytes = cursor.take(1 << power)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// As many bytes as an integer before them states, and `more`.
fn other<'a>(cursor: &mut Cursor<'a>, power: u8, more: usize) -> Option<Value<'a>> {
    let length = usize::try_from(integer(cursor, power)?).ok()?;
    fixed(cursor, length.checked_add(more)?)
}

fn fixed<'a>(cursor: &mut Cursor<'a>, length: usize) -> Option<Value<'a>> {
    cursor.take(length).map(|_| Value::Other)
}
