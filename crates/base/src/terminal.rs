//! Text that may have names from files, on a terminal: such names must not control it, nor make text look
//! like other text.

use std::io::{self, Write};

/// A name without characters that would break a line, control a terminal, or make text look like other text.
pub fn escaped(name: &str) -> String {
    escape(name, |_| false)
}

/// As [`escaped`], for text of several lines, with tabs.
pub fn escaped_lines(text: &str) -> String {
    escape(text, |it| matches!(it, '\n' | '\t'))
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match keep(character) || is_shown(character) {
            true => escaped.push(character),
            false => escaped.extend(character.escape_default()),
        }
    }
    escaped
}

/// Whether a character is shown as itself, and does not change how others are: no control character, no
/// separator of lines, and none that Unicode calls a format character or that text is shown without
/// (`Default_Ignorable_Code_Point`), such as those that order text from right to left (Unicode Standard
/// Annex 9) and variation selectors. Combining marks, which scripts need, are shown.
pub fn is_shown(character: char) -> bool {
    !(character.is_control()
        || matches!(
            character,
            '\u{AD}'
                | '\u{34F}'
                | '\u{600}'..='\u{605}'
                | '\u{61C}'
                | '\u{6DD}'
                | '\u{70F}'
                | '\u{890}'..='\u{891}'
                | '\u{8E2}'
                | '\u{115F}'..='\u{1160}'
                | '\u{17B4}'..='\u{17B5}'
                | '\u{180B}'..='\u{180F}'
                | '\u{200B}'..='\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{3164}'
                | '\u{FE00}'..='\u{FE0F}'
                | '\u{FEFF}'
                | '\u{FFA0}'
                | '\u{FFF0}'..='\u{FFFB}'
                | '\u{110BD}'
                | '\u{110CD}'
                | '\u{13430}'..='\u{1343F}'
                | '\u{1BCA0}'..='\u{1BCA3}'
                | '\u{1D173}'..='\u{1D17A}'
                | '\u{E0000}'..='\u{E0FFF}'
        ))
}

/// A sink of text. If it is a terminal, what would control it is escaped, as are bytes that are not UTF-8,
/// except for line feeds, tabs, and what the program writes with [`TextWriter::style`]. Otherwise, all bytes
/// are written as they are.
pub struct TextWriter<'a> {
    sink: Box<dyn Write + 'a>,
    is_terminal: bool,
    /// The start of a character of which the other bytes follow in the next write.
    pending: Vec<u8>,
}

impl<'a> TextWriter<'a> {
    /// A writer to `sink`, which may be a terminal.
    pub fn new(sink: impl Write + 'a, is_terminal: bool) -> Self {
        Self { sink: Box::new(sink), is_terminal, pending: Vec::new() }
    }

    /// Writes a sequence that controls the terminal. It is a part of the program, and cannot be text from a
    /// file.
    pub fn style(&mut self, sequence: &'static str) -> io::Result<()> {
        self.sink.write_all(sequence.as_bytes())
    }

    /// Writes `bytes` as text, and keeps the start of a character at their end.
    fn write_text(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        let mut rest: &[u8] = &[];
        while let Some(chunk) = chunks.next() {
            text.push_str(&escaped_lines(chunk.valid()));
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_start(invalid) {
                rest = invalid;
            } else {
                push_bytes(&mut text, invalid);
            }
        }
        let rest = rest.to_vec();
        self.sink.write_all(text.as_bytes())?;
        self.pending = rest;
        Ok(())
    }
}

/// Whether these bytes are the start of a character.
fn is_start(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
}

impl Write for TextWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.sink.write(bytes);
        }
        let pending = std::mem::take(&mut self.pending);
        match pending.is_empty() {
            true => self.write_text(bytes)?,
            false => self.write_text(&[&pending[..], bytes].concat())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Drop for TextWriter<'_> {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            let mut text = String::new();
            push_bytes(&mut text, &self.pending);
            // A destructor cannot report an error; an earlier write has reported the same one.
            let _ = self.sink.write_all(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_control_a_terminal_or_reorder_text() {
        let name = "a\n\u{1b}[31m\u{202e}b\u{2066}c\u{200b}\u{feff}\u{2028}";
        assert_eq!(escaped(name), "a\\n\\u{1b}[31m\\u{202e}b\\u{2066}c\\u{200b}\\u{feff}\\u{2028}");
        let hidden = "a\u{34f}\u{17b4}\u{17b5}\u{180b}\u{fe0f}\u{e0100}\u{3164}\u{1d173}";
        assert_eq!(
            escaped(hidden),
            "a\\u{34f}\\u{17b4}\\u{17b5}\\u{180b}\\u{fe0f}\\u{e0100}\\u{3164}\\u{1d173}"
        );
        // A combining mark, as in a name that is written in two characters.
        assert_eq!(escaped("o\u{308}"), "o\u{308}");
        assert_eq!(escaped("größe_0_\u{5d0}'\\\""), "größe_0_\u{5d0}'\\\"");
        assert_eq!(escaped_lines("a\tb\nc\rd\u{7}\u{9b}"), "a\tb\nc\\rd\\u{7}\\u{9b}");
    }

    fn written(is_terminal: bool, pieces: &[&[u8]]) -> Vec<u8> {
        let mut sink = Vec::new();
        let mut writer = TextWriter::new(&mut sink, is_terminal);
        for piece in pieces {
            writer.style("\x1b[1m").unwrap();
            writer.write_all(piece).unwrap();
        }
        drop(writer);
        sink
    }

    #[test]
    fn only_a_terminal_gets_escapes() {
        let text = "\t\x1b[2J\x07\u{9b}\u{202e}é\n".as_bytes();
        assert_eq!(written(false, &[text, b"\xff"]), [b"\x1b[1m", text, b"\x1b[1m\xff"].concat());
        let shown = "\x1b[1m\t\\u{1b}[2J\\u{7}\\u{9b}\\u{202e}é\n".as_bytes();
        assert_eq!(written(true, &[text]), shown);
        let invalid = written(true, &[b"a\xff\xc3(\x9b\xed\xa0\x80"]);
        assert_eq!(String::from_utf8(invalid).unwrap(), "\x1b[1ma\\xff\\xc3(\\x9b\\xed\\xa0\\x80");
    }

    #[test]
    fn a_character_may_be_split_between_writes() {
        let text = "ä\u{1F47B}\u{9b}".as_bytes();
        let mut sink = Vec::new();
        let mut writer = TextWriter::new(&mut sink, true);
        text.iter().for_each(|byte| writer.write_all(&[*byte]).unwrap());
        writer.write_all(b"\xf0\x9f").unwrap();
        drop(writer);
        assert_eq!(String::from_utf8(sink).unwrap(), "ä\u{1F47B}\\u{9b}\\xf0\\x9f");
    }
}
