//! Words of messages.

/// A number of things, such as `2 dispatches`.
pub fn plural(count: u64, noun: &str) -> String {
    match (count, noun.ends_with("ch")) {
        (1, _) => format!("1 {noun}"),
        (_, true) => format!("{count} {noun}es"),
        (_, false) => format!("{count} {noun}s"),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub fn alternatives(words: &[impl AsRef<str>]) -> String {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, most @ [_, ..])) => format!("{} or {last}", most.join(", ")),
        _ => words.concat(),
    }
}

/// The first ten of some names, and how many more there are: `a, b, c and 4 more`; `none` without any.
pub fn listed<T: std::fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    listed_by(", ", names)
}

/// The same with another separator.
pub fn listed_by<T: std::fmt::Display>(separator: &str, names: impl IntoIterator<Item = T>) -> String {
    const MAX_LISTED: usize = 10;
    let mut names = names.into_iter();
    let shown: Vec<_> = names.by_ref().take(MAX_LISTED).map(|it| it.to_string()).collect();
    match (shown.is_empty(), names.count()) {
        (true, _) => "none".into(),
        (false, 0) => shown.join(separator),
        (false, more) => format!("{} and {more} more", shown.join(separator)),
    }
}

/// A prefix of a text that is long enough to identify it.
pub fn shortened(text: &str) -> String {
    const CHARS: usize = 60;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_names_are_listed() {
        assert_eq!(listed([""; 0]), "none");
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed(0..10), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
        assert_eq!(listed(0..300), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 290 more");
    }

    #[test]
    fn nouns_follow_their_number() {
        let expected = ["0 dispatches", "1 dispatch", "2 dispatches"];
        assert_eq!([0, 1, 2].map(|it| plural(it, "dispatch")), expected);
        assert_eq!([1, 2].map(|it| plural(it, "kernel")), ["1 kernel", "2 kernels"]);
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(shortened(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(shortened(&"é".repeat(61)), format!("{}...", "é".repeat(60)));
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(&[""; 0]), "");
        assert_eq!(alternatives(&["a"]), "a");
        assert_eq!(alternatives(&["a", "b"]), "a or b");
        assert_eq!(alternatives(&["a", "b", "c"]), "a, b or c");
    }
}
