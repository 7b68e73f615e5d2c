use std::ffi::OsStr;
use std::path::Path;

use rehal_base::{Error, Result, alternatives};

use crate::OptionSet;

/// A parameter of a driver or of its devices. This is its only declaration: a flag of the tools, with its
/// help, and a key of URIs, `driver://path?key=value`, follow from it.
///
/// The parameters of a driver are set in the order of their declaration, so that later ones override earlier
/// ones.
#[derive(Debug)]
pub struct DeviceParameter {
    /// Its keys, which mean the same. Messages name the first; the last is the name of its flag.
    pub keys: &'static [&'static str],
    /// The devices that it configures.
    pub scope: ParameterScope,
    /// The type of its value.
    pub value: ParameterValue,
    /// The value that is the same as none, as text.
    pub default: &'static str,
    /// The help text, in sentences.
    pub help: &'static str,
}

/// The devices that a [`DeviceParameter`] configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterScope {
    /// How a driver finds devices: URIs, which name one device, do not have it.
    Driver,
    /// Devices of the driver of this name.
    Device(&'static str),
    /// Devices of several drivers.
    Devices,
    /// Nothing, for this reason. Its values are checked.
    Ignored(&'static str),
}

/// The type of the value of a [`DeviceParameter`], and the function that adds a value to options.
#[derive(Clone, Copy, Debug)]
pub enum ParameterValue {
    /// `true`, `1` or nothing; `false` or `0`.
    Boolean(fn(&mut OptionSet, bool)),
    /// An integer.
    Integer {
        /// The least value.
        min: i128,
        /// The greatest value.
        max: i128,
        /// Adds the value.
        set: fn(&mut OptionSet, i128),
    },
    /// One of several words, in the case that is shown; flags take any case if there are aliases.
    Choice {
        /// The words. An empty one is the default, and is not shown.
        words: &'static [&'static str],
        /// Further words, which are not shown.
        aliases: &'static [&'static str],
        /// Adds the word.
        set: fn(&mut OptionSet, &str),
    },
    /// Text with a syntax of its own.
    Text {
        /// The placeholder of a value, such as `NODES`.
        form: &'static str,
        /// Completes "expected ...".
        expected: &'static str,
        /// Adds the value; `None` if it is malformed.
        set: fn(&mut OptionSet, &str) -> Option<()>,
    },
    /// As [`ParameterValue::Text`], and all values count if there are several.
    List {
        /// The placeholder of a value, such as `CPU,CPU`.
        form: &'static str,
        /// Completes "expected ...".
        expected: &'static str,
        /// Adds the values; `None` if one is malformed.
        set: fn(&mut OptionSet, &[&str]) -> Option<()>,
    },
    /// A file to read. An empty path is none.
    Path(fn(&mut OptionSet, Option<&Path>)),
    /// As [`ParameterValue::Path`], of files or directories of which all count if there are several.
    Paths(fn(&mut OptionSet, &[&Path])),
}

