//! One entry of a tool's flag table: name, value type, default and help text.

use std::any::Any;
use std::ffi::OsStr;
use std::path::PathBuf;

use super::files::{FilesOf, NamedFile};
use super::parse::Flags;
use super::value_type::{Origin, Refusal, ValueType, Words};

/// A flag with one value of type `T`; if it is given twice, the last one counts.
///
/// It is both the entry of a tool's table and the typed key by which the tool reads the value, so a value
/// is always read as the type it was parsed as.
#[derive(Clone, Copy)]
pub struct Flag<T: 'static> {
    spec: Spec,
    kind: ValueType<T>,
    /// The word that no value means.
    bare: Option<&'static str>,
    files: Option<FilesOf<T>>,
}

/// A flag that may be repeated; its values are kept in order.
#[derive(Clone, Copy)]
pub struct List<T: 'static> {
    spec: Spec,
    kind: ValueType<T>,
    may_be_empty: bool,
    files: Option<FilesOf<T>>,
}

/// A flag that makes the tool print something and exit.
#[derive(Clone, Copy)]
pub struct Query {
    spec: Spec,
    /// The placeholder of its optional value, such as `DRIVER`; empty if it takes none.
    form: &'static str,
    /// The only values that it takes, if these are fixed.
    only: &'static [&'static str],
}

/// The fields common to all entries.
#[derive(Clone, Copy)]
pub struct Spec {
    /// The name with underscores, without leading dashes.
    pub name: &'static str,
    /// The letter of its short form: `-o PATH`.
    pub short: Option<char>,
    /// Its effect in this build.
    pub effect: Effect,
    /// The prefix of the environment variable, this and the name in capitals, that supplies a value if none
    /// is given.
    pub variable_prefix: Option<&'static str>,
    /// Extensions of the files that a value names, without the dot; empty if any file is one.
    pub endings: &'static [&'static str],
    /// The help text, in sentences.
    pub help: &'static str,
}

/// The effect of a flag in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// As documented by its help text.
    Full,
    /// No effect, for this reason: any value is accepted, and a value other than the default prints a
    /// warning.
    Ignored(&'static str),
    /// Configures devices of this driver: the default device, or those that `--device` names. If all devices
    /// are others, a value other than the default prints a warning.
    OfDriver(&'static str),
    /// Not implemented, and ignoring it would change the result: a value other than the default is refused.
    Missing {
        /// The missing feature.
        what: &'static str,
        /// The alternative.
        instead: &'static str,
    },
}

/// How an entry is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A single value.
    Value,
    /// A list of values.
    List,
    /// Prints something and exits.
    Query,
}

/// An entry of a table, with the value type erased.
pub trait Entry {
    /// The fields common to all entries.
    fn spec(&self) -> Spec;

    /// How it is used.
    fn role(&self) -> Role;

    /// Parses a value, which is `None` without `=`. Returns a boxed `T`.
    fn parse(&self, value: Option<&OsStr>, origin: Origin) -> Result<Box<dyn Any>, Refusal>;

    /// The valid values, such as `text or jsonl`.
    fn expected(&self) -> String;

    /// The valid words of a boolean or a choice; empty for other types.
    fn words(&self) -> Vec<&'static str>;

    /// The placeholder of a value, such as `PATH` or `text|jsonl`; empty for a query without one.
    fn form(&self) -> String;

    /// Whether `value` is the default.
    fn is_default(&self, value: Option<&OsStr>) -> bool;

    /// The flag with its default as a line of a flag file, or a comment that shows the form of its value.
    fn line(&self) -> String;

    /// The files that its values in `flags` name, in order.
    fn files(&self, flags: &Flags) -> Vec<NamedFile>;

    /// Whether its values name files.
    fn has_files(&self) -> bool;
}

/// Related flags, under one title of the help.
#[derive(Clone, Copy)]
pub struct Group {
    /// The title.
    pub title: &'static str,
    /// The flags, in help order.
    pub flags: &'static [&'static dyn Entry],
}

impl Spec {
    const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, short: None, effect: Effect::Full, variable_prefix: None, endings: &[], help }
    }

    /// The environment variable that supplies a value, if any.
    pub fn variable(&self) -> Option<String> {
        self.variable_prefix.map(|prefix| prefix.to_string() + &self.name.to_ascii_uppercase())
    }
}

impl Flag<bool> {
    /// A boolean: `true` or `1` (or no value), `false` or `0`.
    pub const fn switch(name: &'static str, default: bool, help: &'static str) -> Self {
        Self {
            spec: Spec::new(name, help),
            kind: ValueType::Boolean { words: Words::Plain, default, from: same },
            bare: None,
            files: None,
        }
    }

    /// Sets the words that the boolean accepts.
    pub const fn words(mut self, words: Words) -> Self {
        if let ValueType::Boolean { words: it, .. } = &mut self.kind {
            *it = words;
        }
        self
    }
}

impl Flag<Option<String>> {
    /// Text; an empty value means none.
    pub const fn text(name: &'static str, form: &'static str, help: &'static str) -> Self {
        let parse = super::value_type::optional_text;
        Self::parsed(name, form, "", "UTF-8 text", parse, help)
    }
}

