//! One entry of a tool's table: a name, the type of its value, its default, and what it is for.

use std::any::Any;
use std::ffi::OsStr;
use std::path::PathBuf;

use super::kind::{Kind, Origin, Refusal, Words};

/// A flag with one value of type `T`; if it is given twice, the last one counts.
///
/// It is both the entry of a tool's table and the key that the tool reads the value with, so a value
/// cannot be asked for as another type than it was parsed as.
#[derive(Clone, Copy)]
pub struct Flag<T: 'static> {
    spec: Spec,
    kind: Kind<T>,
}

/// A flag that may be repeated; its values are kept in order.
#[derive(Clone, Copy)]
pub struct List<T: 'static> {
    spec: Spec,
    kind: Kind<T>,
    may_be_empty: bool,
}

/// A flag that makes the tool print something and exit.
#[derive(Clone, Copy)]
pub struct Query {
    spec: Spec,
    /// The placeholder of its optional value, such as `DRIVER`; empty if it takes none.
    form: &'static str,
    /// The only value that it takes, if that is fixed.
    only: Option<&'static str>,
}

/// What every entry has.
#[derive(Clone, Copy)]
pub struct Spec {
    /// With underscores, without the leading dashes.
    pub name: &'static str,
    /// What it does in this build.
    pub effect: Effect,
    /// Whether the environment variable of the same name in capitals supplies a value if none is given.
    pub has_variable: bool,
    /// What it is for, in sentences.
    pub help: &'static str,
}

/// What a flag does in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What its help says.
    Full,
    /// Nothing, for this reason: any value is accepted, and one other than the default causes a warning.
    Ignored(&'static str),
    /// As [`Effect::Ignored`] if `--device` is given. Otherwise the reference would run on the driver that
    /// the flag configures, so a value other than the default is refused.
    DefaultDriver(&'static str),
    /// Nothing, and the result would differ without it: a value other than the default is refused.
    Missing {
        /// What this build lacks.
        what: &'static str,
        /// What serves the same purpose.
        instead: &'static str,
    },
}

/// How often an entry may be given, and what it does to the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has one value.
    Value,
    /// It collects values.
    List,
    /// It prints something, and the tool exits.
    Query,
}

/// An entry of a table, whatever the type of its value.
pub trait Entry {
    /// What every entry has.
    fn spec(&self) -> &Spec;

    /// How often it may be given.
    fn role(&self) -> Role;

    /// Parses a value, which is `None` if there is no `=`. What is returned is a `T`.
    fn parse(&self, value: Option<&OsStr>, origin: Origin) -> Result<Box<dyn Any>, Refusal>;

    /// What a value may be, such as `text or jsonl`.
    fn expected(&self) -> String;

    /// The words that it takes, if those are few.
    fn words(&self) -> Vec<&'static str>;

    /// Whether `value` is the same as not giving the flag.
    fn is_default(&self, value: Option<&OsStr>) -> bool;

    /// The flag at its default as a line of a flag file, or as a comment that shows the form of its value.
    fn line(&self) -> String;
}

/// Flags that belong together.
#[derive(Clone, Copy)]
pub struct Group {
    /// What they are about.
    pub title: &'static str,
    /// The flags, in the order of the help.
    pub flags: &'static [&'static dyn Entry],
}

impl Spec {
    const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, effect: Effect::Full, has_variable: false, help }
    }

    /// The environment variable that supplies a value, if there is one.
    pub fn variable(&self) -> Option<String> {
        self.has_variable.then(|| self.name.to_ascii_uppercase())
    }
}

impl Flag<bool> {
    /// A boolean: `true` or `1` (or no value), `false` or `0`.
    pub const fn switch(name: &'static str, default: bool, help: &'static str) -> Self {
        Self { spec: Spec::new(name, help), kind: Kind::Boolean { words: Words::Plain, default, from: same } }
    }

    /// A boolean with more words for both values.
    pub const fn words(mut self, words: Words) -> Self {
        if let Kind::Boolean { words: it, .. } = &mut self.kind {
            *it = words;
        }
        self
    }
}

impl Flag<Option<String>> {
    /// Text; empty is the same as not given.
    pub const fn text(name: &'static str, form: &'static str, help: &'static str) -> Self {
        let parse = super::kind::optional_text;
        Self::parsed(name, form, "", "UTF-8 text", parse, help)
    }
}

impl Flag<Option<PathBuf>> {
    /// A path; empty is the same as not given.
    pub const fn path(name: &'static str, help: &'static str) -> Self {
        Self::parsed(name, "PATH", "", "a path", super::kind::optional_path, help)
    }
}

impl<T: Copy> Flag<T> {
    /// An integer from `min` to `max`; `from` gives it its type.
    pub const fn number(
        name: &'static str,
        default: i64,
        (min, max): (i64, i64),
        from: fn(i64) -> T,
        help: &'static str,
    ) -> Self {
        Self { spec: Spec::new(name, help), kind: Kind::Integer { min, max, default, from } }
    }

