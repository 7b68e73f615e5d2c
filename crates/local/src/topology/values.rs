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
    /// `current` or nothing, `numa`, `all`, or ids such as `0,2` or `0-3`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "current" => Some(Self::Current),
            "numa" => Some(Self::Each),
            "all" => Some(Self::All),
            list => parse_ids(list).map(Self::Ids),
        }
    }
}

/// Maximum number of ids in a list: no machine has more CPUs or nodes.
const MAX_IDS: usize = 1 << 16;

/// Numbers in decimal, or in hexadecimal after `0x`, and ranges of them such as `0-3`, separated by commas. A
/// comma may follow the last one. `None` for any other text, and for more than 65,536 ids. Of a range, the
/// reference's flags read the first number alone.
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
    let mut ids = Vec::new();
    for text in list.strip_suffix(',').unwrap_or(list).split(',') {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (id(first)?, id(last)?);
        if first > last || (last - first) as usize >= MAX_IDS - ids.len() {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ids_are_strict() {
        assert_eq!(parse_ids("0,1, 7 ,0x10,"), Some(vec![0, 1, 7, 16]));
        for list in ["", ",", "0,,1", ",0", "1x", "-1", "+1", "0x", "0x+1", "010", "4294967296", "a"] {
            assert_eq!(parse_ids(list), None, "{list:?}");
        }
    }

    #[test]
    fn ranges_of_ids_include_their_ends() {
        for (list, ids) in [
            ("0-3", &[0, 1, 2, 3][..]),
            ("5,0-1, 0x10 - 0x11 ,7-7,", &[5, 0, 1, 16, 17, 7]),
            ("4294967294-4294967295", &[u32::MAX - 1, u32::MAX]),
        ] {
            assert_eq!(parse_ids(list).as_deref(), Some(ids), "{list:?}");
        }
        for list in ["3-0", "0-", "-", "0-1-2", "0..1", "0:1", "0-a", "0-010", "0--1"] {
            assert_eq!(parse_ids(list), None, "{list:?}");
        }
        let (most, rest) = ("0-65534", "0,7-65541");
        assert_eq!(parse_ids(most).map(|ids| ids.len()), Some(65_535));
        assert_eq!(parse_ids(rest).map(|ids| ids.len()), Some(65_536));
        for list in ["0-4294967295", "0-65536", "0,0-65535", "0-65535,0"] {
            assert_eq!(parse_ids(list), None, "{list:?}");
        }
    }
}
