//! Parses flags to typed values, checked against a tool's table.

use std::any::Any;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rehal_base::{Error, Result, nearest};

use super::expand::{self, Expanded, Given};
use super::files::{Access, NamedFile};
use super::flag::{Effect, Entry, Flag, Group, List, Role};
use super::value_type::{Origin, Refusal, shown};

/// The values of a tool's flags, and its operands.
///
/// All values are valid as far as that can be checked without opening a file or a device. Reading a flag that
/// is not in the tool's table is a bug of the tool and panics.
pub struct Flags {
    table: Vec<&'static dyn Entry>,
    /// Values in the order given, each with the name of its flag.
    values: Vec<(&'static str, Box<dyn Any>)>,
    operands: Vec<OsString>,
    /// The flag files that were read.
    flag_files: Vec<PathBuf>,
    /// As given, with those of flag files.
    given: Vec<Given>,
    /// The flags of another program, as they were typed, if the tool passes them on.
    forwarded: Option<Vec<OsString>>,
    /// Flags without a value that an operand follows: indices of those given, and of the operand.
    followed: Vec<(usize, usize)>,
    query: Option<(&'static str, String)>,
    warnings: Vec<String>,
}

/// The flag that reports have, and its value for JSON.
const FORMAT: &str = "format";
const JSON: &str = "json";

impl Flags {
    /// Parses the arguments that follow the program's name.
    ///
    /// Flags are checked in order, up to the first query, which is answered instead of running the tool.
    /// Fails on an unknown flag, an invalid value, or a flag that this build does not implement.
    pub fn parse(groups: &[&Group], arguments: impl IntoIterator<Item = OsString>) -> Result<Self> {
        Self::parse_for(groups, arguments, false)
    }

    /// The same for a tool that passes the flags which it does not have on to another program, if `forwards`;
    /// its help may be searched for any word.
    pub fn parse_for(
        groups: &[&Group],
        arguments: impl IntoIterator<Item = OsString>,
        forwards: bool,
    ) -> Result<Self> {
        let table: Vec<_> = groups.iter().flat_map(|group| group.flags).copied().collect();
        let letters: Vec<_> =
            table.iter().filter_map(|entry| Some((entry.spec().short?, entry.spec().name))).collect();
        let Expanded { flags: given, operands, followed, files: flag_files } =
            expand::expand(arguments, &letters)?;
        let mut flags = Self {
            table,
            values: Vec::new(),
            operands,
            flag_files,
            given: given.clone(),
            forwarded: forwards.then(Vec::new),
            followed,
            query: None,
            warnings: Vec::new(),
        };
        for it in &given {
            flags.add(it).map_err(|error| placed(error, it))?;
            if flags.query.is_some() {
                return Ok(flags);
            }
        }
        flags.add_variables()?;
        flags.warnings = warnings(&flags.table, &given);
        Ok(flags)
    }

    /// The value of a flag.
    pub fn get<T: Clone>(&self, flag: &Flag<T>) -> T {
        match self.values_of(flag.name()).next_back() {
            Some(value) => value,
            None => flag.default(),
        }
    }

    /// The values of a flag that may be repeated, in order.
    pub fn list<T: Clone>(&self, list: &List<T>) -> Vec<T> {
        self.values_of(list.name()).collect()
    }

    /// The query to answer and its value, which may be empty.
    pub fn query(&self) -> Option<(&'static str, &str)> {
        self.query.as_ref().map(|(name, value)| (*name, value.as_str()))
    }

    /// The arguments that are not flags.
    pub fn operands(&self) -> &[OsString] {
        &self.operands
    }

    /// The flags that are passed on to another program, as they were typed.
    pub fn forwarded(&self) -> &[OsString] {
        self.forwarded.as_deref().unwrap_or_default()
    }

    /// Gives flags of another program the operands that follow them as values, if `takes_value` says that the
    /// flag of this name takes one.
    pub(crate) fn join_values(&mut self, takes_value: impl Fn(&Self, &str) -> Result<bool>) -> Result<()> {
        let mut joined = Vec::new();
        for (flag, operand) in self.followed.clone() {
            let given = &self.given[flag];
            let is_own = self.table.iter().any(|entry| entry.spec().name == given.name);
            if !is_own && takes_value(self, given.typed.as_ref().unwrap_or(&given.name))? {
                joined.push((flag, operand));
            }
        }
        for (flag, operand) in joined.into_iter().rev() {
            let value = self.operands.remove(operand);
            let before = self.given[flag].argument();
            self.given[flag].value = Some(value);
            let after = self.given[flag].argument();
            // The last one that has no value yet, as those behind it have theirs.
            let forwarded = self.forwarded.iter_mut().flatten();
            forwarded.rev().filter(|it| **it == before).take(1).for_each(|it| it.clone_from(&after));
        }
        self.followed.clear();
        Ok(())
    }

    /// Arguments that are parsed to the same flags, without files: those may be pipes, which have been read.
    pub fn arguments(&self) -> Vec<OsString> {
        let flags = self.given.iter().map(|it| {
            if self.forwarded.is_some() {
                return it.argument();
            }
            let mut argument = OsString::from(format!("--{}", it.name));
            if let Some(value) = &it.value {
                argument.push("=");
                argument.push(value);
            }
            argument
        });
        flags.chain([OsString::from("--")]).chain(self.operands.iter().cloned()).collect()
    }

    /// Whether reports are printed as JSON.
    pub fn wants_json(&self) -> bool {
        let format = self.given.iter().rfind(|it| it.name == FORMAT);
        format.is_some_and(|it| it.value.as_deref() == Some(OsStr::new(JSON)))
    }

    /// Whether these arguments, which cannot be parsed, ask for JSON of a tool that prints it.
    pub fn ask_for_json(groups: &[&Group], arguments: &[OsString]) -> bool {
        let mut entries = groups.iter().flat_map(|group| group.flags);
        let prefix = format!("--{FORMAT}=");
        let values =
            arguments.iter().take_while(|it| *it != "--").filter_map(|it| it.to_str()?.strip_prefix(&prefix));
        values.last() == Some(JSON)
            && entries.any(|entry| entry.spec().name == FORMAT && entry.words().contains(&JSON))
    }

    /// Warnings about given flags without effect, one per line.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The files that the given values name, each with its flag.
    pub fn files(&self) -> Vec<(&'static str, NamedFile)> {
        let named = |entry: &&dyn Entry| {
            let name = entry.spec().name;
            entry.files(self).into_iter().map(move |file| (name, file))
        };
        let flag_files = self.flag_files.iter().map(|path| ("flagfile", Access::Read.to(path)));
        self.table.iter().flat_map(|entry| named(&&**entry)).chain(flag_files).collect()
    }

    /// Whether the tool has a flag of this name.
    pub fn takes(&self, name: &str) -> bool {
        self.table.iter().any(|entry| entry.spec().name == name)
    }

    /// The name of the first such flag that is given with another value than its default.
    pub(crate) fn changed(&self, is_wanted: impl Fn(&str) -> bool) -> Option<&str> {
        let is_changed = |it: &&Given| {
            let entry = self.table.iter().find(|entry| entry.spec().name == it.name);
            is_wanted(&it.name) && entry.is_some_and(|entry| !entry.is_default(it.value.as_deref()))
        };
        self.given.iter().find(is_changed).map(|it| it.name.as_str())
    }

    /// The flags of such names that are given with another value than their default, sorted by name.
    pub(crate) fn settings(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let of = |entry: &&dyn Entry| {
            let is_list = entry.role() == Role::List;
            let values = self.given.iter().filter(|it| it.name == entry.spec().name);
            let first = if is_list { 0 } else { values.clone().count().saturating_sub(1) };
            let values = values.skip(first).filter(|it| !entry.is_default(it.value.as_deref()));
            let shown = values.map(|it| match &it.value {
                Some(value) => format!("--{}={}", it.name, value.to_string_lossy()),
                None => format!("--{}", it.name),
            });
            shown.collect::<Vec<_>>()
        };
        let mut wanted: Vec<_> =
            self.table.iter().copied().filter(|entry| is_wanted(entry.spec().name)).collect();
        wanted.sort_by_key(|entry| entry.spec().name);
        wanted.iter().flat_map(of).collect()
    }

    /// Whether the flag, or the environment variable of its name, is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(it, _)| *it == name)
    }

    fn values_of<T: Clone + 'static>(&self, name: &'static str) -> impl DoubleEndedIterator<Item = T> {
        assert!(self.takes(name), "--{name} is in the tool's table");
        let values = self.values.iter().filter(move |(it, _)| *it == name);
        values.map(|(_, value)| value.downcast_ref::<T>().expect("a name has one type in a table").clone())
    }

