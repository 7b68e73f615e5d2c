//! Columns of text, of any width.

/// Where the text of a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At its left, followed by spaces.
    Left,
    /// At its right, preceded by spaces.
    Right,
}

/// Text with spaces, so that it has at least `width` characters.
///
/// A width of the standard library's formatting that comes from data is a panic above 65,535, so that padding
/// is done here.
pub fn padded(text: &str, width: usize, align: Align) -> String {
    let spaces = " ".repeat(width.saturating_sub(text.chars().count()));
    match align {
        Align::Left => format!("{text}{spaces}"),
        Align::Right => format!("{spaces}{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_padded_to_any_width() {
        assert_eq!(padded("é1", 4, Align::Left), "é1  ");
        assert_eq!(padded("é1", 4, Align::Right), "  é1");
        assert_eq!([padded("abc", 3, Align::Left), padded("abc", 0, Align::Right)], ["abc", "abc"]);
        let wide = padded("a", 70_000, Align::Right);
        assert_eq!((wide.len(), wide.trim_start()), (70_000, "a"));
    }
}
