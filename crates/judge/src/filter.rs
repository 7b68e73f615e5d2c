use std::fmt;

use regex_lite::Regex;
use rehal_base::{Error, Result};

/// Selects benchmarks by a regular expression searched for in their full names. A leading `-` inverts it; an
/// empty filter and `all` match every name.
#[derive(Clone)]
pub struct Filter {
    text: String,
    regex: Regex,
    negated: bool,
}

impl Filter {
    /// Parses the value of `--benchmark_filter`.
    ///
    /// Fails with `InvalidArgument` if it is not a regular expression.
    pub fn new(text: &str) -> Result<Self> {
        // How Google Benchmark prints an empty filter that matches nothing.
        let text = if text.is_empty() || text == "all" { "." } else { text };
        let (negated, pattern) = match text.strip_prefix('-') {
            Some(pattern) => (true, pattern),
            None => (false, text),
        };
        let regex = Regex::new(pattern).map_err(|error| {
            Error::invalid_argument(format!("could not compile the benchmark filter '{text}': {error}"))
                .advise("write a regular expression such as 'BM_replay', or '-BM_replay' for all others")
        })?;
        Ok(Self { text: text.to_string(), regex, negated })
    }

    /// Whether the benchmark with this full name is selected.
    pub fn matches(&self, full_name: &str) -> bool {
        self.regex.is_match(full_name) != self.negated
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::new("").expect("'.' is a regular expression")
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "BM_replay/scope:execute/process_time/manual_time";

    #[test]
    fn matches_anywhere_in_the_name() {
        for text in
            ["", "all", ".", "BM", "scope:execute", "^BM_.*manual_time$", "(real|manual)_time", "[[:alpha:]]"]
        {
            assert!(Filter::new(text).unwrap().matches(NAME), "{text}");
        }
        for text in ["nope", "^scope", "bm_replay", "execute$"] {
            assert!(!Filter::new(text).unwrap().matches(NAME), "{text}");
        }
    }

    #[test]
    fn a_leading_minus_inverts_it() {
        assert!(!Filter::new("-BM").unwrap().matches(NAME));
        assert!(Filter::new("-nope").unwrap().matches(NAME));
        // Only the first one: the rest is the expression "-x".
        assert!(Filter::new("--x").unwrap().matches(NAME));
        // The inverted empty expression matches nothing.
        assert!(!Filter::new("-").unwrap().matches(NAME));
    }

    #[test]
    fn the_error_shows_a_malformed_expression() {
        for text in ["BM_(", "-[", "*", "a{2,1}"] {
            let error = Filter::new(text).unwrap_err();
            assert!(error.message().contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn display_is_the_form_in_reports() {
        assert_eq!(Filter::default().to_string(), ".");
        assert_eq!(Filter::new("-BM").unwrap().to_string(), "-BM");
    }
}
