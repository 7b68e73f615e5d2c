//! Rust source with everything but code blanked out, so that words and braces can be counted.

/// The text with comments and the contents of strings and characters replaced by spaces; lines are preserved.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            line_comment(rest)
        } else if rest.starts_with(b"/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(rest, at.checked_sub(1).map(|before| bytes[before])) {
            length
        } else if rest[0] == b'"' {
            quoted(rest, b'"')
        } else if rest[0] == b'\'' {
            character(rest)
        } else {
            0
        };
        if length == 0 {
            // Multi-byte characters outside strings occur only in comments; advancing by one byte is enough.
            code.push(if rest[0].is_ascii() { rest[0] as char } else { ' ' });
            at += 1;
        } else {
            code.extend(rest[..length].iter().map(|byte| if *byte == b'\n' { '\n' } else { ' ' }));
            at += length;
        }
    }
    code
}

fn line_comment(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of `r"…"`, `r#"…"#`, `br"…"` and so on, unless the `r` ends a longer word.
fn raw_string(rest: &[u8], before: Option<u8>) -> Option<usize> {
    if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let start = match rest {
        [b'b' | b'c', b'r', ..] => 2,
        [b'r', ..] => 1,
        _ => return None,
    };
    let hashes = rest[start..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(start + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let body = start + hashes + 1;
    let length = rest[body..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| body + length + end.len()))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => quoted(rest, b'\''),
        [_, first, ..] => {
            let width = match first {
                0xF0.. => 4,
                0xE0.. => 3,
                0xC0.. => 2,
                _ => 1,
            };
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        _ => 0,
    }
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// The line of the word `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

/// The functions of a file, from the output of `code_only`.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts_word = at == 0 || !is_word(code.as_bytes()[at - 1]);
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !starts_word || name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(&code.as_bytes()[at..]) {
            let line = 1 + code[..at].matches('\n').count();
            let lines = 1 + code[at..at + end].matches('\n').count();
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// The lines of the words in `code` that equal `word`.
pub fn word_lines(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .filter(|(at, _)| *at == 0 || !is_word(bytes[at - 1]))
        .filter(|(at, _)| bytes.get(at + word.len()).is_none_or(|byte| !is_word(*byte)))
        .map(|(at, _)| 1 + code[..at].matches('\n').count())
        .collect()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The offset of the closing brace of the function at the start; `None` for a declaration without a body.
fn body_end(code: &[u8]) -> Option<usize> {
    let (mut round, mut curly) = (0i32, 0i32);
    for (at, byte) in code.iter().enumerate() {
        match byte {
            b'(' | b'[' => round += 1,
            b')' | b']' => round -= 1,
            b';' if round == 0 && curly == 0 => return None,
            b'{' => curly += 1,
            b'}' => {
                curly -= 1;
                if curly <= 0 {
                    return (curly == 0).then_some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_become_spaces() {
        let text = "let a = \"} // {\"; // { }\nlet b = '{'; /* { /* { */ } */ let c: &'a str = r#\"{\"{\"#;";
        let code = code_only(text);
        assert!(!code.contains(['{', '}']), "{code}");
        assert!(code.contains("&'a str"));
        assert_eq!(code.matches('\n').count(), 1);
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn escaped_quotes_do_not_end_a_string() {
        assert!(!code_only(r#"("a\"{", '\'', '{', "é{")"#).contains('{'));
    }

    #[test]
    fn function_lengths_count_the_body() {
        let code = code_only(
            "trait T {\n  fn declared(&self, a: [u8; 4]);\n  fn one() {}\n  fn three() {\n    {}\n  }\n}\n",
        );
        let expected = [("one", 3, 1), ("three", 4, 3)];
        let functions = functions(&code);
        let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(word_lines("unsafe_code\nunsafe {", "unsafe"), [2]);
    }
}
