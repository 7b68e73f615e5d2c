//! The values of options as flags and URIs have them, with the names of the reference's flags.

use super::{Distribution, NodeSelection, Performance};

impl Performance {
    /// The names of levels.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("any", Self::Any),
        ("low", Self::Low),
        ("efficiency", Self::Low),
        ("high", Self::High),
        ("performance", Self::High),
    ];
}

impl Distribution {
    /// The names of distributions.
    pub const NAMES: [(&'static str, Self); 2] = [("compact", Self::Compact), ("scatter", Self::Scatter)];
}

/// The names of pairs of options; the empty one is none.
pub const PRESETS: [(&str, Option<(Performance, Distribution)>); 4] = [
    ("", None),
    ("latency", Some((Performance::High, Distribution::Compact))),
    ("throughput", Some((Performance::Any, Distribution::Scatter))),
    ("efficiency", Some((Performance::Low, Distribution::Compact))),
];

impl NodeSelection {
    /// `current` or nothing, `numa`, `all`, or ids such as `0,2`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "current" => Some(Self::Current),
            "numa" => Some(Self::Each),
            "all" => Some(Self::All),
            list => parse_ids(list).map(Self::Ids),
        }
    }
}

/// Numbers in decimal, or in hexadecimal after `0x`, separated by commas. A comma may follow the last one. `None` for any other
/// text.
pub fn parse_ids(list: &str) -> Option<Vec<u32>> {
    let id = |text: &str| match text.trim() {
        text if !text.starts_with(|first: char| first.is_ascii_digit()) => None,
        text => match text.strip_prefix("0x") {
            Some(digits) if digits.starts_with('+') => None,
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            // The reference reads other numbers with leading zeros as octal.
            None if text.len() > 1 && text.starts_with('0') => None,
            None => text.parse().ok(),
        },
    };
    list.strip_suffix(',').unwrap_or(list).split(',').map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ids_are_strict() {
        assert_eq!(parse_ids("0,1, 7 ,0x10,"), Some(vec![0, 1, 7, 16]));
        for list in ["", ",", "0,,1", ",0", "0-3", "1x", "-1", "+1", "0x", "0x+1", "010", "4294967296", "a"] {
            assert_eq!(parse_ids(list), None, "{list:?}");
        }
    }
}