impl DeviceParameter {
    /// The name of its flag.
    pub fn flag(&self) -> &'static str {
        self.keys.last().expect("a parameter has a key")
    }

    /// Whether several values count, instead of the last one.
    pub fn is_list(&self) -> bool {
        matches!(self.value, ParameterValue::List { .. } | ParameterValue::Paths(_))
    }

    /// The valid values, such as `true or false`, which complete "expected ...".
    pub fn expected(&self) -> String {
        match self.value {
            ParameterValue::Boolean(_) => "true or false".into(),
            ParameterValue::Integer { min, max, .. } if max >= i64::MAX.into() => {
                format!("an integer, at least {min}")
            }
            ParameterValue::Integer { min, max, .. } => format!("an integer from {min} to {max}"),
            ParameterValue::Choice { .. } => alternatives(&self.words()),
            ParameterValue::Text { expected, .. } | ParameterValue::List { expected, .. } => expected.into(),
            ParameterValue::Path(_) | ParameterValue::Paths(_) => "a path".into(),
        }
    }

    /// The words that it shows; empty unless it is a boolean or a choice.
    pub fn words(&self) -> Vec<&'static str> {
        match self.value {
            ParameterValue::Boolean(_) => vec!["true", "false"],
            ParameterValue::Choice { words, .. } => {
                words.iter().copied().filter(|word| !word.is_empty()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Adds these values to `options`: of several the last one, unless it is a list. Fails with
    /// `INVALID_ARGUMENT` for a value that it cannot have, after which `options` is undefined.
    pub fn set(&self, options: &mut OptionSet, values: &[&OsStr]) -> Result<()> {
        match self.value {
            ParameterValue::List { set, .. } => {
                let texts = values.iter().map(|value| text_of(value)).collect::<Option<Vec<_>>>();
                texts.and_then(|texts| set(options, &texts)).ok_or_else(|| self.invalid(values))
            }
            ParameterValue::Paths(set) => {
                set(options, &values.iter().map(|value| Path::new(*value)).collect::<Vec<_>>());
                Ok(())
            }
            _ => values
                .iter()
                .try_for_each(|value| self.set_one(options, value).ok_or_else(|| self.invalid(&[value]))),
        }
    }

    fn set_one(&self, options: &mut OptionSet, value: &OsStr) -> Option<()> {
        match self.value {
            ParameterValue::Path(set) => set(options, Some(Path::new(value)).filter(|_| !value.is_empty())),
            ParameterValue::Boolean(set) => set(options, boolean(text_of(value)?)?),
            ParameterValue::Integer { min, max, set } => {
                set(options, text_of(value)?.parse().ok().filter(|number| (min..=max).contains(number))?);
            }
            ParameterValue::Choice { words, aliases, set } => {
                let text = text_of(value)?;
                set(options, words.iter().chain(aliases).find(|word| **word == text)?);
            }
            ParameterValue::Text { set, .. } => set(options, text_of(value)?)?,
            ParameterValue::List { .. } | ParameterValue::Paths(_) => return None,
        }
        Some(())
    }

    fn invalid(&self, values: &[&OsStr]) -> Error {
        let values: Vec<_> = values.iter().map(|value| value.to_string_lossy()).collect();
        let expected = self.expected();
        Error::invalid_argument(format!("unexpected value '{}' (expected {expected})", values.join(", ")))
    }
}

/// `true`, `1` or nothing; `false` or `0`.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "" | "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

fn text_of(value: &OsStr) -> Option<&str> {
    value.to_str().map(str::trim)
}

/// The parameters of related drivers, under one title of the help.
#[derive(Clone, Copy, Debug)]
pub struct ParameterGroup {
    /// The title.
    pub title: &'static str,
    /// The parameters, in the order of help.
    pub parameters: &'static [DeviceParameter],
}

impl ParameterGroup {
    /// Adds the values of flags to `options`; `values_of` has those of a parameter, in order.
    pub fn set<'v>(
        &self,
        options: &mut OptionSet,
        values_of: impl Fn(&DeviceParameter) -> Vec<&'v OsStr>,
    ) -> Result<()> {
        self.parameters.iter().try_for_each(|parameter| {
            let values = values_of(parameter);
            if values.is_empty() { Ok(()) } else { parameter.set(options, &values) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceOptions;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct RecordedValues(Vec<String>);
    impl DeviceOptions for RecordedValues {}

    fn see(options: &mut OptionSet, text: impl ToString) {
        options.update(|seen: &mut RecordedValues| seen.0.push(text.to_string()));
    }

    fn seen(value: ParameterValue, values: &[&str]) -> Result<Vec<String>> {
        let scope = ParameterScope::Devices;
        let parameter = DeviceParameter { keys: &["key"], scope, value, default: "", help: "" };
        let mut options = OptionSet::default();
        let values: Vec<_> = values.iter().map(OsStr::new).collect();
        parameter.set(&mut options, &values).map(|()| options.get::<RecordedValues>().0)
    }

    #[test]
    fn values_are_checked_by_their_types() {
        let boolean = ParameterValue::Boolean(see);
        assert_eq!(seen(boolean, &["true", "0", "", "false"]).unwrap(), ["true", "false", "true", "false"]);
        let integer = ParameterValue::Integer { min: -1, max: 3, set: |options, value| see(options, value) };
        assert_eq!(seen(integer, &["-1", " 3 "]).unwrap(), ["-1", "3"]);
        let choice = ParameterValue::Choice {
            words: &["", "low", "high"],
            aliases: &["max"],
            set: |options, word| see(options, word),
        };
        assert_eq!(seen(choice, &["max", "low", ""]).unwrap(), ["max", "low", ""]);
        let list = ParameterValue::List {
            form: "N,N",
            expected: "numbers",
            set: |options, values| {
                see(options, values.join("+"));
                values.iter().all(|value| value.parse::<u8>().is_ok()).then_some(())
            },
        };
        assert_eq!(seen(list, &["1", "2"]).unwrap(), ["1+2"]);
        for (value, wrong, expected) in [
            (boolean, "yes", "true or false"),
            (integer, "4", "an integer from -1 to 3"),
            (integer, "", "an integer from -1 to 3"),
            (choice, "LOW", "low or high"),
            (list, "x", "numbers"),
        ] {
            let error = seen(value, &[wrong]).unwrap_err();
            assert_eq!(error.message(), format!("unexpected value '{wrong}' (expected {expected})"));
        }
    }

    #[test]
    fn an_empty_path_is_none() {
        let path = ParameterValue::Path(|options, path| see(options, path.is_some()));
        assert_eq!(seen(path, &["a", ""]).unwrap(), ["true", "false"]);
        let paths = ParameterValue::Paths(|options, paths| see(options, paths.len()));
        assert_eq!(seen(paths, &["a", "b"]).unwrap(), ["2"]);
    }
}
