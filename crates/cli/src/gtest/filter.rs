//! Selects tests by name.

use rehal_base::glob;

/// A GoogleTest filter: patterns separated by `:`; those after the first `-` exclude tests. `*` matches any
/// string and `?` any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    text: String,
}

impl Filter {
    /// Parses a flag's value.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// The text as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the filter matches all tests.
    pub fn is_universal(&self) -> bool {
        self.text == "*"
    }

    /// Whether the test of this full name (`suite.test`) runs.
    pub fn matches(&self, name: &str) -> bool {
        let (positive, negative) = self.text.split_once('-').unwrap_or((&self.text, ""));
        let any = |patterns: &str| patterns.split(':').any(|pattern| glob::matches(pattern, name));
        // Without positive patterns, all tests run that are not excluded.
        let included = if positive.is_empty() && self.text.starts_with('-') { true } else { any(positive) };
        included && !(self.text.contains('-') && any(negative))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_entire_names() {
        for (filter, name, expected) in [
            ("*", "m.a", true),
            ("", "m.a", false),
            ("m.a", "m.a", true),
            ("m.a", "m.ab", false),
            ("m.?", "m.b", true),
            ("m.?", "m.", false),
            ("*b*d", "m.abcbd", true),
            ("*b*d", "m.abcbde", false),
            ("m.x:m.a*", "m.abs", true),
            ("*-m.abs", "m.abs", false),
            ("-m.abs", "m.add", true),
            ("-m.abs:*dd", "m.add", false),
            ("m.a*-*s:*t", "m.at", false),
            ("m.a*-*s:*t", "m.ab", true),
        ] {
            assert_eq!(Filter::new(filter).matches(name), expected, "{filter} of {name}");
        }
    }
}
