//! Output of reports: rows as JSON objects, one per line, or as text, from one list of columns.
//!
//! A row has a kind, columns and a template. As JSON it is an object of its columns. As text it is its
//! template, in which `{name}` stands for the value of a column, and `{name?text}` and `{name!text}` for
//! `text` if the column is set, or not set: one that is missing, empty, zero or false is not. A row without a
//! template is left out of text.

use std::borrow::Cow;
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
    is_text: bool,
    buffer: Vec<u8>,
    cells: Cells,
    failure: Option<Error>,
}

/// The columns of the row that becomes text.
#[derive(Default)]
struct Cells {
    text: Vec<u8>,
    /// Prefix and name of each column, and where its text ends.
    columns: Vec<(&'static str, &'static str, usize)>,
}

impl<'w> Out<'w> {
    /// Output to `sink`; see [`Out::finish`].
    pub fn new(sink: &'w mut dyn Write, is_text: bool) -> Self {
        Self { sink, is_text, buffer: Vec::new(), cells: Cells::default(), failure: None }
    }

    /// Whether rows become text.
    pub fn is_text(&self) -> bool {
        self.is_text
    }

    /// Appends a heading, which only text has.
    pub fn heading(&mut self, heading: &str) {
        if self.is_text {
            self.buffer.extend_from_slice(heading.as_bytes());
        }
    }

    /// Begins a row, whose first field is `type`.
    pub fn row(&mut self, kind: &'static str, template: &'static str) -> Row<'_, 'w> {
        self.row_with("type", &kind, template)
    }

    /// Begins a row with a column.
    pub fn row_with(&mut self, name: &str, value: &dyn Value, template: &'static str) -> Row<'_, 'w> {
        if !self.is_text {
            self.buffer.extend_from_slice(b"{\"");
            self.buffer.extend_from_slice(name.as_bytes());
            self.buffer.extend_from_slice(b"\":");
            value.write_json(&mut self.buffer);
        }
        Row { out: self, template, prefix: "" }
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

/// Appends columns to a [`Row`]: `name: value`, `from { names }` for fields of the same names, or
/// `@name: value` for a column that only the template refers to.
macro_rules! columns {
    ($row:expr $(,)?) => {};
    ($row:expr, $from:ident { $($name:ident),+ $(,)? } $(, $($rest:tt)*)?) => {
        $( $row.column(stringify!($name), &$from.$name); )+
        $( $crate::report::out::columns!($row, $($rest)*); )?
    };
    ($row:expr, @$name:ident: $value:expr $(, $($rest:tt)*)?) => {
        $row.hidden(stringify!($name), &$value);
        $( $crate::report::out::columns!($row, $($rest)*); )?
    };
    ($row:expr, $name:ident: $value:expr $(, $($rest:tt)*)?) => {
        $row.column(stringify!($name), &$value);
        $( $crate::report::out::columns!($row, $($rest)*); )?
    };
}

/// Prints a row: kind, template and columns.
macro_rules! row {
    ($out:expr, $kind:expr, $template:expr, $($columns:tt)*) => {{
        let mut row = $out.row($kind, $template);
        $crate::report::out::columns!(row, $($columns)*);
        row.end();
    }};
}

pub(crate) use {columns, row};

/// A row that is being printed.
pub struct Row<'o, 'w> {
    out: &'o mut Out<'w>,
    template: &'static str,
    /// The start of the names of the columns that are appended.
    pub prefix: &'static str,
}

impl Row<'_, '_> {
    /// Appends a column.
    pub fn column(&mut self, name: &'static str, value: &dyn Value) {
        if self.out.is_text {
            if !self.template.is_empty() {
                self.out.cells.add(self.prefix, name, |text| value.write_text(text));
            }
            return;
        }
        let buffer = &mut self.out.buffer;
        buffer.extend_from_slice(b",\"");
        buffer.extend_from_slice(self.prefix.as_bytes());
        buffer.extend_from_slice(name.as_bytes());
        buffer.extend_from_slice(b"\":");
        value.write_json(buffer);
        // Lists may be long.
        self.out.flush_if_full();
    }

    /// Appends a column that JSON does not have.
    pub fn hidden(&mut self, name: &'static str, value: &dyn fmt::Display) {
        if self.out.is_text {
            self.out.cells.add(self.prefix, name, |text| drop(write!(text, "{value}")));
        }
    }

    /// Ends the row.
    pub fn end(self) {
        let Out { is_text, buffer, cells, .. } = &mut *self.out;
        if *is_text {
            cells.fill(self.template, buffer);
            cells.text.clear();
            cells.columns.clear();
        } else {
            buffer.extend_from_slice(b"}\n");
        }
        self.out.flush_if_full();
    }
}

impl Cells {
    fn add(&mut self, prefix: &'static str, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
        self.columns.push((prefix, name, self.text.len()));
    }

    fn find(&self, name: &str) -> Option<&[u8]> {
        let is_it = |column: &(&str, &str, usize)| name.strip_prefix(column.0) == Some(column.1);
        let at = self.columns.iter().position(is_it)?;
        let start = if at == 0 { 0 } else { self.columns[at - 1].2 };
        Some(&self.text[start..self.columns[at].2])
    }

    /// Appends a template with the values of the columns that it names.
    fn fill(&self, mut template: &str, buffer: &mut Vec<u8>) {
        while let Some((plain, rest)) = template.split_once('{') {
            buffer.extend_from_slice(plain.as_bytes());
            let (name, close) = (rest.split(['?', '!', '}']).next().unwrap_or(rest), closing(rest));
            let value = self.find(name);
            match rest[name.len()..close].split_at_checked(1) {
                Some((mark, section)) => {
                    let is_set = value.is_some_and(|value| !matches!(value, b"" | b"0" | b"false"));
                    if is_set == (mark == "?") {
                        self.fill(section, buffer);
                    }
                }
                None => {
                    debug_assert!(value.is_some(), "no column is named {name}");
                    buffer.extend_from_slice(value.unwrap_or_default());
                }
            }
            template = rest.get(close + 1..).unwrap_or_default();
        }
        buffer.extend_from_slice(template.as_bytes());
    }
}

/// Where the brace is that closes the one before `text`.
fn closing(text: &str) -> usize {
    let mut open = 1;
    let closes = |byte: u8| {
        open += i32::from(byte == b'{') - i32::from(byte == b'}');
        open == 0
    };
    text.bytes().position(closes).unwrap_or(text.len())
}

/// The value of a column.
pub trait Value {
    /// Appends it to `buffer` as JSON.
    fn write_json(&self, buffer: &mut Vec<u8>);

    /// Appends it to `buffer` as text.
    fn write_text(&self, buffer: &mut Vec<u8>) {
        self.write_json(buffer);
    }
}

macro_rules! displayed {
    ($($type:ty),*) => { $(
        impl Value for $type {
            fn write_json(&self, buffer: &mut Vec<u8>) {
                let _ = write!(buffer, "{self}");
            }
        }
    )* };
}

displayed!(bool, u16, u32, u64, usize, i32, i64, U16, U32, U64, I32, I64, Fixed, General);

impl Value for &str {
    fn write_json(&self, buffer: &mut Vec<u8>) {
        self.as_bytes().write_json(buffer);
    }

    fn write_text(&self, buffer: &mut Vec<u8>) {
        self.as_bytes().write_text(buffer);
    }
}

impl Value for &[u8] {
    fn write_json(&self, buffer: &mut Vec<u8>) {
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

    /// Text ends at the first NUL, as that of the reference does.
    fn write_text(&self, buffer: &mut Vec<u8>) {
        buffer.extend(self.iter().take_while(|byte| **byte != 0));
    }
}

impl Value for Cow<'_, [u8]> {
    fn write_json(&self, buffer: &mut Vec<u8>) {
        (&**self).write_json(buffer);
    }

    fn write_text(&self, buffer: &mut Vec<u8>) {
        (&**self).write_text(buffer);
    }
}

impl<T: Value> Value for Option<T> {
    fn write_json(&self, buffer: &mut Vec<u8>) {
        match self {
            Some(value) => value.write_json(buffer),
            None => buffer.extend_from_slice(b"null"),
        }
    }

    fn write_text(&self, buffer: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write_text(buffer);
        }
    }
}

impl<const N: usize> Value for [U32; N] {
    fn write_json(&self, buffer: &mut Vec<u8>) {
        List(self).write_json(buffer);
    }
}

/// A list of values.
pub struct List<'a, T>(pub &'a [T]);

