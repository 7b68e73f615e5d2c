//! Output of reports: JSON objects, one per line, and lines of text.

use std::fmt;
use std::io::Write;

use rehal_base::printf::General;
use rehal_base::{Error, Result};
use zerocopy::little_endian::{I32, I64, U16, U32, U64};

/// Bytes kept before they are written to the sink.
const BUFFER_BYTES: usize = 64 * 1024;

/// Where a report goes.
pub struct Out<'w> {
    sink: &'w mut dyn Write,
    buffer: Vec<u8>,
    failure: Option<Error>,
}

impl<'w> Out<'w> {
    /// Output to `sink`; see [`Out::finish`].
    pub fn new(sink: &'w mut dyn Write) -> Self {
        Self { sink, buffer: Vec::new(), failure: None }
    }

    /// Appends text.
    pub fn text(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.buffer.write_fmt(text);
        self.flush_if_full();
    }

    /// Appends a name as the reference's text reports do: up to its first NUL.
    pub fn name(&mut self, name: &[u8]) {
        self.buffer.extend(name.iter().take_while(|byte| **byte != 0));
    }

    /// Begins a JSON object with the field `type`.
    pub fn object(&mut self, kind: &str) -> Object<'_, 'w> {
        self.object_with("type", &kind)
    }

    /// Begins a JSON object with a field.
    pub fn object_with(&mut self, name: &str, value: &dyn Json) -> Object<'_, 'w> {
        self.buffer.extend_from_slice(b"{\"");
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.extend_from_slice(b"\":");
        value.write(&mut self.buffer);
        Object { out: self }
    }

    /// Writes what is left to the sink. Returns the first error of the sink.
    pub fn finish(mut self) -> Result<()> {
        self.drain();
        self.failure.map_or(Ok(()), Err)
    }

    /// Fails if the sink failed, so that a report without a reader ends.
    pub fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn flush_if_full(&mut self) {
        if self.buffer.len() >= BUFFER_BYTES {
            self.drain();
        }
    }

    fn drain(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.sink.write_all(&self.buffer)
        {
            self.failure = Some(Error::io("writing the report", &error));
        }
        self.buffer.clear();
    }
}

/// Appends text to an [`Out`].
macro_rules! text {
    ($out:expr, $($format:tt)+) => { $out.text(format_args!($($format)+)) };
}

/// Appends fields to an [`Object`]: `name: value`, or `from { names }` for fields of the same names.
macro_rules! fields {
    ($object:expr $(,)?) => {};
    ($object:expr, $from:ident { $($name:ident),+ $(,)? } $(, $($rest:tt)*)?) => {
        $( $object.field(stringify!($name), &$from.$name); )+
        $( $crate::report::out::fields!($object, $($rest)*); )?
    };
    ($object:expr, $name:ident: $value:expr $(, $($rest:tt)*)?) => {
        $object.field(stringify!($name), &$value);
        $( $crate::report::out::fields!($object, $($rest)*); )?
    };
}

/// Prints a JSON object of a type with fields.
macro_rules! object {
    ($out:expr, $kind:expr $(, $($fields:tt)*)?) => {{
        #[allow(unused_mut, reason = "an object may have no fields")]
        let mut object = $out.object($kind);
        $( $crate::report::out::fields!(object, $($fields)*); )?
        object.end();
    }};
}

pub(crate) use {fields, object, text};

/// A JSON object that is being printed.
pub struct Object<'o, 'w> {
    out: &'o mut Out<'w>,
}

impl Object<'_, '_> {
    /// Appends a field.
    pub fn field(&mut self, name: &str, value: &dyn Json) {
        self.prefixed("", name, value);
    }

    /// Appends a field whose name is `prefix` and `name`.
    pub fn prefixed(&mut self, prefix: &str, name: &str, value: &dyn Json) {
        let buffer = &mut self.out.buffer;
        buffer.extend_from_slice(b",\"");
        buffer.extend_from_slice(prefix.as_bytes());
        buffer.extend_from_slice(name.as_bytes());
        buffer.extend_from_slice(b"\":");
        value.write(buffer);
        // Lists may be long.
        self.out.flush_if_full();
    }

