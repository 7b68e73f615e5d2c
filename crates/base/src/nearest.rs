/// The most similar name to `typed`, ignoring case, if any is similar enough.
pub fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    const SIMILAR: f64 = 0.75;
    let typed = typed.to_ascii_lowercase();
    let scored = names.map(|name| (strsim::jaro_winkler(name, &typed), name));
    let best = scored.max_by(|(left, _), (right, _)| left.total_cmp(right));
    best.filter(|(score, _)| *score > SIMILAR).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typos_are_matched_and_other_words_are_not() {
        let names = ["local-sync", "local-task", "vulkan"];
        for (typed, meant) in
            [("local-snyc", Some("local-sync")), ("VULCAN", Some("vulkan")), ("cuda", None), ("", None)]
        {
            assert_eq!(nearest(typed, names.into_iter()), meant, "{typed}");
        }
        assert_eq!(nearest("any", [].into_iter()), None);
    }
}