    /// One of a few words.
    pub const fn choice(
        name: &'static str,
        default: &'static str,
        choices: &'static [(&'static str, T)],
        help: &'static str,
    ) -> Self {
        let kind = Kind::Choice { choices, aliases: &[], default, any_case: false };
        Self { spec: Spec::new(name, help), kind }
    }

    /// The same choice with further words, all of them in any case.
    pub const fn aliases(mut self, words: &'static [(&'static str, T)]) -> Self {
        if let Kind::Choice { aliases, any_case, .. } = &mut self.kind {
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

impl<T> Flag<T> {
    /// A value with a syntax of its own. `expected` completes "expected ...".
    pub const fn parsed(
        name: &'static str,
        form: &'static str,
        default: &'static str,
        expected: &'static str,
        parse: fn(&OsStr) -> Result<T, Refusal>,
        help: &'static str,
    ) -> Self {
        let kind = Kind::Parsed { form, default, expected, parse, is_quoted: true };
        Self { spec: Spec::new(name, help), kind }
    }

    /// A value that help shows without quotes, as the reference does for numbers.
    pub const fn unquoted(mut self) -> Self {
        if let Kind::Parsed { is_quoted, .. } = &mut self.kind {
            *is_quoted = false;
        }
        self
    }

    /// The same flag with another effect.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self
    }

    /// The same flag with an environment variable behind it.
    pub const fn variable(mut self) -> Self {
        self.spec.has_variable = true;
        self
    }

    /// The name without the leading dashes.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }
}

impl<T: Clone> Flag<T> {
    /// Its value if it is not given.
    pub(super) fn default(&self) -> T {
        self.kind.default().unwrap_or_else(|_| panic!("the default of --{} is valid", self.spec.name))
    }
}

impl List<PathBuf> {
    /// Paths.
    pub const fn paths(name: &'static str, form: &'static str, help: &'static str) -> Self {
        Self::parsed(name, form, "a path", super::kind::path, help)
    }
}

impl List<String> {
    /// Texts.
    pub const fn texts(name: &'static str, form: &'static str, help: &'static str) -> Self {
        Self::parsed(name, form, "UTF-8 text", super::kind::text, help)
    }
}

impl<T> List<T> {
    /// Values with a syntax of their own. `expected` completes "expected ...".
    pub const fn parsed(
        name: &'static str,
        form: &'static str,
        expected: &'static str,
        parse: fn(&OsStr) -> Result<T, Refusal>,
        help: &'static str,
    ) -> Self {
        let kind = Kind::Parsed { form, default: "", expected, parse, is_quoted: true };
        Self { spec: Spec::new(name, help), kind, may_be_empty: false }
    }

    /// The same list, in which an empty value is one too.
    pub const fn may_be_empty(mut self) -> Self {
        self.may_be_empty = true;
        self
    }

    /// The same list with another effect.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self
    }

    /// The same list with an environment variable behind it.
    pub const fn variable(mut self) -> Self {
        self.spec.has_variable = true;
        self
    }

    /// The name without the leading dashes.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }
}

impl Query {
    /// Prints something without being told what.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self { spec: Spec::new(name, help), form: "", only: None }
    }

    /// The same query with an optional value.
    pub const fn of(mut self, form: &'static str) -> Self {
        self.form = form;
        self
    }

    /// The same query with this optional value.
    pub const fn of_only(mut self, word: &'static str) -> Self {
        self.form = word;
        self.only = Some(word);
        self
    }

    /// The same query with another effect.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self
    }
}

impl<T: Clone + 'static> Entry for Flag<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn role(&self) -> Role {
        Role::Value
    }

    fn parse(&self, value: Option<&OsStr>, origin: Origin) -> Result<Box<dyn Any>, Refusal> {
        Ok(Box::new(self.kind.parse(value.map(unquoted), origin)?))
    }

    fn expected(&self) -> String {
        self.kind.expected()
    }

    fn words(&self) -> Vec<&'static str> {
        self.kind.words()
    }

    fn is_default(&self, value: Option<&OsStr>) -> bool {
        self.kind.is_default(value.map(unquoted))
    }

    fn line(&self) -> String {
        self.kind.line(self.spec.name)
    }
}

impl<T: Clone + 'static> Entry for List<T> {
    fn spec(&self) -> &Spec {
        &self.spec
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

    fn is_default(&self, _: Option<&OsStr>) -> bool {
        false
    }

    fn line(&self) -> String {
        format!("# --{}={}", self.spec.name, self.kind.form())
    }
}

impl Entry for Query {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn role(&self) -> Role {
        Role::Query
    }

    fn parse(&self, value: Option<&OsStr>, _: Origin) -> Result<Box<dyn Any>, Refusal> {
        let value = value.unwrap_or_default().to_str().ok_or(Refusal::Unexpected)?;
        let is_taken = match (self.form, self.only) {
            // The reference gives every query a value and looks at none of these.
            (_, _) if matches!(value, "" | "true" | "1") => true,
            ("", _) => false,
            (_, Some(only)) => value == only,
            (_, None) => true,
        };
        if is_taken { Ok(Box::new(value.to_string())) } else { Err(Refusal::Unexpected) }
    }

    fn expected(&self) -> String {
        match (self.form, self.only) {
            ("", _) => "no value".into(),
            (_, Some(only)) => format!("{only} or no value"),
            (form, None) => format!("{form} or no value"),
        }
    }

    fn words(&self) -> Vec<&'static str> {
        self.only.into_iter().collect()
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
}

/// Help prints text in double quotes, so that it can be a flag file; the reference drops one pair
/// around the value of a flag that is not a list, and so does this.
fn unquoted(value: &OsStr) -> &OsStr {
    use std::os::unix::ffi::OsStrExt;
    let bytes = value.as_bytes();
    OsStr::from_bytes(bytes.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(bytes))
}

fn same<T>(value: T) -> T {
    value
}
