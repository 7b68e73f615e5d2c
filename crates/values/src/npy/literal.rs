use rehal_base::{Error, Result};

/// The subset of Python literals used in headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal<'a> {
    True,
    False,
    None,
    Text(&'a str),
    Number(u64),
    /// A tuple or a list.
    Sequence(Vec<Literal<'a>>),
}

/// Limit on nested sequences.
const MAX_DEPTH: u32 = 8;

/// Parses a dictionary with string keys; nothing but whitespace may surround it.
pub(super) fn parse_dictionary(text: &str) -> Result<Vec<(&str, Literal<'_>)>> {
    let mut reader = Reader { text, at: 0 };
    reader.expect("{")?;
    let mut pairs = Vec::new();
    while !reader.take("}") {
        let Literal::Text(key) = reader.literal(0)? else { return Err(reader.wrong("a quoted key")) };
        reader.expect(":")?;
        pairs.push((key, reader.literal(0)?));
        if !reader.take(",") {
            reader.expect("}")?;
            break;
        }
    }
    reader.skip_whitespace();
    match reader.rest() {
        "" => Ok(pairs),
        _ => Err(reader.wrong("the end of the header")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_whitespace(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    fn take(&mut self, word: &str) -> bool {
        self.skip_whitespace();
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.take(word) { Ok(()) } else { Err(self.wrong(&format!("'{word}'"))) }
    }

    fn literal(&mut self, depth: u32) -> Result<Literal<'a>> {
        for (word, literal) in [("True", Literal::True), ("False", Literal::False), ("None", Literal::None)] {
            if self.take(word) {
                return Ok(literal);
            }
        }
        for quote in ["'", "\""] {
            if self.take(quote) {
                let rest = self.rest();
                let end = rest.find(quote).ok_or_else(|| self.wrong("a closing quote"))?;
                self.at += end + 1;
                return Ok(Literal::Text(&rest[..end]));
            }
        }
        for (open, close) in [("(", ")"), ("[", "]")] {
            if self.take(open) {
                return self.sequence(close, depth + 1);
            }
        }
        self.number()
    }

    fn sequence(&mut self, close: &str, depth: u32) -> Result<Literal<'a>> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("fewer nested brackets"));
        }
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.literal(depth)?);
            if !self.take(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(Literal::Sequence(items))
    }

    fn number(&mut self) -> Result<Literal<'a>> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let number = rest[..digits].parse().map_err(|_| self.wrong("a value"))?;
        self.at += digits;
        // Python 2 wrote long integers like this.
        self.take("L");
        Ok(Literal::Number(number))
    }

    fn wrong(&self, expected: &str) -> Error {
        let found: String = self.rest().chars().take(16).collect();
        Error::invalid_argument(format!(
            "malformed .npy header: expected {expected}, found '{}'",
            found.escape_debug()
        ))
    }
}