impl Flag<Option<PathBuf>> {
    /// A path; an empty value means none.
    pub const fn path(name: &'static str, help: &'static str) -> Self {
        Self::parsed(name, "PATH", "", "a path", super::value_type::optional_path, help)
    }
}

impl<T: Copy> Flag<T> {
    /// An integer from `min` to `max`; `from` converts it to `T`.
    pub const fn number(
        name: &'static str,
        default: i64,
        (min, max): (i64, i64),
        from: fn(i64) -> T,
        help: &'static str,
    ) -> Self {
        Self {
            spec: Spec::new(name, help),
            kind: ValueType::Integer { min, max, default, from },
            bare: None,
            files: None,
        }
    }

    /// One of several words.
    pub const fn choice(
        name: &'static str,
        default: &'static str,
        choices: &'static [(&'static str, T)],
        help: &'static str,
    ) -> Self {
        let kind = ValueType::Choice { choices, aliases: &[], default, any_case: false };
        Self { spec: Spec::new(name, help), kind, bare: None, files: None }
    }

    /// Adds aliases and makes all words case-insensitive.
    pub const fn aliases(mut self, words: &'static [(&'static str, T)]) -> Self {
        if let ValueType::Choice { aliases, any_case, .. } = &mut self.kind {
            *aliases = words;
            *any_case = true;
        }
        self
    }
}

impl Flag<i64> {
    /// An integer of any size.
    pub const fn integer(name: &'static str, default: i64, help: &'static str) -> Self {
        Self::number(name, default, (i64::MIN, i64::MAX), same, help)
    }
}

macro_rules! builders {
    ($($flag:ident),*) => {$(
        /// Setters that flags of one value and of several have.
        impl<T> $flag<T> {
            /// Sets which files a value names.
            pub const fn files(mut self, files: FilesOf<T>) -> Self {
                self.files = Some(files);
                self
            }

            /// Sets the extensions of the files that a value names.
            pub const fn endings(mut self, endings: &'static [&'static str]) -> Self {
                self.spec.endings = endings;
                self
            }

            /// Sets the effect.
            pub const fn effect(mut self, effect: Effect) -> Self {
                self.spec.effect = effect;
                self
            }

            /// Reads the environment variable of the same name if the flag is not given.
            pub const fn variable(mut self) -> Self {
                self.spec.variable_prefix = Some("");
                self
            }

            /// The name without leading dashes.
            pub fn name(&self) -> &'static str {
                self.spec.name
            }
        }
    )*};
}

builders!(Flag, List);

impl<T> Flag<T> {
    /// A value with its own syntax. `expected` completes "expected ...".
    pub const fn parsed(
        name: &'static str,
        form: &'static str,
        default: &'static str,
        expected: &'static str,
        parse: fn(&OsStr) -> Result<T, Refusal>,
        help: &'static str,
    ) -> Self {
        let kind = ValueType::Parsed { form, default, expected, parse, is_quoted: true };
        Self { spec: Spec::new(name, help), kind, bare: None, files: None }
    }

    /// Sets the letter of its short form.
    pub const fn short(mut self, letter: char) -> Self {
        self.spec.short = Some(letter);
        self
    }

    /// Shows the default without quotes in help, as the reference does for numbers.
    pub const fn unquoted(mut self) -> Self {
        if let ValueType::Parsed { is_quoted, .. } = &mut self.kind {
            *is_quoted = false;
        }
        self
    }

    /// Reads the environment variable that is named by `prefix` and the name in capitals.
    pub const fn variable_with_prefix(mut self, prefix: &'static str) -> Self {
        self.spec.variable_prefix = Some(prefix);
        self
    }

    /// Sets the word that the flag without a value means.
    pub const fn without_value(mut self, word: &'static str) -> Self {
        self.bare = Some(word);
        self
    }
}

impl<T: Clone> Flag<T> {
    /// The default value.
    pub(super) fn default(&self) -> T {
        self.kind.default().unwrap_or_else(|_| panic!("the default of --{} is valid", self.spec.name))
    }
}

impl List<PathBuf> {
    /// Paths.
    pub const fn paths(name: &'static str, form: &'static str, help: &'static str) -> Self {
        Self::parsed(name, form, "a path", super::value_type::path, help)
    }
}

impl List<String> {
    /// Texts.
    pub const fn texts(name: &'static str, form: &'static str, help: &'static str) -> Self {
        Self::parsed(name, form, "UTF-8 text", super::value_type::text, help)
    }
}

impl<T> List<T> {
    /// Values with their own syntax. `expected` completes "expected ...".
    pub const fn parsed(
        name: &'static str,
        form: &'static str,
        expected: &'static str,
        parse: fn(&OsStr) -> Result<T, Refusal>,
        help: &'static str,
    ) -> Self {
        let kind = ValueType::Parsed { form, default: "", expected, parse, is_quoted: true };
        Self { spec: Spec::new(name, help), kind, may_be_empty: false, files: None }
    }

