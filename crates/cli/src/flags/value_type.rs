//! The value types of flags: parsing, description and display.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rehal_base::{Error, alternatives, shortened};
use rehal_hal::DeviceUri;

/// The type of a flag's value.
#[derive(Clone, Copy)]
pub(super) enum ValueType<T: 'static> {
    Boolean {
        words: Words,
        default: bool,
        from: fn(bool) -> T,
    },
    Integer {
        min: i64,
        max: i64,
        default: i64,
        from: fn(i64) -> T,
    },
    Choice {
        /// The words and their values. The empty word is the default and is not shown.
        choices: &'static [(&'static str, T)],
        /// Aliases, which help does not show.
        aliases: &'static [(&'static str, T)],
        default: &'static str,
        any_case: bool,
    },
    /// A custom syntax.
    Parsed {
        /// The placeholder of a value, such as `PATH`.
        form: &'static str,
        default: &'static str,
        /// Completes "expected ...".
        expected: &'static str,
        parse: fn(&OsStr) -> Result<T, Refusal>,
        /// Whether help shows the default in double quotes.
        is_quoted: bool,
    },
}

/// The words of a boolean. Any other word is an error here, and false in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// `true`, `1`, `false`, `0`.
    Plain,
    /// Google Benchmark's words, case-insensitive: also `t`, `yes`, `y`, `on`, and their opposites.
    Benchmark,
    /// As [`Words::Plain`]; GoogleTest's environment variables are true unless they start with `0`, `f` or
    /// `F`.
    GoogleTest,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line or a flag file.
    Flag,
    /// An environment variable.
    Variable,
}

/// Why a value is refused.
#[derive(Debug)]
pub enum Refusal {
    /// The value is missing.
    NoValue,
    /// The value is not one of the expected ones.
    Unexpected,
    /// The value is invalid for a more specific reason.
    Because(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Because(error)
    }
}

impl<T: Clone> ValueType<T> {
    pub(super) fn parse(&self, value: Option<&OsStr>, origin: Origin) -> Result<T, Refusal> {
        match self {
            Self::Boolean { words, from, .. } => {
                let value = text_of(value.unwrap_or_default())?;
                words.parse(value, origin).map(from).ok_or(Refusal::Unexpected)
            }
            Self::Integer { min, max, from, .. } => {
                let value = text_of(value.filter(|it| !it.is_empty()).ok_or(Refusal::NoValue)?)?;
                let number = value.parse().ok().filter(|it| (min..=max).contains(&it));
                number.map(from).ok_or(Refusal::Unexpected)
            }
            Self::Choice { choices, aliases, any_case, .. } => {
                let value = text_of(value.ok_or(Refusal::NoValue)?)?;
                let is_meant = |word: &str| word == value || (*any_case && word.eq_ignore_ascii_case(value));
                let chosen = choices.iter().chain(*aliases).find(|(word, _)| is_meant(word));
                chosen.map(|(_, meaning)| meaning.clone()).ok_or(Refusal::Unexpected)
            }
            Self::Parsed { parse, .. } => parse(value.ok_or(Refusal::NoValue)?),
        }
    }

    pub(super) fn default(&self) -> Result<T, Refusal> {
        match self {
            Self::Boolean { default, from, .. } => Ok(from(*default)),
            Self::Integer { default, from, .. } => Ok(from(*default)),
            Self::Choice { default, .. } | Self::Parsed { default, .. } => {
                self.parse(Some(OsStr::new(default)), Origin::Flag)
            }
        }
    }
}

impl<T> ValueType<T> {
    pub(super) fn is_default(&self, value: Option<&OsStr>) -> bool {
        let text = value.unwrap_or_default().to_str();
        match self {
            Self::Boolean { words, default, .. } => {
                text.and_then(|text| words.parse(text, Origin::Flag)) == Some(*default)
            }
            Self::Integer { default, .. } => text.is_some_and(|text| text.parse() == Ok(*default)),
            Self::Choice { default, .. } | Self::Parsed { default, .. } => text == Some(default),
        }
    }

    pub(super) fn expected(&self) -> String {
        match self {
            Self::Boolean { .. } => "true or false".into(),
            Self::Integer { min: i64::MIN, max: i64::MAX, .. } => "an integer".into(),
            Self::Integer { min, max: i64::MAX, .. } => format!("an integer, at least {min}"),
            Self::Integer { min, max, .. } => format!("an integer from {min} to {max}"),
            Self::Choice { .. } => alternatives(&self.words()),
            Self::Parsed { expected, .. } => (*expected).into(),
        }
    }

    pub(super) fn words(&self) -> Vec<&'static str> {
        match self {
            Self::Boolean { .. } => vec!["true", "false"],
            Self::Choice { choices, .. } => {
                choices.iter().map(|(word, _)| *word).filter(|word| !word.is_empty()).collect()
            }
            Self::Integer { .. } | Self::Parsed { .. } => Vec::new(),
        }
    }

    /// The placeholder of a value.
    pub(super) fn form(&self) -> String {
        match self {
            Self::Boolean { .. } | Self::Choice { .. } => self.words().join("|"),
            Self::Integer { .. } => "INTEGER".into(),
            Self::Parsed { form, .. } => (*form).into(),
        }
    }

    pub(super) fn line(&self, name: &str) -> String {
        match self {
            Self::Boolean { default, .. } => format!("--{name}={default}"),
            Self::Integer { default, .. } => format!("--{name}={default}"),
            Self::Parsed { default, is_quoted: false, .. } if !default.is_empty() => {
                format!("--{name}={default}")
            }
            Self::Choice { default, .. } | Self::Parsed { default, .. } => line(name, &self.form(), default),
        }
    }
}