    /// The values of a name, if they are of this type.
    pub(super) fn values_as<T: 'static>(&self, name: &'static str) -> impl Iterator<Item = &T> {
        let values = self.values.iter().filter(move |(it, _)| *it == name);
        values.filter_map(|(_, value)| value.downcast_ref())
    }

    fn add(&mut self, given: &Given) -> Result<()> {
        let Some(entry) = self.table.iter().copied().find(|entry| entry.spec().name == given.name) else {
            let Some(forwarded) = &mut self.forwarded else {
                return Err(unknown(&given.name, &self.table));
            };
            forwarded.push(given.argument());
            return Ok(());
        };
        let subject = format!("--{}", given.name);
        if let (Some(_), "help", Some(word)) = (&self.forwarded, &*given.name, &given.value)
            && let Some(text) = word.to_str()
            && entry.parse(Some(word), Origin::Flag).is_err()
        {
            self.query = Some((entry.spec().name, text.to_owned()));
            return Ok(());
        }
        let value = parse(entry, &subject, given.value.as_deref(), Origin::Flag)?;
        check_effect(entry, given)?;
        let name = entry.spec().name;
        match value.downcast::<String>() {
            Ok(value) if entry.role() == Role::Query => self.query = Some((name, *value)),
            Ok(value) => self.values.push((name, value)),
            Err(value) => self.values.push((name, value)),
        }
        Ok(())
    }

    /// Adds flags that are not given from environment variables.
    fn add_variables(&mut self) -> Result<()> {
        for entry in self.table.clone() {
            let name = entry.spec().name;
            let Some(variable) = entry.spec().variable() else { continue };
            let Some(value) = env::var_os(&variable) else { continue };
            if self.values.iter().all(|(it, _)| *it != name) {
                if let Effect::Missing { what, instead } = entry.spec().effect
                    && !entry.is_default(Some(&value))
                {
                    let message = format!("{variable} needs {what}, which is not in this build");
                    return Err(Error::unimplemented(message).advise(format!("unset it; {instead}")));
                }
                let subject = format!("environment variable {variable}");
                self.values.push((name, parse(entry, &subject, Some(&value), Origin::Variable)?));
            }
        }
        Ok(())
    }
}