    /// Accepts empty values.
    pub const fn may_be_empty(mut self) -> Self {
        self.may_be_empty = true;
        self
    }
}

impl Query {
    /// A query without a value.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self { spec: Spec::new(name, help), form: "", only: &[] }
    }

    /// Takes an optional value.
    pub const fn with_value(mut self, form: &'static str) -> Self {
        self.form = form;
        self
    }

    /// Takes one of these optional words only; `form` shows them.
    pub const fn with_words(mut self, form: &'static str, words: &'static [&'static str]) -> Self {
        self.form = form;
        self.only = words;
        self
    }

    /// Sets the effect.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self
    }
}

impl<T: Clone + 'static> Entry for Flag<T> {
    fn spec(&self) -> Spec {
        self.spec
    }

    fn role(&self) -> Role {
        Role::Value
    }

    fn parse(&self, value: Option<&OsStr>, origin: Origin) -> Result<Box<dyn Any>, Refusal> {
        Ok(Box::new(self.kind.parse(value.map(unquoted).or(self.bare.map(OsStr::new)), origin)?))
    }

    fn expected(&self) -> String {
        self.kind.expected()
    }

    fn words(&self) -> Vec<&'static str> {
        self.kind.words()
    }

    fn form(&self) -> String {
        self.kind.form()
    }

    fn is_default(&self, value: Option<&OsStr>) -> bool {
        self.kind.is_default(value.map(unquoted))
    }

    fn line(&self) -> String {
        self.kind.line(self.spec.name)
    }

    fn files(&self, flags: &Flags) -> Vec<NamedFile> {
        let is_given = flags.has(self.spec.name);
        self.files.filter(|_| is_given).map_or_else(Vec::new, |files| files(&flags.get(self), flags))
    }

    fn has_files(&self) -> bool {
        self.files.is_some()
    }
}

impl<T: Clone + 'static> Entry for List<T> {
    fn spec(&self) -> Spec {
        self.spec
    }

    fn role(&self) -> Role {
        Role::List
    }

    fn parse(&self, value: Option<&OsStr>, origin: Origin) -> Result<Box<dyn Any>, Refusal> {
        match value {
            Some(value) if value.is_empty() && !self.may_be_empty => Err(Refusal::NoValue),
            value => Ok(Box::new(self.kind.parse(value, origin)?)),
        }
    }

    fn expected(&self) -> String {
        self.kind.expected()
    }

    fn words(&self) -> Vec<&'static str> {
        self.kind.words()
    }

    fn form(&self) -> String {
        self.kind.form()
    }

    fn is_default(&self, _: Option<&OsStr>) -> bool {
        false
    }

    fn line(&self) -> String {
        format!("# --{}={}", self.spec.name, self.kind.form())
    }

    fn files(&self, flags: &Flags) -> Vec<NamedFile> {
        let Some(files) = self.files else { return Vec::new() };
        flags.list(self).iter().flat_map(|value| files(value, flags)).collect()
    }

    fn has_files(&self) -> bool {
        self.files.is_some()
    }
}

impl Entry for Query {
    fn spec(&self) -> Spec {
        self.spec
    }

    fn role(&self) -> Role {
        Role::Query
    }

    fn parse(&self, value: Option<&OsStr>, _: Origin) -> Result<Box<dyn Any>, Refusal> {
        let value = value.unwrap_or_default().to_str().ok_or(Refusal::Unexpected)?;
        let is_taken = match (self.form, self.only) {
            // The reference accepts a value for every query and ignores it.
            (_, _) if matches!(value, "" | "true" | "1") => true,
            ("", _) => false,
            (_, []) => true,
            (_, only) => only.contains(&value),
        };
        if is_taken { Ok(Box::new(value.to_string())) } else { Err(Refusal::Unexpected) }
    }

    fn expected(&self) -> String {
        match (self.form, self.only) {
            ("", _) => "no value".into(),
            (form, []) => format!("{form} or no value"),
            (_, only) => format!("{} or no value", only.join(", ")),
        }
    }

    fn words(&self) -> Vec<&'static str> {
        self.only.to_vec()
    }

    fn form(&self) -> String {
        self.form.into()
    }

    fn is_default(&self, _: Option<&OsStr>) -> bool {
        false
    }

    fn line(&self) -> String {
        match self.form {
            "" => format!("# --{}", self.spec.name),
            form => format!("# --{}[={form}]", self.spec.name),
        }
    }

    fn files(&self, _: &Flags) -> Vec<NamedFile> {
        Vec::new()
    }

    fn has_files(&self) -> bool {
        false
    }
}

/// Removes one pair of double quotes around the value of a flag that is not a list, as the reference does:
/// help prints text defaults in quotes, and its output is a valid flag file.
pub(super) fn unquoted(value: &OsStr) -> &OsStr {
    use rehal_base::platform::OsStrExt;
    let bytes = value.as_bytes();
    OsStr::from_bytes(bytes.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(bytes))
}

fn same<T>(value: T) -> T {
    value
}
