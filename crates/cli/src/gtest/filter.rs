//! Which tests run, by name.

use rehal_base::glob;

/// A GoogleTest filter: patterns separated by `:`; behind the first `-`, those of tests to leave out. `*` stands for
/// any characters and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    text: String,
}

impl Filter {
    /// From a flag's value.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it was not narrowed down.
    pub fn is_universal(&self) -> bool {
        self.text == "*"
    }

    /// Whether the test of this full name (`suite.test`) runs.
    pub fn matches(&self, name: &str) -> bool {
        let (positive, negative) = self.text.split_once('-').unwrap_or((&self.text, ""));
        let any = |patterns: &str| patterns.split(':').any(|pattern| glob::matches(pattern, name));
        // Only exclusions: everything else runs.
        let included = if positive.is_empty() && self.text.starts_with('-') { true } else { any(positive) };
        included && !(self.text.contains('-') && any(negative))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
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