    /// Ends the object and its line.
    pub fn end(self) {
        self.out.buffer.extend_from_slice(b"}\n");
        self.out.flush_if_full();
    }
}

/// A JSON value.
pub trait Json {
    /// Appends it to `buffer`.
    fn write(&self, buffer: &mut Vec<u8>);
}

macro_rules! displayed {
    ($($type:ty),*) => { $(
        impl Json for $type {
            fn write(&self, buffer: &mut Vec<u8>) {
                let _ = write!(buffer, "{self}");
            }
        }
    )* };
}

displayed!(bool, u16, u32, u64, usize, i32, i64, U16, U32, U64, I32, I64, Fixed, General);

impl Json for &str {
    fn write(&self, buffer: &mut Vec<u8>) {
        self.as_bytes().write(buffer);
    }
}

impl Json for &[u8] {
    fn write(&self, buffer: &mut Vec<u8>) {
        buffer.push(b'"');
        for byte in *self {
            match byte {
                b'"' => buffer.extend_from_slice(b"\\\""),
                b'\\' => buffer.extend_from_slice(b"\\\\"),
                8 => buffer.extend_from_slice(b"\\b"),
                12 => buffer.extend_from_slice(b"\\f"),
                b'\n' => buffer.extend_from_slice(b"\\n"),
                b'\r' => buffer.extend_from_slice(b"\\r"),
                b'\t' => buffer.extend_from_slice(b"\\t"),
                0..32 => {
                    let _ = write!(buffer, "\\u{byte:04x}");
                }
                _ => buffer.push(*byte),
            }
        }
        buffer.push(b'"');
    }
}

impl Json for std::borrow::Cow<'_, [u8]> {
    fn write(&self, buffer: &mut Vec<u8>) {
        (&**self).write(buffer);
    }
}

impl<T: Json> Json for Option<T> {
    fn write(&self, buffer: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(buffer),
            None => buffer.extend_from_slice(b"null"),
        }
    }
}

impl<const N: usize> Json for [U32; N] {
    fn write(&self, buffer: &mut Vec<u8>) {
        List(self).write(buffer);
    }
}

/// A list of values.
pub struct List<'a, T>(pub &'a [T]);

impl<T: Json> Json for List<'_, T> {
    fn write(&self, buffer: &mut Vec<u8>) {
        for (index, value) in self.0.iter().enumerate() {
            buffer.push(if index == 0 { b'[' } else { b',' });
            value.write(buffer);
        }
        buffer.extend_from_slice(if self.0.is_empty() { b"[]" } else { b"]" });
    }
}

/// JSON text.
pub struct Raw(pub String);

impl Json for Raw {
    fn write(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self.0.as_bytes());
    }
}

/// A number with this many decimals, as C prints it.
#[derive(Clone, Copy)]
pub struct Fixed(pub f64, pub usize);

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_finite() {
            true => write!(f, "{:.*}", self.1, self.0),
            false => General { value: self.0, digits: 1 }.fmt(f),
        }
    }
}

/// Two words as hexadecimal digits.
pub fn hash(words: [U64; 2]) -> String {
    format!("{:016x}{:016x}", words[0].get(), words[1].get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &dyn Json) -> String {
        let mut buffer = Vec::new();
        value.write(&mut buffer);
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(json(&"a\"\\\u{8}\u{c}\n\r\t\u{1}\u{7f}é"), "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\u{7f}é\"");
        assert_eq!(json(&Some("x")), "\"x\"");
        assert_eq!(json(&None::<&str>), "null");
        assert_eq!(json(&List::<U64>(&[])), "[]");
        assert_eq!(json(&[U32::new(1), U32::new(2)]), "[1,2]");
    }

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        assert_eq!(Fixed(0.0625, 3).to_string(), "0.062");
        assert_eq!(Fixed(-f64::NAN, 3).to_string(), "-nan");
        assert_eq!(Fixed(f64::INFINITY, 3).to_string(), "inf");
    }

    #[test]
    fn a_failed_sink_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut sink = Full;
        let mut out = Out::new(&mut sink);
        text!(out, "text");
        assert!(out.check().is_ok());
        assert!(out.finish().is_err());
    }
}
