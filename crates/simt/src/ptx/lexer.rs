use rehal_base::{Fault, FormatError, escaped, shortened};

/// Splits PTX text into tokens, without comments.
#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// A word is a name, a number, a directive, or an instruction with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Word(&'a str),
    Quoted(&'a str),
    Mark(char),
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The offset after the last token.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The next token and its offset; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, Token<'a>)>, FormatError> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let Some(byte) = bytes.get(start).copied() else { return Ok(None) };
            self.at += 1;
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {}
                b'/' if bytes.get(self.at) == Some(&b'/') => self.skip_line(),
                b'/' if bytes.get(self.at) == Some(&b'*') => self.skip_to("*/", start, 1)?,
                b'"' => {
                    self.skip_to("\"", start, 0)?;
                    return Ok(Some((start, Token::Quoted(&self.text[start + 1..self.at - 1]))));
                }
                _ if is_word(byte) => {
                    self.at = word_end(bytes, self.at);
                    return Ok(Some((start, Token::Word(&self.text[start..self.at]))));
                }
                _ if byte.is_ascii() => return Ok(Some((start, Token::Mark(byte.into())))),
                _ => return Err(error_at(self.text, start, Fault::Corrupt, "ASCII", "another character")),
            }
        }
    }

    /// Whether the next token is this mark, which is consumed if it is.
    pub(crate) fn takes(&mut self, mark: char) -> Result<bool, FormatError> {
        let before = self.at;
        if self.next()?.is_some_and(|(_, token)| token == Token::Mark(mark)) {
            return Ok(true);
        }
        self.at = before;
        Ok(false)
    }

    /// The next token, which is not consumed.
    pub(crate) fn peek(&self) -> Result<Option<Token<'a>>, FormatError> {
        Ok(self.clone().next()?.map(|(_, token)| token))
    }

    /// Consumes the rest of the line.
    pub(crate) fn skip_line(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|it| *it == b'\n').unwrap_or(rest.len());
    }

    fn skip_to(&mut self, end: &str, start: usize, from: usize) -> Result<(), FormatError> {
        let at = self.at + from;
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        match rest.windows(end.len()).position(|part| part == end.as_bytes()) {
            Some(found) => self.at = at + found + end.len(),
            None => return Err(error_at(self.text, start, Fault::Truncated, end, "the end of the text")),
        }
        Ok(())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'%')
}

/// The end of a word of which a part is before `at`. `::` is within modifiers, such as `.shared::cta`.
fn word_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at..).unwrap_or_default() {
            [byte, ..] if is_word(*byte) => at += 1,
            [b':', b':', byte, ..] if is_word(*byte) => at += 3,
            _ => return at,
        }
    }
}

/// An error about the text at an offset; it shows the line there.
pub(crate) fn error_at(
    text: &str,
    at: usize,
    fault: Fault,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> FormatError {
    let at = at.min(text.len());
    let found = format!("{} in '{}'", found.into(), statement_at(text, at));
    FormatError::new(
        "PTX",
        fault,
        at as u64,
        "text",
        expected,
        format!("{found}, line {}", line_at(text, at)),
    )
}

/// The line of an offset, from 1.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|it| **it == b'\n').count()
}

/// The instruction or directive at an offset, up to its semicolon or the end of its line.
pub(crate) fn statement_at(text: &str, at: usize) -> String {
    let at = at.min(text.len());
    let start =
        text.as_bytes()[..at].iter().rposition(|it| matches!(it, b'\n' | b';')).map_or(0, |it| it + 1);
    let rest = &text.as_bytes()[start..];
    let end = rest.iter().skip(at - start).position(|it| matches!(it, b'\n' | b';'));
    let line = String::from_utf8_lossy(&rest[..end.map_or(rest.len(), |it| it + at - start)]);
    let words: Vec<_> = line.split_whitespace().collect();
    escaped(&shortened(&words.join(" ")))
}