impl Words {
    fn parse(self, text: &str, origin: Origin) -> Option<bool> {
        match (self, origin) {
            (Self::GoogleTest, Origin::Variable) => Some(!text.starts_with(['0', 'f', 'F'])),
            (Self::Plain | Self::GoogleTest, _) => match text {
                "" | "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => None,
            },
            (Self::Benchmark, _) => match text.to_ascii_lowercase().as_str() {
                "" | "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
                "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
                _ => None,
            },
        }
    }
}

/// A flag with its default in quotes, after a comment with its form if the default is empty.
pub(super) fn line(name: &str, form: &str, default: &str) -> String {
    match default {
        "" => format!("# --{name}={form}\n--{name}=\"\""),
        _ => format!("--{name}=\"{default}\""),
    }
}

fn text_of(value: &OsStr) -> Result<&str, Refusal> {
    value.to_str().ok_or(Refusal::Unexpected)
}

/// UTF-8 text.
pub(crate) fn text(value: &OsStr) -> Result<String, Refusal> {
    text_of(value).map(str::to_string)
}

pub(super) fn optional_text(value: &OsStr) -> Result<Option<String>, Refusal> {
    text_of(value).map(|text| (!text.is_empty()).then(|| text.to_string()))
}

pub(crate) fn optional_number<T: FromStr>(value: &OsStr) -> Result<Option<T>, Refusal> {
    match text_of(value)? {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Refusal::Unexpected),
    }
}

pub(super) fn path(value: &OsStr) -> Result<PathBuf, Refusal> {
    Ok(value.into())
}

pub(super) fn optional_path(value: &OsStr) -> Result<Option<PathBuf>, Refusal> {
    Ok((!value.is_empty()).then(|| value.into()))
}

/// A device URI, of which only the syntax is checked: devices are looked up once all flags are parsed.
pub(crate) fn device_uri(value: &OsStr) -> Result<String, Refusal> {
    let uri = value.to_str().ok_or(Refusal::Unexpected)?;
    DeviceUri::parse(uri)?;
    Ok(uri.to_string())
}

/// Splits at the first `separator`, if it occurs.
pub(crate) fn split_once(value: &OsStr, separator: u8) -> Option<(&OsStr, &OsStr)> {
    use rehal_base::platform::OsStrExt;
    let bytes = value.as_bytes();
    let at = bytes.iter().position(|&byte| byte == separator)?;
    Some((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])))
}

/// A value as shown in an error: a prefix, if it is long.
pub(super) fn shown(value: &OsStr) -> String {
    shortened(&value.to_string_lossy())
}

/// A time with its unit, of 1 ms to 24 hours.
pub(crate) fn time(value: &OsStr) -> Result<Duration, Refusal> {
    time_from(value, 1e-3)
}

/// The same, of 1 us to 24 hours.
pub(crate) fn short_time(value: &OsStr) -> Result<Duration, Refusal> {
    time_from(value, 1e-6)
}

fn time_from(value: &OsStr, least_seconds: f64) -> Result<Duration, Refusal> {
    const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let text = value.to_str().ok_or(Refusal::Unexpected)?;
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))
        .ok_or(Refusal::Unexpected)?;
    let seconds = number.parse::<f64>().map_err(|_| Refusal::Unexpected)? * unit;
    if (least_seconds..=24.0 * 3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(Refusal::Unexpected)
    }
}

/// A number of bytes, or of a unit that follows it.
pub(crate) fn size(value: &OsStr) -> Result<u64, Refusal> {
    const UNITS: [(&str, f64); 8] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("B", 1.0),
    ];
    let text = value.to_str().ok_or(Refusal::Unexpected)?;
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    let of_unit = |(name, unit): &(&str, f64)| Some((text.strip_suffix(name)?.parse::<f64>().ok()?, *unit));
    let (number, unit) = UNITS.iter().find_map(of_unit).ok_or(Refusal::Unexpected)?;
    let bytes = number * unit;
    (0.0..=i64::MAX as f64).contains(&bytes).then_some(bytes as u64).ok_or(Refusal::Unexpected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_limits() {
        let read = |text: &str| short_time(OsStr::new(text)).ok();
        assert_eq!(read("100us"), Some(Duration::from_micros(100)));
        assert_eq!(read("0.5ms"), Some(Duration::from_micros(500)));
        assert_eq!(
            (read("1us"), read("24h")),
            (Some(Duration::from_micros(1)), Some(Duration::from_secs(86_400)))
        );
        assert_eq!(["0.5us", "25h", "1", "us", "-1us", "NaNs"].map(read), [None; 6]);
        assert!(time(OsStr::new("999us")).is_err() && time(OsStr::new("1000us")).is_ok());
    }

    #[test]
    fn sizes_may_have_units() {
        let read = |text: &str| size(OsStr::new(text)).ok();
        let sizes = ["0", "8000000000", "100MiB", "1.5GiB", "2GB", "3kB", "4KiB", "5B"].map(read);
        let expected = [0, 8_000_000_000, 104_857_600, 1_610_612_736, 2_000_000_000, 3000, 4096, 5].map(Some);
        assert_eq!(sizes, expected);
        let refused = ["", "-1", "1.5", "MiB", "-1MiB", "NaNMiB", "infMiB", "1e30GiB", "1 MiB", "1TX"];
        assert_eq!(refused.map(read), [None; 10]);
    }

    #[test]
    fn long_values_are_shortened() {
        assert_eq!(shown(OsStr::new("abc")), "abc");
        assert_eq!(shown(OsStr::new(&"ä".repeat(61))), format!("{}...", "ä".repeat(60)));
    }
}
