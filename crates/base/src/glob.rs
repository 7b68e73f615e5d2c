//! Shell-style patterns: `*` matches any sequence of bytes, `?` one byte.

/// Whether all of `text` matches `pattern`. Takes time proportional to the product of their lengths at most.
///
/// Existing crates match file paths or characters, and have escapes, classes or alternatives. GoogleTest's
/// filters and device names have none of these, and match bytes.
pub fn matches(pattern: &str, text: &str) -> bool {
    matches_bytes(pattern.as_bytes(), text.as_bytes())
}

/// [`matches`] of names that need not be UTF-8.
pub fn matches_bytes(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last star and the end of its match: on a mismatch, it is extended by a byte.
    let mut last_star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                last_star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut last_star {
                Some((star, end)) => {
                    *end += 1;
                    (p, t) = (*star + 1, *end);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_match_as_bytes() {
        assert!(matches_bytes(b"a?c*", b"a\xFFc\0"));
        assert!(!matches_bytes(b"a\xFE", b"a\xFF"));
    }

    #[test]
    fn the_whole_text_must_match() {
        for (pattern, text, expected) in [
            ("local-sync", "local-sync", true),
            ("local-*", "local-sync", true),
            ("*", "local-sync", true),
            ("*sync", "local-sync", true),
            ("l?cal-*n?", "local-sync", true),
            ("local", "local-sync", false),
            ("local-sync?", "local-sync", false),
            ("*task", "local-sync", false),
            ("", "local-sync", false),
            ("", "", true),
            ("**", "", true),
            ("?", "", false),
            ("*b*d", "m.abcbd", true),
            ("*b*d", "m.abcbde", false),
            ("??", "\u{e9}", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} of {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        assert!(!matches(&"*a".repeat(200), &"a".repeat(199)));
    }
}
