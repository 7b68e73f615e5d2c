/// Limit on suggestions.
const SUGGESTED: usize = 3;

/// Limits on the names compared and on the bytes of each: an error must stay cheap.
const MAX_NAMES: usize = 10_000;
const MAX_NAME_BYTES: usize = 256;

/// The names most similar to `wanted`, best first; ties in input order.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut best: Vec<(f64, &str)> = Vec::new();
    for name in names.take(MAX_NAMES) {
        let comparable = name.len() <= MAX_NAME_BYTES && wanted.len() <= MAX_NAME_BYTES;
        let likeness = if comparable { strsim::jaro_winkler(wanted, name) } else { 0.0 };
        let at = best.partition_point(|(other, _)| *other >= likeness);
        if at < SUGGESTED && !best.iter().any(|(_, other)| *other == name) {
            best.insert(at, (likeness, name));
            best.truncate(SUGGESTED);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_comes_first_without_duplicates() {
        let names = ["encoder.w0", "decoder.w0", "bias", "decoder.w1", "decoder.w0"];
        let found = nearest("decoder.w", names.into_iter());
        assert_eq!(found, ["decoder.w0", "decoder.w1", "encoder.w0"]);
    }

    #[test]
    fn long_names_cost_nothing() {
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&long, [long.as_str(), "a"].into_iter()).len(), 2);
    }
}