/// Parses a value; errors name the flag and the valid values.
fn parse(entry: &dyn Entry, subject: &str, value: Option<&OsStr>, origin: Origin) -> Result<Box<dyn Any>> {
    let name = entry.spec().name;
    let expected = entry.expected();
    entry.parse(value, origin).map_err(|refusal| {
        let given = value.unwrap_or_default();
        let invalid = invalid(subject, given, &expected);
        match refusal {
            Refusal::NoValue => {
                Error::invalid_argument(format!("{subject} needs a value (expected {expected})"))
                    .advise(format!("write --{name}=VALUE, with '=' and no space"))
            }
            Refusal::Unexpected => {
                let meant = nearest(&given.to_string_lossy(), entry.words().into_iter());
                let help = format!("--help=all describes --{name}");
                Error::invalid_argument(invalid).advise(match meant {
                    Some(word) => format!("did you mean --{name}={word}? {help}"),
                    None => help,
                })
            }
            Refusal::Because(error) => {
                let advice = error.advice().cloned();
                Error::new(error.code(), format!("{invalid}: {}", error.message()))
                    .advise(advice.unwrap_or_else(|| format!("--help=all describes --{name}").into()))
            }
        }
    })
}

/// The message about an invalid value.
pub(crate) fn invalid(subject: &str, value: &OsStr, expected: &str) -> String {
    format!("invalid value '{}' for {subject} (expected {expected})", shown(value))
}

/// Refuses a flag that this build does not implement.
fn check_effect(entry: &dyn Entry, given: &Given) -> Result<()> {
    match entry.spec().effect {
        Effect::Missing { what, instead } if !entry.is_default(given.value.as_deref()) => {
            let (name, shown) = (&given.name, given.shown());
            Err(Error::unimplemented(format!("{shown} needs {what}, which is not in this build"))
                .advise(format!("leave out --{name}; {instead}")))
        }
        _ => Ok(()),
    }
}

/// One line per reason why given flags have no effect.
fn warnings(table: &[&'static dyn Entry], given: &[Given]) -> Vec<String> {
    let mut ignored: Vec<(String, Vec<String>)> = Vec::new();
    for it in given {
        let entry = table.iter().find(|entry| entry.spec().name == it.name);
        let Some(entry) = entry.filter(|entry| !entry.is_default(it.value.as_deref())) else { continue };
        let reason = match entry.spec().effect {
            Effect::Ignored(reason) => reason.to_string(),
            Effect::OfDriver(driver) if !has_device_of(driver, given) => {
                format!("no device of the driver {driver} is named")
            }
            Effect::Full | Effect::OfDriver(_) | Effect::Missing { .. } => continue,
        };
        let name = format!("--{}", it.name);
        match ignored.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => ignored.push((reason, vec![name])),
        }
    }
    let line = |(reason, names): (String, Vec<String>)| {
        format!("warning: without effect: {} ({reason})", names.join(", "))
    };
    ignored.into_iter().map(line).collect()
}

/// Whether a device of this driver will be opened. If no `--device` is given, there may be. A tool may have
/// other flags that name devices.
fn has_device_of(driver: &str, given: &[Given]) -> bool {
    let drivers = |flag: &'static str| {
        let devices = given.iter().filter(move |it| it.name == flag);
        let uris = devices.filter_map(|it| it.value.as_deref()?.to_str());
        uris.map(|uri| uri.split_once("://").map_or(uri, |(name, _)| name))
    };
    drivers("device").next().is_none()
        || drivers("device").chain(drivers("other_device")).any(|name| name == driver)
}

fn unknown(name: &str, table: &[&'static dyn Entry]) -> Error {
    let error = Error::invalid_argument(format!("unknown flag '--{name}'"));
    match nearest(name, table.iter().map(|entry| entry.spec().name)) {
        Some(meant) => error.advise(format!("did you mean --{meant}? --help=all lists the flags")),
        None => error.advise("--help=all lists the flags"),
    }
}

fn placed(error: Error, given: &Given) -> Error {
    match &given.place {
        Some(place) => error.context(place.clone()),
        None => error,
    }
}

#[cfg(test)]
mod tests;