impl<T: Value> Value for List<'_, T> {
    fn write_json(&self, buffer: &mut Vec<u8>) {
        for (index, value) in self.0.iter().enumerate() {
            buffer.push(if index == 0 { b'[' } else { b',' });
            value.write_json(buffer);
        }
        buffer.extend_from_slice(if self.0.is_empty() { b"[]" } else { b"]" });
    }
}

/// JSON text.
pub struct Raw(pub String);

impl Value for Raw {
    fn write_json(&self, buffer: &mut Vec<u8>) {
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

/// Numbers of three axes, as text shows them.
pub fn dimensions([x, y, z]: [U32; 3]) -> String {
    format!("{x}x{y}x{z}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &dyn Value) -> String {
        let mut buffer = Vec::new();
        value.write_json(&mut buffer);
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

    /// Rows of the same columns, as text by `template` and as JSON.
    fn rows(template: &'static str) -> [String; 2] {
        [true, false].map(|is_text| {
            let mut sink = Vec::new();
            let mut out = Out::new(&mut sink, is_text);
            out.heading("rows:\n");
            for count in [7_u32, 0] {
                let mut row = out.row("row", template);
                columns!(row, count: count, name: b"a\0b".as_slice(), @seen: count != 0, none: None::<&str>);
                row.prefix = "sub_";
                columns!(row, sizes: [U32::new(1), U32::new(count)]);
                row.end();
            }
            out.finish().unwrap();
            String::from_utf8(sink).unwrap()
        })
    }

    #[test]
    fn text_and_json_have_the_same_columns() {
        let template = "{name}={count}{count? set{seen? too}}{none!, none}{seen!{none?x}.} {sub_sizes}\n";
        let [text, json] = rows(template);
        assert_eq!(text, "rows:\na=7 set too, none [1,7]\na=0, none. [1,0]\n");
        assert_eq!(
            json,
            "{\"type\":\"row\",\"count\":7,\"name\":\"a\\u0000b\",\"none\":null,\"sub_sizes\":[1,7]}\n\
             {\"type\":\"row\",\"count\":0,\"name\":\"a\\u0000b\",\"none\":null,\"sub_sizes\":[1,0]}\n"
        );
        assert_eq!(rows("")[0], "rows:\n");
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
        let mut out = Out::new(&mut sink, true);
        out.heading("text");
        assert!(out.check().is_ok());
        assert!(out.finish().is_err());
    }
}
